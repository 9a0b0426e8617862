"""GAE through the order in which agents act within a step (MARFT)."""

import math
from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import as_advantage, group_segments
from agentrl.checks import check_choice, check_range, check_rows, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return
from agentrl.streams import last_turns

Restart = Literal["chain", "cut"]


class _Sequence(NamedTuple):
    """All decisions of M = N * T * L in the order of play, absent ones at the end.

    by_role: i32[N], streams by role. order: i32[M], decisions of `by_role`'s streams. at: i32[M],
    the step of each, episode * T + turn; N * T for absent ones.
    """

    by_role: jax.Array
    order: jax.Array
    at: jax.Array

    def of(self, array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """An array [N, T] or [N, T, L] as [M] in the order of play."""
        wide = array if array.ndim == 3 else jnp.broadcast_to(array, shape[:2])[:, :, None]
        return jnp.broadcast_to(wide, shape)[self.by_role].reshape(-1)[self.order]

    def back(self, values: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """[M] in the order of play as [N, T, L]."""
        placed = jnp.zeros(values.shape, values.dtype).at[self.order].set(values)
        return jnp.zeros(shape, values.dtype).at[self.by_role].set(placed.reshape(shape))


def _sequence(acted: jax.Array, segment: jax.Array, role: jax.Array) -> _Sequence:
    """The order of play of decisions bool[N, T, L]: by episode, turn, role, then token."""
    streams, turns, tokens = acted.shape
    step = segment[:, None, None] * turns + jnp.arange(turns, dtype=jnp.int32)[:, None]
    # Streams by role, then a stable sort by step.
    by_role = jnp.argsort(role, stable=True)
    at = jnp.where(acted, jnp.broadcast_to(step, acted.shape), streams * turns)
    at = at[by_role].reshape(-1)
    order = jnp.argsort(at, stable=True)
    return _Sequence(by_role, order, at[order])


def _following(array: jax.Array, last: float) -> jax.Array:
    """The next element of each, and `last` after the last."""
    return jnp.concatenate([array[1:], jnp.full(1, last, array.dtype)])


def marft(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    episode: jax.Array,
    role: jax.Array,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
    restart: Restart = "chain",
    truncated: jax.Array | None = None,
) -> jax.Array:
    """GAE of a team whose agents act one after another within each turn.

    All decisions of an episode form one sequence, by turn, then role (then token):

      delta_j = r_j + gamma V'_j - V_j,  A_j = delta_j + gamma lam c_j A_{j+1}.

    Agent k's successor is agent k + 1 in the same turn, who has seen what k wrote; the last one's
    is the first agent of the next turn. V' and c are as in `gae`: the successor's value and 1, or 0
    and 0 where the episode terminated in this turn, or bootstrap and 0 where it is cut. The
    discount is applied between agents (and tokens), too. The team's reward is given once, to its
    last agent, and so reaches all. `marft_by_turn` computes it from the streams of a rollout.

    Args:
      reward: f32[N, T].
      value: f32[N, T], or f32[N, T, L] with a value of each of up to L tokens of a turn.
      mask: bool of value's shape; tokens of a turn from the first on. The reward is its last one's.
      terminated: bool[N, T]. The turn number is the episode's clock: entry t of all streams of an
        episode belongs to the same step. An end that any of them marks holds for the step, and
        takes effect after its last agent.
      bootstrap: f32[N, T], f32[N] or a scalar, as for `gae`; read at the last decision before a
        cut, where it is the value of the agent who would act next (the reference: agent 0).
      episode, role: i32[N], any ids; equal roles of an episode act in the order of the streams.
      gamma, lam: discount and trace, in [0, 1].
      restart: in rows that hold several episodes, "chain" links the agents in the first step after
        an end as in every other. "cut" does not, as in the reference: each agent's transition to
        the next is multiplied by the mask of the step's start, which is 0 because the episode
        before had ended, so that only the last agent learns from that step's reward.
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its row.

    Returns:
      f32 of value's shape, 0 where mask is False, gradient stopped. With one agent this is `gae`.

    Raises:
      ValueError: an unknown choice, a number outside its range, or arrays of other shapes or types.

    References:
      Liao et al. (2025), MARFT, https://arxiv.org/abs/2504.16129; Wen et al. (2022), Multi-agent
      transformer, https://arxiv.org/abs/2205.14953. Read and executed: jwliao-ai/MARFT 1beacdb.
    """
    check_choice("restart", restart, get_args(Restart))
    check_range("marft gamma", gamma, 0.0, 1.0)
    check_range("marft lam", lam, 0.0, 1.0)
    chex.assert_rank(value, {2, 3})
    chex.assert_equal_shape([value, mask])
    tokens = value.shape[2] if value.ndim == 3 else 1
    acted = jnp.asarray(mask).reshape(*value.shape[:2], tokens)
    flags = {"terminated": terminated, "truncated": truncated}
    ids = {"episode": episode, "role": role}
    any_token = jnp.any(acted, axis=2)
    check_streams("marft", any_token, numbers={"reward": reward}, flags=flags, ids=ids)
    chex.assert_type(acted, bool)
    if value.size == 0:
        return jnp.zeros(value.shape, jnp.float32)
    return _marft(
        jnp.asarray(reward, jnp.float32),
        jnp.asarray(value, jnp.float32).reshape(acted.shape),
        acted,
        jnp.asarray(terminated),
        _per_stream(bootstrap),
        group_segments(episode, jnp.any(any_token, axis=1)),
        role,
        gamma=gamma,
        lam=lam,
        restart=restart,
        truncated=truncated,
    ).reshape(value.shape)


def _per_stream(bootstrap: jax.Array) -> jax.Array:
    """f32[N, T], [N] or a scalar, so that it broadcasts to [N, T]."""
    bootstrap = jnp.asarray(bootstrap, jnp.float32)
    return bootstrap[:, None] if bootstrap.ndim == 1 else bootstrap


def _marft(
    reward, value, acted, terminated, bootstrap, segment, role, *, gamma, lam, restart, truncated
) -> jax.Array:
    """`marft` of value and acted [N, T, L], segment i32[N] the episode of each stream."""
    shape = acted.shape
    streams, turns, _ = shape
    steps = streams * turns
    step = segment[:, None] * turns + jnp.arange(turns, dtype=jnp.int32)

    def of_step(flags):
        flags = jnp.any(acted, axis=2) & flags
        return jax.ops.segment_max(flags.reshape(-1), step.reshape(-1), num_segments=steps)

    ends = of_step(terminated)
    cuts = jnp.zeros_like(ends) if truncated is None else of_step(truncated)
    play = _sequence(acted, segment, role)
    number = jnp.arange(streams, dtype=jnp.int32)[:, None]
    r, v, beyond, stream = (play.of(x, shape) for x in (reward, value, bootstrap, number))
    at = play.at
    exists, home = at < steps, jnp.minimum(at, steps - 1)
    same_step = exists & (_following(at, steps) == at)
    same_episode = exists & (_following(at, steps) // turns == at // turns)
    last_token = ~(same_step & (_following(stream, -1) == stream))
    ended = ~same_step & ends[home]
    goes_on = same_episode & (same_step | ~(ends | cuts)[home])
    if restart == "cut":
        starts = (home % turns > 0) & ends[home - 1]
        ended = ended | (starts & same_step & last_token)
        goes_on = goes_on & ~ended
    after = jnp.where(goes_on, _following(v, 0.0), jnp.where(ended, 0.0, beyond))
    delta = jnp.where(last_token, r, 0.0) + gamma * after - v
    trace = jnp.where(goes_on, gamma * lam, 0.0)
    advantage = _backward(trace, jnp.where(exists, delta, 0.0))
    return as_advantage(play.back(jnp.where(exists, advantage, 0.0), shape), acted)


@assumes("whole_episodes", "team", "one_end")
def marft_by_turn(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    episode: jax.Array,
    role: jax.Array,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
    penalty: jax.Array | None = None,
) -> jax.Array:
    """`marft` of the streams of a rollout, in which each agent carries the team's reward and end.

    Each stream's reward contains everything that the team earned from one of its turns to its next,
    and each marks the end on its own last turn. With C_j the stream's undiscounted return to go
    from decision j on, which is the team's, the team earned C_j - C_{j+1} between decision j and
    the next decision of any agent: that is r_j of `marft`, and each reward counts once. The end
    holds at the episode's last decision. What followed a cut has the value of the agent who would
    act next: the next role after that of the last decision, in a circle.

    Args:
      reward: f32[N, T], the team's. Reward terms that differ between agents do not fit; penalties
        do.
      value, bootstrap: f32[N, T], each agent's own.
      mask, terminated: bool[N, T].
      episode, role: i32[N], any ids; one stream per role and episode.
      gamma, lam: discount and trace between decisions, in [0, 1].
      penalty: f32[N, T], subtracted from the reward of the turn itself.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. An episode without an end is cut.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      As `marft`, whose released code takes rewards per agent from the environment. The adaptation
      to streams is ours. C_j - C_{j+1} is rounded relative to the returns.
    """
    numbers = {"reward": reward, "value": value, "bootstrap": bootstrap, "penalty": penalty}
    ids = {"episode": episode, "role": role}
    check_streams("marft_by_turn", mask, numbers=numbers, flags={"terminated": terminated}, ids=ids)
    if mask.size == 0:
        return jnp.zeros(mask.shape, jnp.float32)
    score, ends, beyond = _of_team(reward, mask, terminated, bootstrap, episode, role, penalty)
    return marft(score, value, mask, ends, beyond, episode, role, gamma=gamma, lam=lam)


@assumes("whole_episodes", "team", "one_end")
def marft_by_position(
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    episode: jax.Array,
    role: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
    penalty: jax.Array | None = None,
) -> jax.Array:
    """`marft` over the tokens of a rollout: within a turn, then to the next agent's first token.

    The team's rewards and its end are those of `marft_by_turn`.

    Args:
      reward: f32[N, T], the team's.
      token_value: f32[R, L], the critic's value at each position, before its token. Annotation
        `agentrl.methods.token_values.token_values` fills it.
      mask, terminated: bool[N, T].
      bootstrap: f32[N, T], each agent's own.
      episode, role: i32[N], any ids; one stream per role and episode.
      loss_mask: bool[R, L], tokens that the policy wrote; those of a turn are in one row.
      stream: i32[R], the stream of each row.
      turn: i32[R, L], the turn of each position; -1 for none.
      gamma, lam: discount and trace per token, and between agents, in [0, 1].
      penalty: f32[N, T], subtracted from the reward of the turn itself.

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped. With one token per turn this is
      `marft_by_turn`.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      As `marft`, its level of tokens.
    """
    numbers = {"reward": reward, "bootstrap": bootstrap, "penalty": penalty}
    ids, flags = {"episode": episode, "role": role}, {"terminated": terminated}
    check_streams("marft_by_position", mask, numbers=numbers, flags=flags, ids=ids)
    values = {"token_value": token_value}
    check_rows("marft_by_position", loss_mask, stream, turn, numbers=values)
    if mask.size == 0:
        return jnp.zeros(loss_mask.shape, jnp.float32)
    score, ends, beyond = _of_team(reward, mask, terminated, bootstrap, episode, role, penalty)
    length = loss_mask.shape[1]
    at = stream[:, None], jnp.maximum(turn, 0), jnp.arange(length)[None]
    written = loss_mask & (turn >= 0) & jnp.asarray(mask)[at[:2]]
    dense = (*mask.shape, length)
    value = jnp.zeros(dense).at[at].add(jnp.where(written, token_value, 0.0))
    acted = jnp.zeros(dense, bool).at[at].max(written)
    found = marft(score, value, acted, ends, beyond, episode, role, gamma=gamma, lam=lam)
    return as_advantage(found[at], written)


def _of_team(
    reward, mask, terminated, bootstrap, episode, role, penalty
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(reward between a decision and the team's next f32[N, T], the episode ends with this decision
    bool[N, T], value of what followed a cut f32[N])."""
    acted, (streams, turns) = jnp.asarray(mask)[:, :, None], mask.shape
    shape = acted.shape
    segment = group_segments(episode, jnp.any(mask, axis=1))
    play = _sequence(acted, segment, role)
    togo = play.of(discounted_return(reward, mask, gamma=1.0), shape)
    exists = play.at < streams * turns
    same_episode = exists & (_following(play.at, streams * turns) // turns == play.at // turns)
    earned = togo - jnp.where(same_episode, _following(togo, 0.0), 0.0)
    score = play.back(jnp.where(exists, earned, 0.0), shape)[:, :, 0]
    if penalty is not None:
        score = score - jnp.where(mask, penalty, 0.0)
    last = play.back(exists & ~same_episode, shape)[:, :, 0]
    over = jax.ops.segment_max(
        jnp.any(mask & terminated, axis=1), segment, num_segments=streams + 1
    )[segment]
    beyond = jnp.sum(jnp.where(last_turns(mask), bootstrap, 0.0), axis=1)
    return score, last & over[:, None], beyond[_next_role(segment, role)]


def _next_role(segment: jax.Array, role: jax.Array) -> jax.Array:
    """The stream of the next role of the same episode, in a circle: i32[N]."""
    count = segment.shape[0]
    order = jnp.lexsort((role, segment))
    ordered = segment[order]
    index = jnp.arange(count)
    first = jax.ops.segment_min(index, ordered, num_segments=count + 1)[ordered]
    following = jnp.where(_following(ordered, -1) == ordered, index + 1, first)
    return jnp.zeros(count, jnp.int32).at[order].set(order[following].astype(jnp.int32))


def _backward(trace: jax.Array, delta: jax.Array) -> jax.Array:
    """A_j = delta_j + trace_j A_{j+1} over f32[M], in about 2 sqrt(M) steps.

    Blocks of about sqrt(M) side by side, each as if nothing followed it; then what does follow is
    passed from block to block. A scan of M steps would leave an accelerator idle, and
    `associative_scan` takes ten seconds to compile for 262,144 turns on CPU.
    """
    count = delta.shape[0]
    width = math.isqrt(count - 1) + 1
    blocks = -(-count // width)
    trace, delta = (
        jnp.pad(array, (0, blocks * width - count)).reshape(blocks, width)
        for array in (trace, delta)
    )

    def within(carry, column):
        advantage, reach = carry
        carry = column[1] + column[0] * advantage, column[0] * reach
        return carry, carry

    nothing = (jnp.zeros(blocks, jnp.float32), jnp.ones(blocks, jnp.float32))
    _, (local, reach) = jax.lax.scan(within, nothing, (trace.T, delta.T), reverse=True)

    def between(after, block):
        return block[0] + block[1] * after, after

    _, after = jax.lax.scan(between, jnp.zeros((), jnp.float32), (local[0], reach[0]), reverse=True)
    return (local + reach * after).T.reshape(-1)[:count]
