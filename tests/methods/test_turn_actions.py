"""The actions of turns, read off rows in words, against the episodes that they were played in."""

import jax
import numpy as np
import playing
import pytest
from by_hand import setup_of

import envs
from agentrl import policies, rollout
from agentrl.methods.turn_actions import turn_actions
from agentrl.rollout import contexts

ENV, PARAMS = envs.make("ToolCalls-v1", tools=2, arguments=2, needed=1, limit=3)
# Replies are commands only where nothing else can be drawn.
POLICY = policies.transformer(
    ENV.view, constrained=True, width=8, layers=1, heads=1, kv_heads=1, hidden=8
)


@pytest.mark.parametrize("context", [contexts.whole(), contexts.window(history=0)])
def test_played_again_the_actions_pay_the_same(context):
    acting = rollout.episodes(POLICY, ENV, PARAMS, context, num_groups=2, group_size=4)
    setup = setup_of(ENV, PARAMS)._replace(policy=POLICY, rollout=acting, context=context)
    actions_of = turn_actions(setup, "any")

    @jax.jit
    def collected(key):
        params = POLICY.init(key)
        _, streams, rows, _ = acting.collect(params, acting.init(key), key)
        return streams, actions_of(streams, rows)

    streams, actions = jax.device_get(collected(jax.random.key(1)))
    assert actions.shape == (8, 3, 1) and np.all((actions[..., 0] >= 0) == streams.mask)
    assert len(np.unique(actions)) > 3
    step = playing.programs(ENV)[2]
    for stream in range(8):
        state = jax.tree.map(lambda x, n=stream: x[n], streams.first_state)
        for turn in np.flatnonzero(streams.mask[stream]):
            _, state, reward, over, _ = step(
                jax.random.key(0), state, actions[stream, turn, 0], PARAMS
            )
            np.testing.assert_allclose(reward, streams.reward[stream, turn], atol=1e-6)
            assert bool(over) == streams.terminated[stream, turn]


def test_commands_that_depend_on_the_state_are_refused():
    env, params = envs.make("Household-v1")
    policy = policies.transformer(env.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8)
    setup = setup_of(env, params)._replace(policy=policy, context=contexts.whole())
    with pytest.raises(ValueError, match="commands that are the same in every state"):
        turn_actions(setup, "any")
