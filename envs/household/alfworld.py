"""The household in ALFWorld's own words."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.household import classes, names, rules
from envs.household.env import Household
from envs.household.rules import House, has, unpack
from envs.text import Lexicon, View, template

RULES = (
    "You are in a room and have a task. You can: go to a receptacle, open it, close it, take an "
    "object from it, move an object that you hold to it, heat an object with a microwave, cool it "
    "with a fridge, clean it with a sinkbasin, use a lamp, slice food with a knife that you hold, "
    "examine a receptacle or what you hold, look at your inventory, look around. Name everything "
    "with its number and say, for example: go to cabinet 1 / open cabinet 1 / take mug 2 from "
    "cabinet 1 / heat mug 2 with microwave 1 / move mug 2 to shelf 1 / use desklamp 1 / inventory "
    "/ look. You can hold one object at a time, and see what is in a receptacle once you are there "
    "and it is open."
)
# Feedback of ALFWorld's grammar as pieces around a first name (o, the thing), a second (r, the
# place, or for slicing k, the knife), and a look at the place (E) if one follows.
_FEEDBACK = {
    rules.GO: ("You arrive at ", "", ". "),
    rules.TAKE: ("You pick up the ", " from the ", "."),
    rules.USE: ("You turn on the ", "", "."),
    rules.SLICE: ("You sliced the ", " with the ", "."),
    rules.OPEN: ("You open the ", "", ". "),
    rules.CLOSE: ("You close the ", "", "."),
    rules.MOVE: ("You move the ", " to the ", "."),
    rules.WARM: ("You heat the ", " using the ", "."),
    rules.CHILL: ("You cool the ", " using the ", "."),
    rules.WASH: ("You clean the ", " using the ", "."),
    rules.EXAMINE_HERE: ("", "", ""),
}
_MIDDLE = "You are in the middle of a room. Looking quickly around you, you see "
_WELCOME = "-= Welcome to TextWorld, ALFRED! =-\n\n" + _MIDDLE
# Properties of an examined thing, indexed as by `names.properties`. The grammar writes cold for
# cool if there are no other properties.
_LIKE = (
    *("There's nothing special about ", "This is a hot ", "This is a cold ", "This is a clean "),
    *("This is a hot and clean ", "This is a cool and clean ", "This is a sliced "),
    *("This is a hot sliced ", "This is a cool sliced ", "This is a clean sliced "),
    *("This is a hot and clean sliced ", "This is a cool and clean sliced "),
)
# Goals: before the thing, between, before the place or lamp, after; two phrases per task.
_GOALS = {
    "put": (("put a ", " in "), ("put some ", " on ")),
    "look": (("look at ", " under the "), ("examine the ", " with the ")),
    "clean": (("put a clean ", " in "), ("clean some ", " and put it in ")),
    "heat": (("put a hot ", " in "), ("heat some ", " and put it in ")),
    "cool": (("put a cool ", " in "), ("cool some ", " and put it in ")),
    "two": (("put two ", " in "), ("find two ", " and put them in ")),
}
_PIECES = {
    "welcome": _WELCOME,
    "middle": _MIDDLE + "nothing.",
    "facing": "You are facing the ",
    "beside": ". Next to it, you see nothing.",
    "carrying": "You are carrying: a ",
    "empty": "You are not carrying anything.",
    "rejected": "Nothing happens.",
    "vessel": "This is a normal ",
    "contents": ". In it, you see nothing.",
    "the": "The ",
    "on the": "On the ",
    "open": " is open. In it, you see ",
    "closed": " is closed.",
    "holds": ", you see ",
    "nothing": "nothing.",
    "stop": ".",
    "a": "a ",
    "comma": ", a ",
    "and": ", and a ",
    "task": ".\n\nYour task is to: ",
}
# Forms of the commands, in the order of `rules.VERBS`.
_COMMANDS = (
    "go to {receptacle}",
    "take {object} from {here}",
    "use {object}",
    "slice {object} with {hand}",
    "open {here}",
    "close {here}",
    "move {hand} to {here}",
    "heat {hand} with {here}",
    "cool {hand} with {here}",
    "clean {hand} with {here}",
    "examine {here}",
    "examine {hand}",
    "inventory",
    "look",
)


class _Fragments(NamedTuple):
    """Fragment indices. feedback: `_FEEDBACK` i32[3, codes] by the code of the last message.

    pieces: `_PIECES`. like: of the first of `_LIKE`, which are consecutive. goals: `_GOALS`
    i32[tasks, phrases, 2].
    """

    words: names.Words
    feedback: np.ndarray
    pieces: dict[str, np.int32]
    like: np.int32
    goals: np.ndarray


def _fragments(env: Household, lexicon: Lexicon) -> _Fragments:
    words = names.make_words(env, lexicon, "", short=False)
    blank = ("", "", "")
    feedback = [blank, *(_FEEDBACK.get(verb, blank) for verb in range(len(rules.VERBS))), blank]
    return _Fragments(
        words=words,
        feedback=np.stack([lexicon.table(piece) for piece in zip(*feedback, strict=True)]),
        pieces={name: lexicon(text) for name, text in _PIECES.items()},
        like=names.block(lexicon, list(_LIKE)),
        goals=np.array(
            [[lexicon.table(phrase) for phrase in _GOALS[name]] for name in rules.TASKS], np.int32
        ),
    )


def _when(condition: jax.Array, yes: Any, no: Any = 0) -> jax.Array:
    return jnp.where(condition, yes, no)


def _sentence(
    house: House, called: Mapping[str, jax.Array], fragments: _Fragments
) -> list[jax.Array]:
    """Fragments of the feedback to the last action: opening, first name, joint, second, tail."""
    pieces = fragments.pieces
    before, between, behind = (jnp.asarray(column) for column in fragments.feedback)
    told, verb = house.told.astype(jnp.int32), house.told.astype(jnp.int32) - 1
    here, hand = called["here"][0], called["hand"][0]
    subject = jnp.stack([names.select(house.subject, called["object"][:, i]) for i in range(2)])
    looks, lists = verb == rules.LOOK_AROUND, verb == rules.INVENTORY
    examines, vessel = verb == rules.EXAMINE_HELD, has(house.home.vessels, house.subject)
    away, empty = house.location < 0, house.hand < 0

    opening = _when(told == rules.WELCOME, pieces["welcome"], before[told])
    opening = _when(told == rules.REJECTED, pieces["rejected"], opening)
    opening = _when(looks, _when(away, pieces["middle"], pieces["facing"]), opening)
    opening = _when(lists, _when(empty, pieces["empty"], pieces["carrying"]), opening)
    kind = fragments.like + names.properties(house, house.subject)
    opening = _when(examines, _when(vessel, pieces["vessel"], kind), opening)

    of_place = (verb == rules.GO) | (verb == rules.OPEN) | (verb == rules.CLOSE)
    of_place = of_place | (looks & ~away)
    of_thing = (told > 0) & (told < rules.REJECTED) & ~of_place & ~looks
    of_thing = of_thing & (verb != rules.EXAMINE_HERE)
    first = _when(of_place, here, _when(of_thing, subject))
    joint = between[told]
    second = _when(joint > 0, _when(verb == rules.SLICE, hand, here))

    tail = _when(looks & ~away, pieces["beside"], behind[told])
    tail = _when(lists & ~empty, pieces["stop"], tail)
    tail = _when(examines, _when(vessel, pieces["contents"], pieces["stop"]), tail)
    return [opening, *first, joint, *second, tail]


def _look(
    house: House, called: Mapping[str, jax.Array], pieces: Mapping[str, np.int32]
) -> tuple[list[jax.Array], jax.Array]:
    """What precedes the list of the things at the place, and whether that list is shown."""
    home, verb = house.home, house.told.astype(jnp.int32) - 1
    views = (verb == rules.GO) | (verb == rules.OPEN) | (verb == rules.EXAMINE_HERE)
    openable = has(home.openable, house.location)
    is_open = openable & has(house.opened, house.location)
    article = _when(views, _when(openable, pieces["the"], pieces["on the"]))
    verdict = _when(is_open, pieces["open"], pieces["closed"])
    verdict = _when(views, _when(openable, verdict, pieces["holds"]))
    return [article, *_when(views, called["here"][0]), verdict], views & (~openable | is_open)


def _list(items: jax.Array, pieces: Mapping[str, np.int32]) -> tuple[jax.Array, jax.Array]:
    """`a x, a y, and a z` of the items [S, 2] that are not 0: fragments i32[3 S], their number."""
    there = items[:, 0] > 0
    rank, count = jnp.cumsum(there), jnp.sum(there)
    joints = _when(rank == count, pieces["and"], pieces["comma"])
    joints = _when(there, _when(rank == 1, pieces["a"], joints))
    return jnp.concatenate([joints[:, None], items], axis=1).reshape(-1), count


def _goal(house: House, fragments: _Fragments) -> jax.Array:
    """Fragments i32[5] of the task's sentence."""
    home, words = house.home, fragments.words
    phrase = jnp.asarray(fragments.goals)[
        home.task.astype(jnp.int32), home.phrase.astype(jnp.int32)
    ]
    place = home.goal_place.astype(jnp.int32)
    place = _when(home.task == rules.LOOK, words.thing(place), words.receptacle(place))
    thing = words.thing(home.goal_object.astype(jnp.int32))
    return jnp.stack([phrase[0], thing, phrase[1], place, jnp.full((), fragments.pieces["stop"])])


def _bounds(env: Household) -> tuple[int, int]:
    """The most bytes of a description, and of a command."""
    place, thing = names.longest(classes.RECEPTACLES), names.longest(classes.OBJECTS)
    number = len(f" {max(env.receptacles, env.objects)}")
    goal = ".\n\nYour task is to: clean some  and put it in ."
    first = len(_WELCOME) + len(goal) + thing + max(place, thing)
    first += names.widest_list(env.receptacles, short=False, once=False)
    first += env.receptacles * (len(", a ") + number) + len("and ")
    later = len("You arrive at . The  is open. In it, you see .") + 2 * (place + number)
    later += env.objects * (len(", a ") + thing + number) + len("and ")
    return max(first, later), len("take  from ") + thing + place + 2 * number


def faithful(env: Household) -> View:
    """The strings of ALFWorld's game engine, with task and receptacles only in the first.

    Source: `alfred.twl2` and `goal_library.py` (read), checked against recorded episodes. `help` is
    left out. As in ALFWorld, looking around shows nothing until another action was taken.
    """
    lexicon = Lexicon()
    fragments = _fragments(env, lexicon)
    pieces, slots = fragments.pieces, names.make_slots(fragments.words)
    rows = max(env.receptacles, env.objects)

    def describe(state, params):
        house = state.house
        called = slots(state, params)
        welcome = house.told.astype(jnp.int32) == rules.WELCOME
        look, shows = _look(house, called, pieces)
        # Things at this place, or at the start the receptacles.
        view = shows & unpack(rules.things_in_view(house), env.objects)
        things = _when(view[:, None], called["object"])
        things = jnp.pad(things, ((0, rows - env.objects), (0, 0)))
        stands = jnp.pad(called["receptacle"], ((0, rows - env.receptacles), (0, 0)))
        items, count = _list(_when(welcome, stands, things), pieces)
        end = _when(shows, _when(count > 0, pieces["stop"], pieces["nothing"]))
        end = _when(welcome, pieces["task"], end)
        lead = [*_sentence(house, called, fragments), *look]
        return jnp.concatenate(
            [
                jnp.stack([jnp.asarray(x, jnp.int32) for x in lead]),
                items,
                jnp.asarray(end, jnp.int32)[None],
                jnp.asarray(_when(welcome, _goal(house, fragments)), jnp.int32),
            ]
        )

    size, command_size = _bounds(env)
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, form) for form in _COMMANDS),
        slots=slots,
        max_fragments=max(7 + 3 * env.receptacles, 9 + 3 * env.objects),
        max_bytes=size,
        max_command_bytes=command_size,
        rules=RULES,
    )
