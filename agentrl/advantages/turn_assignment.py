"""Credit of turns on top of an outcome: MatchTIR's two levels, and UserRL's assignments."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.group_relative import grpo
from agentrl.advantages.grouping import (
    as_advantage,
    group_segments,
    moments,
    number_segments,
    relative,
)
from agentrl.checks import ROUNDING, check_choice, check_range, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return

TurnCredit = Literal["equalized", "return_to_go", "exponential"]
Score = Literal["mean", "discounted"]
Unrewarded = Literal["zero", "equalized"]


@assumes("whole_episodes")
def dual_level(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    gamma: float = 0.9,
    turn_weight: float = 0.5,
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """MatchTIR's advantage: the episode against its group, and each turn against equal turns.

      A[i, t] = (1 - turn_weight) z_g(R_i) + turn_weight z_{g, t}(D[i, t]),
      D[i, t] = r[i, t] + gamma D[i, t + 1],

    with R the sum of a stream's rewards, z_g the standard score within the group, and z_{g, t}
    within the streams of the group that have a turn number t (deviations with n - 1). `mapo` is
    built alike, with rewards instead of returns in its second part and deviations with n.

    Args:
      reward: f32[N, T], for example `agentrl.rewards.matched_calls` by turn.
      mask: bool[N, T], the agent acted. The turn number counts the stream's own turns.
      group: i32[N], any ids.
      gamma: discount of D (the code's lambda), in [0, 1].
      turn_weight: in [0, 1]; with 0 it is `grpo`.
      role: i32[N], any ids; streams of different roles are compared apart.
      epsilon: added to the deviations.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. A turn number that one stream alone has
      reached gives its D (as the reference does); so does a group of one stream its return.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      Qu et al. (2026), MatchTIR, https://arxiv.org/abs/2601.10712; code quchangle1/MatchTIR f614ce1
      (read; its values are tests).
    """
    check_range("dual_level gamma", gamma, 0.0, 1.0)
    check_range("dual_level turn_weight", turn_weight, 0.0, 1.0)
    check_streams("dual_level", mask, numbers={"reward": reward}, ids={"group": group})
    outcome = grpo(reward, mask, group, singleton="raw", role=role, epsilon=epsilon)
    same_number = number_segments(mask, *(key for key in (group, role) if key is not None))
    values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    returns, scale = (
        discounted_return(x, mask, gamma=gamma).reshape(-1) for x in (values, jnp.abs(values))
    )
    against = moments(returns, same_number, scale=scale)
    by_turn = relative(returns, against, normalize="std", epsilon=epsilon, singleton="raw")
    mixed = (1 - turn_weight) * outcome + turn_weight * by_turn.reshape(mask.shape)
    return as_advantage(mixed, mask)


@assumes("whole_episodes", "tokens_as_cost")
def user_rl(
    reward: jax.Array,
    mask: jax.Array,
    group: jax.Array,
    *,
    credit: TurnCredit = "equalized",
    score: Score = "discounted",
    gamma: float = 0.8,
    sharpness: float = 2.0,
    unrewarded: Unrewarded = "zero",
    decimals: int | None = None,
    cost: jax.Array | None = None,
    role: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """UserRL: a trajectory's score against its group, spread over its turns by their credit.

      A[i, t] = n_i c[i, t] m_i / sum_t c[i, t],   n_i = (S_i - mean_g(S)) / (std_g(S) + epsilon),

    with m_i the number of turns whose credit is not 0, so that A is n_i on average over these.

      S, score="mean": the mean of the turns' rewards (which the release calls "Sum");
         "discounted": sum_t gamma^t r_t ("R2G").
      c, credit="equalized": 1; "return_to_go": sum_{k >= t} gamma^(k - t) r_k ("R2G");
         "exponential": 1/2 + (1 - exp(-k r)) / (2 (1 - exp(-k))), k = sharpness ("EM").

    Args:
      reward: f32[N, T]; in [0, 1] for "exponential". Rewards below 0 can make the sum of credits
        negative, which turns signs round.
      mask: bool[N, T], the agent acted.
      group: i32[N], any ids.
      credit, score, gamma, sharpness: see above; gamma in [0, 1], sharpness above 0.
      unrewarded: an episode whose credits add up to 0 gets "zero" as in the release, so that no
        complete failure is learnt from with "return_to_go"; or is "equalized".
      decimals: round S and c as the release does (4); None: no rounding.
      cost: f32[N, T], tokens of each turn, which the sums over turns then count, as in the release.
      role: i32[N], any ids; streams of different roles are compared apart.
      epsilon: added to the deviation (ddof 1).

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. A group of one stream has n = S.

    Raises:
      ValueError: an unknown choice, a number outside its range, or arrays of other shapes or types.

    References:
      Qian et al. (2025), UserRL, https://arxiv.org/abs/2509.19736; code SalesforceAIResearch/UserRL
      cf55a30 (read; its values are tests). Its naive credit, c = r, is "return_to_go" with gamma 0.
    """
    check_choice("credit", credit, get_args(TurnCredit))
    check_choice("score", score, get_args(Score))
    check_choice("unrewarded", unrewarded, get_args(Unrewarded))
    check_range("user_rl gamma", gamma, 0.0, 1.0)
    check_range("user_rl sharpness", sharpness, 0.0, above=True)
    numbers, ids = {"reward": reward, "cost": cost}, {"group": group, "role": role}
    check_streams("user_rl", mask, numbers=numbers, ids=ids)
    values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    # Beside the magnitudes, by which rounding is told from difference.
    both = (values, jnp.abs(values))
    to_go, size = (discounted_return(x, mask, gamma=gamma) for x in both)
    total, scale = (_score(x, go, mask, score) for x, go in zip(both, (to_go, size), strict=True))
    credits = jnp.ones_like(values)
    if credit == "return_to_go":
        credits = to_go
    elif credit == "exponential":
        credits = 0.5 + 0.5 * jnp.expm1(-sharpness * values) / jnp.expm1(-sharpness)
    if decimals is not None:
        total, credits = jnp.round(total, decimals), jnp.round(credits, decimals)
    credits = jnp.where(mask, credits, 0.0)
    against = moments(total, group_segments(group, jnp.any(mask, axis=1), role), scale=scale)
    outcome = relative(total, against, normalize="std", epsilon=epsilon, singleton="raw")[:, None]
    often = jnp.where(mask, 1.0 if cost is None else cost, 0.0)
    whole = jnp.sum(often * credits, axis=1, keepdims=True)
    size = jnp.where(mask, size if credit == "return_to_go" else jnp.abs(credits), 0.0)
    rounding = ROUNDING * jnp.sum(often * size, axis=1, keepdims=True)
    whole = jnp.where(jnp.abs(whole) <= rounding, 0.0, whole)
    counted = jnp.sum(jnp.where(credits != 0, often, 0.0), axis=1, keepdims=True)
    share = credits * counted / jnp.where(whole == 0, 1.0, whole)
    nothing = 0.0 if unrewarded == "zero" else 1.0
    return as_advantage(outcome * jnp.where(whole == 0, nothing, share), mask)


def _score(values: jax.Array, to_go: jax.Array, mask: jax.Array, score: Score) -> jax.Array:
    """The score of each stream, f32[N]: the mean of its turns, or its return from the first."""
    if score == "mean":
        return jnp.sum(values, axis=1) / jnp.maximum(jnp.sum(mask, axis=1), 1)
    first = jnp.argmax(mask, axis=1)[:, None]
    found = jnp.take_along_axis(to_go, first, axis=1)[:, 0]
    return jnp.where(jnp.any(mask, axis=1), found, 0.0)
