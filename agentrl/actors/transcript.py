"""Transcripts: the pieces of episodes in fixed arrays, and prompts composed from them.

Letters: E lanes (one per episode and agent), T turns of a lane, O tokens of an observation, G of a
reply, P pieces, R composed rows of L tokens. A lane counts its own turns.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.actors.contexts import Context
from agentrl.policies.codec import Codec, tokens_of
from agentrl.streams import ACTION, OBSERVATION, SUMMARY

# Kinds of pieces. REQUESTED is the request for a summary, SUMMARIZED the request and the summary.
OBSERVED, REPLIED, OMITTED, SUMMARIZED, REQUESTED = range(5)
# `Rows.span` of pieces that are read.
SPAN_OF_KIND = np.array([OBSERVATION, ACTION, OBSERVATION, SUMMARY, OBSERVATION], np.int8)


class Transcript(struct.PyTreeNode):
    """Pieces of E lanes. tokens: i32[E, ...], lengths: i32[E, ...], placed by a `Layout`.

    A piece of length 0 is not shown: contexts drop pieces by setting their length to 0.
    """

    tokens: jax.Array
    lengths: jax.Array


class Composed(struct.PyTreeNode):
    """Rows of pieces: tokens i32[R, L], and of each position the turn, the kind of piece (-1 in
    padding) and the offset in the piece; length i32[R]; cut bool[R]: the row did not fit.
    """

    tokens: jax.Array
    length: jax.Array
    turn: jax.Array
    kind: jax.Array
    offset: jax.Array
    cut: jax.Array


class Layout:
    """Where the pieces of a transcript are, and which of them the prompt of each turn shows."""

    def __init__(
        self,
        context: Context,
        codec: Codec,
        *,
        turns: int,
        observation_tokens: int,
        reply_tokens: int,
    ):
        """turns: T. The sizes are bounds; injected text counts as part of the observation."""
        self.context, self.turns = context, turns
        self.observation_tokens, self.reply_tokens = observation_tokens, reply_tokens
        self.opening = codec.opening
        # Tokens of the first observation that the opening of a row replaces.
        self.replaced = len(codec.before) if codec.opening else 0
        self.added = len(codec.opening) - self.replaced
        self.omitted = (*codec.before, *codec.after)
        self.request: tuple[int, ...] = ()
        if context.limit is not None:
            self.request = (*codec.before, *tokens_of(codec, context.request), *codec.after)
        # Turns of a window are kept in a ring, all others at a place of their own.
        history, replies = context.history, context.replies
        recent = turns if history is None or replies is None else max(history, replies)
        self._ring = min(recent, turns) + 1
        self._first_apart = context.keep_first and self._ring < turns + 1
        self.slots = self._ring + self._first_apart
        self._fixed = self.slots * (observation_tokens + reply_tokens)
        self._size = self._fixed + len(self.omitted) + len(self.request) + context.summary_tokens
        # i32[T + 1, P, 2]: (turn, kind) of the pieces before the reply of turn t; -1 for no piece.
        lists = [shown(context, t) for t in range(turns + 1)]
        width = max(map(len, lists))
        self.table = np.full((turns + 1, width, 2), -1, np.int32)
        for t, pieces in enumerate(lists):
            self.table[t, width - len(pieces) :] = pieces
        # The pieces of an episode in one row: every observation and every reply.
        self.row_table = np.array(
            [(t, k) for t in range(turns) for k in (OBSERVED, REPLIED)], np.int32
        )

    def longest(self) -> int:
        """Tokens of the longest row: a prompt and its reply, or a summary and its prompt."""
        c, observed, replied = self.context, self.observation_tokens, self.reply_tokens
        if c.limit is not None:
            asked = len(self.request) + c.summary_tokens
            return max(c.limit + replied + max(0, asked), self.least())
        sizes = [observed, replied, len(self.omitted), 0, 0]
        longest = max(sum(sizes[kind] for turn, kind in t if turn >= 0) for t in self.table[:-1])
        return self.added + longest + replied

    def least(self) -> int:
        """Tokens of a row with a single turn, after a summary where there are summaries."""
        one_turn = self.added + self.observation_tokens + self.reply_tokens
        if self.context.limit is None:
            return one_turn
        return one_turn + self.observation_tokens + len(self.request) + self.context.summary_tokens

    def empty(self, lanes: int) -> Transcript:
        """Transcripts without turns, with room for what follows the last turn."""
        tokens = np.zeros(self._size, np.int32)
        constants = (*self.omitted, *self.request)
        tokens[self._fixed : self._fixed + len(constants)] = constants
        lengths = np.zeros(2 * self.slots + 3, np.int32)
        lengths[2 * self.slots :] = len(self.omitted), 0, len(self.request)
        of_all = [jnp.broadcast_to(jnp.asarray(x), (lanes, *x.shape)) for x in (tokens, lengths)]
        return Transcript(*of_all)

    def restarted(self, transcript: Transcript, done: jax.Array) -> Transcript:
        """Transcripts whose lanes `done` bool[E] begin a new episode; turns are overwritten."""
        if self.context.limit is None:
            return transcript
        at = 2 * self.slots + SUMMARIZED - OMITTED
        lengths = transcript.lengths.at[:, at].multiply(~done)
        return transcript.replace(lengths=lengths)

    def _places(self, turn, kind):
        """(first token, index of the length) of pieces, i32[...] each."""
        turn, kind = jnp.asarray(turn), jnp.asarray(kind)
        slot = turn
        if self._ring < self.turns + 1:
            slot = (turn - self._first_apart) % self._ring + self._first_apart
            slot = jnp.where(turn == 0, 0, slot) if self._first_apart else slot
        stride = self.observation_tokens + self.reply_tokens
        of_turn = slot * stride + jnp.where(kind == REPLIED, self.observation_tokens, 0)
        fixed = self._fixed + jnp.where(kind == OMITTED, 0, len(self.omitted))
        there = kind <= REPLIED
        length = jnp.where(there, 2 * slot + kind, 2 * self.slots + kind - OMITTED)
        return jnp.where(there, of_turn, fixed), length

    def written(
        self,
        transcript: Transcript,
        lane: jax.Array,
        turn: jax.Array,
        kind: int,
        tokens: jax.Array,
        length: jax.Array,
    ) -> Transcript:
        """The transcripts with a piece of `kind` at own turns i32[n] of lanes i32[n].

        n is E, lane by lane, or one lane out of each E / n. tokens: i32[n, O or G].
        """
        first, at = self._places(turn, jnp.int32(kind))
        return Transcript(
            _put(transcript.tokens, lane, first, tokens),
            _put(transcript.lengths, lane, at, length[:, None]),
        )

    def summarized(
        self,
        transcript: Transcript,
        lane: jax.Array,
        turn: jax.Array,
        tokens: jax.Array,
        length: jax.Array,
    ) -> Transcript:
        """Lanes i32[n] whose turns before `turn` a summary replaces; length 0: no summary."""
        there = length > 0
        first = self._fixed + len(self.omitted) + len(self.request)
        start = jnp.full(turn.shape, first, jnp.int32)
        old = transcript.tokens[lane][:, first : first + tokens.shape[1]]
        replaced = _put(transcript.tokens, lane, start, jnp.where(there[:, None], tokens, old))
        number = jnp.arange(2 * self.slots + 3, dtype=jnp.int32)
        lengths = transcript.lengths[lane]
        # All but the first observation: pieces 1 to 2 t - 1 of the turns.
        drop = there[:, None] & (number >= 1) & (number < 2 * turn[:, None])
        lengths = jnp.where(drop, 0, lengths)
        is_summary = there[:, None] & (number == 2 * self.slots + SUMMARIZED - OMITTED)
        lengths = jnp.where(is_summary, len(self.request) + length[:, None], lengths)
        return Transcript(replaced, transcript.lengths.at[lane].set(lengths))

    def folded(
        self,
        transcript: Transcript,
        lane: jax.Array,
        opened: jax.Array,
        turn: jax.Array,
        closes: jax.Array,
    ) -> Transcript:
        """Lanes i32[n] that close a branch at `turn`: what came after turn `opened` is dropped,
        except the reply of `turn`."""
        number = jnp.arange(2 * self.slots + 3, dtype=jnp.int32)
        inside = (number >= 2 * opened[:, None] + 2) & (number < 2 * turn[:, None] + 1)
        lengths = jnp.where(closes[:, None] & inside, 0, transcript.lengths[lane])
        return transcript.replace(lengths=transcript.lengths.at[lane].set(lengths))

    def holds_replies(self, transcript: Transcript, lane: jax.Array, turn: jax.Array) -> jax.Array:
        """Whether a reply before `turn` is still shown, bool[n]: something to summarize."""
        number = jnp.arange(2 * self.slots + 3, dtype=jnp.int32)
        before = (number % 2 == REPLIED) & (number < 2 * turn[:, None])
        return jnp.any(before & (transcript.lengths[lane] > 0), axis=1)

    def prompt(
        self,
        transcript: Transcript,
        lane: jax.Array,
        turn: jax.Array,
        size: int,
        *,
        request: bool = False,
    ) -> Composed:
        """Prompts [n, size] of lanes i32[n] at own turns i32[n], the new observation included.

        request: the request for a summary instead of the new observation.
        """
        pieces = jnp.asarray(self.table)[turn]
        if request:
            pieces = pieces.at[:, -1, 1].set(REQUESTED)
        return self._opened(self._join(transcript, lane, pieces, size - self.added))

    def rows(self, transcript: Transcript, taken: jax.Array, size: int) -> Composed:
        """One row [E, size] per lane with its first `taken` i32[E] turns."""
        number = jnp.arange(transcript.lengths.shape[1], dtype=jnp.int32)
        there = (number >= 2 * self.slots) | (number < 2 * taken[:, None])
        kept = transcript.replace(lengths=jnp.where(there, transcript.lengths, 0))
        lane = jnp.arange(taken.shape[0])
        pieces = jnp.broadcast_to(self.row_table, (taken.shape[0], *self.row_table.shape))
        return self._opened(self._join(kept, lane, pieces, size - self.added))

    def _opened(self, rows: Composed) -> Composed:
        """Rows with the opening in place of the first tokens of their first observation."""
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
        self, transcript: Transcript, lane: jax.Array, pieces: jax.Array, size: int
    ) -> Composed:
        """Pieces i32[R, P, 2] of lanes i32[R], one behind the other."""
        turn, kind = pieces[..., 0], pieces[..., 1]
        base, at = self._places(jnp.maximum(turn, 0), jnp.maximum(kind, 0))
        lengths = transcript.lengths[lane[:, None], at]
        ends = jnp.cumsum(jnp.where(turn >= 0, lengths, 0), axis=1)
        position = jnp.arange(size, dtype=jnp.int32)
        piece = jnp.sum(position[None, :, None] >= ends[:, None, :], axis=2, dtype=jnp.int32)
        inside = position[None] < ends[:, -1:]
        piece = jnp.minimum(piece, ends.shape[1] - 1)
        starts = jnp.pad(ends, ((0, 0), (1, 0)))

        def of_piece(x):
            return jnp.take_along_axis(x, piece, axis=1)

        offset = position[None] - of_piece(starts)
        index = jnp.where(inside, of_piece(base) + offset, 0)
        tokens = transcript.tokens[lane[:, None], index]
        return Composed(
            tokens=jnp.where(inside, tokens, 0),
            length=jnp.minimum(ends[:, -1], size),
            turn=jnp.where(inside, of_piece(turn), -1),
            kind=jnp.where(inside, of_piece(kind), -1),
            offset=jnp.where(inside, offset, 0),
            cut=ends[:, -1] > size,
        )


def shown(context: Context, t: int) -> list[tuple[int, int]]:
    """(turn, kind) of the pieces before the reply of turn t, before any of them is dropped."""
    pieces = []
    recent_from = _earliest(context, t)
    for s in range(t):
        recent = s >= recent_from
        replied = recent or context.replies is None or s >= t - context.replies
        if recent or (context.keep_first and s == 0):
            pieces += [(s, OBSERVED)]
        elif replied:
            pieces += [(s, OMITTED)]
        if s == 0 and context.limit is not None:
            pieces += [(s, SUMMARIZED)]
        if replied:
            pieces += [(s, REPLIED)]
    return [*pieces, (t, OBSERVED)]


def _earliest(context: Context, t: int) -> int:
    """The first of the recent turns in the prompt of turn t."""
    if context.history is None or t <= context.history:
        return 0
    # Where the first observation stays, it is none of those that leave.
    first, beyond = int(context.keep_first), t - context.history
    return first + context.stride * -((first - beyond) // context.stride)


def rows_of(context: Context, turns: int) -> np.ndarray:
    """The row of each turn of an episode, i32[T]: one for all, one for each, or, where the window
    moves in strides, one for turns whose prompts continue each other."""
    if context.one_row:
        return np.zeros(turns, np.int32)
    if context.stride == 1:
        return np.arange(turns, dtype=np.int32)
    # A first observation that stays is none of those that leave.
    first = int(context.keep_first)
    earliest = [max(_earliest(context, t), first) for t in range(turns)]
    return np.cumsum(np.diff(earliest, prepend=first) > 0, dtype=np.int32)


def _put(x: jax.Array, lane: jax.Array, start: jax.Array, values: jax.Array) -> jax.Array:
    """x [E, W] with values [n, m] at (lane, start): every lane, or one out of each E / n."""
    lanes, width = x.shape
    count = values.shape[0]
    if count == lanes:
        return jax.vmap(lambda row, at, new: jax.lax.dynamic_update_slice(row, new, (at,)))(
            x, start, values
        )
    group = lanes // count
    by_group = x.reshape(count, group, width)
    put = jax.vmap(lambda rows, i, at, new: jax.lax.dynamic_update_slice(rows, new[None], (i, at)))
    return put(by_group, lane % group, start, values).reshape(x.shape)
