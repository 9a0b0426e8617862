"""E3B: the bonus by a loop, in arrays and in words, and what an inverse model's features ignore."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from by_hand import context
from experiments import lake
from programs import fetched
from tiny import talk_config

from agentrl import rewards
from agentrl.config import section
from agentrl.config.build import build
from agentrl.learner.component import UpdateResult
from agentrl.methods.by_turn import ended, to_turns
from agentrl.methods.counts import bucket_of
from agentrl.methods.e3b import InverseDynamics, Steps, e3b, inverse_loss
from agentrl.methods.networks import Embedding, descended
from agentrl.methods.similar_anchors import observation_counts
from agentrl.rewards.novelty import elliptical_novelty
from agentrl.streams import Shared

TOKENS, BUCKETS, RIDGE = 64, 32, 0.5
in_both = pytest.mark.parametrize(
    "words",
    [pytest.param(False, id="arrays"), pytest.param(True, id="words", marks=pytest.mark.long)],
)


def with_bonus(config, **options):
    small = {"hidden": 16, "features": 8, "tokens": TOKENS, "buckets": BUCKETS, "ridge": RIDGE}
    config.components.e3b = section(e3b, **(small | options))
    config.reward.novelty = section(rewards.novelty_bonus, coefficient=0.01)
    return config


@functools.cache
def first_batch(words):
    """(component, its first value, a batch) with the global factor."""
    config = talk_config(warm_start__updates=0, objective__kl__weight=0.0) if words else lake()
    experiment = build(with_bonus(config, across="counts", steps=2))
    state = jax.jit(experiment.init)(0)
    batch = jax.device_get(jax.jit(experiment.batches)(state)["rollout"])
    return experiment.components["e3b"], state.carry["e3b"], batch


def by_loop(phi, anchor, mask, ends):
    """The bonus of each turn, by an inverse and by counts of buckets."""
    bucket = np.asarray(bucket_of(anchor, BUCKETS))
    visits = [int((bucket[mask] == b).sum()) for b in range(BUCKETS)]
    bonus, out = np.zeros(mask.shape), np.zeros(mask.shape)
    for n in range(mask.shape[0]):
        known = RIDGE * np.eye(phi.shape[-1])
        for t in np.flatnonzero(mask[n]):
            bonus[n, t] = phi[n, t] @ np.linalg.inv(known) @ phi[n, t]
            bonus[n, t] /= visits[bucket[n, t]] ** 0.5
            known += np.outer(phi[n, t], phi[n, t])
            if ends[n, t]:
                known = RIDGE * np.eye(phi.shape[-1])
        turns = np.flatnonzero(mask[n])
        for t, following in zip(turns[:-1], turns[1:], strict=True):
            out[n, t] = 0 if ends[n, t] else bonus[n, following]
    return out


@in_both
def test_the_bonus_is_that_of_a_loop(words):
    component, value, batch = first_batch(words)
    streams, rows, mask = batch.streams, batch.rows, np.asarray(batch.streams.mask)
    if words:
        seen = observation_counts(rows, mask.shape, TOKENS)
        # Every turn reads something.
        assert (np.asarray(seen).sum(axis=1)[mask.reshape(-1)] > 0).all()
    else:
        seen = np.asarray(to_turns(rows.observation, rows, mask.shape)).reshape(mask.size, -1)
        seen = seen.reshape(mask.size, *rows.observation.shape[2:])
    network = component.after.__self__.network
    phi = network.phi(value.params, seen)
    phi = np.asarray(phi, np.float64).reshape(*mask.shape, -1)
    expected = by_loop(phi, streams.anchor, mask, np.asarray(ended(streams)))
    np.testing.assert_allclose(batch.notes["novelty"].values, expected, rtol=2e-3, atol=1e-5)
    assert (expected > 0).any()


@in_both
def test_the_inverse_model_learns_from_the_steps_of_an_episode(words):
    component, value, batch = first_batch(words)
    hooks = component.after.__self__
    met = jax.device_get(jax.jit(hooks.met)(batch.streams, batch.rows))
    mask, ends = np.asarray(batch.streams.mask), np.asarray(ended(batch.streams))
    action = met.action.reshape(mask.shape)
    follows = np.pad(mask[:, 1:], ((0, 0), (0, 1))) & mask & ~ends
    np.testing.assert_array_equal(met.there.reshape(mask.shape), follows & (action >= 0))
    seen = met.seen.reshape(*mask.shape, *met.seen.shape[1:])
    following = met.following.reshape(seen.shape)
    np.testing.assert_array_equal(following[:, :-1], seen[:, 1:])
    if not words:
        acted = np.asarray(to_turns(batch.rows.tokens, batch.rows, mask.shape))
        np.testing.assert_array_equal(action[mask], acted[mask])


def test_loss_by_hand_and_without_steps():
    network = InverseDynamics(Embedding(4, 2, None), Embedding(4, 3, None))
    seen = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]], np.float32)
    params = jax.tree.map(jnp.zeros_like, network.init(jax.random.key(0), seen))
    params["head"]["params"]["Dense_2"]["bias"] = jnp.log(jnp.float32([1, 2, 5]))
    there = np.array([True, False, True])
    loss_of = fetched(functools.partial(inverse_loss, network=network))
    # Probabilities 1/8, 2/8, 5/8 of every action: of actions 1 and 2, the second one is told.
    loss, right = loss_of(params, steps=Steps(seen, seen, np.array([1, -1, 2]), there))
    np.testing.assert_allclose([loss, right], [-np.log(0.25 * 0.625) / 2, 0.5], rtol=1e-6)
    none = loss_of(params, steps=Steps(seen, seen, np.array([1, -1, 2]), np.zeros(3, bool)))
    np.testing.assert_array_equal(none, [0, 0])


def world(key, count, places=5, noise=4):
    """Steps on a ring, with numbers beside the place that are drawn anew in every step."""
    place, action, one, other = jax.random.split(key, 4)
    place = jax.random.randint(place, (count,), 0, places)
    action = jax.random.randint(action, (count,), 0, 3)
    behind = (place + action - 1) % places

    def seen(at, key):
        drawn = jax.random.normal(key, (count, noise))
        return jnp.concatenate([jax.nn.one_hot(at, places), drawn], axis=1)

    return Steps(seen(place, one), seen(behind, other), action, jnp.ones(count, bool))


def test_features_ignore_what_actions_do_not_move():
    network = InverseDynamics(Embedding(32, 8, None), Embedding(32, 3, None))
    adam = optax.adam(3e-3)
    steps = world(jax.random.key(0), 2048)
    start = network.init(jax.random.key(1), steps.seen)
    # A walk around the ring, and a stay in front of the noise.
    noise = jax.random.normal(jax.random.key(2), (5, 4))
    walk = jnp.concatenate([jnp.eye(5), jnp.broadcast_to(noise[:1], (5, 4))], axis=1)
    stay = jnp.concatenate([jnp.eye(5)[jnp.zeros(5, jnp.int32)], noise], axis=1)

    @jax.jit
    def trained(params):
        def loss_of(params):
            return inverse_loss(params, network, steps)[0]

        params, _, _ = descended(loss_of, adam, params, adam.init(params), 400)
        return params, inverse_loss(params, network, world(jax.random.key(3), 512))[1]

    @jax.jit
    def paid(params):
        """What the turns after the first have in all, of both, relative to the scale of phi."""
        phi = network.phi(params, jnp.concatenate([walk, stay]))
        phi = (phi / jnp.sqrt(jnp.mean(phi**2))).reshape(2, 5, -1)
        yes = jnp.ones((2, 5), bool)
        return jnp.sum(elliptical_novelty(phi, yes, ~yes, ridge=0.1)[:, 1:], axis=1)

    params, right = trained(start)
    assert right > 0.9
    walks, stays = paid(start)
    assert stays > walks
    walks, stays = paid(params)
    assert walks > 3 * stays


def test_what_is_carried_on():
    component, value, batch = first_batch(False)
    notes = batch.notes | {"e3b": Shared((jnp.float32([9, 1, 2]), value.counts + 3))}
    outcome = UpdateResult(None, streams=batch.streams, rows=batch.rows, notes=notes)
    after, told = jax.jit(lambda value: component.after(value, outcome)), []
    for _ in range(20):
        value, metrics = after(value)
        told.append({name: float(x[0] / x[1]) for name, x in metrics.items()})
    assert told[-1]["inverse_loss"] < 0.9 * told[0]["inverse_loss"]
    assert told[-1]["inverse_accuracy"] > told[0]["inverse_accuracy"]
    np.testing.assert_array_equal(value.moments, [9, 1, 2])
    np.testing.assert_array_equal(value.counts, np.full(BUCKETS, 3))


def test_both_are_told_apart():
    """Without the global factor the bonus is that with it, times the root of the visits."""
    _, value, batch = first_batch(False)
    alone = build(with_bonus(lake())).components["e3b"]
    notes, _ = alone.annotate(context(value), batch.streams, batch.rows)
    both, one = np.asarray(batch.notes["novelty"].values), np.asarray(notes["novelty"].values)
    paid = both > 1e-4
    squared = (one[paid] / both[paid]) ** 2
    np.testing.assert_allclose(squared, np.round(squared), rtol=1e-3)
    assert squared.min() >= 0.99 and squared.max() > 1.5
