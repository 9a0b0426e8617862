"""UserRL's users: intentions, persuasion and a story, by hand, and what their experts reach."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs

INTENTION, _ = envs.make("Intention-v1")
PERSUADE, _ = envs.make("Persuade-v1")
TURTLE, _ = envs.make("Turtle-v1")


def played(env, params, state, *commands):
    """(last state, rewards, success, over) of commands."""
    rewards, info, over = [], {"success": False}, False
    for command in commands:
        assert not over, f"{command}: the episode is over"
        action = env.action_names.index(command)
        _, state, reward, over, info = env.step_env(jax.random.key(0), state, action, params)
        rewards.append(round(float(reward), 4))
    return state, rewards, bool(info["success"]), bool(over)


def by_expert(env, params, count):
    """(returns, success, turns) of the expert, [count] each."""

    def episode(key):
        def step(carry, key):
            state, over = carry
            action = env.expert(state, params)
            _, state, reward, ends, info = env.step_env(key, state, action, params)
            told = jnp.where(over, 0.0, reward), info["success"] & ~over, ~over
            return (state, over | ends), told

        _, state = env.reset_env(key, params)
        keys = jax.random.split(key, params.max_steps_in_episode)
        reward, success, turns = jax.lax.scan(step, (state, jnp.zeros((), bool)), keys)[1]
        return reward.sum(), success.any(), turns.sum()

    return jax.vmap(episode)(jax.random.split(jax.random.key(1), count))


# Kind 0 of world 0: guests and colour matter most (3), then date and size, place and style; price
# and length do not matter.
def wanted(*missing):
    names = ("date", "place", "size", "price", "style", "guests", "colour", "length")
    state = INTENTION.initial(jax.random.key(0), INTENTION.default_params)
    there = jnp.array([name in missing for name in names])
    return state.replace(kind=jnp.zeros((), jnp.int32), missing=there)


def intentions(state, *commands):
    return played(INTENTION, INTENTION.default_params, state, *commands)


def test_importance_of_the_kind_is_as_the_test_says():
    np.testing.assert_array_equal(INTENTION.importance[0], [2, 1, 2, 0, 1, 3, 3, 0])
    assert all(sorted(row) == [0, 0, 1, 1, 2, 2, 3, 3] for row in INTENTION.importance)


def test_a_question_is_worth_its_most_important_new_detail():
    """1, 0.7 and 0.4 by importance; 0.2 less for a second detail; nothing for what is known."""
    state = wanted("guests", "date", "place", "style")
    asked = ("ask guests", "ask guests", "ask size", "ask length", "ask date place", "ask style")
    state, rewards, success, over = intentions(state, *asked)
    assert rewards == [1.0, 0.0, 0.0, 0.0, 0.5, 0.4]
    assert success and over
    # The best of two counts, wherever it stands; two useless ones still cost.
    _, rewards, success, over = intentions(
        wanted("guests", "date", "place"), "ask place guests", "ask price length", "finish"
    )
    assert rewards == [0.8, -0.2, 0.0] and over and not success


def test_what_the_user_said_is_seen_and_what_matters_is_not():
    state = wanted("guests", "date", "place")
    seen = INTENTION.observe(state, INTENTION.default_params)
    np.testing.assert_array_equal(seen[:8], np.eye(8)[0])
    # Size, style and colour were said; price and length look like what is missing.
    np.testing.assert_array_equal(seen[8:].reshape(8, 3)[:, 0], [0, 0, 1, 0, 1, 0, 1, 0])
    assert not seen[8:].reshape(8, 3)[:, 1:].any()
    state, *_ = intentions(state, "ask date", "ask price")
    seen = np.asarray(INTENTION.observe(state, INTENTION.default_params))[8:].reshape(8, 3)
    np.testing.assert_array_equal(seen[[0, 3]], [[0, 1, 0], [0, 0, 1]])


def test_the_expert_is_paid_for_every_detail_and_loses_nothing():
    """Three to six of 1, 1, 0.7, 0.7, 0.4, 0.4 are missing, 0.7 each on average."""
    returns, success, turns = by_expert(INTENTION, INTENTION.default_params, 512)
    assert success.all() and turns.min() == 3 and turns.max() == 6
    assert abs(returns.mean() - 4.5 * 0.7) < 0.15


def test_tasks_of_intentions():
    states = jax.vmap(lambda k: INTENTION.initial(k, INTENTION.default_params))(
        jax.random.split(jax.random.key(0), 512)
    )
    count = states.missing.sum(axis=1)
    np.testing.assert_allclose(np.bincount(count)[3:] / 512, 0.25, atol=0.07)
    assert not (states.missing & (INTENTION.importance[states.kind] == 0)).any()


# Character 0 of world 0: facts and story move by 1, expert and humour by 2, values offend, a
# question does nothing.
def person(stance):
    state = PERSUADE.initial(jax.random.key(0), PERSUADE.default_params)
    zero = jnp.zeros((), jnp.int32)
    return state.replace(person=zero, manner=zero, stance=jnp.int32(stance))


def persuasion(state, *commands):
    return played(PERSUADE, PERSUADE.default_params, state, *commands)


def test_arguments_move_by_character_and_repetition_offends():
    np.testing.assert_array_equal(PERSUADE.moves[0], [1, 1, 2, 2, -1, 0])
    said = ("facts", "question", "expert", "expert", "values", "humour", "story")
    state, rewards, success, _ = persuasion(person(1), *said)
    assert [round(6 * r) for r in rewards] == [1, 0, 2, -1, -1, 2, 1]
    assert int(state.stance) == 5 and not success
    _, rewards, success, over = persuasion(person(2), "expert", "humour")
    assert success and over and round(sum(rewards), 3) == round(4 / 6, 3)
    # Nobody disagrees more than strongly, or agrees more.
    assert persuasion(person(0), "values")[1] == [0.0]
    assert round(6 * persuasion(person(5), "humour")[1][0]) == 1


def test_reactions_are_seen_and_characters_are_not():
    """A reaction is that of the first time, also where the stance could not follow."""
    state, *_ = persuasion(person(0), "values", "expert", "expert")
    seen = PERSUADE.observe(state, PERSUADE.default_params)
    np.testing.assert_array_equal(seen[:7], np.eye(7)[1])
    reaction = seen[13:].reshape(6, 4)
    np.testing.assert_array_equal(reaction[4], [1, 0, 0, 0])
    np.testing.assert_array_equal(reaction[2], [0, 0, 0, 1])
    assert reaction.sum() == 2


def test_beliefs_about_characters_follow_bayes():
    """Half of the people seem as they are: 7/12 for the one that is seen, 1/12 for each other."""
    state = person(1)
    belief = PERSUADE.belief(state, PERSUADE.default_params)
    np.testing.assert_allclose(belief, [7 / 12] + [1 / 12] * 5, rtol=1e-6)
    # Facts move characters 4 and 5 alike, by 2, and none of the others but 2.
    state, *_ = persuasion(state.replace(person=jnp.int32(4)), "facts")
    belief = PERSUADE.belief(state, PERSUADE.default_params)
    np.testing.assert_allclose(belief, [0, 0, 1 / 3, 0, 1 / 3, 1 / 3], atol=1e-6)


def test_the_expert_of_persuasion():
    _, success, turns = by_expert(PERSUADE, PERSUADE.default_params, 1024)
    assert success.mean() > 0.97 and turns.mean() < 3.7
    # Who knows the character needs two to four arguments.
    known = PERSUADE.default_params.replace(open=1.0)
    _, success, turns = by_expert(PERSUADE, known, 512)
    assert success.all() and turns.max() == 4


def story(*facts):
    """A story with these facts: an option or None per aspect."""
    state = TURTLE.initial(jax.random.key(0), TURTLE.default_params)
    pairs = zip(TURTLE.options, facts, strict=True)
    return state.replace(
        fact=jnp.array([names.index(fact) if fact else -1 for names, fact in pairs], jnp.int32)
    )


def puzzle(state, *commands):
    return played(TURTLE, TURTLE.default_params, state, *commands)


def test_questions_are_answered_and_explanations_are_paid_once():
    state = story("pilot", None, "rope")
    asked = ("ask twin", "ask pilot", "ask ship", "ask rope")
    state, rewards, *_ = puzzle(state, *asked)
    np.testing.assert_array_equal(state.answers, [[1, 2, 0, 0], [0, 0, 3, 0], [2, 0, 0, 0]])
    assert rewards == [0.0] * 4
    # Half right; right and wrong; half right again; all right.
    said = ("answer pilot nothing nothing", "answer pilot ship nothing",
            "answer nothing nothing rope", "answer pilot nothing rope")  # fmt: skip
    _, rewards, success, over = puzzle(state, *said)
    assert rewards == [0.5, 0.0, 0.0, 0.5] and success and over
    _, rewards, success, over = puzzle(state, "answer pilot attic rope", "finish")
    assert rewards == [0.5, 0.0] and over and not success


@pytest.mark.parametrize("aspects", [1, 2, 3])
def test_naming_everything_is_worth_less_than_knowing(aspects):
    """Best explanation of a story without a question: never all of it, on average."""
    env, params = envs.make("Turtle-v1", aspects=aspects)
    states = jax.vmap(lambda k: env.initial(k, params))(jax.random.split(jax.random.key(0), 256))
    said = jnp.asarray(env.explanations)
    scores = jax.vmap(lambda s: jax.vmap(lambda x: env.score(s, x))(said))(states)
    assert (scores.max(axis=1) == 1).all() and scores.mean(axis=0).max() < 0.3
    assert ((states.fact >= 0).sum(axis=1) >= 1).all()


@pytest.mark.parametrize("aspects", [1, 3, 4])
def test_the_expert_of_stories_explains_within_its_questions(aspects):
    env, params = envs.make("Turtle-v1", aspects=aspects)
    params = params.replace(max_steps_in_episode=3 * aspects + 1)
    returns, success, turns = by_expert(env, params, 256)
    assert success.all() and (returns == 1).all() and turns.max() <= 3 * aspects + 1


def test_explanations_are_numbered_as_they_are_written():
    names = TURTLE.action_names
    for number, values in enumerate(itertools.product(range(5), repeat=3)):
        words = [(*TURTLE.options[g], "nothing")[v] for g, v in enumerate(values)]
        assert names[12 + number] == " ".join(["answer", *words])


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="aspects 5: expected 1 to 4"):
        envs.make("Turtle-v1", aspects=5)
