"""Advantages from a critic, along a stream."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes

AtLimit = Literal["bootstrap", "end"]


def gae(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    *,
    gamma: float,
    lam: float,
    at_limit: AtLimit = "bootstrap",
    truncated: jax.Array | None = None,
) -> jax.Array:
    """Generalised advantage estimation over the turns that the agent acted in.

    delta_t = r_t + gamma V'_t - V_t,  A_t = delta_t + gamma lam c_t A_{t+1},

    where t + 1 is the stream's next acted turn (turns with mask False are skipped over), and

      V'_t = 0 where terminated, bootstrap_t where the stream is cut (truncated, or no acted turn
      follows), else V_{t+1};  c_t = 0 in the first two cases, else 1.

    Args:
      reward: f32[N, T].
      value: f32[N, T], the critic's value of what the agent acted from.
      mask: bool[N, T], the agent acted.
      terminated: bool[N, T], the rules ended the episode at this turn.
      bootstrap: value of what followed a cut: f32[N, T] a value for each turn, f32[N] one for the
        end of each stream, or a scalar (0 for none).
      gamma, lam: discount and trace, in [0, 1].
      at_limit: "bootstrap", a limit cuts the episode, and the critic says what would have followed.
        "end", the task is lost there, and nothing follows: for limits that belong to the task.
        Bootstrapped, letting such a limit come is worth what the critic expects of going on, and
        the policy may learn to do just that (configs/comparison/README.md, ToolCalls).
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its row (a
        segment that holds several episodes); then bootstrap is [N, T].

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. The critic's target is A + value.

    Raises:
      ValueError: gamma or lam outside [0, 1], an unknown at_limit, or arrays of other shapes or
        types.

    References:
      Schulman et al. (2016), https://arxiv.org/abs/1506.02438. Pardo et al. (2018), Time limits in
      reinforcement learning, https://arxiv.org/abs/1712.00378, for the bootstrap at truncation. The
      skipping agrees with verl's GAE across tool replies (executed).
    """
    _check("gae", reward, value, mask, terminated, truncated, bootstrap, gamma, lam)
    terminated = ended(terminated, truncated, at_limit)
    return _gae(
        reward, value, mask, terminated, bootstrap, truncated, discount=gamma, trace=gamma * lam
    )


def ended(terminated: jax.Array, truncated: jax.Array | None, at_limit: AtLimit) -> jax.Array:
    """Turns after which nothing follows, bool[N, T]; at_limit as for `gae`. ValueError if
    unknown."""
    check_choice("at_limit", at_limit, get_args(AtLimit))
    if at_limit == "end" and truncated is not None:
        return terminated | truncated
    return terminated


@assumes("whole_episodes", "tokens_as_cost")
def length_adaptive_gae(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    *,
    gamma: float = 1.0,
    alpha: float = 0.05,
    cost: jax.Array | None = None,
    truncated: jax.Array | None = None,
) -> jax.Array:
    """`gae` whose lambda grows with the length of the stream, lambda = max(0, 1 - 1 / (alpha l)).

    The weight of the last reward at the first turn, lambda^(l - 1), then falls to about
    exp(-1 / alpha) at most, however long the stream: with a fixed lambda it vanishes.

    Args:
      reward, value, mask, terminated, bootstrap, gamma, truncated: as for `gae`.
      alpha: above 0. For l <= 1 / alpha lambda is 0 (the rule gives none there): 0.05 is meant for
        tokens.
      cost: f32[N, T], tokens of each turn; l is then their sum. None: l counts turns. The decay is
        per turn in both cases.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: gamma outside [0, 1], alpha not above 0, or arrays of other shapes or types.

    References:
      UI-TARS-2 (2025), https://arxiv.org/abs/2509.02544, and VAPO (2025),
      https://arxiv.org/abs/2504.05118: the rule as notes on the papers give it; no code was read.
      Its critic has a lambda of its own: component `agentrl.methods.lambda_targets`.
    """
    check_range("length_adaptive_gae alpha", alpha, 0.0, above=True)
    _check("length_adaptive_gae", reward, value, mask, terminated, truncated, bootstrap, gamma, 1.0)
    check_streams("length_adaptive_gae", mask, numbers={"reward": reward, "cost": cost})
    often = jnp.ones_like(reward, jnp.float32) if cost is None else jnp.asarray(cost, jnp.float32)
    length = jnp.sum(jnp.where(mask, often, 0.0), axis=1, keepdims=True)
    lam = jnp.maximum(1.0 - 1.0 / jnp.maximum(alpha * length, 1e-30), 0.0)
    return _gae(
        reward, value, mask, terminated, bootstrap, truncated, discount=gamma, trace=gamma * lam
    )


def spoken_gae(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    spoken: jax.Array,
    *,
    gamma: float = 0.99,
    lam: float = 0.95,
    truncated: jax.Array | None = None,
) -> jax.Array:
    """`gae` without discount or decay across turns in which the agent speaks.

    delta_t = r_t + g_t V'_t - V_t,  A_t = delta_t + l_t c_t A_{t+1},

    (g_t, l_t) = (1, 1) where t is spoken, else (gamma, gamma lam): a long sentence puts the future
    no further away, and its tokens share the credit for it. Decisions of all kinds follow each
    other in one row: words, game actions, answers to questions about beliefs.

    Args:
      reward, value, mask, terminated, bootstrap, gamma, lam, truncated: as for `gae`; T may be
        turns, or positions of rows with mask where a decision was taken.
      spoken: bool[N, T], the decision is a turn (or token) of speech. Rollouts fill it by turns.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: gamma or lam outside [0, 1], or arrays of other shapes or types.

    References:
      Sarkar et al. (2025), Training language models for social deduction with multi-agent
      reinforcement learning, https://arxiv.org/abs/2502.06060. Read and executed:
      SocialDeductionLLM 0cac8fa, which is terminated nowhere, bootstrap=0, and mask where the
      token's class is above 1. Its rewards at observed tokens are lost (the sum of them is cleared
      at a decision before it is used); here they are not read, and belong on the decision before.
    """
    _check("spoken_gae", reward, value, mask, terminated, truncated, bootstrap, gamma, lam)
    check_streams("spoken_gae", mask, flags={"spoken": spoken})
    discount, trace = (jnp.where(spoken, 1.0, rate) for rate in (gamma, gamma * lam))
    return _gae(
        reward, value, mask, terminated, bootstrap, truncated, discount=discount, trace=trace
    )


def vtrace(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    turn_ratio: jax.Array,
    *,
    gamma: float,
    lam: float = 1.0,
    at_limit: AtLimit = "bootstrap",
    truncated: jax.Array | None = None,
) -> jax.Array:
    """V-trace: `gae` of turns that a sampler played which is not the policy (IMPALA).

    delta_t = w_t (r_t + gamma V'_t - V_t),  A_t = delta_t + gamma lam w_t A_{t+1},

    with w_t = min(1, rho_t) and rho_t the policy's probability of the turn over the sampler's.
    A + V is V-trace's target vs, and A its policy gradient's w_t (r_t + gamma vs'_{t+1} - V_t), vs'
    = lam vs + (1 - lam) V: with both bounds at 1 they are the same. Where rho is at least 1 it is
    `gae`.

    Args:
      reward, value, mask, terminated, bootstrap, gamma, lam, at_limit, truncated: as for `gae`.
        Deviation: in a run the values are the sampler's critic's, which lags as it does; IMPALA's
        are the learner's.
      turn_ratio: f32[N, T], rho. Component `agentrl.methods.turn_ratio` fills it.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. The critic's target is A + value.

    Raises:
      ValueError: gamma or lam outside [0, 1], an unknown at_limit, or arrays of other shapes or
        types.

    References:
      Espeholt et al. (2018), IMPALA, https://arxiv.org/abs/1802.01561; rlax 4c5d25b, whose values
      are tests. Sample Factory (2020), https://arxiv.org/abs/2006.11751, has it for samplers that
      lag behind. Bounds above 1 are not here.
    """
    _check("vtrace", reward, value, mask, terminated, truncated, bootstrap, gamma, lam)
    check_streams("vtrace", mask, numbers={"turn_ratio": turn_ratio})
    over = ended(terminated, truncated, at_limit)
    weight = jnp.minimum(1.0, jnp.where(mask, jnp.asarray(turn_ratio, jnp.float32), 1.0))
    return _gae(
        reward, value, mask, over, bootstrap, truncated,
        discount=gamma, trace=gamma * lam * weight, weight=weight,
    )  # fmt: skip


def _check(function, reward, value, mask, terminated, truncated, bootstrap, gamma, lam) -> None:
    check_range(f"{function} gamma", gamma, 0.0, 1.0)
    check_range(f"{function} lam", lam, 0.0, 1.0)
    flags = {"terminated": terminated, "truncated": truncated}
    check_streams(function, mask, numbers={"reward": reward, "value": value}, flags=flags)
    check_bootstrap(function, bootstrap, mask)


def check_bootstrap(function: str, bootstrap: jax.Array, mask: jax.Array) -> None:
    """Refuses a bootstrap that is not [N, T], [N] or a scalar.

    Raises:
      ValueError: names the function, the shape and what was expected.
    """
    given, whole = jnp.shape(bootstrap), jnp.shape(mask)
    if given not in ((), whole[:1], whole) and given != (whole[0], 1):
        raise ValueError(
            f"{function}: bootstrap has shape {given}; expected {whole}, {whole[:1]} or a scalar"
        )


def _gae(reward, value, mask, terminated, bootstrap, truncated, *, discount, trace, weight=1.0):
    """The recursion of `gae`, with a discount, a trace (discount * lambda) and a weight of delta of
    each turn."""
    bootstrap = jnp.asarray(bootstrap, jnp.float32)
    if bootstrap.ndim == 1:
        bootstrap = bootstrap[:, None]
    bootstrap = jnp.broadcast_to(bootstrap, reward.shape)
    cut = jnp.zeros_like(mask) if truncated is None else truncated
    discount, trace, weight = (
        jnp.broadcast_to(jnp.asarray(rate, jnp.float32), reward.shape)
        for rate in (discount, trace, weight)
    )

    def backward(carry, turn):
        advantage_after, value_after, follows = carry
        r, v, acted, ends, cuts, beyond, g, l, w = turn
        goes_on = follows & ~ends & ~cuts
        following = jnp.where(goes_on, value_after, jnp.where(ends, 0.0, beyond))
        advantage = w * (r + g * following - v)
        advantage = advantage + l * jnp.where(goes_on, advantage_after, 0.0)
        carry = (
            jnp.where(acted, advantage, advantage_after),
            jnp.where(acted, v, value_after),
            follows | acted,
        )
        return carry, jnp.where(acted, advantage, 0.0)

    nothing = jnp.zeros(reward.shape[0], jnp.float32)
    inputs = (reward, value, mask, terminated, cut, bootstrap, discount, trace, weight)
    _, advantage = jax.lax.scan(
        backward,
        (nothing, nothing, jnp.zeros(reward.shape[0], bool)),
        jax.tree.map(jnp.transpose, inputs),
        reverse=True,
    )
    return jax.lax.stop_gradient(advantage.T)
