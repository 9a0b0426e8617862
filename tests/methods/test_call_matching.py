"""MatchTIR's rewards of calls: by hand in ToolCalls-v1, and what it does not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl import policies, rewards, rollout
from agentrl.learner.component import Setup
from agentrl.methods.call_matching import call_matching
from agentrl.streams import Rows, Streams

ENV, PARAMS = envs.make("ToolCalls-v1")


def setup(env=ENV, params=PARAMS, kind=rollout.episodes):
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic="none")
    return Setup(
        envs={"one": (env, params)}, policy=policy, rollout=kind(policy, env, params), seed=0,
        num_seeds=1, updates=(0, 1), log_every=1, microbatch=None,
    )  # fmt: skip


def annotated(calls, wanted, **options):
    """The rewards of the turns of one stream that makes these calls, in rows of one turn."""
    number = [ENV.action_names.index(name) for name in calls]
    turns = len(number) + 2  # padding behind
    mask = np.arange(turns) < len(number)
    state = ENV.initial(jax.random.key(0), PARAMS)
    asked = jnp.array([ENV.action_names.index(name) for name in wanted], jnp.int32)
    streams = Streams(
        reward=jnp.full((1, turns), jnp.nan),
        mask=jnp.asarray(mask)[None],
        first_state=jax.tree.map(lambda x: x[None], state.replace(wanted=asked)),
    )
    rows = Rows(
        tokens=jnp.array([*number, 7, 7], jnp.int32)[:, None],
        loss_mask=jnp.asarray(mask)[:, None],
        stream=jnp.zeros(turns, jnp.int32),
        turn=jnp.arange(turns)[:, None],
        behaviour_logp=jnp.zeros((turns, 1)),
    )
    component = call_matching(setup(), **options)
    return np.asarray(component.annotate((), None, streams, rows, None)["turn_reward"][0])


def test_each_call_by_hand():
    calls = ["taxi rome", "taxi oslo", "taxi rome", "map lima", "answer"]
    wanted = ["weather oslo", "hotel lima", "taxi rome"]
    # One taxi is wanted: the first that is right has it, for the others nothing is left.
    np.testing.assert_allclose(annotated(calls, wanted), [1, 0, 0, 0, 0, 0, 0], atol=1e-6)
    punished = annotated(calls, wanted, unmatched=-0.5)
    np.testing.assert_allclose(punished, [1, -0.5, -0.5, -0.5, 0, 0, 0], atol=1e-6)
    # Of the right tool with another argument: name 1, parameter names 1, values 0, over 3.
    half = annotated(["taxi oslo", "answer"], wanted)
    np.testing.assert_allclose(half, [2 / 3, 0, 0, 0], atol=1e-6)


def test_the_order_of_the_calls_does_not_matter():
    wanted = ["weather oslo", "weather rome", "hotel lima"]
    calls = ["weather lima", "weather rome", "hotel lima"]
    forth, back = annotated(calls, wanted), annotated(calls[::-1], wanted)
    np.testing.assert_allclose(forth[:3], back[:3][::-1], atol=1e-6)
    np.testing.assert_allclose(forth[:3], [2 / 3, 1, 1], atol=1e-6)


def test_turn_bonus_adds_to_the_outcome_alone():
    mask = jnp.array([[True, True, False]])
    reward, bonus = jnp.array([[0.0, 1.0, jnp.nan]]), jnp.array([[0.5, 0.25, jnp.nan]])
    given = rewards.turn_bonus(reward, mask, bonus, coefficient=2.0)
    np.testing.assert_allclose(given, [[1.0, 1.5, 0.0]])
    none = rewards.turn_bonus(reward, mask, bonus, coefficient=0.0)
    np.testing.assert_allclose(none, [[0.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="coefficient"):
        rewards.turn_bonus(reward, mask, bonus, coefficient=-1.0)


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match="ToolCalls-v1"):
        call_matching(setup(*envs.make("FrozenLake-v1")))
    with pytest.raises(ValueError, match="whole episodes"):
        call_matching(setup(kind=rollout.segments))
