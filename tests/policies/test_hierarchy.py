"""A policy on two levels: who acts, what it says, and which part learns from it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import losses, policies
from agentrl.streams import Rows
from envs.game import bin_index

SIZES = {"skills": ("goto", "hit"), "choices": (3,), "planner_features": 5, "skill_features": 4}
make = functools.partial(policies.hierarchy, (8,), None, 2, True, hidden=(8,), planner_hidden=(8,))
KINDS = ("planner", "goto", "hit")


def seen(kind, count, key=0):
    """Observations of a planner, or of a drone at a skill."""
    number = KINDS.index(kind)
    flags = np.broadcast_to(np.eye(3, dtype=np.float32)[number], (count, 3))
    features = np.random.default_rng(key).normal(size=(count, 5)).astype(np.float32)
    if kind != "planner":
        features[:, 4] = 0.0
    return np.concatenate([flags, features], axis=1)


@pytest.fixture(scope="module")
def policy():
    return make(**SIZES, train=("planner", "hit"))


@pytest.fixture(scope="module")
def params(policy):
    """Not the small first ones, so that distributions differ."""
    drawn = jax.device_get(jax.jit(policy.init)(jax.random.key(0)))
    return jax.tree.map(
        lambda x: x + np.float32(0.3 * np.cos(np.arange(x.size)).reshape(x.shape)), drawn
    )


@pytest.fixture(scope="module")
def acted(policy, params):
    """Rows [4000, 1] of each kind with actions drawn, and their log-probabilities."""

    @jax.jit
    def act(observation):
        outputs, _, _ = policy.step(params, None, observation)
        action = policy.head.draw(outputs, None, jax.random.key(1))
        best = policy.head.best(outputs, None)
        return outputs, action, policy.head.log_prob(outputs, None, action), best

    return {kind: jax.device_get(act(np.repeat(seen(kind, 1), 4000, axis=0))) for kind in KINDS}


def test_planners_choose_numbers(acted):
    outputs, action, logp, best = acted["planner"]
    number = np.asarray(bin_index(action[:, 0], 3))
    chance = np.asarray(jax.nn.softmax(outputs.logits[0]))
    shares = np.bincount(number, minlength=3) / 4000
    np.testing.assert_allclose(shares, chance, atol=4 / np.sqrt(4000))
    np.testing.assert_allclose(np.exp(logp), chance[number], rtol=1e-4)
    assert not action[:, 1:].any() and set(np.asarray(best[:, 0])) == {
        float(action[:, 0][number == np.argmax(chance)][0])
    }


@pytest.mark.parametrize("kind", ["goto", "hit"])
def test_skills_command(acted, kind):
    outputs, action, logp, best = acted[kind]
    mean, log_std = (np.asarray(x[0]) for x in outputs.command)
    np.testing.assert_array_equal(best[0], mean)
    error = 4 / np.sqrt(4000)
    np.testing.assert_allclose(action.mean(axis=0), mean, atol=error)
    np.testing.assert_allclose(action.std(axis=0), np.exp(log_std), rtol=error)
    ours = losses.gaussian_log_prob(*outputs.command, action)
    np.testing.assert_allclose(logp, ours, rtol=1e-6)
    assert not np.allclose(mean, np.asarray(acted["goto" if kind == "hit" else "hit"][3][0]))


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_in_use_learns(policy, params, kind):
    """From a probability its own part, from a value the critic of its level; no other."""
    observation = seen(kind, 6)[:, None]

    def of(params):
        rows = Rows(
            tokens=np.zeros((6, 1), np.int32),
            action=np.full((6, 1, 2), 0.1, np.float32),
            loss_mask=np.ones((6, 1), bool),
            stream=np.arange(6),
            turn=np.zeros((6, 1), np.int32),
            behaviour_logp=np.zeros((6, 1), np.float32),
            observation=observation,
        )
        scored = policy.score(params, rows)
        return jnp.sum(scored.logp), jnp.sum(scored.value)

    actor, critic = jax.device_get(jax.jit(jax.jacrev(of))(params))

    def touched(grads):
        size = {
            name: max(float(np.abs(x).max()) for x in jax.tree.leaves(part))
            for name, part in grads.items()
        }
        return {name for name, most in size.items() if most > 0}

    assert touched(actor) == {kind}
    assert touched(critic) == {"planner critic" if kind == "planner" else "critic"}


def test_what_is_trained_and_tied(policy, params):
    assert policy.frozen == ("goto",)
    assert make(**SIZES, train=("planner", *SIZES["skills"])).frozen == ()
    other = jax.jit(policy.init)(jax.random.key(5))
    both = make(**SIZES, train=("planner",), tied=("planner",))

    @jax.jit
    def divergences(observation):
        one, two = (policy.step(p, None, observation)[0] for p in (params, other))
        return [p.head.kl(one, two, None) for p in (policy, both)]

    for kind in KINDS:
        loose, tied = jax.device_get(divergences(seen(kind, 3)))
        assert (tied > 0).all()
        np.testing.assert_array_equal(loose, 0 * tied if kind == "planner" else tied)


def test_parts_are_policies_of_their_own(policy, params):
    """An MLP's parameters, but for its critic, are those of a part."""
    alone = policies.mlp((4,), None, 2, True, hidden=(8,), log_std=-2.0)
    theirs = jax.jit(alone.init)(jax.random.key(3))
    taken = params | {"hit": {name: theirs[name] for name in params["hit"]}}
    observation = seen("hit", 3)
    ours, _, _ = jax.jit(policy.step)(taken, None, observation)
    outputs, _, _ = jax.jit(alone.step)(theirs, None, observation[:, 3:7])
    for one, other in zip(ours.command, outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train": ("fly",)}, r"train=\('fly',\): 'fly' is not among planner, goto, hit"),
        ({"train": (), "tied": ("hit",)}, "'hit' is not among planner"),
        ({"train": (), "skill_features": 9}, "reads observations of 12 numbers"),
    ],
)
def test_wrong_options(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**SIZES | changes)
