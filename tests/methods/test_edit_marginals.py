"""What edits in words are worth, against the teams that the same episodes built."""

import jax
import numpy as np
import pytest
from by_hand import context, setup_of
from programs import fetched

import envs
from agentrl import policies, rollout
from agentrl.methods.edit_marginals import edit_marginals
from agentrl.methods.turn_actions import turn_actions
from agentrl.rollout import contexts

ENV, PARAMS = envs.make("AgentGraph-v1", nodes=(3, 4), agents=2)
SIZES = {"width": 8, "layers": 1, "heads": 1, "kv_heads": 1, "hidden": 8}


def setup(**options):
    policy = policies.transformer(ENV.view, **SIZES, **options)
    view = contexts.window(history=0)
    acting = rollout.episodes(policy, ENV, PARAMS, view, num_groups=8, group_size=4)
    return setup_of(ENV, PARAMS)._replace(policy=policy, rollout=acting, context=view)


def test_each_edit_has_the_worth_of_its_agent():
    of = setup(constrained=True)
    component, actions_of = edit_marginals(of), turn_actions(of, "any")

    @jax.jit
    def collected(key):
        params = of.policy.init(key)
        _, streams, rows, _ = of.rollout.collect(params, of.rollout.init(key), key)
        notes, _ = component.annotate(context(), streams, rows)
        return streams, notes["turn_reward"].values, actions_of(streams, rows)[..., 0]

    streams, worth, actions = jax.device_get(collected(jax.random.key(3)))
    edited, marginals = fetched(ENV.edited), fetched(ENV.marginals)
    legal = fetched(ENV.legal)
    ran = 0
    for n in range(32):
        state = jax.tree.map(lambda x, n=n: x[n], streams.first_state)
        authors, expected = [], np.zeros(len(actions[n]))
        for turn in np.flatnonzero(streams.mask[n]):
            action = int(actions[n, turn])
            fits = bool(legal(state, PARAMS)[action]) if action >= 0 else False
            if fits and action < ENV.num_adds:
                authors.append(turn)
            elif fits and action < ENV.num_actions - 1:
                authors.pop(action - ENV.num_adds)
            if fits and action < ENV.num_actions - 1:
                state = edited(state, np.int32(action))
            if fits and (action == ENV.num_actions - 1 or turn == len(actions[n]) - 1):
                expected[authors] = marginals(state, PARAMS)[: len(authors)]
                ran += len(authors)
        np.testing.assert_allclose(worth[n], expected, atol=1e-6)
    assert ran > 8


def test_a_reply_is_one_edit():
    with pytest.raises(ValueError, match="max_actions=3: a turn is one edit"):
        edit_marginals(setup(grammar="answer", max_actions=3))
