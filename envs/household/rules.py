"""Rules of the household, as pure functions on one house.

A house has R receptacles and M things in slots, R and M at most 32. Both are sorted by the name of
their class, and within a class by descending number, which is the order of all lists in the text;
empty slots come last. Sets of receptacles or things are words u32[], bit i for slot i, so most of a
step is arithmetic on scalars. A shift by a slot of -1 (nowhere, none) gives 0 in XLA, so -1 is in
no set.

Read in code: ALFWorld's `alfred.pddl` and `alfred.twl2`; replayed against them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.household import classes

# Class of an empty slot.
NONE = 255
ALL = np.uint32(0xFFFFFFFF)
TASKS = ("put", "look", "clean", "heat", "cool", "two")
PUT, LOOK, CLEAN, HEAT, COOL, TWO = range(6)
# Verbs of the actions. The first takes a receptacle, the next three a thing; the others refer to
# the agent's place and the held thing.
VERBS = (
    *("go", "take", "use", "slice", "open", "close", "move", "heat", "cool", "clean"),
    *("examine here", "examine held", "inventory", "look"),
)
GO, TAKE, USE, SLICE, OPEN, CLOSE, MOVE, WARM, CHILL, WASH = range(10)
EXAMINE_HERE, EXAMINE_HELD, INVENTORY, LOOK_AROUND = range(10, 14)
# The last message: 0 at the start, 1 + verb after a legal action, and this after illegal ones.
WELCOME = 0
REJECTED = 1 + len(VERBS)


@struct.dataclass
class Home:
    """The constant part of a house during an episode.

    receptacle_class u8[R], object_class u8[M]: NONE for an empty slot. receptacle_number u8[R],
    object_number u8[M]: from 1, within the class. fits u32[M]: receptacles that may contain a
    thing. Sets of receptacles u32[]: receptacles, openable, microwaves, fridges, sinks. Sets of
    things u32[]: portable, heatable, coolable, cleanable, toggleable, sliceable, sharp, vessels.
    The goal: task, goal_object, goal_place u8[] (indices of TASKS and of classes; for LOOK the
    place is the class of the lamp), phrase u8[] (which of two sentences states it), and as sets
    wanted (things of the class), places (receptacles of the class), lamps (things of the class).
    """

    receptacle_class: jax.Array
    receptacle_number: jax.Array
    object_class: jax.Array
    object_number: jax.Array
    fits: jax.Array
    receptacles: jax.Array
    openable: jax.Array
    microwaves: jax.Array
    fridges: jax.Array
    sinks: jax.Array
    portable: jax.Array
    heatable: jax.Array
    coolable: jax.Array
    cleanable: jax.Array
    toggleable: jax.Array
    sliceable: jax.Array
    sharp: jax.Array
    vessels: jax.Array
    task: jax.Array
    goal_object: jax.Array
    goal_place: jax.Array
    phrase: jax.Array
    wanted: jax.Array
    places: jax.Array
    lamps: jax.Array


@struct.dataclass
class House:
    """State of a house.

    where i8[M]: receptacle of each thing, -1 in hand or for an empty slot. location i8[]:
    receptacle that the agent is at, -1 in the middle of the room. hand i8[]: thing held or -1.
    opened, seen u32[]: receptacles that are open, and whose inside has been seen. hot, cool, clean,
    toggled, sliced u32[]: things. told u8[]: the last message, about the thing `subject` i8[] or
    -1. won bool[]: the goal is reached.
    """

    home: Home
    where: jax.Array
    location: jax.Array
    hand: jax.Array
    opened: jax.Array
    seen: jax.Array
    hot: jax.Array
    cool: jax.Array
    clean: jax.Array
    toggled: jax.Array
    sliced: jax.Array
    told: jax.Array
    subject: jax.Array
    won: jax.Array


def has(word: jax.Array, slot: jax.Array) -> jax.Array:
    """Whether a slot is in a set, bool[...] of the slot's shape; never for -1."""
    return ((word >> slot.astype(jnp.uint32)) & 1).astype(bool)


def only(slot: jax.Array) -> jax.Array:
    """The set of one slot, u32[]; empty for -1."""
    return jnp.uint32(1) << slot.astype(jnp.uint32)


def pack(members: jax.Array) -> jax.Array:
    """The set of bool[n], n at most 32."""
    bits = np.uint32(1) << np.arange(members.shape[0], dtype=np.uint32)
    return jnp.sum(jnp.where(members, bits, 0), dtype=jnp.uint32)


def unpack(word: jax.Array, size: int) -> jax.Array:
    """The members of a set u32[] as bool[size], the inverse of `pack`."""
    return ((word >> np.arange(size, dtype=np.uint32)) & 1).astype(bool)


def union(members: jax.Array, sets: jax.Array) -> jax.Array:
    """Union of the sets u32[n] of the members bool[n]."""
    return jax.lax.reduce(
        jnp.where(members, sets, np.uint32(0)), np.uint32(0), jax.lax.bitwise_or, (0,)
    )


def numbers(kinds: jax.Array) -> jax.Array:
    """Number of each slot within its class, u8[n], descending to 1 at the last of the class."""
    same = (kinds[:, None] == kinds[None, :]) & np.triu(np.ones(2 * kinds.shape, bool))
    return jnp.sum(same, axis=1).astype(jnp.uint8)


def _members(kinds: jax.Array, table: np.ndarray) -> jax.Array:
    """The set of slots whose class is in the table bool[classes]."""
    inside = jnp.asarray(table)[jnp.minimum(kinds, len(table) - 1)]
    return pack(inside & (kinds != NONE))


def furnish(
    receptacle_class: jax.Array,
    openable: jax.Array,
    object_class: jax.Array,
    where: jax.Array,
    goal: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
) -> House:
    """A house at the start of an episode: everything closed, the agent in the middle of the room.

    receptacle_class u8[R] and object_class u8[M] in their order, NONE last; openable bool[R];
    where i8[M]; goal: task, class of thing, class of place or lamp, phrase.
    """
    receptacle_class = receptacle_class.astype(jnp.uint8)
    object_class = object_class.astype(jnp.uint8)
    task, goal_object, goal_place, phrase = (jnp.asarray(x).astype(jnp.uint8) for x in goal)
    present = receptacle_class != NONE
    holds = jnp.asarray(classes.HOLDS)[
        jnp.minimum(receptacle_class, len(classes.RECEPTACLES) - 1)[None, :],
        jnp.minimum(object_class, len(classes.OBJECTS) - 1)[:, None],
    ]
    looks = task == LOOK
    alike = object_class == goal_place
    home = Home(
        receptacle_class=receptacle_class,
        receptacle_number=numbers(receptacle_class),
        object_class=object_class,
        object_number=numbers(object_class),
        fits=jax.vmap(pack)(holds & present),
        receptacles=pack(present),
        openable=pack(openable & present),
        microwaves=pack(receptacle_class == classes.receptacle("Microwave")),
        fridges=pack(receptacle_class == classes.receptacle("Fridge")),
        sinks=pack(receptacle_class == classes.receptacle("SinkBasin")),
        portable=_members(object_class, classes.PORTABLE),
        heatable=_members(object_class, classes.HEATABLE),
        coolable=_members(object_class, classes.COOLABLE),
        cleanable=_members(object_class, classes.CLEANABLE),
        toggleable=_members(object_class, classes.TOGGLEABLE),
        sliceable=_members(object_class, classes.SLICEABLE),
        sharp=_members(object_class, classes.SHARP),
        vessels=_members(object_class, classes.VESSEL),
        task=task,
        goal_object=goal_object,
        goal_place=goal_place,
        phrase=phrase,
        wanted=pack(object_class == goal_object),
        places=jnp.where(looks, 0, pack(receptacle_class == goal_place)).astype(jnp.uint32),
        lamps=jnp.where(looks, pack(alike), 0).astype(jnp.uint32),
    )
    nothing, nowhere = jnp.zeros((), jnp.uint32), jnp.full((), -1, jnp.int8)
    house = House(
        home=home,
        where=where.astype(jnp.int8),
        location=nowhere,
        hand=nowhere,
        opened=nothing,
        seen=nothing,
        hot=nothing,
        cool=nothing,
        clean=nothing,
        toggled=nothing,
        sliced=nothing,
        told=jnp.full((), WELCOME, jnp.uint8),
        subject=nowhere,
        won=jnp.zeros((), bool),
    )
    placed = unpack(home.wanted, object_class.shape[0]) & has(home.places, house.where)
    pairs = jnp.any(
        jnp.triu(house.where[:, None] == house.where[None, :], 1) & placed & placed[:, None]
    )
    # At the start nothing is clean, hot, cool or in hand: only these two can be reached
    # already.
    return house.replace(won=jnp.where(task == TWO, pairs, (task == PUT) & jnp.any(placed)))


def split(action: jax.Array, receptacles: int, objects: int) -> tuple[jax.Array, jax.Array]:
    """(verb, slot) of an action; the slot is used for verbs up to SLICE."""
    after = action - receptacles
    goes, ranged = after < 0, after < 3 * objects
    verb = jnp.where(ranged, TAKE + after // objects, OPEN + after - 3 * objects)
    return jnp.where(goes, GO, verb), jnp.where(goes, action, after % objects)


def join(verb: jax.Array, slot: jax.Array, receptacles: int, objects: int) -> jax.Array:
    """The action of (verb, slot), the inverse of `split`."""
    ranged = receptacles + (verb - TAKE) * objects + slot
    single = receptacles + 3 * objects + verb - OPEN
    return jnp.where(verb == GO, slot, jnp.where(verb < OPEN, ranged, single)).astype(jnp.int32)


def things_here(house: House) -> jax.Array:
    """The set of things at the agent's place, seen or not."""
    return pack((house.where == house.location) & (house.where >= 0))


def accessible(house: House) -> jax.Array:
    """The set of receptacles that are open or have no door."""
    return house.home.receptacles & (~house.home.openable | house.opened)


def things_in_view(house: House) -> jax.Array:
    """The set of things at the agent's place that it can see."""
    return jnp.where(has(accessible(house), house.location), things_here(house), 0)


def admissible(house: House) -> tuple[jax.Array, ...]:
    """Sets of admissible arguments for the verbs GO to SLICE, then the set of the other verbs.

    Heating, cooling and washing need the appliance but not its door, and may be repeated; slicing
    reaches into a closed receptacle; only the held thing can be examined. The recorded episodes
    show this (the last point against the domain, which would allow things in view).
    """
    home, here, hand = house.home, house.location, house.hand
    lying = things_here(house)
    open_here = has(accessible(house), here)
    view = jnp.where(open_here, lying, 0)
    empty = hand < 0
    fits = jnp.sum(jnp.where(np.arange(home.fits.shape[0]) == hand, home.fits, 0), dtype=jnp.uint32)
    singles = {
        OPEN: has(home.openable & ~house.opened, here),
        CLOSE: has(home.openable & house.opened, here),
        MOVE: open_here & has(fits, here),
        WARM: has(home.microwaves, here) & has(home.heatable, hand),
        CHILL: has(home.fridges, here) & has(home.coolable, hand),
        WASH: has(home.sinks, here) & has(home.cleanable, hand),
        EXAMINE_HERE: here >= 0,
        EXAMINE_HELD: hand >= 0,
        INVENTORY: True,
        LOOK_AROUND: True,
    }
    others = jnp.zeros((), jnp.uint32)
    for verb, allowed in singles.items():
        others = others | jnp.where(allowed, np.uint32(1 << verb), np.uint32(0))
    return (
        home.receptacles & ~only(here),
        jnp.where(empty, view & home.portable, 0),
        lying & home.toggleable,
        jnp.where(has(home.sharp, hand), lying & home.sliceable, 0),
        others,
    )


def legal(house: House) -> jax.Array:
    """Admissible actions, bool[R + 3 M + 10]."""
    receptacles, objects = house.home.receptacle_class.shape[0], house.where.shape[0]
    go, *ranged, others = admissible(house)
    sets = [unpack(go, receptacles), *(unpack(word, objects) for word in ranged)]
    return jnp.concatenate([*sets, unpack(others, len(VERBS))[OPEN:]])


def is_legal(house: House, action: jax.Array) -> jax.Array:
    """Whether one action is admissible, bool[]: one entry of `legal`."""
    receptacles, objects = house.home.receptacle_class.shape[0], house.where.shape[0]
    verb, slot = split(action, receptacles, objects)
    *ranged, others = admissible(house)
    allowed = has(others, verb)
    for ranged_verb, word in enumerate(ranged):
        allowed = jnp.where(verb == ranged_verb, has(word, slot), allowed)
    return allowed & (action >= 0) & (action < receptacles + 3 * objects + len(VERBS) - OPEN)


def act(house: House, action: jax.Array) -> House:
    """The house after an admissible action."""
    home = house.home
    verb, slot = split(action, home.receptacle_class.shape[0], house.where.shape[0])
    slot = slot.astype(jnp.int8)
    slots = np.arange(house.where.shape[0], dtype=np.int8)
    here, hand = house.location, house.hand
    thing = only(jnp.where(verb < OPEN, slot, hand))

    def after(verbs: tuple[int, ...], word: jax.Array) -> jax.Array:
        """The set if the action's verb is one of these, else the empty set."""
        return jnp.where(sum(verb == v for v in verbs) > 0, word, np.uint32(0))

    takes, moves = verb == TAKE, verb == MOVE
    where = jnp.where(takes & (slots == slot), np.int8(-1), house.where)
    where = jnp.where(moves & (slots == hand), here, where)
    following = house.replace(
        where=where,
        location=jnp.where(verb == GO, slot, here),
        hand=jnp.where(takes, slot, jnp.where(moves, np.int8(-1), hand)),
        opened=house.opened ^ after((OPEN, CLOSE), only(here)),
        hot=(house.hot | after((WARM,), thing)) & ~after((CHILL,), thing),
        cool=(house.cool | after((CHILL,), thing)) & ~after((WARM,), thing),
        clean=house.clean | after((WASH,), thing),
        toggled=house.toggled | after((USE,), thing),
        sliced=house.sliced | after((SLICE,), thing),
        told=(1 + verb).astype(jnp.uint8),
        subject=jnp.where((verb >= TAKE) & (verb < OPEN), slot, hand),
    )
    looked = only(following.location) & accessible(following)
    # The goal can only be reached by the step that puts the last thing in its place, or that
    # brings thing, lamp and agent together.
    altered = jnp.where(
        home.task == CLEAN,
        house.clean,
        jnp.where(home.task == HEAT, house.hot, jnp.where(home.task == COOL, house.cool, ALL)),
    )
    there = things_here(following)
    another = (home.task != TWO) | ((there & home.wanted & ~only(hand)) != 0)
    delivered = moves & has(home.wanted & altered, hand) & has(home.places, here) & another
    lit = has(home.wanted, following.hand) & ((there & home.lamps & following.toggled) != 0)
    return following.replace(
        seen=house.seen | looked,
        won=house.won | jnp.where(home.task == LOOK, lit, delivered),
    )
