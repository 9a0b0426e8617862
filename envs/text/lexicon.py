"""The closed list of string fragments that an environment's text is made of."""

from collections.abc import Iterable, Sequence

import numpy as np


class Lexicon:
    """Collects fragments on the host and numbers them; fragment 0 is the empty string.

    A text is a sequence of fragments, joined without anything in between: spaces and punctuation
    are part of the fragments ("cabinet", " 4", ", ", "You arrive at "). Fragment 0 therefore means
    "nothing here", which is how text of varying length is written with fixed shapes.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": 0}
        self._closed = False

    def __call__(self, fragment: str) -> np.int32:
        """Number of a fragment, which is added if it is new. ValueError if it comes too late."""
        if self._closed and fragment not in self._ids:
            raise ValueError(
                f"fragment {fragment!r} is new, and a view was made of this lexicon already; "
                "number it before"
            )
        return np.int32(self._ids.setdefault(fragment, len(self._ids)))

    def table(self, fragments: Iterable[str]) -> np.ndarray:
        """Numbers of several fragments, i32[n]: index it with what the state says."""
        return np.array([self(fragment) for fragment in fragments], np.int32)

    def close(self) -> tuple[str, ...]:
        """All fragments, in order of their numbers; from now on the list is closed."""
        self._closed = True
        return tuple(self._ids)


def join(lexicon: Sequence[str], fragments: Iterable[int]) -> str:
    """The text of a sequence of fragment numbers, on the host."""
    return "".join(lexicon[int(i)] for i in np.asarray(fragments).reshape(-1))
