"""EIPO: the expert's advantage of sampled answers, by worked numbers and by plain loops."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

import envs
from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import Context
from agentrl.methods.eipo import eipo, expert_advantage, expert_value
from envs.frozen_lake import rules
from envs.frozen_lake.env import FrozenLakeState
from envs.vector import World

CENTRED = {"normalize": "mean"}


def learns_from_the_expert(config, **options):
    config.components.eipo = section(eipo, **({"episodes": 4, "states": 8, "samples": 4} | options))
    config.objective.policy = term(losses.clipped_surrogate, source="eipo")
    config.objective.kl.weight = 0.0
    config.advantage = section(advantages.grpo, **CENTRED)
    config.learner.update(minibatches=1, normalize_advantage="none")
    return config


def config_of(kind, **options):
    if kind == "arrays":
        return learns_from_the_expert(lake(), **options)
    config = talk_config(log_every=1, warm_start__updates=0)
    config.env.slippery = False
    return learns_from_the_expert(config, **options)


def made(kind, **options):
    """(setup, what the source gives as a function of (params, key), parameters)."""
    config = config_of(kind, **options)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup, make = own_pieces.SETUPS.pop(), experiment.components["eipo"].source.make
    program = jax.jit(lambda params, key: make(Context(setup, (), params, key), {}))
    return setup, program, experiment.policy.init(jax.random.key(1))


def centred(advantage, mask=None):
    """The advantages of states [M, G], as the learner has them."""
    mask = jnp.ones(advantage.shape, bool) if mask is None else mask
    group = jnp.repeat(jnp.arange(advantage.shape[0]), advantage.shape[1])
    found = advantages.grpo(advantage.reshape(-1, 1), mask.reshape(-1, 1), group, **CENTRED)
    return found.reshape(advantage.shape)


def test_the_worked_example():
    """V* = .9^d at d = 4; answers lead to d = 3, 4, 5, 3. In another state all are as good."""
    steps = jnp.array([[3, 4, 5, 3], [1, 1, 1, 1]])
    value = jnp.array([0.9**4, 0.9**2])
    found = expert_advantage(jnp.zeros((2, 4)), 0.9**steps, value, 0.9)
    np.testing.assert_allclose(found[0], [0, -0.065610, -0.124659, 0], atol=2e-5)
    np.testing.assert_allclose(found[1], np.zeros(4), atol=2e-5)
    weights = centred(found)
    expected = [0.047567, -0.018043, -0.077092, 0.047567]
    np.testing.assert_allclose(weights[0], expected, atol=2e-5)
    # Answers that are as good as each other have a gradient of exactly zero, other states do not
    # matter, and what was not sampled may be anything.
    mask = jnp.array([[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], bool)
    weights = centred(jnp.concatenate([found, jnp.full((1, 4), jnp.nan)]), mask)

    def loss(logp):
        return jnp.sum(losses.clipped_surrogate(logp, jnp.log(0.25) + 0 * logp, weights, mask)[0])

    slope = jax.grad(loss)(jnp.where(mask, jnp.log(0.25), jnp.nan))
    np.testing.assert_allclose(slope[0], [-x for x in expected], atol=2e-5)
    np.testing.assert_array_equal(slope[1:], np.zeros((2, 4)))


def by_hand(step, expert, state, left, gamma):
    """The expert's discounted return from a state, by a plain loop over the steps that are left."""
    total, discount = 0.0, 1.0
    for _ in range(left):
        state, reward = step(state, expert(state))
        total, discount = total + discount * float(reward), discount * gamma
    return total


def played(env, params):
    """(state, action) -> (state, reward), and (state) -> the expert's action."""
    step = jax.jit(lambda state, action: env.step_env(jax.random.key(0), state, action, params))
    return lambda state, action: step(state, action)[1:3], jax.jit(lambda s: env.expert(s, params))


def test_the_experts_value_is_that_of_a_loop():
    """A lake of 3 x 3 with a hole in the middle and the goal in the last cell, in five steps."""
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=5)
    holes = rules.pack(jnp.zeros((3, 3), bool).at[1, 1].set(True))
    pairs = [(0, 0), (1, 0), (5, 0), (7, 0), (0, 2), (6, 4), (7, 4)]
    position, time = (jnp.array(x, jnp.int32) for x in zip(*pairs, strict=True))
    count = len(pairs)
    states = FrozenLakeState(
        time,
        jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), holes),
        jnp.full(count, 8, jnp.int32),
        position,
    )
    running = jnp.ones(count, bool).at[2].set(False)

    @jax.jit
    def value(states, running):
        return expert_value(World(env, params), states, running, 0.9, jax.random.key(0))

    found = value(states, running)
    # From four, three and one steps away; out of reach in three steps, and in one.
    np.testing.assert_allclose(found, [0.729, 0.81, 0, 1, 0, 0, 1], atol=2e-5)
    step, expert = played(env, params)
    for i in range(count):
        state = jax.tree.map(lambda x, i=i: x[i], states)
        expected = by_hand(step, expert, state, 5 - pairs[i][1], 0.9)
        np.testing.assert_allclose(found[i], expected if running[i] else 0.0, atol=2e-5)


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_answers_are_sampled_in_states_of_the_policy(kind):
    """Each group's answers are to one state; the rows are what was said there, and the likelihood
    at which it was sampled is the learner's."""
    setup, make, params = made(kind, states=12, samples=4)
    streams, rows = make(params, jax.random.key(2))
    assert streams.reward.shape == (48, 1)
    np.testing.assert_array_equal(streams.group, np.repeat(np.arange(12), 4))
    mask = np.asarray(streams.mask)[:, 0].reshape(12, 4)
    assert (mask.any(axis=1) == mask.all(axis=1)).all() and mask.any()
    advantage = np.asarray(streams.reward).reshape(12, 4)
    # The expert of a lake without slipping is optimal.
    assert (advantage <= 2e-5).all() and advantage.min() < -0.05 and advantage.max() > -2e-5
    trained = np.asarray(rows.loss_mask)
    assert (trained.any(axis=1) == mask.reshape(-1)).all()
    logp = np.asarray(setup.policy.score(params, rows).logp)
    np.testing.assert_allclose(logp[trained], np.asarray(rows.behaviour_logp)[trained], atol=2e-5)
    # What stands before an answer is the same in a group.
    if kind == "arrays":
        seen = np.asarray(rows.observation).reshape(12, 4, -1)
        assert len({x.tobytes() for x in seen[:, 0]}) > 2
        answers = np.asarray(rows.tokens).reshape(12, 4)
    else:
        seen = np.where(trained, 0, np.asarray(rows.tokens)).reshape(12, 4, -1)
        spoken = trained.reshape(12, 4, -1)
        first = spoken.argmax(axis=2)
        assert (first == first[:, :1])[mask].all()
        seen = np.where(np.arange(seen.shape[2]) < first[..., None], seen, 0)
        answers = np.where(spoken, np.asarray(rows.tokens).reshape(12, 4, -1), 0)
    assert (seen == seen[:, :1])[mask].all()
    # The same answer to the same state is worth the same: nothing is random in this environment.
    for state, one, other in itertools.product(range(12), range(4), range(4)):
        if mask[state].all() and np.array_equal(answers[state, one], answers[state, other]):
            assert advantage[state, one] == advantage[state, other]


def test_rewards_are_those_of_a_loop():
    """Of arrays: each answer is taken by hand from the state, and so is what the expert does
    then."""
    experiment = build(config_of("arrays", states=6, samples=2, gamma=0.8))
    hooks = experiment.components["eipo"].source.make.__self__
    params = experiment.policy.init(jax.random.key(1))
    states = jax.jit(hooks.visited)(params, jax.random.key(2))
    streams, rows = jax.jit(hooks.answered)(params, states, jax.random.key(3))
    assert streams.mask.all() and len(np.unique(streams.reward)) > 2
    step, expert = played(hooks.room.world.env, hooks.room.world.params)
    for row in range(12):
        state = jax.tree.map(lambda x, row=row: x[row // 2], states.state)
        left = 6 - int(state.time)
        after, reward = step(state, rows.tokens[row, 0])
        following = by_hand(step, expert, after, left - 1, 0.8)
        expected = float(reward) + 0.8 * following - by_hand(step, expert, state, left, 0.8)
        np.testing.assert_allclose(streams.reward[row, 0], expected, atol=2e-5)


@pytest.mark.parametrize("kind", ["arrays", pytest.param("words", marks=pytest.mark.long)])
def test_it_learns_resumes_and_is_traced_once(kind, tmp_path):
    _, _, metrics = train_and_resume(config_of(kind), tmp_path)
    assert all(np.isfinite(told["loss/policy"]) for told in metrics)
    # A language policy that has learnt nothing says no command: all answers are as bad.
    assert kind == "words" or all(told["grad_norm"] > 0 for told in metrics)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": 1}, r"eipo\.samples=1: expected at least 2"),
        ({"gamma": 0.0}, r"eipo\.gamma=0\.0: expected more than 0 and at most 1"),
        ({"states": 25}, r"eipo\.states=25: expected at least 1 and at most 24"),
        ({"episodes": 0}, r"eipo\.episodes=0: expected at least 1"),
    ],
)
def test_what_it_refuses(options, said):
    with pytest.raises(ValueError, match=said):
        build(config_of("arrays", **options))
