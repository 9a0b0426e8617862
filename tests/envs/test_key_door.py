"""KeyDoor-v1: scripted episodes, and a planner and an executor over it and over the household."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
from programs import fetched

import envs
from envs.key_door.env import KeyDoor
from envs.planned.env import EXECUTOR, PLANNER, Planned
from envs.switched.env import SWITCHER
from envs.text import join

LEFT, RIGHT, TAKE, OPEN = range(4)
DOOR = 2
KEY = jax.random.key(0)


def chain(doors=(1, 0, 1), cells=((1, 3), (0, 4), (2, 1))):
    """KeyDoor-v1 with these colours of doors and cells of the red and the green key."""
    env, params, reset, take = playing.functions("KeyDoor-v1")
    state = reset(KEY)
    rooms = state.chain.replace(doors=np.int32(doors), cells=np.int32(cells))
    return env, params, state.replace(chain=rooms), take


def through(state, take, actions):
    """(state, rewards, ends) after actions that must all be legal."""
    rewards, ends = [], []
    for action in actions:
        _, state, reward, terminated, info = take(state, action)
        assert bool(info["valid"])
        rewards.append(float(reward))
        ends.append(bool(terminated))
    return state, rewards, ends


def test_three_doors_by_hand():
    _, _, state, take = chain()
    first = [RIGHT, RIGHT, RIGHT, TAKE, RIGHT, OPEN]
    second = [TAKE, RIGHT, RIGHT, RIGHT, RIGHT, OPEN]
    third = [RIGHT, TAKE, RIGHT, RIGHT, RIGHT, OPEN]
    state, rewards, ends = through(state, take, first + second + third)
    assert rewards == [0.0] * 17 + [1.0] and ends == [False] * 17 + [True]
    assert int(state.chain.room) == 3 and not bool(state.chain.jammed)


def test_a_reward_behind_each_door():
    env, params, state, take = chain()
    params = params.replace(door_reward=0.25)
    rewards, step = [], fetched(env.step)
    for action in [RIGHT] * 3 + [TAKE, RIGHT, OPEN] + [TAKE] + [RIGHT] * 4 + [OPEN]:
        _, state, reward, *_ = step(KEY, state, np.int32(action), params)
        rewards.append(float(reward))
    assert rewards == [0.0] * 5 + [0.25] + [0.0] * 5 + [0.25]
    for action in [RIGHT, TAKE, RIGHT, RIGHT, RIGHT, OPEN]:
        _, state, reward, *_ = step(KEY, state, np.int32(action), params)
    assert float(reward) == 1.0


def test_a_wrong_key_jams_the_lock_and_can_be_left_behind_before():
    env, params, state, take = chain()
    wrong, rewards, ends = through(state, take, [RIGHT, TAKE, RIGHT, RIGHT, RIGHT, OPEN])
    assert ends[-1] and not any(rewards) and bool(wrong.chain.jammed)
    assert not bool(env.is_success(wrong, params))
    changed, *_ = through(state, take, [RIGHT, TAKE, RIGHT, RIGHT, TAKE])
    np.testing.assert_array_equal(changed.chain.cells[0], [3, -1])
    opened, *_ = through(changed, take, [RIGHT, OPEN])
    assert int(opened.chain.room) == 1 and int(opened.chain.held) == -1


def test_what_is_legal_and_what_is_reached():
    env, params, state, take = chain()
    legal_of, reached, subgoal = map(fetched, (env.legal, env.reached, env.subgoal))
    legal = [a for a, ok in enumerate(legal_of(state, params)) if ok]
    assert legal == [RIGHT]
    np.testing.assert_array_equal(reached(state, params), [False, False, True])
    assert int(subgoal(state, params)) == 1
    state, *_ = through(state, take, [RIGHT, RIGHT, RIGHT, TAKE])
    np.testing.assert_array_equal(reached(state, params), [False, True, False])
    assert int(subgoal(state, params)) == DOOR
    # At the door without a key nothing opens.
    state = state.replace(chain=state.chain.replace(cell=np.int32(4), held=np.int32(-1)))
    assert not bool(legal_of(state, params)[OPEN])


def test_what_is_said_of_it():
    env, params, state, take = chain()
    said = playing.teller("KeyDoor-v1")
    assert said(state) == "room 1 cell 0, green door; red 1 green 3"
    state, *_ = through(state, take, [RIGHT, TAKE])
    assert said(state) == "room 1 cell 1 hold red, green door; green 3"


def test_the_expert_takes_a_shortest_way():
    env, params = playing.make("KeyDoor-v1")
    history = playing.episodes(env, params, 64, 40)
    assert history.info["success"].any(axis=1).all() and history.info["valid"].all()
    drawn = jax.tree.map(lambda x: x[:, 0], history.state).chain
    cells = np.take_along_axis(drawn.cells, drawn.doors[..., None], axis=2)[..., 0]
    # To the key, take, to the door, open.
    ways = (cells + 1 + (env.width - 1 - cells) + 1).sum(axis=1)
    np.testing.assert_array_equal((~history.over).sum(axis=1), ways)


# A planner and an executor.


@pytest.mark.parametrize("form", ["Planned", "Switched"])
@pytest.mark.parametrize("name", ["KeyDoor", "Household"])
def test_options_are_those_of_the_environment(name, form):
    planned, params = envs.make(f"{form}{name}-v1")
    base, own = envs.make(f"{name}-v1")
    changed = {"expert_sees_all": False} if name == "Household" else {}
    assert planned.base == dataclasses.replace(base, **changed) and params.base == own
    options = envs.options_of(base, own) | changed | {"illegal_reward": params.illegal_reward}
    options |= {"max_steps_in_episode": params.max_steps_in_episode}
    assert options.items() <= envs.options_of(planned, params).items()
    assert envs.make(f"{form}{name}-v1", **envs.options_of(planned, params)) == (planned, params)


def test_a_planner_for_any_environment_with_subgoals():
    """By name with flat options, and as a wrapper: the same environment and params."""
    one, own = envs.make("PlannedKeyDoor-v1", rooms=2, keys=3, door_reward=0.25, patience=4)
    base = {"name": "KeyDoor-v1", "rooms": 2, "keys": 3, "door_reward": 0.25}
    other, params = envs.make("envs.planned.env.Planned", base=base, patience=4)
    assert one.base == other.base and own == params and own.base.door_reward == 0.25
    assert (own.patience, own.max_steps_in_episode) == (4, 48)
    for name, options, error in (
        ("envs.planned.env.Planned", {"base": {"name": "Coin-v1"}}, "environment with subgoals"),
        ("envs.switched.env.Switched", {"base": {"name": "Nim-v1"}}, "with one agent and discrete"),
        ("PlannedKeyDoor-v1", {"base": {"name": "Household-v1"}}, "no option 'base'"),
        ("SwitchedKeyDoor-v1", {"room": 2}, "did you mean 'rooms'"),
    ):
        with pytest.raises(ValueError, match=error):
            envs.make(name, **options)


@functools.cache
def expert_team(name):
    """Episodes of the expert in both seats."""
    env, params = envs.make(name)

    def play(key):
        first = env.initial(key, params)

        def step(state, key):
            action = env.expert(state, params)
            seen = (state, env.mover(state, params), action, env.reached(state, params))
            over = ~env.is_running(state, params)
            out = env.step_env(key, state, action, params)
            return out[1], (*seen, over, out[2], out[4])

        return jax.lax.scan(step, first, jax.random.split(key, 40))[1]

    env = _Watched(env)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(play))(jax.random.split(KEY, 48)))


class _Watched:
    """The game, with what its environment says of subgoals."""

    def __init__(self, game):
        self._game = game

    def __getattr__(self, name):
        return getattr(self._game, name)

    def reached(self, state, params):
        return self._game.base.reached(state.base, params.base)


@pytest.mark.parametrize("name", ["PlannedKeyDoor-v1", "PlannedHousehold-v1"])
def test_experts_decide_at_events_and_win_together(name):
    env, params = envs.make(name)
    state, mover, action, reached, over, reward, info = expert_team(name)
    assert info["valid"].all() and info["success"].any(axis=1).all()
    np.testing.assert_array_equal(reward[..., PLANNER], reward[..., EXECUTOR])
    np.testing.assert_array_equal(reward.sum(axis=1)[:, 0], 1)
    plans = (mover == PLANNER) & ~over
    assert plans[:, 0].all() and not plans.all()
    count = env.base.num_actions
    assert (action[plans] >= count).all() and (action[~plans & ~over] < count).all()
    # Nobody sets what holds already; the executor goes on until it holds, or for so many turns.
    assert not np.take_along_axis(reached, np.maximum(action - count, 0)[..., None], 2)[plans].any()
    later = plans[:, 1:] & ~over[:, 1:]
    held, goal = state.held[:, 1:][later], state.subgoal[:, 1:][later]
    arrived = reached[:, 1:][later][np.arange(len(goal)), goal]
    assert (arrived | (held == params.patience)).all() and arrived.mean() > 0.9
    acting = ~plans[:, 1:] & ~over[:, 1:]
    goal = state.subgoal[:, 1:][acting]
    assert not reached[:, 1:][acting][np.arange(len(goal)), goal].any()


def test_the_planner_is_asked_again_when_patience_ends():
    env, params = envs.make("PlannedKeyDoor-v1", patience=2)
    step, mover_of = fetched(env.step_env), fetched(env.mover)
    state = fetched(env.initial)(KEY, params)
    for action, mover in [(4, EXECUTOR), (RIGHT, EXECUTOR), (LEFT, PLANNER), (5, EXECUTOR)]:
        _, state, reward, _, info = step(KEY, state, np.int32(action), params)
        # Whatever lies at the first cells, these are legal, and take no key.
        assert info["valid"].all() and int(mover_of(state, params)) == mover
        assert not reward.any()
    assert int(state.subgoal) == 1 and int(state.time) == 4 and int(state.base.time) == 2
    # A refused action leaves the turn with the same seat.
    _, state, _, terminated, info = step(KEY, state, np.int32(4), params)
    assert not bool(info["valid"][EXECUTOR]) and not bool(terminated)
    assert int(mover_of(state, params)) == EXECUTOR


def test_the_switcher_decides_when_to_plan():
    env, params = envs.make("SwitchedKeyDoor-v1", patience=3, keep_reward=-0.25)
    count = env.base.num_actions
    plan, keep, switch = count, env.num_actions - 2, env.num_actions - 1
    step, mover_of = fetched(env.step_env), fetched(env.mover)
    state = fetched(env.initial)(KEY, params)
    turns = [(plan, EXECUTOR), (RIGHT, SWITCHER), (keep, EXECUTOR), (LEFT, SWITCHER)]
    turns += [(switch, PLANNER), (plan + 1, EXECUTOR), (RIGHT, SWITCHER), (keep, EXECUTOR)]
    # Three turns under one subgoal: the planner is not waited for any longer.
    turns += [(LEFT, SWITCHER), (keep, EXECUTOR), (RIGHT, PLANNER)]
    for action, mover in turns:
        _, state, reward, _, info = step(KEY, state, np.int32(action), params)
        assert info["valid"].all() and int(mover_of(state, params)) == mover
        np.testing.assert_array_equal(reward, [-0.25 if action == keep else 0.0] * 3)
    assert int(state.base.time) == 5
    assert [int(x.sum()) for x in fetched(env.legal_actions)(state, params)][SWITCHER] != 2


def test_what_the_switcher_sees():
    env, params = envs.make("SwitchedKeyDoor-v1")
    state, step = fetched(env.initial)(KEY, params), fetched(env.step_env)
    for action in (env.base.num_actions + 1, RIGHT):
        _, state, *_ = step(KEY, state, np.int32(action), params)
    assert int(env.mover(state, params)) == SWITCHER
    planner, executor, switcher = fetched(env.observe)(state, params)
    goals = len(env.base.subgoal_names)
    assert planner[-goals - 1 :].sum() == 0 and executor[-1] == 0 and switcher[-1] == 1
    np.testing.assert_array_equal(executor[:-1], switcher[:-1])
    text = fetched(env.describe)(state, params)
    words = [join(env.view.lexicon, text.fragments[a]) for a in range(3)]
    name = env.base.subgoal_names[1]
    assert words[EXECUTOR] == f"subgoal: {name}\n{words[PLANNER]}"
    assert words[SWITCHER] == f"keep {name}?\n{words[PLANNER]}"


@dataclasses.dataclass(frozen=True)
class Aimless(KeyDoor):
    """A chain of rooms with one subgoal that is never reached."""

    subgoal_names: ClassVar[tuple[str, ...]] = ("on",)

    def reached(self, state, params):
        return jnp.zeros(1, bool)


def test_one_subgoal_and_endless_patience_is_the_environment_itself():
    base = Aimless(rooms=1)
    game = Planned(base)
    params = game.default_params.replace(patience=1000)
    own = params.base.replace(max_steps_in_episode=params.max_steps_in_episode)

    def play(key):
        """Random play of the environment, and the same actions in the game."""
        key, first_key = jax.random.split(key)
        alone = base.initial(first_key, own)
        plan = jnp.int32(base.num_actions)
        _, both, *_ = game.step_env(key, game.initial(first_key, params), plan, params)

        def step(carry, key):
            alone, both = carry
            action = playing.at_random(base, own, key, alone)
            one = base.step_env(key, alone, action, own)
            two = game.step_env(key, both, action, params)
            return (one[1], two[1]), (one[0], two[0][EXECUTOR], *one[2:4], *two[2:4])

        return jax.lax.scan(step, (alone, both), jax.random.split(key, 20))[1]

    seen, told, reward, ends, rewards, both_end = jax.jit(jax.vmap(play))(jax.random.split(KEY, 32))
    np.testing.assert_array_equal(told, np.insert(seen, seen.shape[-1], 1, axis=-1))
    np.testing.assert_array_equal(rewards, np.stack([reward, reward], axis=-1))
    np.testing.assert_array_equal(ends, both_end)
    won = np.asarray(reward).sum(axis=1) > 0
    assert won.any() and (np.asarray(ends)[:, -1] & ~won).any()


def test_the_executor_reads_a_line_more():
    env, params = envs.make("PlannedKeyDoor-v1")
    state, describe = fetched(env.initial)(KEY, params), fetched(env.describe)

    def said(state):
        return [join(env.view.lexicon, row) for row in describe(state, params).fragments]

    text = fetched(env.base.describe)(state.base, params.base)
    own = join(env.base.view.lexicon, text.fragments[0])
    assert said(state) == [own, own]
    _, state, *_ = fetched(env.step_env)(KEY, state, np.int32(env.num_actions - 2), params)
    assert said(state) == [own, f"subgoal: green key\n{own}"]
    words = [join(env.view.lexicon, row) for row in fetched(env.commands)(state, params)[0]]
    assert words == list(env.action_names)
