"""Rewards of an outcome: in units of their own spread, and with shares for the use of tools."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes


def scaled_reward(
    reward: jax.Array,
    mask: jax.Array,
    reward_scale: jax.Array,
    *,
    clip: float | None = None,
) -> jax.Array:
    """The reward times a scale, clipped to [-clip, clip] (PPO-max).

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      reward_scale: f32[N, T]; component `agentrl.methods.reward_scaling` supplies 1 over the
        running deviation of returns.
      clip: above 0; None for no clipping. PPO-max has 10 as an option.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a clip not above 0, or arrays of other shapes or types.

    References:
      Zheng et al. (2023), https://arxiv.org/abs/2307.04964; code MOSS-RLHF 4865d82 (read).
    """
    check_range("scaled_reward clip", clip, 0.0, above=True)
    check_streams("scaled_reward", mask, numbers={"reward": reward, "reward_scale": reward_scale})
    scaled = jnp.where(mask, jnp.asarray(reward, jnp.float32) * reward_scale, 0.0)
    return scaled if clip is None else jnp.clip(scaled, -clip, clip)


@assumes("whole_episodes")
def tool_use_reward(
    reward: jax.Array,
    mask: jax.Array,
    valid: jax.Array,
    well_formed: jax.Array,
    *,
    format_weight: float = 0.5,
    tool_weight: float = 0.5,
    most_calls: float = float("inf"),
) -> jax.Array:
    """The outcome, plus the shares of a stream's turns that were well formed and that succeeded.

    At the stream's last turn, R gains format_weight f + tool_weight s: f is the share of its turns
    that kept the reply grammar, and s that of turns whose call was legal, times
    min(1, most_calls / turns): without a cap, calls that are useless and legal pay as well.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      valid, well_formed: bool[N, T], the reply was legal; it kept the grammar.
      format_weight, tool_weight: at least 0 (the weights were not published).
      most_calls: turns from which on the share of calls is reduced.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      Singh et al. (2025), ARTIST, https://arxiv.org/abs/2505.01441: outcome, format and success of
      tools as notes name them; no code was published. What tools say is never trained on here.
    """
    check_range("tool_use_reward format_weight", format_weight, 0.0)
    check_range("tool_use_reward tool_weight", tool_weight, 0.0)
    check_range("tool_use_reward most_calls", most_calls, 0.0, above=True)
    flags = {"valid": valid, "well_formed": well_formed}
    check_streams("tool_use_reward", mask, numbers={"reward": reward}, flags=flags)
    turns = jnp.maximum(jnp.sum(mask, axis=1), 1)
    formed, legal = (jnp.sum(mask & flag, axis=1) / turns for flag in (well_formed, valid))
    extra = format_weight * formed + tool_weight * legal * jnp.minimum(1.0, most_calls / turns)
    return _more_at_end(reward, mask, extra)


def call_bonus(
    reward: jax.Array, mask: jax.Array, call_weight: jax.Array | float, *, per_call: float = 0.1
) -> jax.Array:
    """The outcome, plus a bonus for calls that fades over training (SPEAR).

    At the stream's last turn, R gains call_weight min(1, per_call n), n its number of turns.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted: every turn counts as a call, as in the released code for
        ALFWorld and WebShop.
      call_weight: f32[], of component `agentrl.methods.self_imitation`.
      per_call: at least 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative number, or arrays of other shapes or types.

    References:
      SPEAR (2025), https://arxiv.org/abs/2509.22601; read in code.
    """
    check_range("call_bonus per_call", per_call, 0.0)
    check_streams("call_bonus", mask, numbers={"reward": reward})
    calls = jnp.sum(mask, axis=1)
    return _more_at_end(reward, mask, call_weight * jnp.minimum(1.0, per_call * calls))


@assumes("whole_episodes")
def steerable_reward(
    reward: jax.Array,
    mask: jax.Array,
    lookups: jax.Array,
    *,
    well_formed: jax.Array | None = None,
    format_weight: float = 0.1,
    right_above: float = 0.5,
    least: float = 0.5,
    search_weight: float = 0.2,
    page_weight: float = 0.2,
    searches: float = 8.0,
    pages: float = 16.0,
) -> jax.Array:
    """A right answer, less redundant calls; or a wrong one, paid for what it looked up (RAPO).

    At the stream's last turn, instead of its rewards, with f = 1 if all replies kept the grammar:

      right   format_weight f + max(1 - r, least), r the redundant share of its calls;
      wrong   format_weight f + search_weight min(1, dS / searches)
                              + page_weight min(1, dP / pages),

    dS and dP its searches and visits of pages that were of use, less the redundant ones; they may
    be negative. So that every wrong answer is worth less than a right one,
    search_weight + page_weight <= least.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      lookups: f32[N, T, 4], of each turn the useful and the redundant searches, the useful and the
        redundant visits of pages; component `agentrl.methods.lookups` supplies it.
      well_formed: bool[N, T], the reply kept the grammar; None, of policies over arrays: all did.
      format_weight, search_weight, page_weight, least: at least 0.
      right_above: the answer was right if the stream's rewards sum to more.
      searches, pages: calls from which on looking up more is not paid, above 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      Fathom-DeepResearch (2025), RAPO, https://arxiv.org/abs/2509.24107 (text of version 1 read;
      its numbers are the defaults).
    """
    for name, number in (
        ("format_weight", format_weight), ("least", least), ("search_weight", search_weight),
        ("page_weight", page_weight),
    ):  # fmt: skip
        check_range(f"steerable_reward {name}", number, 0.0)
    check_range("steerable_reward searches", searches, 0.0, above=True)
    check_range("steerable_reward pages", pages, 0.0, above=True)
    check_streams(
        "steerable_reward",
        mask,
        numbers={"reward": reward},
        flags={"well_formed": well_formed},
        vectors={"lookups": lookups},
    )
    made = jnp.sum(jnp.where(mask[..., None], lookups, 0.0), axis=1)
    searched, searched_again, seen, seen_again = (made[:, k] for k in range(4))
    redundant = (searched_again + seen_again) / jnp.maximum(jnp.sum(made, axis=1), 1.0)
    right = jnp.sum(jnp.where(mask, reward, 0.0), axis=1) > right_above
    wrong = search_weight * jnp.minimum(1.0, (searched - searched_again) / searches)
    wrong = wrong + page_weight * jnp.minimum(1.0, (seen - seen_again) / pages)
    formed = jnp.ones(right.shape)
    if well_formed is not None:
        formed = jnp.all(well_formed | ~mask, axis=1) * 1.0
    paid = format_weight * formed + jnp.where(right, jnp.maximum(1 - redundant, least), wrong)
    return _more_at_end(jnp.zeros(mask.shape), mask, paid)


def _more_at_end(reward: jax.Array, mask: jax.Array, extra: jax.Array) -> jax.Array:
    """The reward with extra f32[N] at each stream's last turn, f32[N, T]."""
    last = mask & (jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    own = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    return own + jnp.where(last, extra[:, None], 0.0)


def progress_reward(
    mask: jax.Array,
    reward: jax.Array,
    progress: jax.Array,
    valid: jax.Array,
    *,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> jax.Array:
    """SPA's reward of a turn, in the place of the environment's: alpha c_t + beta g_t.

    Args:
      mask: bool[N, T], the agent acted.
      reward: f32[N, T], which it replaces: its values are not read.
      progress: f32[N, T], c, whose sum over a stream is its return as component
        `agentrl.methods.progress` learns it.
      valid: bool[N, T], g: the action could be executed.
      alpha, beta: at least 0 (released: 1 and 0.5).

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative number, or arrays of other shapes or types.

    References:
      Wang et al. (2025), SPA-RL, https://arxiv.org/abs/2505.20732; code ed20087 (read).
    """
    check_range("progress_reward alpha", alpha, 0.0)
    check_range("progress_reward beta", beta, 0.0)
    numbers = {"reward": reward, "progress": progress}
    check_streams("progress_reward", mask, numbers=numbers, flags={"valid": valid})
    given = alpha * jnp.asarray(progress, jnp.float32) + beta * valid
    return jax.lax.stop_gradient(jnp.where(mask, given, 0.0))
