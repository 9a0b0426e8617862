"""Rewards of turns that count only if something else went right: DeepTravel, Video-MTR."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes
from agentrl.streams import last_turns


@assumes("whole_episodes")
def verified_reward(reward: jax.Array, mask: jax.Array, verified: jax.Array) -> jax.Array:
    """The reward of streams all of whose turns passed their check; 0 for the others (DeepTravel).

    A check of the whole stream comes first, which is the reward itself: a failure stays 0 whatever
    its turns are like. With rewards of 0 and 1, (0, all turns pass) gives 0, (1, five of six) 0,
    and (1, six of six) 1.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      verified: bool[N, T], the turn passed its check, for example that of
        `agentrl.methods.turn_checks.turn_checks`.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      DeepTravel (2025), https://arxiv.org/abs/2509.21842, from notes on the paper; no code read.
      Its replay of failed tasks is `agentrl.methods.failed_tasks.failed_tasks`.
    """
    check_streams("verified_reward", mask, numbers={"reward": reward}, flags={"verified": verified})
    passed = jnp.all(verified | ~mask, axis=1, keepdims=True)
    return jnp.where(mask & passed, jnp.asarray(reward, jnp.float32), 0.0)


def turn_bonus(
    reward: jax.Array, mask: jax.Array, turn_reward: jax.Array, *, coefficient: float = 1.0
) -> jax.Array:
    """reward + coefficient * turn_reward: the outcome, and rewards of turns beside it (MatchTIR).

    Args:
      reward: f32[N, T], the outcome.
      mask: bool[N, T], the agent acted.
      turn_reward: f32[N, T], an annotation, such as that of
        `agentrl.methods.call_matching.call_matching`.
      coefficient: >= 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.

    References:
      Qu et al. (2026), MatchTIR, https://arxiv.org/abs/2601.10712; code f614ce1 (read).
    """
    check_range("turn_bonus coefficient", coefficient, 0.0)
    check_streams("turn_bonus", mask, numbers={"reward": reward, "turn_reward": turn_reward})
    given = jax.lax.stop_gradient(jnp.asarray(turn_reward, jnp.float32))
    return jnp.where(mask, reward + coefficient * given, 0.0)


@assumes("whole_episodes")
def gated_turn_rewards(
    reward: jax.Array,
    mask: jax.Array,
    turn_reward: jax.Array,
    success: jax.Array,
    *,
    well_formed: jax.Array | None = None,
    format_reward: float = 0.1,
    gated: bool = True,
) -> jax.Array:
    """The outcome, plus rewards of turns that count only in streams that succeed (Video-MTR).

    r_t + 1{success} (turn_reward_t + format_reward f_t) before the last turn, and at the last one
    r_t + format_reward f_t, where f_t is 1 for a well-formed reply.

    Args:
      reward: f32[N, T], the outcome.
      mask: bool[N, T], the agent acted.
      turn_reward: f32[N, T], an annotation, such as that of `agentrl.methods.looking.looking`.
      success: bool[N, T], the task was solved at this turn.
      well_formed: bool[N, T], the reply kept the grammar; None: all turns (arrays have none).
      format_reward: at least 0.
      gated: False: turns count in every stream, as in the release, which does not apply the
        paper's gate.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative number, or arrays of other shapes or types.

    References:
      Video-MTR (2025), https://arxiv.org/abs/2508.20478; code Xyuan13/Video-MTR (read), the gate
      from notes on the paper.
    """
    check_range("gated_turn_rewards format_reward", format_reward, 0.0)
    numbers = {"reward": reward, "turn_reward": turn_reward}
    flags = {"success": success} | ({} if well_formed is None else {"well_formed": well_formed})
    check_streams("gated_turn_rewards", mask, numbers=numbers, flags=flags)
    solved = jnp.any(success & mask, axis=1, keepdims=True)
    last = last_turns(mask)
    kept = jnp.ones(mask.shape, bool) if well_formed is None else well_formed
    formed = format_reward * jnp.asarray(kept, jnp.float32)
    before = jnp.where(solved | (not gated), turn_reward + formed, 0.0)
    more = jnp.where(last, formed, before)
    return jnp.where(mask, jnp.asarray(reward, jnp.float32) + more, 0.0)


def retrieval_gain(
    seen: jax.Array, relevant: jax.Array, *, bonus: float = 0.5, margin: float = 0.001
) -> jax.Array:
    """Reward of looking at a better part of the input than the turn before (Video-MTR).

    bonus where IoU(seen_t, relevant) > IoU(seen_{t-1}, relevant) + margin, else 0; the first look
    is the one that is improved on, and gets 0.

    Args:
      seen: bool[N, T, F], the frames that each observation shows.
      relevant: bool[N, F].

    Returns:
      f32[N, T].

    References:
      As for `gated_turn_rewards`. IoU of sets of frames: at most eight of a long relevant part are
      ever seen, which caps it below 1.
    """
    relevant = relevant[:, None]
    shared, either = (jnp.sum(x, axis=-1) for x in (seen & relevant, seen | relevant))
    overlap = shared / jnp.maximum(either, 1)
    better = overlap[:, 1:] > overlap[:, :-1] + margin
    return jnp.pad(jnp.where(better, bonus, 0.0), ((0, 0), (1, 0)))


@assumes("whole_episodes")
def order_reward(
    reward: jax.Array, mask: jax.Array, keeps_order: jax.Array, *, format_reward: float = 0.0
) -> jax.Array:
    """The reward of streams whose turns keep the specified order, 0 for others (Chain-of-Agents).

    r_t at the last turn plus format_reward where all turns keep it; 0 everywhere where one does
    not. Decoding that enforces the order makes this the reward itself, plus a constant.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      keeps_order: bool[N, T], of component `agentrl.methods.segments`.
      format_reward: at least 0 (one variant of the reference: 0.1, beside 0.9 for the answer).

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative reward, or arrays of other shapes or types.

    References:
      Chain-of-Agents (2025), https://arxiv.org/abs/2508.13167; code 8f94516 (read): the judge
      counts only where the format holds. There the format is a comparison of opening and closing
      tags, which also refuses legal orders.
    """
    check_range("order_reward format_reward", format_reward, 0.0)
    flags = {"keeps_order": keeps_order}
    check_streams("order_reward", mask, numbers={"reward": reward}, flags=flags)
    kept = mask & jnp.all(keeps_order | ~mask, axis=1, keepdims=True)
    paid = jnp.asarray(reward, jnp.float32) + format_reward * last_turns(mask)
    return jnp.where(kept, paid, 0.0)


@assumes("whole_episodes")
def repetition_penalty(
    reward: jax.Array, mask: jax.Array, repeated: jax.Array, *, coefficient: float = 0.5
) -> jax.Array:
    """The reward, less `coefficient` at the last turn of a stream that repeats itself, once.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      repeated: bool[N, T], turns that repeat another, of component `agentrl.methods.segments`.
      coefficient: at least 0 (released: 0.5).

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.

    References:
      Chain-of-Agents (2025), https://arxiv.org/abs/2508.13167; code 8f94516 (read).
    """
    check_range("repetition_penalty coefficient", coefficient, 0.0)
    flags = {"repeated": repeated}
    check_streams("repetition_penalty", mask, numbers={"reward": reward}, flags=flags)
    lost = coefficient * jnp.any(mask & repeated, axis=1, keepdims=True)
    return jnp.where(mask, reward - lost * last_turns(mask), 0.0)
