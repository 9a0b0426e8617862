"""The text of a reply while it is written: bytes of tokens, stop strings."""

import codecs
from collections.abc import Sequence


class ReplyText:
    """Text that is certain so far: nothing that may become part of a stop string or a letter.

    stopped: a stop string has occurred. It and what follows are left out.
    """

    def __init__(self, pieces: Sequence[bytes], stops: Sequence[bytes] = ()):
        """pieces: the bytes of each token. stops: none of them empty."""
        self.pieces, self.stops, self.stopped = pieces, stops, False
        self._held = b""
        self._letters = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        """Adds a token; the text that has become certain."""
        self._held += self.pieces[token]
        found = [at for stop in self.stops if (at := self._held.find(stop)) >= 0]
        self.stopped = bool(found)
        sure = min(found) if found else len(self._held) - self._open()
        out, self._held = self._held[:sure], self._held[sure:]
        return self._letters.decode(out)

    def rest(self) -> str:
        """What is left at the end of the reply."""
        return self._letters.decode(b"" if self.stopped else self._held, final=True)

    def _open(self) -> int:
        """Bytes at the end with which a stop string may begin."""
        return max(
            (n for stop in self.stops for n in range(len(stop)) if self._held.endswith(stop[:n])),
            default=0,
        )
