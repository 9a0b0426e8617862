"""Screens in words: the current screen, the goal, and the elements."""

import jax.numpy as jnp
import numpy as np

from envs.screens import rules
from envs.screens.env import Screens
from envs.text import Lexicon, View, template

RULES = (
    "You use an application made of screens. Every screen has a name, and icons that open other "
    "screens; what an icon opens you have to know or to find out. back leads to the screen above, "
    "home to the first one. Get to the screen that you are asked for in few clicks. {format}"
)


def _elements(env: Screens, state, icons: np.ndarray, between, begin, fixed):
    """Fragments: the icons with `between` them, `begin`, then back and home, joined likewise."""
    behind, actions = env.elements(state)
    there = behind >= 0
    clickable = jnp.where(there[:-2], icons[0] + actions[:-2].astype(jnp.int32), 0)
    # Children fill the first places, so all elements after the first follow a separator.
    separators = jnp.where(there[:-2].at[0].set(False), between, 0)
    listed = jnp.stack([separators, clickable], axis=1).reshape(-1)
    back, home = there[-2], there[-1]
    tail = [jnp.where(back, begin, 0), jnp.where(back, fixed[0], 0)]
    tail += [jnp.where(home, between, 0), jnp.where(home, fixed[1], 0)]
    return listed, jnp.stack(tail)


def compact(env: Screens) -> View:
    """`p12>p07: cat,sun,car|back,home`: screen, goal, icons, buttons.

    Icons and buttons are the same fragments in observations and in commands.
    """
    lexicon = Lexicon()
    labels = [f"p{label:02d}" for label in range(env.screens)]
    here, there = lexicon.table(labels), lexicon.table(f">{label}: " for label in labels)
    commands = lexicon.table(env.action_names)
    comma, bar = lexicon(","), lexicon("|")

    def describe(state, params):
        screen, goal = (label.astype(jnp.int32) for label in env.labels(state))
        listed, tail = _elements(env, state, commands, comma, bar, commands[env.icons :])
        return jnp.concatenate([jnp.stack([here[0] + screen, there[0] + goal]), listed, tail])

    widest = max(env.branching)
    longest = sorted(map(len, rules.ICONS[: env.icons]))[-widest:]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{element}"),),
        slots=lambda state, params: {"element": commands[:, None]},
        max_fragments=2 + 2 * widest - 1 + 4,
        max_bytes=len("p00>p00: ") + sum(longest) + widest - 1 + len("|back,home"),
        max_command_bytes=max(map(len, env.action_names)),
        rules=RULES.format(
            format="You are told: screen>goal: icons|buttons. Write the icon or button to click."
        ),
    )


def faithful(env: Screens) -> View:
    """The same in sentences; GE-Lab shows pictures and has no words for its pages."""
    lexicon = Lexicon()
    labels = [f"p{label:02d}" for label in range(env.screens)]
    here = lexicon.table(f"You are on screen {label}. " for label in labels)
    there = lexicon.table(f"Go to screen {label}." for label in labels)
    icons = lexicon.table(rules.ICONS[: env.icons])
    heading, comma, dot = lexicon("\nIcons: "), lexicon(", "), lexicon(".")
    buttons = lexicon("\nButtons: ")
    fixed = lexicon.table(["back", "home"])
    commands = lexicon.table(f"click {name}" for name in env.action_names)

    def describe(state, params):
        screen, goal = (label.astype(jnp.int32) for label in env.labels(state))
        listed, tail = _elements(env, state, icons, comma, buttons, fixed)
        front = jnp.stack([here[0] + screen, there[0] + goal, jnp.where(listed[1], heading, 0)])
        dots = [jnp.where(listed[1], dot, 0)[None], jnp.where(tail[0], dot, 0)[None]]
        return jnp.concatenate([front, listed, dots[0], tail, dots[1]])

    widest = max(env.branching)
    longest = sorted(map(len, rules.ICONS[: env.icons]))[-widest:]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(template(lexicon, "{element}"),),
        slots=lambda state, params: {"element": commands[:, None]},
        max_fragments=3 + 2 * widest - 1 + 6,
        max_bytes=len("You are on screen p00. Go to screen p00.\nIcons: .\nButtons: back, home.")
        + sum(longest)
        + 2 * (widest - 1),
        max_command_bytes=len("click ") + max(map(len, env.action_names)),
        rules=RULES.format(format=f"Click as in: click {env.action_names[0]}"),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
