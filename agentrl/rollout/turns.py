"""Turns of conversations: what happened in them, as streams, as rows and as metrics."""

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.rollout.contexts import REPLIED, Layout, Transcript
from agentrl.streams import Rows, Streams, to_last_turn

# Entropy is shown for these turns, where they exist: it often falls turn by turn.
_SHOWN_TURNS = (1, 2, 4, 8, 16)


@struct.dataclass
class Turns:
    """What happened in each turn of B episodes; T turns, G reply tokens, V tokens in all.

    In a turn S agents move (`envs.mover`), and P = B * S places b * S + s are replied from.

    running: bool[T, B], the episode had this turn: what happened is read only there. What a game's
    opponents did until the policy's next turn belongs to it.
    replied: bool[T, P], the policy replied: what it said is read only there.
    seat: i32[T, P], whose reply it was.
    length: i32[T, P], tokens of the reply, the end token counted; ended: it wrote the end token.
    logp, entropy: f32[T, P, G]. kept: bool[T, P, G, V] or None, tokens that could be drawn.
    value: f32[T, P]. anchor: u32[T, P, 2]. cut: bool[T, P], the observation was too long to be read
    whole.
    well_formed, known, valid: bool[T, P]: keeps the grammar; names commands; both, and all of them
    were legal. thinks: bool[T, P], something stands in its thought; None where the grammar has
    none. reward f32, terminated, truncated, success bool[T, B]: of the environment; reward and
    success of games are [T, B, A]. offender: i32[T, B], the seat whose illegal action has ended a
    game; -1 otherwise.
    """

    running: jax.Array
    replied: jax.Array
    seat: jax.Array
    length: jax.Array
    ended: jax.Array
    logp: jax.Array
    entropy: jax.Array
    kept: jax.Array | None
    value: jax.Array
    anchor: jax.Array
    cut: jax.Array
    well_formed: jax.Array
    known: jax.Array
    valid: jax.Array
    thinks: jax.Array | None
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    success: jax.Array
    offender: jax.Array


def streams_of(turns: Turns, group: jax.Array | None, bootstrap: jax.Array | None) -> Streams:
    """The streams of B episodes, or of the A seats of B matches: stream b * A + seat.

    group: i32[B]; the streams of one seat are compared. bootstrap: f32[B], of games f32[B, A], the
    critic's value of what followed, or None without a critic.
    """
    if turns.reward.ndim == 3:
        return _streams_of_seats(turns, group, bootstrap)
    mask = turns.replied.T

    def column(x):
        return jnp.where(mask, x.T, jnp.zeros((), x.dtype))

    has_critic = bootstrap is not None
    return Streams(
        mask=mask,
        reward=column(turns.reward),
        group=group,
        episode=jnp.arange(mask.shape[0], dtype=jnp.int32),
        anchor=jnp.swapaxes(turns.anchor, 0, 1),
        value=column(turns.value) if has_critic else None,
        bootstrap=jnp.broadcast_to(bootstrap[:, None], mask.shape) if has_critic else None,
        terminated=column(turns.terminated),
        truncated=column(turns.truncated),
        valid=column(turns.valid),
        success=column(turns.success),
        well_formed=column(turns.well_formed),
        cost=column(turns.length).astype(jnp.float32),
    )


def _streams_of_seats(
    turns: Turns, group: jax.Array | None, bootstrap: jax.Array | None
) -> Streams:
    length, batch, seats = turns.reward.shape

    def by_stream(x):
        """[T, B, A, ...] as [N, T, ...]."""
        return jnp.moveaxis(x, 0, 2).reshape(batch * seats, length, *x.shape[3:])

    def of_mover(x):
        """What was its own reply's, [T, P, ...], as [N, T, ...]."""
        mine = turns.replied[..., None] & (turns.seat[..., None] == jnp.arange(seats))
        mine = mine.reshape(*mine.shape, *[1] * (x.ndim - 2))
        own = jnp.where(mine, x[:, :, None], jnp.zeros((), x.dtype))
        # A seat has one place of a turn, or none.
        own = own.reshape(length, batch, -1, *own.shape[2:])
        own = jnp.any(own, axis=2) if x.dtype == bool else jnp.sum(own, axis=2, dtype=x.dtype)
        return by_stream(own)

    mask = of_mover(jnp.ones(turns.seat.shape, bool))

    def of_all(x):
        """What a turn brought to all seats, at the last turn that each had taken."""
        x = jnp.broadcast_to(x[..., None], turns.reward.shape) if x.ndim == 2 else x
        x = jnp.where(turns.running[..., None], x, jnp.zeros((), x.dtype))
        return to_last_turn(by_stream(x), mask)

    everyone = jnp.arange(seats, dtype=jnp.int32)
    has_critic = bootstrap is not None
    if has_critic:
        bootstrap = bootstrap.reshape(batch * seats, 1)
    return Streams(
        mask=mask,
        reward=of_all(turns.reward),
        group=None if group is None else jnp.repeat(group, seats),
        episode=jnp.repeat(jnp.arange(batch, dtype=jnp.int32), seats),
        role=jnp.tile(everyone, batch),
        task=jnp.zeros(batch * seats, jnp.int32),
        anchor=of_mover(turns.anchor),
        value=of_mover(turns.value) if has_critic else None,
        bootstrap=jnp.broadcast_to(bootstrap, mask.shape) if has_critic else None,
        terminated=of_all(turns.terminated),
        truncated=of_all(turns.truncated),
        valid=of_mover(turns.valid),
        success=of_all(turns.success),
        well_formed=of_mover(turns.well_formed),
        cost=of_mover(turns.length).astype(jnp.float32),
    )


def rows_of(layout: Layout, transcript: Transcript, turns: Turns, size: int) -> Rows:
    """Rows of `size` tokens that train every reply once: an episode each, or a reply each."""
    length, batch = turns.replied.shape
    table = jnp.asarray(layout.table)
    there = turns.replied.T
    if layout.context == "whole":
        stream = jnp.arange(batch, dtype=jnp.int32)
        pieces = jnp.broadcast_to(table[length - 1], (batch, *table.shape[1:]))
    else:
        stream = jnp.tile(jnp.arange(batch, dtype=jnp.int32), length)
        own = jnp.repeat(jnp.arange(length, dtype=jnp.int32), batch)
        pieces = table[own]
    # What was observed in a turn that did not take place stays out.
    lengths = transcript.lengths.at[:, :length].multiply(there[..., None])
    transcript = transcript.replace(lengths=lengths.at[:, length:].set(0))
    composed = layout.compose(transcript, stream, pieces, size)
    written = composed.kind == REPLIED
    if layout.context != "whole":
        # A row trains its own turn; without that turn it is empty.
        written &= (composed.turn == own[:, None]) & there[stream, own][:, None]
    turn = jnp.where(written, composed.turn, 0)
    offset = jnp.where(written, composed.offset, 0)

    def at_replies(x):
        return jnp.swapaxes(x, 0, 1)[stream[:, None], turn, offset]

    kept = None
    if turns.kept is not None:
        # Positions that were not drawn have nothing cut: their logits stay finite.
        kept = at_replies(turns.kept) | ~written[..., None]
    owner, role = stream, jnp.zeros_like(stream)
    if turns.reward.ndim == 3:
        _, matches, seats = turns.reward.shape
        role = turns.seat[own, stream]
        owner = stream // (batch // matches) * seats + role
    return Rows(
        tokens=composed.tokens,
        loss_mask=written,
        stream=owner,
        turn=composed.turn,
        behaviour_logp=jnp.where(written, at_replies(turns.logp), 0.0),
        span=composed.kind,
        legal=kept,
        role=role,
    )


def metrics_of(
    streams: Streams, turns: Turns, has_success: bool, opponent: str = "self"
) -> dict[str, jax.Array]:
    """Totals and weights over episodes, turns and tokens, so that means of several collections
    combine; every episode has ended.

    response_length: tokens a reply; response_cut_rate: replies without an end token;
    invalid_format_rate: replies that do not keep the grammar; unknown_command_rate: that name
    anything else than commands; invalid_action_rate: all of these and commands that were illegal;
    empty_thought_rate: replies without anything in their thought, or without one;
    observation_cut_rate: texts that did not fit (should be 0); tokens: written a collection;
    behaviour_entropy: nats a token when it was drawn, entropy/turn_k that of the k-th turn.
    """
    mask = turns.replied
    # An opponent may have lost a match before the policy's first turn, and outside JAX an episode
    # can be lost: it does not count.
    played = jnp.any(turns.running, axis=0)
    matches = jnp.sum(played, dtype=jnp.float32)
    acted = jnp.sum(mask, dtype=jnp.float32)
    plays = jnp.any(streams.mask, axis=1)
    count = jnp.sum(plays, dtype=jnp.float32)

    def per_episode(x):
        return jnp.stack([jnp.sum(jnp.where(plays, x.astype(jnp.float32), 0.0)), count])

    def per_turn(x):
        return jnp.stack([jnp.sum(jnp.where(mask, x, 0), dtype=jnp.float32), acted])

    position = jnp.arange(turns.entropy.shape[-1])
    drawn = mask[..., None] & (position < turns.length[..., None])
    entropy = jnp.sum(jnp.where(drawn, turns.entropy, 0), axis=(1, 2))
    tokens = jnp.sum(drawn, axis=(1, 2), dtype=jnp.float32)
    out = {
        "episode_return": per_episode(jnp.sum(streams.reward, axis=1)),
        "episode_length": per_episode(jnp.sum(streams.mask, axis=1)),
        "truncation_rate": per_episode(jnp.any(streams.truncated, axis=1)),
        "invalid_action_rate": per_turn(~turns.valid),
        "invalid_format_rate": per_turn(~turns.well_formed),
        "unknown_command_rate": per_turn(~turns.known),
        "response_length": per_turn(turns.length),
        "response_cut_rate": per_turn(~turns.ended),
        "observation_cut_rate": per_turn(turns.cut),
        "behaviour_entropy": jnp.stack([jnp.sum(entropy), jnp.sum(tokens)]),
        "tokens": jnp.stack([jnp.sum(tokens), jnp.float32(1)]),
        "episodes": jnp.stack([matches, jnp.float32(1)]),
    }
    if turns.thinks is not None:
        out["empty_thought_rate"] = per_turn(~turns.thinks)
    for turn in _SHOWN_TURNS:
        if turn <= mask.shape[0]:
            out[f"entropy/turn_{turn}"] = jnp.stack([entropy[turn - 1], tokens[turn - 1]])
    if has_success:
        success = jnp.any(streams.success, axis=1)
        out["success_rate"] = per_episode(success)
        if streams.role is not None:
            seats = turns.reward.shape[2]
            offended = jnp.any(turns.running & (turns.offender >= 0), axis=0)
            cut = jnp.any(turns.running & turns.truncated, axis=0)
            won = jnp.any(turns.success & turns.running[..., None], axis=(0, 2))
            drawn = played & ~won & ~offended & ~cut
            out["invalid_end_rate"] = jnp.stack([jnp.sum(offended) * 1.0, matches])
            out["draw_rate"] = jnp.stack([jnp.sum(drawn) * 1.0, matches])
            for seat in range(seats):
                mine = plays & (streams.role == seat)
                number = jnp.sum(mine, dtype=jnp.float32)
                out[f"win_rate/{seat}/{opponent}"] = jnp.stack(
                    [jnp.sum(success & mine) * 1.0, number]
                )
    return out
