"""UserRL's traveller: an episode by hand, searches that fail, and what the user volunteers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import fetched

import envs
from envs.itinerary.env import ANY, TOLD, UNKNOWN
from envs.text import join

SMALL = {"domains": 2, "slots": 2, "options": 3}
ENV, PARAMS = envs.make("Itinerary-v1", **SMALL)
STEP = fetched(ENV.step_env)


def task():
    """Flights late and central, the second best; hotels quiet at any time, the first best."""
    state = ENV.initial(jax.random.key(0), PARAMS)
    flights, hotels = [[0, 0], [1, 0], [1, 0]], [[0, 1], [0, 0], [1, 1]]
    return state.replace(
        cares=jnp.array([[True, True], [False, True]]),
        wanted=jnp.array([[1, 0], [0, 1]], jnp.int32),
        values=jnp.array([flights, hotels], jnp.int32),
    )


def played(state, *commands, params=PARAMS, key=0):
    """(last state, rewards, success, over) of commands."""
    rewards, info, over = [], {"success": False}, False
    for command in commands:
        assert not over, f"{command}: the episode is over"
        action = np.int32(ENV.action_names.index(command))
        _, state, reward, over, info = STEP(jax.random.key(key), state, action, params)
        assert info["valid"]
        rewards.append(round(float(reward), 4))
    return state, rewards, bool(info["success"]), bool(over)


def test_an_episode_by_hand():
    """A preference and a search 0.2, the best option 1, another correct one 0.8; each once."""
    turns = ("ask flight time", "ask flight time", "search flight", "search flight",
             "ask flight place", "choose flight 2", "ask hotel place", "search hotel",
             "choose hotel 1")  # fmt: skip
    _, rewards, success, over = played(task(), *turns)
    # The third search is the hotels' first: it finds them.
    assert rewards == [0.2, 0.0, 0.2, 0.0, 0.2, 1.0, 0.2, 0.2, 1.0] and success and over
    # Correct but not best, then a second choice in its place, then a wrong one, without a search.
    turns = ("choose flight 3", "choose flight 2", "choose hotel 2")
    state, rewards, success, over = played(task(), *turns)
    assert rewards == [0.8, 0.0, 0.0] and over and not success
    np.testing.assert_array_equal(state.chosen, [2, 1])
    np.testing.assert_array_equal(ENV.judged(task()), [[0, 2, 1], [2, 0, 1]])


def test_every_fifth_search_fails():
    """Repeated searches count too; the domain is found, and paid for, by the sixth."""
    turns = ["search flight"] * 4 + ["search hotel"]
    state, rewards, *_ = played(task(), *turns)
    assert rewards == [0.2, 0.0, 0.0, 0.0, 0.0] and state.failed
    np.testing.assert_array_equal(state.found, [True, False])
    asked, _, *_ = played(state, "ask hotel place")
    assert not asked.failed and int(asked.searches) == 5
    state, rewards, *_ = played(state, "search hotel")
    assert rewards == [0.2] and state.found.all() and not state.failed
    # Every second one: of four the first and the third succeed.
    often = PARAMS.replace(failing=2)
    turns = ("search flight", "search hotel", "search hotel", "search hotel")
    assert played(task(), *turns, params=often)[1] == [0.2, 0.0, 0.2, 0.0]


def test_the_third_question_off_topic_makes_the_user_volunteer():
    """Searches do not interrupt, a preference that a question found does; nothing is paid."""
    state, rewards, *_ = played(task(), "ask hotel time", "search hotel", "ask hotel time")
    np.testing.assert_array_equal(state.known, [[UNKNOWN, UNKNOWN], [ANY, UNKNOWN]])
    assert int(state.off_topic) == 2
    volunteered = set()
    for key in range(12):
        after, reward, *_ = played(state, "ask hotel time", key=key)
        assert reward == [0.0] and int(after.off_topic) == 0
        said = np.argwhere(after.known == TOLD)
        assert len(said) == 1
        volunteered.add(tuple(said[0].tolist()))
    assert volunteered == {(0, 0), (0, 1), (1, 1)}
    # It is not paid when it is asked for afterwards.
    d, s = said[0]
    assert played(after, f"ask {('flight', 'hotel')[d]} {('time', 'place')[s]}")[1] == [0.0]
    state, rewards, *_ = played(state, "ask flight time", "ask hotel time")
    assert rewards == [0.2, 0.0] and int(state.off_topic) == 1


def test_a_choice_drops_what_remains_of_its_domain():
    turns = ("choose flight 1", "ask flight time", "ask hotel time", "ask flight place")
    state, rewards, *_ = played(task(), *turns)
    # All three are off topic, and what is volunteered is the one preference of the open domain.
    assert rewards == [0.0] * 4
    np.testing.assert_array_equal(state.known, [[ANY, ANY], [ANY, TOLD]])
    # With nothing left to say the user says nothing.
    state, rewards, *_ = played(state, *["ask hotel place"] * 4)
    assert rewards == [0.0] * 4 and int(state.off_topic) == 4


def test_what_was_neither_said_nor_listed_is_not_seen():
    observe = fetched(ENV.observe)
    other = task()
    other = other.replace(wanted=1 - other.wanted, cares=~other.cares, values=1 - other.values)
    np.testing.assert_array_equal(observe(task(), PARAMS), observe(other, PARAMS))
    state, *_ = played(task(), "ask flight time", "ask hotel time", "search hotel")
    seen = observe(state, PARAMS)
    np.testing.assert_array_equal(seen[:8].reshape(4, 2), [[0, 0], [1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(seen[8:16].reshape(4, 2), [[0, 1], [0, 0], [0, 0], [0, 0]])
    listed = seen[16:40].reshape(2, 3, 2, 2)
    assert not listed[0].any()
    np.testing.assert_array_equal(listed[1].argmax(axis=-1), [[0, 1], [0, 0], [1, 1]])


@functools.cache
def episodes(domains, slots, limit):
    """(returns, success, turns) of the expert and of random play, [2, 256] each, one program."""
    env, params = envs.make("Itinerary-v1", domains=domains, slots=slots)
    params = params.replace(max_steps_in_episode=limit)

    def episode(key, by_expert):
        def step(carry, key):
            state, over = carry
            draw = jax.random.randint(jax.random.fold_in(key, 0), (), 0, env.num_actions)
            action = jnp.where(by_expert, env.expert(state, params), draw)
            _, state, reward, ends, info = env.step_env(key, state, action, params)
            return (state, over | ends), (reward, info["success"], ~over)

        first = env.initial(key, params)
        keys = jax.random.split(jax.random.fold_in(key, 1), limit)
        reward, success, turns = jax.lax.scan(step, (first, jnp.zeros((), bool)), keys)[1]
        return reward.sum(), success.any(), turns.sum()

    run = jax.vmap(jax.vmap(episode, (0, None)), (None, 0))
    keys = jax.random.split(jax.random.key(1), 256)
    return jax.tree.map(np.asarray, jax.jit(run)(keys, np.array([True, False])))


@pytest.mark.parametrize("domains, slots, turns", [(3, 3, 15), (5, 2, 21)])
def test_the_expert_solves_all_and_random_play_little(domains, slots, turns):
    """Five domains need a sixth search. A preference that is volunteered saves a question."""
    returns, success, used = episodes(domains, slots, turns)
    assert success[0].all() and used[0].max() == turns and np.median(used[0]) == turns
    # 1.2 per domain and 0.2 per preference, 1 + (slots - 1) / 2 of them on average.
    most = 1.2 * domains + 0.2 * domains * slots
    assert returns[0].max() <= most + 1e-4
    assert abs(returns[0].mean() - domains * (1.2 + 0.1 * (slots + 1))) < 0.15
    assert success[1].mean() < 0.2 and returns[1].mean() < 0.75 * returns[0].mean()


def test_tasks_have_a_best_another_correct_and_a_wrong_option():
    env, params = envs.make("Itinerary-v1")
    draw = jax.jit(jax.vmap(lambda key: env.initial(key, params)))
    states = draw(jax.random.split(jax.random.key(0), 512))
    judged = np.asarray(jax.vmap(env.judged)(states))
    assert ((judged == 2).sum(axis=2) == 1).all()
    assert ((judged >= 1).sum(axis=2) >= 2).all() and ((judged == 0).sum(axis=2) >= 1).all()
    # The cheapest correct one is best; it is never the last, and the first in half of the tasks.
    best = (judged == 2).argmax(axis=2)
    np.testing.assert_array_equal(best, (judged >= 1).argmax(axis=2))
    assert best.max() == 2 and 0.5 < (best == 0).mean() < 0.7
    count = np.asarray(states.cares).sum(axis=2).reshape(-1)
    np.testing.assert_allclose(np.bincount(count, minlength=4)[1:] / count.size, 1 / 3, atol=0.06)


def test_words_by_hand():
    def view_of(state):
        return join(ENV.view.lexicon, np.asarray(ENV.describe(state, PARAMS).fragments[0]))

    assert view_of(task()) == " flight: time ? place ? hotel: time ? place ?"
    turns = ("ask flight time", "ask hotel time", "search hotel", "choose hotel 3")
    state, *_ = played(task(), *turns)
    assert view_of(state) == (
        " flight: late, place ? hotel: time any place ? 1 early quiet 2 early central 3 late quiet"
        " chose 3, correct."
    )
    state, *_ = played(task(), *["search flight"] * 4, "search hotel")
    assert view_of(state).endswith(" 3 late central hotel: time ? place ? The search failed.")


def test_the_drawing():
    state, *_ = played(task(), "ask flight time", "search flight", "choose flight 2")
    assert ENV.render(state, PARAMS).split("\n") == [
        "flight: late [central] | 1 early central, [2 late central**], 3 late central*",
        "hotel: [quiet] | 1 early quiet**, 2 early central, 3 late quiet* (not listed)",
    ]


@pytest.mark.parametrize("options", [{"domains": 6}, {"slots": 0}, {"options": 2}])
def test_wrong_sizes_are_refused(options):
    with pytest.raises(ValueError, match="expected 1 to 5, 1 to 3 and 3 to 6"):
        envs.make("Itinerary-v1", **options)
