"""The closed list of string fragments that an environment's text consists of."""

from collections.abc import Iterable, Sequence

import numpy as np


class Lexicon:
    """Collects fragments on the host and numbers them; fragment 0 is the empty string.

    A text is a sequence of fragments, concatenated without separators: spaces and punctuation are
    part of the fragments ("cabinet", " 4", ", ", "You arrive at "). Fragment 0 stands for no text,
    so that texts of varying length have fixed shapes.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": 0}
        self._closed = False

    def __call__(self, fragment: str) -> np.int32:
        """Index of a fragment, added if it is new. ValueError once the lexicon is closed."""
        if self._closed and fragment not in self._ids:
            raise ValueError(
                f"fragment {fragment!r} is new, but a view was already made of this lexicon; "
                "add it before"
            )
        return np.int32(self._ids.setdefault(fragment, len(self._ids)))

    def table(self, fragments: Iterable[str]) -> np.ndarray:
        """Indices of several fragments, i32[n], to be indexed with values of the state."""
        return np.array([self(fragment) for fragment in fragments], np.int32)

    def close(self) -> tuple[str, ...]:
        """All fragments in order of their indices; closes the list."""
        self._closed = True
        return tuple(self._ids)


def join(lexicon: Sequence[str], fragments: Iterable[int]) -> str:
    """The text of a sequence of fragment indices, on the host."""
    return "".join(lexicon[int(i)] for i in np.asarray(fragments).reshape(-1))
