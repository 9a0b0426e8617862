"""The household in words: a short description, and ALFWorld's own."""

import jax.numpy as jnp
import numpy as np

from envs.household import classes, names, rules
from envs.household import env as environment
from envs.household.alfworld import faithful
from envs.household.env import Household
from envs.household.rules import has, unpack
from envs.text import Lexicon, View, template

RULES = (
    "You are in a room and have a task: put a thing in a place, clean, heat or cool it first, put "
    "two in one place, or look at a thing under a lamp (hold it and use the lamp). The first line "
    "says the task; at, where you are, whether it is open or shut and what lies there; hand, what "
    "you hold; go, where you can go: ? was not looked into yet, ! has a thing that you need, + "
    "holds one of two. no means that nothing happened. Say: go cab 1 / open / close / take mug 2 / "
    "put / heat / cool / clean (the thing you hold, here) / use lamp 1 / slice egg 1 / see / check "
    "/ hand / look (these four tell nothing new). You hold one thing at a time."
)
# Indexed as by `names.properties`.
_PROPERTIES = [
    " ".join(filter(None, ["sliced" * sliced, "clean" * clean, ("", "hot", "cool")[warmth]]))
    for sliced in (0, 1)
    for clean in (0, 1)
    for warmth in (0, 1, 2)
]
# Forms of the commands, in the order of `rules.VERBS`.
_COMMANDS = (
    *("go{receptacle}", "take{object}", "use{object}", "slice{object}"),
    *("open", "close", "put", "heat", "cool", "clean", "see", "check", "hand", "look"),
)


def _bounds(env: Household) -> tuple[int, int]:
    """The most bytes of a description, and of a command."""
    place, thing = (names.longest(x, True) for x in (classes.RECEPTACLES, classes.OBJECTS))
    number = len(f" {max(env.receptacles, env.objects)}")
    lines = ("no\n", "clean  > \nat  open", "\nhand (sliced clean cool)", "\ngo")
    size = sum(map(len, lines)) + thing + max(thing, place) + place + number
    size += env.objects * (1 + thing + number)
    size += env.receptacles * len(" " + "?") + env.receptacles * number
    size += names.widest_list(env.receptacles, short=True, once=True)
    return size, len("slice ") + max(thing, place) + number


def compact(env: Household) -> View:
    """The task, the place, the hand and the destinations, one line each.

    For example `clean cup > shelf | at cab 2 open cup 1 mug 2 | hand egg 1 | go cab 1? 2 sink 1?`,
    with newlines for the bars, and no line for empty hands. In the last line a class is written
    once for all its numbers. After a refused action the text starts with `no`. The held thing is
    shown with its properties, so examining adds no information; commands need not name it or the
    place.
    """
    lexicon = Lexicon()
    words = names.make_words(env, lexicon, " ", short=True)
    task = names.block(lexicon, list(rules.TASKS))
    counts = range(1, env.receptacles + 1)
    marked = [names.block(lexicon, [f" {n}{mark}" for n in counts]) - 1 for mark in "?!+"]
    listed = np.array([marked[0], words.counts, *marked[1:]], np.int32)
    held = names.block(lexicon, [f" ({phrase})" for phrase in _PROPERTIES[1:]]) - 1
    arrow, at, hand, go = (lexicon(x) for x in (" >", "\nat", "\nhand", "\ngo"))
    is_open, is_shut, refused = lexicon(" open"), lexicon(" shut"), lexicon("no\n")
    slots = names.make_slots(words)

    def describe(state, params):
        house, home = state.house, state.house.home
        called = slots(state, params)
        place = words.receptacle(home.goal_place.astype(jnp.int32))
        lamp = words.thing(home.goal_place.astype(jnp.int32))
        doors = jnp.where(
            has(home.openable, house.location),
            jnp.where(has(house.opened, house.location), is_open, is_shut),
            0,
        )
        view = unpack(rules.things_in_view(house), env.objects)
        holding = names.properties(house, house.hand)
        mark = environment.marks(house) if env.show_seen else jnp.uint8(environment.SEEN)
        count = sum(
            jnp.where(mark == kind, listed[kind] + home.receptacle_number, 0) for kind in range(4)
        )
        stands = called["receptacle"][:, 0]
        again = jnp.concatenate([jnp.zeros(1, bool), stands[1:] == stands[:-1]])
        lines = jnp.stack([jnp.where(again, 0, stands), jnp.where(stands == 0, 0, count)], axis=-1)
        head = jnp.stack(
            [
                jnp.where(house.told == rules.REJECTED, refused, 0),
                task + home.task,
                words.thing(home.goal_object.astype(jnp.int32)),
                jnp.full((), arrow),
                jnp.where(home.task == rules.LOOK, lamp, place),
                jnp.full((), at),
                *called["here"][0],
                doors,
            ]
        )
        carries = jnp.where(house.hand < 0, 0, hand)
        middle = [carries, *called["hand"][0], jnp.where(holding > 0, held + holding, 0), go]
        parts = [
            head,
            jnp.where(view[:, None], called["object"], 0).reshape(-1),
            jnp.stack([jnp.asarray(x, jnp.int32) for x in middle]),
            lines.reshape(-1),
        ]
        return jnp.concatenate(parts)

    size, command_size = _bounds(env)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in _COMMANDS),
        slots=slots,
        # A thing in hand is not at a place: at most M are listed.
        max_fragments=12 + 2 * env.objects + 2 * env.receptacles,
        max_bytes=size,
        max_command_bytes=command_size,
        rules=RULES,
    )


WORDINGS = {"compact": compact, "faithful": faithful}
