"""SharedBank-v1 and the credit of its entries: by hand, against replays, in arrays and in words."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from agentrl.methods.sharing import bank_credit
from agentrl.streams import Rows, Streams

ENV, PARAMS = envs.make("SharedBank-v1", teams=2, topics=3, needed=2, clutter=0.1)
POLICY = SimpleNamespace(kind="arrays", reads_text=False)
SETUP = SimpleNamespace(
    envs={"SharedBank-v1": (ENV, PARAMS)},
    policy=POLICY,
    rollout=SimpleNamespace(properties={"whole_episodes"}),
)


def task(good, luck=(1.0, 1.0)):
    """Team 0 needs topics 0 and 1, team 1 topics 0 and 2. Results, in order: (team 0, topic 0),
    (1, 0), (0, 1), (1, 2)."""
    _, state = ENV.reset(jax.random.key(0), PARAMS)
    return state.replace(
        topic=jnp.int32([0, 0, 1, 2]),
        good=jnp.array(good),
        checked=jnp.array(good),
        needs=jnp.array([[True, True, False], [True, False, True]]),
        luck=jnp.float32(luck),
    )


def facts(state, *numbers):
    admitted = jnp.isin(jnp.arange(4), jnp.asarray(numbers, jnp.int32))
    return jax.device_get(jax.jit(ENV.bank_facts)(state, admitted, PARAMS))


def test_what_an_entry_was_worth():
    # Team 1's own result on topic 0 is wrong: it fails alone, and succeeds with team 0's.
    state = task([True, False, True, True])
    assert facts(state).outcome == 0.5
    found = facts(state, 0, 2)
    assert found.outcome == 1.0
    # Topic 1 is needed by nobody else.
    np.testing.assert_array_equal(found.used, [True, False, False, False])
    np.testing.assert_array_equal(found.gain, [0.5, 0, 0, 0])
    # The wrong result is recalled by team 0, which it misleads: used, and harmful.
    found = facts(state, 1)
    np.testing.assert_array_equal(found.used, [False, True, False, False])
    assert found.outcome == 0.0 and found.gain[1] == -0.5
    # Two entries are 0.2 of clutter: team 0 is lost, and finds itself again without either.
    found = facts(task([True, False, True, True], luck=(0.15, 1.0)), 0, 2)
    assert found.outcome == 0.5
    np.testing.assert_array_equal(found.gain, [0.0, 0, -0.5, 0])


def test_credit_by_hand():
    """R = 1, bonus 0.5, cost 0.1: used R + u = 1.4, unused 0.9, skipped 1.0; R = 0: -0.1, -0.1, 0.
    The third task is that of a used entry that misled: R = 0.5 without it."""
    tasks = [
        task([True, False, True, True]),
        task([False, False, True, False]),
        task([True, False, True, True]),
    ]
    admitted = np.array([[1, 0, 1, 0], [1, 0, 1, 0], [0, 1, 0, 0]])
    streams = Streams(
        reward=jnp.zeros((3, 4)),
        mask=jnp.ones((3, 4), bool),
        first_state=jax.tree.map(lambda *x: jnp.stack(x), *tasks),
    )
    rows = Rows(
        tokens=jnp.asarray(admitted.reshape(-1, 1)),
        loss_mask=jnp.ones((12, 1), bool),
        stream=jnp.repeat(jnp.arange(3), 4),
        turn=jnp.tile(jnp.arange(4), 3)[:, None],
        behaviour_logp=jnp.zeros((12, 1)),
    )

    def credit(**options):
        annotate = bank_credit(SETUP, **options).annotate
        notes, metrics = jax.device_get(jax.jit(lambda: annotate(None, streams, rows))())
        return notes["turn_reward"].values, metrics

    usage, metrics = credit()
    np.testing.assert_allclose(1 + usage[0], [1.4, 1.0, 0.9, 1.0], rtol=1e-6)
    np.testing.assert_allclose(usage[1], [-0.1, 0, -0.1, 0], rtol=1e-6)
    np.testing.assert_allclose(metrics["bank/used"], [3, 5])
    np.testing.assert_allclose(metrics["bank/admitted"], [5, 12])
    np.testing.assert_allclose(metrics["bank/misled"], [1, 3])
    absence, _ = credit(credit="absence", cost=0.0)
    np.testing.assert_allclose(absence[0], [0.25, 0, 0, 0])
    np.testing.assert_allclose(absence[2], [0, -0.25, 0, 0])


def test_gains_are_those_of_replays():
    """Played to the end by chance, and again with one decision turned into a skip."""
    env, params = envs.make("SharedBank-v1")
    keys = jax.random.split(jax.random.key(1), 64)
    actions = jax.random.bernoulli(jax.random.key(2), 0.5, (64, env.results)).astype(jnp.int32)

    @jax.jit
    def returns(actions):
        def play(key, own):
            _, state = env.reset(key, params)

            def turn(state, action):
                _, state, reward, *_ = env.step_env(key, state, action, params)
                return state, reward

            return jnp.sum(jax.lax.scan(turn, state, own)[1])

        return jax.vmap(play)(keys, actions)

    of_task = jax.vmap(lambda k, a: env.bank_facts(env.reset(k, params)[1], a == 1, params))
    found = jax.jit(of_task)(keys, actions)
    whole = returns(actions)
    np.testing.assert_allclose(found.outcome, whole, rtol=1e-6)
    for number in (0, 4, 8):
        without = returns(actions.at[:, number].set(0))
        np.testing.assert_allclose(found.gain[:, number], whole - without, atol=1e-6)
    assert (np.asarray(found.gain) < 0).any() and (np.asarray(found.gain) > 0).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"credit": "use"}, "credit='use'"), ({"cost": -1.0}, "cost=-1"), ({"bonus": -1.0}, "bonus")],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        bank_credit(SETUP, **options)
