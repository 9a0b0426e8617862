"""Debate: the judge against Bayes' rule by counting, the expert against all lines of play."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.debate import rules

KEY = jax.random.key(0)


@functools.cache
def made(**options):
    env, params = envs.make("Debate-v1", **options)
    return env, params, jax.jit(env.step_env)


def starts(number, **options):
    env, params, _ = made(**options)
    return [env.reset(jax.random.key(i), params)[1] for i in range(number)]


def test_the_judge_is_bayes_rule():
    model = rules.logits(0, 3, 4, 1.5)
    on = 1 / (1 + np.exp(-model))
    shown = np.array([True, False, True, False])
    for bits in itertools.product((0, 1), repeat=4):
        picture = np.array(bits, bool)
        # p(shown pixels | label), summed over all pictures that agree on them.
        likelihood = np.zeros(3)
        for other in itertools.product((0, 1), repeat=4):
            if all(np.array(other)[shown] == picture[shown]):
                likelihood += np.prod(np.where(other, on, 1 - on), axis=1)
        np.testing.assert_allclose(
            rules.scores(model, picture, shown), np.log(likelihood), rtol=1e-4
        )


def test_pictures_are_drawn_from_the_model():
    model = rules.logits(0, 3, 4, 1.5)
    labels, pictures = jax.vmap(rules.draw, (0, None))(jax.random.split(KEY, 20_000), model)
    for label in range(3):
        mean = np.asarray(pictures)[np.asarray(labels) == label].mean(axis=0)
        np.testing.assert_allclose(mean, 1 / (1 + np.exp(-model[label])), atol=0.025)
    np.testing.assert_allclose(np.bincount(labels) / 20_000, 1 / 3, atol=0.015)


def test_the_judge_sees_only_what_was_revealed():
    env, params, step = made()
    state = starts(1)[0].replace(claim=jnp.int32(0), label=jnp.int32(1))
    _, state, *_ = step(KEY, state, jnp.int32(7), params)
    other = state.replace(picture=jnp.where(state.shown, state.picture, ~state.picture))
    np.testing.assert_array_equal(env.judge(state), env.judge(other))
    assert env.judge(state).any()
    # The model is a constant: another task has the same judge, another seed has not.
    assert made()[0].model is made(reveals=4)[0].model
    assert (made(judge_seed=1)[0].model != env.model).any()


@pytest.mark.parametrize("honest", [0, 1])
@pytest.mark.parametrize("reveals", [3, 4])
def test_the_expert_is_minimax_with_precommit(honest, reveals):
    env, params, _ = made(side=2, labels=3, reveals=reveals, honest=honest, contrast=1.0)
    expert = jax.jit(env.expert)
    for state in starts(6, side=2, labels=3, reveals=reveals, honest=honest, contrast=1.0):
        said = np.asarray(rules.evidence(env.model, state.picture))
        label = int(state.label)

        @functools.cache
        def value(shown, claim, said=said, label=label):
            """The lead of the label in the end with best play, for the honest."""
            if len(shown) == reveals:
                return sum(said[label, i] - said[claim, i] for i in shown)
            best = max if len(shown) % 2 == honest else min
            return best(value(shown | {i}, claim) for i in range(4) if i not in shown)

        lies = [c for c in range(3) if c != label]
        values = [value(frozenset(), claim) for claim in lies]
        claim = int(expert(state, params)) - 4
        assert claim == lies[int(np.argmin(values))]
        # Against every reply, each reveal of the expert's keeps the value.
        for shown in itertools.chain.from_iterable(
            itertools.combinations(range(4), n) for n in range(reveals)
        ):
            here = state.replace(
                claim=jnp.int32(claim), shown=jnp.asarray(np.isin(range(4), shown))
            )
            pixel = int(expert(here, params))
            kept = value(frozenset(shown) | {pixel}, claim)
            np.testing.assert_allclose(kept, value(frozenset(shown), claim), atol=1e-5)


def test_without_precommit_the_best_of_all_labels_counts():
    env, params, step = made(precommit=False, honest=0, reveals=2)
    for state in starts(5, precommit=False, honest=0, reveals=2):
        assert not np.asarray(env.legal(state, params))[25:].any()
        for pixel in (3, 11):
            _, state, reward, terminated, info = step(KEY, state, jnp.int32(pixel), params)
        assert bool(terminated) and int(state.claim) == -1
        found = int(jnp.argmax(env.judge(state))) == int(state.label)
        assert reward.tolist() == ([1, -1] if found else [-1, 1])
        assert info["success"].tolist() == [found, not found]


def test_claims_come_first_and_are_false():
    env, params, step = made(honest=0)
    state = starts(1, honest=0)[0]
    assert int(env.mover(state, params)) == 1
    legal = np.asarray(env.legal(state, params))
    assert not legal[:25].any() and legal[25:].sum() == 5 and not legal[25 + int(state.label)]
    lie = (int(state.label) + 1) % 6
    _, state, *_ = step(KEY, state, jnp.int32(25 + lie), params)
    assert int(state.claim) == lie and int(env.mover(state, params)) == 0
    _, state, *_ = step(KEY, state, jnp.int32(4), params)
    legal = np.asarray(env.legal(state, params))
    assert not legal[4] and legal[:25].sum() == 24 and not legal[25:].any()
    assert int(env.mover(state, params)) == 1


def test_a_blunt_judge_errs_as_often_as_stated():
    env, params, _ = made(honest=0, reveals=1)
    params = params.replace(sharpness=0.7)
    state = starts(1, honest=0, reveals=1)[0]
    state = state.replace(claim=(state.label + 1) % 6)
    keys = jax.random.split(KEY, 20_000)
    step = jax.jit(jax.vmap(env.step_env, (0, None, None, None)))
    _, after, reward, *_ = step(keys, state, jnp.int32(2), params)
    said = np.asarray(rules.evidence(env.model, state.picture))[:, 2]
    lead = said[int(state.label)] - said[int(state.claim)]
    expected = 1 / (1 + np.exp(-0.7 * lead))
    np.testing.assert_allclose((after.winner == 0).mean(), expected, atol=0.015)
    assert np.all(reward.sum(axis=1) == 0) and np.all(np.abs(reward) == 1)


def test_both_seats_see_the_picture_and_their_role():
    env, params, _ = made()
    seats = set()
    for state in starts(8):
        seen = np.asarray(env.observe(state, params))
        np.testing.assert_array_equal(seen[0, :25], seen[1, :25])
        assert seen[:, 25].sum() == 1 and seen[int(state.honest), 25] == 1
        seats.add(int(state.honest))
    assert seats == {0, 1}
