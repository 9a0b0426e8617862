"""DeepTravel's queue of failed tasks, by hand, and the checks of turns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import setup_of, turn_rewards
from hypothesis import given, settings
from hypothesis import strategies as st

import envs
from agentrl.methods.failed_tasks import Queue, after_playing, drawn_again, failed_tasks
from agentrl.methods.turn_checks import turn_checks


def queue(*ages):
    """A queue whose place i has task (i, i)."""
    places = jnp.arange(len(ages), dtype=jnp.uint32)
    task = jnp.stack([places, places], axis=1)
    return Queue(task, jnp.int32(ages))


def fresh(count):
    """Tasks (100, 100), (101, 101) and so on."""
    return jnp.stack([100 + jnp.arange(count, dtype=jnp.uint32)] * 2, axis=1)


def test_waiting_tasks_take_the_first_groups():
    task, place = drawn_again(queue(3, -1, 0, -1), fresh(5), jnp.int32(3), jax.random.key(0))
    assert sorted(place.tolist()[:2]) == [0, 2] and place.tolist()[2:] == [-1, -1, -1]
    np.testing.assert_array_equal(task[:2, 0], place[:2])
    np.testing.assert_array_equal(task[2:], fresh(5)[2:])
    task, place = drawn_again(queue(3, -1, 0, -1), fresh(5), jnp.int32(0), jax.random.key(0))
    np.testing.assert_array_equal(task, fresh(5))


def test_what_is_drawn_is_uniform():
    def first(key):
        return drawn_again(queue(5, 0, -1, 9), fresh(2), jnp.int32(1), key)[1][0]

    drawn = jax.vmap(first)(jax.random.split(jax.random.key(1), 3000))
    share = np.bincount(np.asarray(drawn), minlength=4) / 3000
    np.testing.assert_allclose(share, [1 / 3, 1 / 3, 0, 1 / 3], atol=0.04)


def test_solved_tasks_leave_and_failed_ones_enter():
    """Place 0 was solved, place 3 failed again; of two fresh tasks one failed."""
    task = jnp.uint32([[0, 0], [3, 3], [102, 102], [103, 103]])
    place = jnp.int32([0, 3, -1, -1])
    solved = jnp.array([True, False, True, False])
    after, lost = after_playing(queue(4, 7, -1, 2), task, place, solved, max_age=50)
    waiting = {int(t[0]): int(a) for t, a in zip(after.task, after.age, strict=True) if a >= 0}
    assert waiting == {1: 8, 3: 3, 103: 0} and lost == 0


def test_old_tasks_leave_and_the_oldest_gives_way_where_all_is_full():
    task, place = fresh(1), jnp.int32([-1])
    failed = jnp.array([False])
    after, lost = after_playing(queue(9, 2), task, place, failed, max_age=10)
    assert lost == 1 and sorted(after.age.tolist()) == [0, 3]
    after, lost = after_playing(queue(4, 6), task, place, failed, max_age=10)
    assert lost == 1 and after.age.tolist() == [5, 0] and after.task[1, 0] == 100


@jax.jit
def one_update(before, slots, solved):
    task, place = drawn_again(before, fresh(5), slots, jax.random.key(0))
    return place, *after_playing(before, task, place, solved, max_age=9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-1, 8), min_size=4, max_size=4),
    st.integers(0, 5),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_no_task_is_lost_uncounted(ages, slots, solved):
    """Waiting before, less what was solved and lost, and the fresh failures that entered."""
    before, solved = queue(*ages), np.array(solved)
    place, after, lost = jax.device_get(one_update(before, jnp.int32(slots), solved))
    again = place >= 0
    entered = min(np.sum(~solved & ~again), len(ages))
    waited, left = np.sum(np.array(ages) >= 0), np.sum(solved & again)
    assert np.sum(after.age >= 0) == waited - left + entered - lost
    tasks = [tuple(t) for t, a in zip(after.task.tolist(), after.age, strict=True) if a >= 0]
    assert len(set(tasks)) == len(tasks)


def test_confirmed_bookings_share_the_bonus():
    """Two bookings stay, of which one is confirmed: half of 0.5."""
    env, params = envs.make("Travel-v1")
    component = turn_checks(setup_of(env, params), bonus=0.5)
    commands = ("search flight", "book flight 3", "book hotel 4", "hand in")
    action = np.int32([env.action_names.index(c) for c in commands] + [4, 4])
    state = env.initial(jax.random.key(0), params)
    state = state.replace(offered=jnp.ones_like(state.offered))
    paid = turn_rewards(component, state, action, np.arange(6) < 4, key=jax.random.key(0))
    np.testing.assert_allclose(paid, [0, 0.25, 0, 0, 0, 0])


def test_what_they_do_not_fit():
    with pytest.raises(ValueError, match="tasks_by_key"):
        failed_tasks(setup_of(*envs.make("Travel-v1")))
    with pytest.raises(ValueError, match="share"):
        failed_tasks(setup_of(*envs.make("Travel-v1")), share=1.5)
    with pytest.raises(ValueError, match="Travel-v1"):
        turn_checks(setup_of(*envs.make("FrozenLake-v1")))
    with pytest.raises(ValueError, match="bonus"):
        turn_checks(setup_of(*envs.make("Travel-v1")), bonus=-1.0)
