"""Advantages weighted by how long a turn took, or so that every rollout weighs the same."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams


def duration_aware(
    advantage: jax.Array,
    mask: jax.Array,
    duration: jax.Array,
    *,
    cap: float | None = 10.0,
) -> jax.Array:
    """Advantages times the turn's duration over the batch's mean duration.

    A[i, t] min(d[i, t] / mean(d), cap), with the mean over all turns where mask is True. In a fixed
    time a short action is sampled more often than its probability says, by the factor 1 / d, where
    what arrives first is learnt from first; the weight takes that back. A batch that waits for all
    its episodes has no such excess, and there the weight favours slow actions.

    Args:
      advantage: f32[N, T], standardised already if at all. The losses here are positively
        homogeneous in it, so this is a weight on the loss per turn.
      mask: bool[N, T], the agent acted.
      duration: f32[N, T], time of each turn, in any unit; not negative. What failed by a time limit
        counts the time until then.
      cap: largest weight; None for none.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Equal durations change nothing.

    Raises:
      ValueError: a cap not above 0, or arrays of other shapes or types.

    References:
      Yang et al. (2025), Reinforcement learning for machine learning engineering agents,
      https://arxiv.org/abs/2509.01684: the formula as notes on the paper give it; no code was
      published. The cap is ours.
    """
    check_range("duration_aware cap", cap, 0.0, above=True)
    numbers = {"advantage": advantage, "duration": duration}
    check_streams("duration_aware", mask, numbers=numbers)
    time = jnp.where(mask, jnp.asarray(duration, jnp.float32), 0.0)
    mean = jnp.sum(time) / jnp.maximum(jnp.sum(mask), 1)
    weight = jnp.where(mean > 0, time / jnp.where(mean > 0, mean, 1.0), 1.0)
    weight = weight if cap is None else jnp.minimum(weight, cap)
    return jax.lax.stop_gradient(jnp.where(mask, advantage, 0.0) * weight)


def per_rollout_mean(
    advantage: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    episode: jax.Array,
) -> jax.Array:
    """Advantages over the tokens of their rollout, so that each rollout weighs the same.

    A_p / (n_e M), with n_e the tokens that the policy wrote in all rows of episode e, and M the
    number of rows with such tokens. It is meant for a sum over tokens: with
    learner.aggregation="constant", whose divisor does not depend on what was written. A mean over
    tokens, or over rows, weighs a rollout by how much it wrote, or by how many calls it made.

    Args:
      advantage: f32[N, T], or f32[R, L].
      loss_mask: bool[R, L], tokens that the policy wrote. stream: i32[R]. turn: i32[R, L].
      episode: i32[N], streams of one rollout have the same.

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped.

    References:
      Luo et al. (2025), Agent Lightning, https://arxiv.org/abs/2508.03680; code
      microsoft/agent-lightning c632d8dd, option per_rollout_mean (read; its value is a test).
    """
    if advantage.shape != loss_mask.shape or turn.shape != loss_mask.shape:
        spread = advantage[stream[:, None], jnp.maximum(turn, 0)]
        advantage = jnp.where(turn >= 0, spread, 0.0)
    written = jnp.sum(loss_mask, axis=1)
    # Episodes by the first stream that has their number.
    first = jnp.argmax(episode[:, None] == episode[None, :], axis=1)
    total = jax.ops.segment_sum(written, first[stream], num_segments=episode.shape[0])
    tokens = total[first[stream]] * jnp.sum(written > 0)
    share = jnp.where(loss_mask, advantage, 0.0) / jnp.maximum(tokens, 1)[:, None]
    return jax.lax.stop_gradient(share)
