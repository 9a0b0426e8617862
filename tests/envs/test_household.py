"""The household against ALFWorld's engine, plain search, and what its agent may not know."""

import dataclasses
import functools
import json
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded

from envs.household import classes, experts, rules
from envs.household import tasks as generation
from envs.household.env import HouseholdState

RECORDED = {
    "put": "pick_and_place_simple",
    "heat": "pick_heat_then_place_in_recep",
    "two": "pick_two_obj_and_place",
}
# One size for all recorded houses, so that one program replays them.
STANDS, THINGS = 28, 24
EPISODES = [
    episode
    for name in ("alfworld_pddl_engine", "alfworld_pddl_engine_small")
    for episode in recorded.episodes(name)
]


@functools.cache
def functions(**options):
    """(env, params, functions of that environment by name), compiled once."""
    env, params, _, step = playing.functions("Household-v1", **options)

    def asking(name, **which):
        method = playing.method(env, name, **which)
        return lambda state: method(state, params)

    return (
        env,
        params,
        {
            "step": step,
            "tell": playing.teller("Household-v1", **options),
            "read": playing.reader("Household-v1", **options),
            "commands": lambda state: playing.commands(env, state, params),
            "observe": asking("observe"),
            "legal": asking("legal"),
            "expert": asking("expert"),
            "subgoal": asking("subgoal"),
            "anchor": asking("fingerprint", of="state"),
        },
    )


furnish = jax.jit(rules.furnish)


def house_of(stands, things, where, goal, size=(STANDS, THINGS), openable=None):
    """A state from names of classes, in their order; where: indices of stands."""
    task, thing, place, phrase = goal
    place = classes.thing(place) if task == "look" else classes.receptacle(place)
    goal = (rules.TASKS.index(task), classes.thing(thing), place, phrase)

    def pad(values, count, fill):
        return np.array([*values, *[fill] * (count - len(values))])

    openable = classes.OPENABLE if openable is None else openable
    kinds = [classes.receptacle(name) for name in stands]
    return HouseholdState(
        jnp.int32(0),
        furnish(
            pad(kinds, size[0], rules.NONE),
            pad([openable[kind] for kind in kinds], size[0], False),
            pad([classes.thing(name) for name in things], size[1], rules.NONE),
            pad(where, size[1], -1),
            tuple(np.int32(x) for x in goal),
        ),
    )


def recorded_house(episode):
    """The state that the episode's PDDL problem describes, its ids in alphabetical order."""
    facts, _ = episode["problem"].split("(:goal")
    stands = dict(re.findall(r"\(receptacleType (\S+) (\S+)Type\)", facts))
    things = dict(re.findall(r"\(objectType (\S+) (\S+)Type\)", facts))
    inside = dict(re.findall(r"\(inReceptacle (\S+) (\S+)\)", facts))
    stand_ids, thing_ids = sorted(stands, key=str.lower), sorted(things, key=str.lower)
    task = next(ours for ours, theirs in RECORDED.items() if theirs == episode["task"])
    # The first of a task's two phrases has its article or number in front.
    phrase = 0 if re.match(r"put (a|two) ", episode["desc"]) else 1
    state = house_of(
        [stands[i] for i in stand_ids],
        [things[i] for i in thing_ids],
        [stand_ids.index(inside[i]) for i in thing_ids],
        (task, episode["target"], episode["recep"], phrase),
    )
    home = state.house.home
    for ids, numbers in ((stand_ids, home.receptacle_number), (thing_ids, home.object_number)):
        names = [episode["names"][i.lower()] for i in ids]
        assert [int(name.split()[1]) for name in names] == np.asarray(numbers)[: len(ids)].tolist()
    openable = set(re.findall(r"\(openable (\S+)\)", facts))
    assert openable == {i for i in stand_ids if classes.OPENABLE[classes.receptacle(stands[i])]}
    return state


@pytest.mark.parametrize("index", range(len(EPISODES)))
def test_recorded_episode(index):
    episode = EPISODES[index]
    env, _, f = functions(
        receptacles=STANDS, objects=THINGS, wording="faithful", max_steps_in_episode=1000
    )
    state = recorded_house(episode)
    observation, commands = f["tell"](state), f["commands"](state)
    assert observation == episode["init_obs"]
    admissible = episode["init_admissible"]
    if episode["planner_from"] == 0 and not episode["planner"]:
        # Solved from the start, which the engine notices after a step; our episode is over.
        assert bool(env.is_terminated(state, None)) and episode["steps"][0]["done"]
        return
    assert not bool(env.is_terminated(state, None))
    for told in episode["steps"]:
        legal = np.flatnonzero(f["legal"](state))
        assert {commands[action] for action in legal} == set(admissible) - {"help"}
        admissible = told["admissible"]
        if told["action"] == "help":
            continue
        action = f["read"](told["action"], state)
        known = told["action"] in commands
        assert action == (commands.index(told["action"]) if known else -1)
        _, state, reward, terminated, info = f["step"](state, action)
        observation, commands = f["tell"](state), f["commands"](state)
        assert observation == told["obs"] and len(observation) <= env.view.max_bytes
        for action in np.flatnonzero(f["legal"](state)):
            assert len(commands[action]) <= env.view.max_command_bytes
        assert float(reward) == told["reward"]
        assert bool(terminated) == bool(info["success"]) == told["done"] == told["won"]
        assert bool(info["valid"]) == (told["obs"] != "Nothing happens.")


def test_expert_needs_no_more_steps_than_the_recorded_planner():
    _, _, f = functions(
        receptacles=STANDS, objects=THINGS, wording="faithful", max_steps_in_episode=1000
    )
    compared = 0
    for episode in EPISODES:
        if episode["planner_from"] != 0 or not episode["planner"]:
            continue
        state, steps, done = recorded_house(episode), 0, False
        while not done and steps < 20:
            _, state, _, done, info = f["step"](state, f["expert"](state))
            steps += 1
            assert bool(info["valid"])
        assert done and steps <= len(episode["planner"])
        compared += 1
    assert compared > 15


def test_tables_are_the_reference_s():
    theirs = json.loads((recorded.DATA / "alfworld_constants.json").read_text())
    assert set(classes.RECEPTACLES) < set(theirs["receptacles"])
    assert set(classes.OBJECTS) < set(theirs["objects"])
    for row, name in enumerate(classes.RECEPTACLES):
        held = {classes.OBJECTS[i] for i in np.flatnonzero(classes.HOLDS[row])}
        held -= {"DeskLamp", "FloorLamp"}
        expected = {o for o in theirs["recep_objects"].get(name, []) if not o.endswith("Sliced")}
        assert held == expected
    for key, table in {
        "Heatable": classes.HEATABLE,
        "Coolable": classes.COOLABLE,
        "Cleanable": classes.CLEANABLE,
        "Toggleable": classes.TOGGLEABLE,
        "Sliceable": classes.SLICEABLE,
    }.items():
        able = {classes.OBJECTS[i] for i in np.flatnonzero(table)}
        assert able == {o for o in theirs["action_objects"][key] if not o.endswith("Sliced")}
    for names in (classes.RECEPTACLES, classes.OBJECTS):
        assert list(names) == sorted(names, key=str.lower)
    short = [classes.SHORT.get(n, n.lower()) for n in (*classes.RECEPTACLES, *classes.OBJECTS)]
    assert len(set(short)) == len(short) and max(map(len, short)) <= 8


KITCHEN = ["Cabinet", "CounterTop", "Fridge", "Microwave", "SideTable", "SinkBasin"]
KITCHEN_THINGS = ["Apple", "Apple", "Bowl", "DeskLamp", "Egg", "Knife"]
# Apples in the fridge and on the counter, the bowl in the cabinet, the rest on the counter but for
# the lamp.
KITCHEN_WHERE = [2, 1, 0, 4, 1, 1]

# Beyond the recorded episodes, from the grammar: cleaning, cooling, lamps, slices, vessels.
DIALOGUE = [
    ("look", "You are in the middle of a room. Looking quickly around you, you see nothing."),
    ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
    ("take apple 2 from fridge 1", "Nothing happens."),
    ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a apple 2."),
    ("take apple 2 from fridge 1", "You pick up the apple 2 from the fridge 1."),
    ("examine fridge 1", "The fridge 1 is open. In it, you see nothing."),
    ("cool apple 2 with fridge 1", "You cool the apple 2 using the fridge 1."),
    ("examine apple 2", "This is a cold apple 2."),
    ("close fridge 1", "You close the fridge 1."),
    ("move apple 2 to fridge 1", "Nothing happens."),
    ("cool apple 2 with fridge 1", "You cool the apple 2 using the fridge 1."),
    ("go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing."),
    ("clean apple 2 with sinkbasin 1", "You clean the apple 2 using the sinkbasin 1."),
    ("examine apple 2", "This is a cool and clean apple 2."),
    ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
    ("heat apple 2 with microwave 1", "You heat the apple 2 using the microwave 1."),
    ("examine apple 2", "This is a hot and clean apple 2."),
    ("inventory", "You are carrying: a apple 2."),
    ("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1."),
    ("take desklamp 1 from sidetable 1", "Nothing happens."),
    ("use desklamp 1", "You turn on the desklamp 1."),
    ("use desklamp 1", "You turn on the desklamp 1."),
    ("move apple 2 to sidetable 1", "You move the apple 2 to the sidetable 1."),
    ("inventory", "You are not carrying anything."),
    ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a apple 1, a "
     "egg 1, and a knife 1."),
    ("slice apple 1 with knife 1", "Nothing happens."),
    ("take knife 1 from countertop 1", "You pick up the knife 1 from the countertop 1."),
    ("slice apple 1 with knife 1", "You sliced the apple 1 with the knife 1."),
    ("look", "You are facing the countertop 1. Next to it, you see nothing."),
    ("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a apple 2, and a "
     "desklamp 1."),
    ("slice apple 2 with knife 1", "You sliced the apple 2 with the knife 1."),
    ("move knife 1 to sidetable 1", "You move the knife 1 to the sidetable 1."),
    ("take apple 2 from sidetable 1", "You pick up the apple 2 from the sidetable 1."),
    ("examine apple 2", "This is a hot and clean sliced apple 2."),
    ("move apple 2 to sidetable 1", "You move the apple 2 to the sidetable 1."),
    ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
    ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see a bowl 1."),
    ("take bowl 1 from cabinet 1", "You pick up the bowl 1 from the cabinet 1."),
    ("examine bowl 1", "This is a normal bowl 1. In it, you see nothing."),
    ("move bowl 1 to cabinet 1", "You move the bowl 1 to the cabinet 1."),
]  # fmt: skip


def test_dialogue_of_the_grammar():
    env, _, f = functions(
        receptacles=STANDS, objects=THINGS, wording="faithful", max_steps_in_episode=1000
    )
    state = house_of(KITCHEN, KITCHEN_THINGS, KITCHEN_WHERE, ("put", "Egg", "Microwave", 1))
    assert f["tell"](state).endswith("\n\nYour task is to: put some egg on microwave.")
    for command, answer in DIALOGUE:
        action = f["read"](command, state)
        assert action >= 0 or answer == "Nothing happens."
        _, state, reward, terminated, _ = f["step"](state, action)
        assert f["tell"](state) == answer
        assert float(reward) == 0 and not bool(terminated)


@pytest.mark.parametrize(
    "goal, commands",
    [
        # Cold, then hot undoes it, so that it has to be cooled again.
        (
            ("cool", "Apple", "CounterTop", 0),
            "go fridge 1, open, take apple 2, cool, go micro 1, heat, go top 1, put*, "
            "take apple 2, go fridge 1, cool, go top 1, put!",
        ),
        (
            ("clean", "Bowl", "Cabinet", 1),
            "go cab 1, open, take bowl 1, go sink 1, clean, go cab 1, put!",
        ),
        # The lamp may be used first, but thing and agent have to come to it.
        (
            ("look", "Egg", "DeskLamp", 0),
            "go side 1, use lamp 1, go top 1, take egg 1, go side 1!",
        ),
        (("look", "Egg", "DeskLamp", 1), "go top 1, take egg 1, go side 1, use lamp 1!"),
        (
            ("two", "Apple", "SideTable", 0),
            "go top 1, take apple 1, go side 1, put*, go fridge 1, open, take apple 2, "
            "go side 1, put!",
        ),
    ],
)  # fmt: skip
def test_goals(goal, commands):
    env, _, f = functions(receptacles=STANDS, objects=THINGS, max_steps_in_episode=1000)
    state = house_of(KITCHEN, KITCHEN_THINGS, KITCHEN_WHERE, goal)
    commands = commands.split(", ")
    for command in commands:
        action = f["read"](command.strip("!*"), state)
        _, state, reward, terminated, info = f["step"](state, action)
        assert bool(info["valid"]), command
        won = command.endswith("!")
        assert (float(reward), bool(terminated), bool(info["success"])) == (float(won), won, won)
    assert commands[-1].endswith("!")


def test_compact_wording_of_a_scripted_episode():
    env, _, f = functions(receptacles=STANDS, objects=THINGS, max_steps_in_episode=1000)
    stands = ["Cabinet", "Cabinet", "CounterTop", "SinkBasin"]
    state = house_of(stands, ["Cup", "Egg"], [0, 2], ("clean", "Cup", "CounterTop", 0))
    refused = ""
    # Command, what changes in the answer, and the marks of three receptacles.
    expected = [
        (None, "\nat", "???"),
        ("go cab 2", "\nat cab 2 shut", "???"),
        ("put", "\nat cab 2 shut", "???"),
        ("open", "\nat cab 2 open cup 1", "!??"),
        ("take cup 1", "\nat cab 2 open\nhand cup 1", " ??"),
        ("check", "\nat cab 2 open\nhand cup 1", " ??"),
        ("go sink 1", "\nat sink 1\nhand cup 1", " ? "),
        ("clean", "\nat sink 1\nhand cup 1 (clean)", " ? "),
        ("go top 1", "\nat top 1 egg 1\nhand cup 1 (clean)", "   "),
        ("put", "\nat top 1 cup 1 egg 1", " ! "),
    ]
    for command, middle, marks in expected:
        if command is not None:
            _, state, _, _, info = f["step"](state, f["read"](command, state))
            refused = "" if info["valid"] else "no\n"
        cabinet, counter, sink = (mark.strip() for mark in marks)
        places = f"\ngo cab 2{cabinet} 1? top 1{counter} sink 1{sink}"
        assert f["tell"](state) == refused + "clean cup > top" + middle + places
        assert refused == ("no\n" if middle == "\nat cab 2 shut" and command == "put" else "")


@functools.cache
def play(policy, count, steps, **options):
    """Expert or random play without reset, [count, steps] each, as of before the step.

    Returns (states, texts in both wordings, rewards, valid or over, over).
    """
    env, params, _ = functions(**options)
    wordings = [dataclasses.replace(env, wording=wording) for wording in ("compact", "faithful")]

    policy = {"expert": playing.expert, "random": playing.at_random}[policy]
    history = playing.episodes(env, params, count, steps, functools.partial(policy, env, params))

    def describe(state):
        return [wording.describe(state, params) for wording in wordings]

    texts = jax.tree.map(np.asarray, jax.jit(jax.vmap(jax.vmap(describe)))(history.state))
    valid = history.info["valid"] | history.over
    return history.state, texts, history.reward, valid, history.over


def at(states, episode, turn):
    """One state of many."""
    return jax.tree.map(lambda x: jnp.asarray(x[episode, turn]), states)


def assert_within_bounds(env, texts):
    for wording, text in zip(("compact", "faithful"), texts, strict=True):
        view = dataclasses.replace(env, wording=wording).view
        assert text.length.max() <= view.max_fragments
        sizes = np.array([len(word.encode()) for word in view.lexicon])
        assert sizes[text.fragments].sum(-1).max() <= view.max_bytes


RANDOM = {"expert_sees_all": False, "max_steps_in_episode": 64}
PAPER = {"receptacles": 24, "objects": 32, "max_steps_in_episode": 50}


@pytest.mark.parametrize(
    "options, mean",
    [({}, 6.06), ({**PAPER, "expert_sees_all": False, "split": "unseen"}, 12.84)],
    ids=["planner", "explorer"],
)
def test_expert_solves_every_task(options, mean):
    limit = options.get("max_steps_in_episode", 20)
    _, text, reward, valid, ended = play("expert", 256, limit, **options)
    assert np.all(reward.sum(1) == 1) and np.all(valid)
    np.testing.assert_allclose((~ended).sum(1).mean(), mean, rtol=0.12)
    assert_within_bounds(functions(**options)[0], text)


def test_invariants_of_random_play():
    env, params, _ = functions(**RANDOM)
    states, texts, _, valid, _ = play("random", 64, 64, **RANDOM)
    assert np.all(valid)
    assert_within_bounds(env, texts)
    house = states.house
    where, hand = house.where, house.hand
    # Every thing is in hand or somewhere, and where it may be.
    held = np.arange(env.objects) == hand[..., None]
    assert np.all((where < 0) == held)
    fits = house.home.fits
    portable = house.home.portable[..., None] >> np.arange(env.objects) & 1
    assert np.all((where < 0) | (fits >> np.maximum(where, 0) & 1).astype(bool))
    assert np.all(~held | portable.astype(bool))
    assert np.all(house.opened & ~house.home.openable == 0)
    assert np.all(house.hot & house.cool == 0)
    # The quick test of one action says the same as the list of all.
    flat = jax.tree.map(lambda x: x[:, ::16].reshape(-1, *x.shape[2:]), states)
    actions = jnp.arange(-2, env.num_actions + 2)

    @jax.jit
    @jax.vmap
    def both(state):
        one = jax.vmap(lambda action: env.is_legal(state, action, params))(actions)
        return one, jnp.pad(env.legal(state, params), 2)

    np.testing.assert_array_equal(*both(flat))


def test_action_numbers():
    env, _, _ = functions()
    names = list(env.action_names)
    assert len(names) == env.num_actions == 7 + 3 * 7 + 10
    for action, name in enumerate(names):
        verb, slot = rules.split(jnp.int32(action), 7, 7)
        assert int(rules.join(verb, slot, 7, 7)) == action
        words = rules.VERBS[int(verb)]
        assert name == (f"{words} {int(slot)}" if int(verb) < rules.OPEN else words)


@functools.cache
def expander(env):
    """All that the actions lead to, states and anchors."""

    @jax.jit
    def expand(states, params):
        def one(state):
            def try_(action):
                _, following, *_ = env.step_env(jax.random.key(0), state, action, params)
                return following, env.fingerprint(following, params, of="state")[0]

            # Verbs that change something.
            return jax.vmap(try_)(jnp.arange(env.num_actions - 4))

        return jax.vmap(one)(states)

    return expand


def shortest(state, size, limit=12):
    """Length of a shortest solution, by breadth-first search over anchors."""
    env, params, f = functions(receptacles=size[0], objects=size[1], max_steps_in_episode=1000)
    expand = expander(env)
    chunk = 128
    frontier = jax.tree.map(lambda x: np.asarray(x)[None], state)
    seen = {np.asarray(f["anchor"](state)).tobytes()}
    for depth in range(1, limit):
        layers = []
        for start in range(0, frontier.time.shape[0], chunk):
            part = jax.tree.map(lambda x: x[start : start + chunk], frontier)  # noqa: B023
            count = part.time.shape[0]
            part = jax.tree.map(lambda x: np.resize(x, (chunk, *x.shape[1:])), part)  # noqa: B023
            following, anchors = jax.tree.map(np.asarray, expand(part, params))
            if following.house.won[:count].any():
                return depth
            keep = []
            for i, row in enumerate(anchors[:count].reshape(-1, 2)):
                if row.tobytes() not in seen:
                    seen.add(row.tobytes())
                    keep.append(i)
            layers.append(
                jax.tree.map(lambda x: x[:count].reshape(-1, *x.shape[2:])[keep], following)  # noqa: B023
            )
        frontier = jax.tree.map(lambda *x: np.concatenate(x), *layers)
    raise AssertionError("no solution")


SMALL = (["Cabinet", "Fridge", "Microwave", "SinkBasin"], ["Bread", "Mug", "Mug"])


@pytest.mark.parametrize(
    "goal, where",
    [
        (("put", "Mug", "Cabinet", 0), [1, 2, 3]),
        (("heat", "Mug", "Microwave", 0), [1, 1, 3]),
        (("heat", "Mug", "Cabinet", 0), [1, 2, 3]),
        (("clean", "Mug", "Fridge", 0), [1, 0, 2]),
        (("cool", "Bread", "Microwave", 0), [1, 0, 0]),
        (("cool", "Bread", "Fridge", 0), [2, 0, 0]),
        (("two", "Mug", "SinkBasin", 0), [1, 0, 1]),
        (("two", "Mug", "Cabinet", 0), [1, 1, 1]),
    ],
    ids=str,
)
def test_planner_takes_a_shortest_way(goal, where):
    size = (4, 3)
    _, _, f = functions(receptacles=4, objects=3, max_steps_in_episode=1000)
    state = house_of(*SMALL, where, goal, size=size)
    best = shortest(state, size)
    done, steps = False, 0
    while not done and steps < 13:
        _, state, _, done, _ = f["step"](state, f["expert"](state))
        steps += 1
    assert done and steps == best


def test_planner_puts_down_the_wrong_thing():
    _, _, f = functions(receptacles=4, objects=3, max_steps_in_episode=1000)
    state = house_of(*SMALL, [3, 1, 1], ("put", "Mug", "Cabinet", 0), size=(4, 3))
    # The bread is taken out of the sink, which never takes bread back.
    for verb, slot in [(rules.GO, 3), (rules.TAKE, 0)]:
        action = rules.join(jnp.int32(verb), jnp.int32(slot), 4, 3)
        _, state, _, _, info = f["step"](state, action)
        assert bool(info["valid"])
    for _ in range(12):
        _, state, _, done, info = f["step"](state, f["expert"](state))
        assert bool(info["valid"])
        if done:
            return
    pytest.fail("not solved")


def shuffled(state, seed):
    """The same to an agent: things in places that it has not seen change places."""
    where, seen = np.asarray(state.house.where), int(state.house.seen)
    hidden = [i for i, w in enumerate(where) if w >= 0 and not seen >> w & 1]
    unseen = [
        r
        for r, kind in enumerate(np.asarray(state.house.home.receptacle_class))
        if kind != rules.NONE and not seen >> r & 1
    ]
    moved = where.copy()
    moved[hidden] = np.random.default_rng(seed).choice(unseen, len(hidden)) if hidden else moved[[]]
    return state.replace(house=state.house.replace(where=jnp.asarray(moved)))


def test_what_was_not_seen_is_not_told():
    env, params, _ = functions(**RANDOM)
    states, *_ = play("random", 64, 64, **RANDOM)

    @jax.jit
    def told(state):
        plan = env.expert(state, params), env.subgoal(state, params)
        return env.observe(state, params), env.describe(state, params), plan

    altered = 0
    for episode in range(32):
        state = at(states, episode, 2 * episode % 24)
        other = shuffled(state, episode)
        altered += bool(np.any(other.house.where != state.house.where))
        chex.assert_trees_all_equal(told(state), told(other))
    assert altered > 16


def test_anchors_leave_out_what_was_told_and_seen():
    _, _, f = functions(receptacles=4, objects=3, max_steps_in_episode=1000)
    state = house_of(*SMALL, [3, 1, 1], ("put", "Mug", "Cabinet", 0), size=(4, 3))

    def walk(state, *actions):
        for verb, slot in actions:
            action = rules.join(jnp.int32(verb), jnp.int32(slot), 4, 3)
            _, state, _, _, info = f["step"](state, action)
            assert bool(info["valid"])
        return np.asarray(f["anchor"](state)).tolist()

    straight = walk(state, (rules.GO, 0))
    assert straight == walk(state, (rules.GO, 3), (rules.GO, 0), (rules.INVENTORY, 0))
    assert straight == walk(state, (rules.GO, 0), (rules.OPEN, 0), (rules.CLOSE, 0))
    assert straight != walk(state, (rules.GO, 0), (rules.OPEN, 0))
    assert straight != walk(state, (rules.GO, 3), (rules.TAKE, 0), (rules.GO, 0))


def tasks(count=512, seed=0, **options):
    env, params, _ = functions(**options)
    return playing.starts(env, params, count, seed).house


@pytest.mark.parametrize(
    "options",
    [{}, {"receptacles": 24, "objects": 32, "distractors": 2, "split": "unseen"}],
    ids=["default", "paper"],
)
def test_generated_tasks(options):
    house = tasks(**options)
    home = house.home
    assert not house.won.any()
    kinds, things = home.receptacle_class.astype(int), home.object_class.astype(int)
    assert np.all(np.diff(kinds, axis=1) >= 0) and np.all(np.diff(things, axis=1) >= 0)
    assert np.all(things < len(classes.OBJECTS)) and np.all(house.where >= 0)
    distractors = options.get("distractors", 0)
    for row in range(len(kinds)):
        stands = kinds[row][house.where[row]]
        assert classes.HOLDS[stands, things[row]].all()
        task = rules.TASKS[home.task[row]]
        wanted = things[row] == home.goal_object[row]
        assert wanted.sum() == (2 if task == "two" else 1) + distractors
        if task == "look":
            assert (things[row] == home.goal_place[row]).sum() == 1
        else:
            assert home.goal_place[row] in kinds[row]
            assert not np.any(wanted & (stands == home.goal_place[row]))
        appliance = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}.get(task)
        assert appliance is None or classes.receptacle(appliance) in kinds[row]
        shut = np.array([k < 30 and classes.OPENABLE[k] for k in kinds[row]])
        assert int(home.openable[row]) == sum(1 << int(i) for i in np.flatnonzero(shut))
    # Tasks are uniform: 512 draws of six.
    counts = np.bincount(home.task, minlength=6)
    assert np.all(np.abs(counts - 512 / 6) < 5 * np.sqrt(512 / 6))


def test_splits_share_neither_goals_nor_layouts():
    goals = {split: generation.goals(rules.TASKS, split) for split in generation.SPLITS}
    assert np.all(goals["seen"].layouts < 1 << generation.HELD_OUT)
    assert np.all(goals["unseen"].layouts % (1 << generation.HELD_OUT) == 0)
    named = {}
    for split, table in goals.items():
        task = np.repeat(np.arange(6), table.count)
        named[split] = set(zip(task, table.thing.tolist(), table.place.tolist(), strict=True))
        assert np.all(table.count > 0) and len(task) == len(table.room)
    assert not named["seen"] & named["unseen"]
    share = len(named["unseen"]) / (len(named["seen"]) + len(named["unseen"]))
    assert 0.1 < share < 0.3


def test_layouts_follow_the_statistics():
    layouts = generation.layouts().reshape(len(generation.ROOMS), generation.LAYOUTS, -1)
    cabinet, drawer = classes.receptacle("Cabinet"), classes.receptacle("Drawer")
    means = (layouts == cabinet).sum(2).mean(1), (layouts == drawer).sum(2).mean(1)
    np.testing.assert_allclose(means[0], [11.4, 0.5, 0.5, 2.1], atol=1.2)
    np.testing.assert_allclose(means[1], [4.8, 3.8, 5.3, 1.9], atol=1.2)
    fridges = (layouts == classes.receptacle("Fridge")).sum(2)
    assert np.all(fridges[0] == 1) and np.all(fridges[1:] == 0)


def test_knobs():
    house = tasks(tasks=("look", "heat"), openables=0.0)
    assert set(house.home.task.tolist()) == {rules.LOOK, rules.HEAT}
    assert not house.home.openable.any()


def test_subgoals_of_an_episode():
    env, _, f = functions(receptacles=STANDS, objects=THINGS, max_steps_in_episode=1000)
    state = house_of(
        ["CounterTop", "Fridge", "Microwave", "SinkBasin"],
        ["Egg", "Mug"],
        [0, 1],
        ("heat", "Mug", "SinkBasin", 0),
    )
    served = []
    for command in ["go top 1", "go fridge 1", "open", "take mug 1", "go micro 1", "heat",
                    "go sink 1", "put"]:  # fmt: skip
        served.append(experts.SUBGOALS[int(f["subgoal"](state))])
        _, state, *_ = f["step"](state, f["read"](command, state))
    assert served == [*["find"] * 3, "take", *["transform"] * 2, *["place"] * 2]
    assert bool(state.house.won)


def test_observations_have_the_size_they_say():
    for options in ({}, {"show_seen": False}, PAPER):
        env, params, _ = functions(**options)
        state = jax.eval_shape(lambda: env.reset_env(jax.random.key(0), params))  # noqa: B023
        chex.assert_shape(state[0], env.observation_shape)


def test_no_memory_without_marks():
    env, params, f = functions(receptacles=4, objects=3, show_seen=False)
    state = house_of(*SMALL, [3, 1, 1], ("put", "Mug", "Cabinet", 0), size=(4, 3))
    seen = state.replace(house=state.house.replace(seen=state.house.home.receptacles))
    np.testing.assert_array_equal(f["observe"](state), f["observe"](seen))
    told = "put mug > cab\nat\ngo cab 1 fridge 1 micro 1 sink 1"
    assert f["tell"](state) == f["tell"](seen) == told
