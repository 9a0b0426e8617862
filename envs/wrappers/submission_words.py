"""Submission in words: the environment's text, and one more command."""

import dataclasses

from envs.text import Lexicon, View
from envs.wrappers import Submission
from envs.wrappers.turn_budget_words import with_command


def compact(env: Submission) -> View:
    """The environment's own wording, and `submit`."""
    view = env.base.view
    lexicon = Lexicon()
    # The same fragments with the same indices, then ours.
    lexicon.table(view.lexicon)
    return dataclasses.replace(
        with_command(view, lexicon, "submit"),
        lexicon=lexicon,
        describe=lambda state, params: view.describe(state.base, params.base),
        slots=lambda state, params: view.slots(state.base, params.base),
        thought=view.inner_thought,
        rules=f"{view.rules}\nWhen you have finished, submit; nothing counts before.",
    )


WORDINGS = {"compact": compact}
