"""Single steps in words: what the environment says in the state."""

import dataclasses

from envs.text import View
from envs.wrappers import SingleStep


def compact(env: SingleStep) -> View:
    """The environment's own wording, with its fragments and commands."""
    view = env.base.view
    return dataclasses.replace(
        view,
        describe=lambda state, params: view.describe(state.base, params.base),
        slots=lambda state, params: view.slots(state.base, params.base),
        thought=view.inner_thought,
    )


WORDINGS = {"compact": compact}
