"""Guided second attempts: which are used, what is left of the guidance, and learning from them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context
from tiny import talk_config

import envs
from agentrl import losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.update import Batch
from agentrl.methods.by_turn import alternating
from agentrl.methods.guided import guided, solved
from agentrl.methods.prompted import expert_plan, with_inserted, without_inserted
from agentrl.streams import Rows

GROUPS = 32


def config_of(strip=True):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0, policy__constrained=True)
    config.env.update(size=2, slippery=False, max_steps_in_episode=4)
    env, _ = envs.make("FrozenLake-v1", size=2, slippery=False)
    config.rollout.update(num_groups=GROUPS, group_size=2)
    config.objective.kl.weight = 0.0
    plan = expert_plan(env, 2)
    config.components.guided = section(guided, guidance=plan, strip=strip)
    config.objective.preference = term(losses.dpo, source="guided", weight=0.1)
    config.objective.imitation = term(
        losses.corrected_behaviour_cloning, source="guided", during="rl", weight=0.1
    )
    return config


def test_the_plan_is_the_experts_commands_to_the_end():
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False)
    plan, initial = jax.jit(expert_plan(env, 6)), jax.jit(env.initial)

    @jax.jit
    def step(state):
        """(the expert's command, the state after it, whether that is the last)."""
        action = env.expert(state, params)
        _, after, *_ = env.step_env(jax.random.key(0), state, action, params)
        return env.commands(state, params)[action], after, env.is_terminated(after, params)

    for seed in range(4):
        state = initial(jax.random.key(seed), params)
        said = np.asarray(plan(state, 0, params)).reshape(6, -1)
        steps, over = 0, False
        while not over:
            command, state, over = step(state)
            np.testing.assert_array_equal(said[steps], command)
            steps += 1
        assert 0 < steps <= 6 and not said[steps:].any()


def test_taking_out_is_the_opposite_of_putting_in():
    key = jax.random.key(0)
    tokens = jax.random.randint(key, (5, 7), 1, 20)
    mask = jax.random.bernoulli(key, 0.5, (5, 7))
    rows = Rows(tokens, mask, jnp.arange(5), jnp.zeros((5, 7), jnp.int32), -1.0 * mask)
    skill, count = jax.random.randint(key, (5, 3), 20, 30), jnp.array([0, 1, 2, 3, 3])
    back = without_inserted(with_inserted(rows, skill, count, 2), count, 2, 7)
    jax.tree.map(np.testing.assert_array_equal, back, rows)


def test_pairs_of_the_worked_example():
    """Attempts pass in task 1; guided ones in 2 and 4: pairs of 2 and 4, and 3 is not used."""
    one, other = jnp.array([1, 2, 3, 4]), jnp.array([10, 20, 30, 40])
    np.testing.assert_array_equal(alternating(one, other), [1, 10, 2, 20, 3, 30, 4, 40])
    # Log-probabilities -8 and -7 against -9.5 and -6.5 of the reference, beta 0.1.
    value = losses.dpo(jnp.array([[-8.0], [-7.0]]), jnp.array([[-9.5], [-6.5]]), beta=0.1)
    np.testing.assert_allclose(value, 0.598139, atol=2e-5)


@functools.cache
def collected():
    """(experiment, a first state, its batches), with the guidance taken out."""
    experiment = build(config_of())
    state = jax.jit(experiment.init)(0)
    return experiment, state, jax.device_get(jax.jit(experiment.batches)(state))


def left_in(state, own):
    """The source made from the same episodes, in which the guidance stays."""
    made, key = build(config_of(strip=False)).components["guided"], jax.random.key(1)
    given = context((), state.params, key)
    streams, rows = made.source.make(given, {"rollout": own[:2]})
    return Batch(streams, rows, None, made.annotate(given, streams, rows))


@pytest.mark.parametrize("strip", [True, False])
def test_guided_successes_of_failed_groups_are_the_source(strip):
    experiment, state, batches = collected()
    own, source = batches["rollout"], batches["guided"]
    if not strip:
        source = jax.device_get(jax.jit(left_in)(state, own))
    failed = ~np.asarray(solved(own.streams)).reshape(GROUPS, 2).any(axis=1)
    learnt = np.asarray(source.rows.loss_mask).any(axis=1)
    np.testing.assert_array_equal(learnt[::2], learnt[1::2])
    assert learnt.any() and not learnt[::2][~failed].any()
    helped = np.asarray(source.streams.success & source.streams.mask).any(axis=1)
    np.testing.assert_array_equal(helped[::2], learnt[::2])
    assert not helped[1::2].any()
    # Row 2 g + 1 is the group's first episode.
    rows, policy = own.rows, experiment.policy
    for group in np.flatnonzero(learnt[::2]):
        length = rows.tokens.shape[1]
        np.testing.assert_array_equal(
            source.rows.tokens[2 * group + 1, :length], rows.tokens[2 * group]
        )
        first = len(policy.codec.before) + 4
        same = np.array_equal(source.rows.tokens[2 * group, :first], rows.tokens[2 * group, :first])
        assert same == strip
    np.testing.assert_array_equal(
        source.notes["correct"].values.any(axis=1), learnt & (np.arange(2 * GROUPS) % 2 == 0)
    )


def test_refusals():
    config = config_of()
    config.context = section(rollout.contexts.window)
    with pytest.raises(ValueError, match="'guided' with"):
        build(config)
