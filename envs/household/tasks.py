"""Tasks of the household: rooms with the statistics of ALFWorld's, and goals that they allow.

Each of four kinds of room has 30 layouts, made on the host from the frequency of each class of
receptacle in ALFWorld's 30 rooms of the kind and its mean number (read in its layout files);
classes are drawn independently. A goal is a task with a class of thing and of place (or lamp). Its
`needs` are sets of receptacle classes; the room must have one of each: the place, the appliance, a
receptacle that may contain the thing (other than its place), a receptacle for the lamp. A layout
with all of them makes the goal solvable, wherever things are put.
"""

import functools
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.household import classes, rules
from envs.household.rules import CLEAN, COOL, HEAT, LOOK, NONE, TASKS, TWO

LAYOUTS = 30
# Layouts from here on belong to the unseen split, as about one in fifteen of ALFRED's scenes; more
# here, for a more stable estimate.
HELD_OUT = 24
SPLITS = ("seen", "unseen")
NEEDS = 3

# Class, number of the 30 rooms in which it occurs, mean number per room.
_RECEPTACLES = {
    "kitchen": """
        Cabinet 30 11.4, CoffeeMachine 30 1, CounterTop 30 2.3, DiningTable 16 .7, Drawer 28 4.8,
        Fridge 30 1, GarbageCan 30 1, Microwave 30 1, Safe 1 .03, Shelf 5 .5, SideTable 3 .1,
        SinkBasin 30 1, StoveBurner 30 4, Toaster 30 1
    """,
    "living": """
        ArmChair 27 1.2, Cabinet 4 .5, CoffeeTable 25 1, Desk 1 .03, DiningTable 14 .6,
        Drawer 23 3.8, Dresser 10 .4, GarbageCan 30 1, Ottoman 4 .13, Safe 2 .07, Shelf 12 2.7,
        SideTable 24 1.5, Sofa 30 1.2, TVStand 12 .5
    """,
    "bedroom": """
        ArmChair 6 .3, Bed 30 1.1, Cabinet 5 .5, Desk 19 .7, DiningTable 5 .17, Drawer 29 5.3,
        Dresser 15 .6, GarbageCan 30 1, LaundryHamper 8 .27, Safe 5 .1, Shelf 20 2.6,
        SideTable 19 .8
    """,
    "bathroom": """
        BathtubBasin 20 .7, Cabinet 15 2.1, Cart 2 .07, CounterTop 25 .9, Drawer 15 1.9,
        GarbageCan 30 1, HandTowelHolder 30 1, Shelf 8 .4, SinkBasin 30 1.3, Toilet 30 1,
        ToiletPaperHanger 30 1, TowelHolder 30 1
    """,
}
# Number of the 30 rooms in which a class of things occurs.
_OBJECTS = {
    "kitchen": """
        Apple 30, Bowl 30, Bread 30, ButterKnife 29, Cup 30, DishSponge 30, Egg 30, Fork 30,
        Knife 30, Lettuce 30, Mug 30, Pan 30, PepperShaker 30, Plate 30, Pot 30, Potato 30,
        SaltShaker 30, SoapBottle 30, Spatula 30, Spoon 30, Tomato 30, Kettle 15, WineBottle 10,
        Ladle 10, Glassbottle 7, Statue 4, Vase 4, CellPhone 4, CreditCard 3, Book 2, Pen 2,
        Pencil 2, SprayBottle 2
    """,
    "living": """
        Box 30, CreditCard 30, FloorLamp 30, KeyChain 30, Laptop 30, Pillow 30, RemoteControl 30,
        Statue 29, Newspaper 18, Vase 18, Watch 16, WateringCan 13, Plate 10, TissueBox 9, Book 7,
        CellPhone 7, DeskLamp 7, Pen 5, Bowl 4, Pencil 4, Candle 3
    """,
    "bedroom": """
        AlarmClock 30, Book 30, CD 30, CellPhone 30, CreditCard 30, KeyChain 30, Laptop 30, Pen 30,
        Pencil 30, Pillow 30, DeskLamp 20, Mug 16, Bowl 13, BaseballBat 13, Box 12, BasketBall 11,
        TennisRacket 10, Cloth 5, Statue 4, TissueBox 4, RemoteControl 3, Vase 3, Watch 2
    """,
    "bathroom": """
        Candle 30, Cloth 30, HandTowel 30, Plunger 30, SoapBar 30, SoapBottle 30, SprayBottle 30,
        ToiletPaper 30, Towel 30, TissueBox 9, DishSponge 6
    """,
}
ROOMS = tuple(_RECEPTACLES)


def _unit(*words: object) -> float:
    """A number in [0, 1) that depends on the words only, the same in every process."""
    return zlib.crc32(" ".join(map(str, words)).encode()) / 2**32


def _entries(lines: str) -> list[list[str]]:
    return [entry.split() for entry in lines.split(",")]


@functools.cache
def layouts() -> np.ndarray:
    """Receptacles of every room, u8[rooms * LAYOUTS, n]: classes in order, NONE last."""
    rows = []
    for room in ROOMS:
        for layout in range(LAYOUTS):
            row = []
            for name, present, mean in _entries(_RECEPTACLES[room]):
                if _unit(room, layout, name) < int(present) / 30:
                    mean_there = float(mean) * 30 / int(present)
                    spread = 0.5 + _unit(room, layout, name, "number")
                    row += [classes.receptacle(name)] * max(1, round(mean_there * spread))
            rows.append(sorted(row))
    width = max(map(len, rows))
    return np.array([row + [NONE] * (width - len(row)) for row in rows], np.uint8)


@functools.cache
def weights() -> np.ndarray:
    """Frequency of a class of things in a room, f32[rooms, object classes] in [0, 1]."""
    table = np.zeros((len(ROOMS), len(classes.OBJECTS)), np.float32)
    for room, lines in enumerate(_OBJECTS.values()):
        for name, present in _entries(lines):
            table[room, classes.thing(name)] = int(present) / 30
    return table


class Goals(NamedTuple):
    """Goals by task: those of task t are rows first[t] to first[t] + count[t] - 1.

    first, count: i32[tasks]. room, thing, place: u8[n], indices of ROOMS, OBJECTS and RECEPTACLES
    (of OBJECTS for a lamp). needs: u32[n, NEEDS], sets of receptacle classes, 0 for none. layouts:
    u32[n], the set of the room's layouts that have them and belong to the split.
    """

    first: np.ndarray
    count: np.ndarray
    room: np.ndarray
    thing: np.ndarray
    place: np.ndarray
    needs: np.ndarray
    layouts: np.ndarray


def held_out(task: int, thing: int, place: int) -> bool:
    """Whether a goal belongs to the unseen split: one in five, by a hash of its names."""
    name = classes.OBJECTS[place] if task == LOOK else classes.RECEPTACLES[place]
    return _unit(TASKS[task], classes.OBJECTS[thing], name) < 0.2


def _set(members: np.ndarray) -> int:
    return sum(1 << int(i) for i in np.flatnonzero(members))


def _candidates(task: int) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """(room, thing, place, needs) of all goals of a task that the classes of its rooms allow."""
    able = {
        CLEAN: (classes.CLEANABLE, "SinkBasin"),
        HEAT: (classes.HEATABLE, "Microwave"),
        COOL: (classes.COOLABLE, "Fridge"),
    }
    found = []
    for room in range(len(ROOMS)):
        common = weights()[room] > 0
        stands = np.unique(layouts()[room * LAYOUTS : (room + 1) * LAYOUTS])
        stands = np.isin(np.arange(len(classes.RECEPTACLES)), stands)
        for thing in np.flatnonzero(common & classes.PORTABLE):
            holders = classes.HOLDS[:, thing] & stands
            if task == LOOK:
                for lamp in np.flatnonzero(common & classes.TOGGLEABLE):
                    lit = classes.HOLDS[:, lamp] & stands
                    found.append((room, thing, lamp, (_set(holders), _set(lit), 0)))
                continue
            appliance = 0
            if task in able:
                if not able[task][0][thing]:
                    continue
                appliance = 1 << classes.receptacle(able[task][1])
            for place in np.flatnonzero(holders):
                elsewhere = _set(holders) & ~(1 << int(place))
                needs = (1 << int(place), elsewhere, appliance)
                if elsewhere:
                    found.append((room, thing, place, needs))
    return found


@functools.cache
def goals(tasks: tuple[str, ...], split: str) -> Goals:
    """The goals of a split for the given tasks, in the given order."""
    share = range(HELD_OUT) if split == "seen" else range(HELD_OUT, LAYOUTS)
    rows: list[tuple] = []
    first, count = [], []
    for task in map(TASKS.index, tasks):
        first.append(len(rows))
        for room, thing, place, needs in _candidates(task):
            if held_out(task, thing, place) != (split == "unseen"):
                continue
            suited = 0
            for layout in share:
                there = _set(np.isin(np.arange(32), layouts()[room * LAYOUTS + layout]))
                if all(need & there for need in needs if need):
                    suited |= 1 << layout
            if suited:
                rows.append((room, thing, place, needs, suited))
        count.append(len(rows) - first[-1])
    room, thing, place, needs, suited = zip(*rows, strict=True)
    return Goals(
        np.array(first, np.int32),
        np.array(count, np.int32),
        np.array(room, np.uint8),
        np.array(thing, np.uint8),
        np.array(place, np.uint8),
        np.array(needs, np.uint32),
        np.array(suited, np.uint32),
    )


def _furniture(key: jax.Array, row: jax.Array, needs: jax.Array, count: int) -> jax.Array:
    """At most `count` of a layout's receptacles, including one of each need, u8[count]."""
    keys = jax.random.split(key, NEEDS + 1)
    present = row != NONE
    rank = jnp.where(present, jax.random.uniform(keys[0], row.shape), -1.0)
    slots = np.arange(row.shape[0])
    for need in range(NEEDS):
        suits = present & rules.has(needs[need], row)
        pick = jnp.argmax(jnp.where(suits, jax.random.uniform(keys[1 + need], row.shape), -1.0))
        rank = jnp.where((slots == pick) & (needs[need] != 0), 2.0, rank)
    chosen = jnp.sort(jnp.argsort(-rank)[:count])
    return row[chosen]


def draw(
    key: jax.Array,
    table: Goals,
    tasks: tuple[str, ...],
    receptacles: int,
    objects: int,
    openables: jax.Array,
    distractors: jax.Array,
) -> rules.House:
    """Draws a house with a solvable task.

    Task uniform over `tasks`, goal uniform over the task's, layout uniform over the goal's. A
    larger layout is reduced at random, keeping what the goal needs. There are as many things of the
    goal's class as needed and `distractors` more, none of them in the goal's place; the others are
    drawn independently by their frequency in the room, and every thing is in a uniform receptacle
    of those that may contain it.
    """
    keys = jax.random.split(key, 8)
    which = jax.random.randint(keys[0], (), 0, len(tasks))
    task = jnp.asarray([TASKS.index(name) for name in tasks])[which]
    row = jnp.asarray(table.first)[which] + jax.random.randint(
        keys[1], (), 0, jnp.asarray(table.count)[which]
    )
    room = jnp.asarray(table.room)[row].astype(jnp.int32)
    goal, place = jnp.asarray(table.thing)[row], jnp.asarray(table.place)[row]
    suited = rules.unpack(jnp.asarray(table.layouts)[row], LAYOUTS)
    layout = jnp.argmax(jnp.where(suited, jax.random.uniform(keys[2], (LAYOUTS,)), -1.0))
    stand = _furniture(
        keys[3],
        jnp.asarray(layouts())[room * LAYOUTS + layout],
        jnp.asarray(table.needs)[row],
        receptacles,
    )
    stand = jnp.pad(stand, (0, receptacles - stand.shape[0]), constant_values=NONE)

    # bool[R, object classes]: which things may be where; absent receptacles contain none.
    holds = jnp.asarray(np.pad(classes.HOLDS, ((0, 1), (0, 0))))[
        jnp.minimum(stand, len(classes.RECEPTACLES))
    ]
    common = jnp.asarray(weights())[room] * jnp.any(holds, axis=0)
    looks = task == LOOK
    kinds = np.arange(len(classes.OBJECTS))
    common = jnp.where((kinds == goal) | (looks & (kinds == place)), 0.0, common)
    # A room that can contain no other things gets more of the goal's class.
    common = jnp.where(jnp.any(common > 0), common, kinds == goal)
    thing = jax.random.categorical(keys[4], jnp.log(common), shape=(objects,))
    wanted = jnp.where(task == TWO, 2, 1) + distractors
    slots = np.arange(objects)
    thing = jnp.where(slots < jnp.minimum(wanted, objects - 1), goal, thing)
    thing = jnp.where(looks & (slots == objects - 1), place, thing).astype(jnp.uint8)
    thing = jnp.sort(thing)

    allowed = holds[:, thing].T
    in_place = (stand == place) & ~looks
    allowed = allowed & ~((thing == goal)[:, None] & in_place[None, :])
    lot = jax.random.uniform(keys[5], allowed.shape)
    where = jnp.argmax(jnp.where(allowed, lot, -1.0), axis=1)

    doors = jax.random.uniform(keys[6], (receptacles,)) < openables
    openable = jnp.asarray(classes.OPENABLE)[jnp.minimum(stand, len(classes.OPENABLE) - 1)]
    phrase = jax.random.randint(keys[7], (), 0, 2)
    return rules.furnish(stand, openable & doors, thing, where, (task, goal, place, phrase))
