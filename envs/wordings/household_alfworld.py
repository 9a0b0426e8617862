"""The household in ALFWorld's own words."""

import jax.numpy as jnp
import numpy as np

from envs.household import Household
from envs.rules import household as rules
from envs.rules import household_classes as classes
from envs.rules.household import has, unpack
from envs.text import Lexicon, View, template
from envs.wordings import household_names as names

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


def faithful(env: Household) -> View:
    """The strings of ALFWorld's game engine, with task and receptacles only in the first.

    Source: `alfred.twl2` and `goal_library.py` (read), checked against recorded episodes. `help` is
    left out. As in ALFWorld, looking around shows nothing until another action was taken.
    """
    lexicon = Lexicon()
    words = names.make_words(env, lexicon, "", short=False)
    codes = range(len(rules.VERBS) + 2)
    blank = ("", "", "")
    pieces = [blank, *(_FEEDBACK.get(verb, blank) for verb in range(len(rules.VERBS))), blank]
    before, between, behind = (lexicon.table([pieces[code][i] for code in codes]) for i in range(3))
    special = {
        name: lexicon(text)
        for name, text in {
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
        }.items()
    }
    like = names.block(lexicon, list(_LIKE))
    wishes = np.array(
        [[lexicon.table(phrase) for phrase in _GOALS[name]] for name in rules.TASKS], np.int32
    )
    slots = names.make_slots(words)
    size = max(env.receptacles, env.objects)

    def describe(state, params):
        house, home = state.house, state.house.home
        called = slots(state, params)
        told, verb = house.told.astype(jnp.int32), house.told.astype(jnp.int32) - 1
        here, hand = called["here"][0], called["hand"][0]
        subject = jnp.stack([names.select(house.subject, called["object"][:, i]) for i in range(2)])

        def when(condition, yes, no=0):
            return jnp.where(condition, yes, no)

        welcome, looks = told == rules.WELCOME, verb == rules.LOOK_AROUND
        examines, lists = verb == rules.EXAMINE_HELD, verb == rules.INVENTORY
        vessel = has(home.vessels, house.subject)
        away = house.location < 0
        opening = jnp.asarray(before)[told]
        opening = when(welcome, special["welcome"], opening)
        opening = when(told == rules.REJECTED, special["rejected"], opening)
        opening = when(looks, when(away, special["middle"], special["facing"]), opening)
        opening = when(lists, when(house.hand < 0, special["empty"], special["carrying"]), opening)
        kind = like + names.properties(house, house.subject)
        opening = when(examines, when(vessel, special["vessel"], kind), opening)
        # First and second name.
        of_place = (verb == rules.GO) | (verb == rules.OPEN) | (verb == rules.CLOSE)
        of_place = of_place | (looks & ~away)
        of_thing = (told > 0) & (told < rules.REJECTED) & ~of_place & ~looks
        of_thing = of_thing & (verb != rules.EXAMINE_HERE)
        first = when(of_place, here, when(of_thing, subject))
        joint = jnp.asarray(between)[told]
        second = when(joint > 0, when(verb == rules.SLICE, hand, here))
        tail = jnp.asarray(behind)[told]
        tail = when(looks & ~away, special["beside"], tail)
        tail = when(lists & (house.hand >= 0), special["stop"], tail)
        tail = when(examines, when(vessel, special["contents"], special["stop"]), tail)
        # A look at the place.
        views = (verb == rules.GO) | (verb == rules.OPEN) | (verb == rules.EXAMINE_HERE)
        openable = has(home.openable, house.location)
        is_open = openable & has(house.opened, house.location)
        shows = views & (~openable | is_open)
        article = when(views, when(openable, special["the"], special["on the"]))
        verdict = when(is_open, special["open"], special["closed"])
        verdict = when(views, when(openable, verdict, special["holds"]))
        # The list: things at this place, or at the start the receptacles.
        view = shows & unpack(rules.things_in_view(house), env.objects)
        items = when(view[:, None], called["object"])
        items = jnp.pad(items, ((0, size - env.objects), (0, 0)))
        stands = jnp.pad(called["receptacle"], ((0, size - env.receptacles), (0, 0)))
        items = when(welcome, stands, items)
        there = items[:, 0] > 0
        rank, count = jnp.cumsum(there), jnp.sum(there)
        joints = when(rank == count, special["and"], special["comma"])
        joints = when(there, when(rank == 1, special["a"], joints))
        items = jnp.concatenate([joints[:, None], items], axis=1).reshape(-1)
        end = when(shows, when(count > 0, special["stop"], special["nothing"]))
        phrase = jnp.asarray(wishes)[home.task.astype(jnp.int32), home.phrase.astype(jnp.int32)]
        target = home.goal_place.astype(jnp.int32)
        target = when(home.task == rules.LOOK, words.thing(target), words.receptacle(target))
        wish = [
            when(welcome, special["task"], end),
            *when(
                welcome,
                jnp.stack(
                    [
                        phrase[0],
                        words.thing(home.goal_object.astype(jnp.int32)),
                        phrase[1],
                        target,
                        jnp.full((), special["stop"]),
                    ]
                ),
            ),
        ]
        lead = [opening, *first, joint, *second, tail, article, *when(views, here), verdict]
        return jnp.concatenate(
            [
                jnp.stack([jnp.asarray(x, jnp.int32) for x in lead]),
                items,
                jnp.stack([jnp.asarray(x, jnp.int32) for x in wish]),
            ]
        )

    place, thing = names.longest(classes.RECEPTACLES), names.longest(classes.OBJECTS)
    number = len(f" {size}")
    goal = ".\n\nYour task is to: clean some  and put it in ."
    first = len(_WELCOME) + len(goal) + thing + max(place, thing)
    first += names.widest_list(env.receptacles, short=False, once=False)
    first += env.receptacles * (len(", a ") + number) + len("and ")
    later = len("You arrive at . The  is open. In it, you see .") + 2 * (place + number)
    later += env.objects * (len(", a ") + thing + number) + len("and ")
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(
            template(lexicon, form)
            for form in (
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
        ),
        slots=slots,
        max_fragments=max(7 + 3 * env.receptacles, 9 + 3 * env.objects),
        max_bytes=max(first, later),
        max_command_bytes=len("take  from ") + thing + place + 2 * number,
        rules=RULES,
    )
