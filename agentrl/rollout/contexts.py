"""Contexts: what of an episode a policy reads, and how episodes are cut into rows.

An episode is a list of pieces: the observation and the reply of each turn. A context manager says
which pieces stand in front of the reply of turn t:

  whole     everything so far; the episode is one row, and the cache lives across turns.
  window    the last `history` turns and the new observation; each turn is a row.
  sliding   all replies, but of the observations only the last `history` and the new one; an older
            observation shrinks to its control tokens. Each turn is a row. (DeepMiner slides the
            window now and then and trains several turns in a row; the context of each reply, and so
            its loss, is the same for a window that slides every turn.)
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

CONTEXTS = ("whole", "window", "sliding")
OBSERVED, REPLIED, OMITTED = range(3)


@struct.dataclass
class Transcript:
    """Pieces of B episodes of up to T turns.

    tokens: i32[B, T, O + G + E]: observation, reply, and what stands for an omitted observation.
    lengths: i32[B, T, 3], of these three.
    """

    tokens: jax.Array
    lengths: jax.Array


class Layout:
    """Where the pieces of a transcript are, and which of them the context of a turn holds."""

    def __init__(
        self,
        context: str,
        *,
        turns: int,
        history: int | None,
        keep_first: bool,
        observation_tokens: int,
        reply_tokens: int,
        omitted: tuple[int, ...],
        opening: tuple[int, ...] = (),
        before: tuple[int, ...] = (),
    ):
        """turns: T. omitted: the tokens of an omitted observation.

        opening: tokens at the start of every row, in place of those with which each observation
        begins (before); none: rows begin as their first observation does.
        """
        if context not in CONTEXTS:
            raise ValueError(f"rollout context={context!r}: expected one of {', '.join(CONTEXTS)}")
        if context == "whole":
            if history is not None or keep_first:
                raise ValueError(
                    f"rollout history={history}, keep_first={keep_first} with context='whole', "
                    "which keeps everything: leave them out, or use 'window' or 'sliding'"
                )
        elif history is None or history < 0:
            raise ValueError(
                f"rollout history={history} with context={context!r}: expected the number of "
                "turns to keep, 0 or more"
            )
        self.context = context
        self.turns = turns
        self.observation_tokens = observation_tokens
        self.reply_tokens = reply_tokens
        self.omitted = omitted
        self.opening = opening
        self.replaced = len(before) if opening else 0
        self.bases = np.array([0, observation_tokens, observation_tokens + reply_tokens], np.int32)
        self.stride = observation_tokens + reply_tokens + max(1, len(omitted))
        # i32[T + 1, P, 2]: (turn, kind) of the pieces before the reply of turn t, that reply as
        # the last one; -1 for no piece.
        lists = [self._pieces(t, history, keep_first) for t in range(turns + 1)]
        width = max(map(len, lists))
        self.table = np.full((turns + 1, width, 2), -1, np.int32)
        for t, pieces in enumerate(lists):
            self.table[t, width - len(pieces) :] = pieces

    def _pieces(self, t: int, history: int | None, keep_first: bool) -> list[tuple[int, int]]:
        pieces = []
        for s in range(t):
            recent = self.context == "whole" or s >= t - history
            if recent or (keep_first and s == 0):
                pieces += [(s, OBSERVED)]
            elif self.context == "sliding":
                pieces += [(s, OMITTED)]
            if recent or self.context == "sliding":
                pieces += [(s, REPLIED)]
        return [*pieces, (t, OBSERVED), (t, REPLIED)]

    def longest(self) -> int:
        """Tokens of the longest row, if every piece has its full length."""
        sizes = [self.observation_tokens, self.reply_tokens, len(self.omitted)]
        return self.added + max(
            sum(sizes[kind] for turn, kind in t if turn >= 0) for t in self.table[:-1]
        )

    @property
    def added(self) -> int:
        """Tokens that a row has beside those of its pieces."""
        return len(self.opening) - self.replaced

    def empty(self, batch: int) -> Transcript:
        """A transcript without turns; one slot more than turns, for what follows the last one."""
        tokens = np.zeros((batch, self.turns + 1, self.stride), np.int32)
        lengths = np.zeros((batch, self.turns + 1, 3), np.int32)
        tokens[:, :, self.bases[OMITTED] :][..., : len(self.omitted)] = self.omitted
        lengths[:, :, OMITTED] = len(self.omitted)
        return Transcript(jnp.asarray(tokens), jnp.asarray(lengths))

    def observed(
        self, transcript: Transcript, turn: jax.Array, tokens: jax.Array, length: jax.Array
    ) -> Transcript:
        """Adds the observations [B, O] of a turn, i32[] or of each episode i32[B]."""
        return self._put(transcript, turn, OBSERVED, tokens, length)

    def replied(
        self, transcript: Transcript, turn: jax.Array, tokens: jax.Array, length: jax.Array
    ) -> Transcript:
        """Adds the replies [B, G] of a turn, as `observed`."""
        return self._put(transcript, turn, REPLIED, tokens, length)

    def _put(self, transcript, turn, kind, tokens, length):
        base = int(self.bases[kind])

        def put(all_, turn, tokens, length):
            return Transcript(
                jax.lax.dynamic_update_slice(all_.tokens, tokens[None], (turn, base)),
                jax.lax.dynamic_update_slice(all_.lengths, length[None, None], (turn, kind)),
            )

        # One turn of all episodes stays one slice.
        each = None if jnp.ndim(turn) == 0 else 0
        return jax.vmap(put, (0, each, 0, 0))(transcript, turn, tokens, length)

    def compose(
        self, transcript: Transcript, stream: jax.Array, pieces: jax.Array, size: int
    ) -> "Composed":
        """Puts pieces i32[R, P, 2] of streams i32[R] one behind the other, `size` tokens a row."""
        return self._opened(self._join(transcript, stream, pieces, size - self.added))

    def _opened(self, rows: "Composed") -> "Composed":
        """Rows with the opening in place of what their first observation begins with."""
        if not self.opening:
            return rows

        def put(front, x):
            front = jnp.broadcast_to(jnp.asarray(front, x.dtype), (x.shape[0], len(self.opening)))
            return jnp.concatenate([front, x[:, self.replaced :]], axis=1)

        nothing = [-1] * len(self.opening)
        return Composed(
            tokens=put(self.opening, rows.tokens),
            length=jnp.where(rows.length > 0, rows.length + self.added, 0),
            turn=put(nothing, rows.turn),
            kind=put(nothing, rows.kind),
            offset=put([0] * len(self.opening), rows.offset),
            cut=rows.cut,
        )

    def _join(
        self, transcript: Transcript, stream: jax.Array, pieces: jax.Array, size: int
    ) -> "Composed":
        turn, kind = pieces[..., 0], pieces[..., 1]
        there = turn >= 0
        lengths = transcript.lengths[stream[:, None], jnp.maximum(turn, 0), jnp.maximum(kind, 0)]
        ends = jnp.cumsum(jnp.where(there, lengths, 0), axis=1)
        position = jnp.arange(size, dtype=jnp.int32)
        piece = jnp.sum(position[None, :, None] >= ends[:, None, :], axis=2, dtype=jnp.int32)
        inside = position[None] < ends[:, -1:]
        piece = jnp.minimum(piece, ends.shape[1] - 1)
        starts = jnp.pad(ends, ((0, 0), (1, 0)))
        offset = position[None] - jnp.take_along_axis(starts, piece, axis=1)
        turn = jnp.where(inside, jnp.take_along_axis(turn, piece, axis=1), -1)
        kind = jnp.where(inside, jnp.take_along_axis(kind, piece, axis=1), -1)
        index = turn * self.stride + jnp.asarray(self.bases)[jnp.maximum(kind, 0)] + offset
        flat = transcript.tokens.reshape(transcript.tokens.shape[0], -1)
        tokens = flat[stream[:, None], jnp.where(inside, index, 0)]
        return Composed(
            tokens=jnp.where(inside, tokens, 0),
            length=jnp.minimum(ends[:, -1], size),
            turn=turn,
            kind=kind,
            offset=jnp.where(inside, offset, 0),
            cut=ends[:, -1] > size,
        )


@struct.dataclass
class Composed:
    """Rows [R, L] of pieces: tokens, and of each position its turn, its kind of piece (-1 in
    padding) and its offset in the piece; length i32[R]; cut bool[R]: a row did not fit.
    """

    tokens: jax.Array
    length: jax.Array
    turn: jax.Array
    kind: jax.Array
    offset: jax.Array
    cut: jax.Array
