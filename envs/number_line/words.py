"""NumberLine in words: position and target."""

import jax.numpy as jnp

from envs.number_line.env import NumberLine
from envs.text import Lexicon, View, template

RULES = (
    "You stand on a line of numbers. Walk from the current number to the target: + goes one up, "
    "- one down."
)


def compact(env: NumberLine) -> View:
    """`3 to 4`: current number, target."""
    return _view(env, ("", " to ", ""), target_first=False)


def faithful(env: NumberLine) -> View:
    """The words that RL4VLM's text wrapper for gym-cards (read) puts around the numbers."""
    return _view(env, ("Target number: ", ". Current number: ", ""), target_first=True)


def reasoned(env: NumberLine) -> View:
    """As `compact`; before its command the expert compares the numbers, `3 below 4`."""
    return _view(env, ("", " to ", ""), target_first=False, thinks=True)


def _view(
    env: NumberLine, around: tuple[str, str, str], target_first: bool, thinks: bool = False
) -> View:
    lexicon = Lexicon()
    numbers = lexicon.table(str(i) for i in range(env.length + 1))
    before, between, after = lexicon.table(around)
    below, above = lexicon.table((" below ", " above ")) if thinks else (0, 0)

    def describe(state, params):
        first, second = numbers[0] + jnp.stack([state.position, state.target])
        if target_first:
            first, second = second, first
        return jnp.stack([before, first, between, second, after])

    def thought(state, params):
        relation = jnp.where(state.position < state.target, below, above)
        return jnp.stack([numbers[0] + state.position, relation, numbers[0] + state.target])

    return View(
        lexicon=lexicon,
        describe=describe,
        templates=tuple(template(lexicon, name) for name in env.action_names),
        slots=lambda state, params: {},
        max_fragments=2 + sum(map(bool, around)),
        max_bytes=len("".join(around)) + 2 * len(str(env.length)),
        max_command_bytes=1,
        thought=thought if thinks else None,
        rules=RULES,
    )


WORDINGS = {"compact": compact, "faithful": faithful, "reasoned": reasoned}
