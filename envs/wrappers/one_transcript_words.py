"""A team's words on one transcript: in each turn those of the member who speaks."""

import dataclasses

from envs.text import View
from envs.wrappers import OneTranscript


def compact(env: OneTranscript) -> View:
    """The game's own wording, for the member whose turn it is."""
    view = env.base.view
    return dataclasses.replace(
        view,
        describe=lambda state, params: view.describe(
            state.base, params.base, env.member(state, params)
        ),
        slots=lambda state, params: view.slots(state.base, params.base, env.member(state, params)),
    )


WORDINGS = {"compact": compact}
