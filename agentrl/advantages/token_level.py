"""GAE over tokens, with a critic's value of each: in one chain, or in two levels (VAGEN)."""

import jax
import jax.numpy as jnp

from agentrl.advantages.temporal import AtLimit, check_bootstrap, ended, gae
from agentrl.checks import check_range, check_rows, check_streams
from agentrl.streams import last_turns


def token_gae(
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    at_limit: AtLimit = "bootstrap",
    truncated: jax.Array | None = None,
    token_penalty: jax.Array | None = None,
) -> jax.Array:
    """Generalised advantage estimation over the tokens that the policy wrote.

    delta_p = r_p + gamma V'_p - V_p,  A_p = delta_p + gamma lam c_p A_{p+},

    where p+ is the stream's next written token, of this turn or of the next, in the same row or in
    another; what the policy only read is skipped over. The turn's reward is its last token's, less
    `token_penalty`, which every token has. V'_p is V_{p+}, or after a turn that ends the episode 0,
    after one that is cut its bootstrap (then c_p = 0), as in `gae`.

    Args:
      reward: f32[N, T]. mask: bool[N, T], the agent acted. terminated: bool[N, T].
      token_value: f32[R, L], the critic's value at each position, before its token. Annotation
        `agentrl.methods.token_values.token_values` fills it.
      bootstrap: f32[N, T], f32[N] or a scalar, value of what followed a turn, as for `gae`.
      loss_mask: bool[R, L], tokens that the policy wrote. stream: i32[R]. turn: i32[R, L].
      gamma, lam: discount and trace per token, in [0, 1].
      at_limit: "bootstrap" or "end", what follows a limit, as for `gae`. Without a discount and
        with rewards at the end alone, bootstrapped, an episode that never ends may be worth as much
        as one that is won (configs/words/README.md, turn_credit.py).
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its stream.
      token_penalty: f32[R, L], taken from each token's reward, for example a KL to a reference, of
        component `agentrl.methods.reference_penalty.reference_penalty`; None: nothing.

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped. With one token per turn it is `gae`.
      The reward of an acted turn without a written token (a reply that was forced or filled in)
      belongs to no token and is lost; `bilevel_gae` keeps it.

    Raises:
      ValueError: gamma or lam outside [0, 1], an unknown at_limit, or arrays of other shapes.

    References:
      Ouyang et al. (2022), https://arxiv.org/abs/2203.02155, and what many code bases call PPO for
      language models. The skipping is that of VAGEN's masked GAE (JamesKrW/verl e432c73: its values
      are tests), which whitens the result: `learner.normalize_advantage`.
    """
    check_range("token_gae gamma", gamma, 0.0, 1.0)
    check_range("token_gae lam", lam, 0.0, 1.0)
    over = ended(terminated, truncated, at_limit)
    arrays = reward, token_value, mask, over, bootstrap, loss_mask, stream, turn, truncated
    return _chained("token_gae", *arrays, token_penalty, gamma=gamma, lam=lam)


def length_adaptive_token_gae(
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    *,
    gamma: float = 1.0,
    alpha: float = 0.05,
    at_limit: AtLimit = "bootstrap",
    truncated: jax.Array | None = None,
    token_penalty: jax.Array | None = None,
) -> jax.Array:
    """`token_gae` whose lambda grows with the stream's written tokens l: max(0, 1 - 1 / (alpha l)).

    With gamma 1 the last reward's weight at the first token is lambda^(l - 1), which tends to
    exp(-1 / alpha): it does not vanish, however long the stream.

    Args:
      token_value, token_penalty: f32[R, L].
      reward, mask, terminated, bootstrap, loss_mask, stream, turn, gamma, at_limit, truncated: as
        for `token_gae`; so are token_value and token_penalty.
      alpha: above 0. For l <= 1 / alpha lambda is 0 (the rule gives none there).

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped.

    Raises:
      ValueError: gamma outside [0, 1], alpha not above 0, an unknown at_limit, or arrays of other
        shapes.

    References:
      VAPO (2025), https://arxiv.org/abs/2504.05118, and UI-TARS-2 (2025),
      https://arxiv.org/abs/2509.02544: the rule as notes on the papers give it; no code was read.
      Its critic has a lambda of its own: component `agentrl.methods.lambda_targets`.
    """
    name = "length_adaptive_token_gae"
    check_range(f"{name} gamma", gamma, 0.0, 1.0)
    check_range(f"{name} alpha", alpha, 0.0, above=True)
    over = ended(terminated, truncated, at_limit)
    arrays = reward, token_value, mask, over, bootstrap, loss_mask, stream, turn, truncated
    return _chained(name, *arrays, token_penalty, gamma=gamma, alpha=alpha)


def _chained(
    name: str,
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    truncated: jax.Array | None,
    token_penalty: jax.Array | None,
    *,
    gamma: float,
    lam: float = 1.0,
    alpha: float | None = None,
) -> jax.Array:
    """The advantages of `token_gae`, with alpha of `length_adaptive_token_gae`; name: in errors."""
    flags = {"terminated": terminated, "truncated": truncated}
    check_streams(name, mask, numbers={"reward": reward}, flags=flags)
    check_bootstrap(name, bootstrap, mask)
    tokens = _Tokens(token_value, loss_mask, stream, turn, mask.shape)
    trace: float | jax.Array = gamma * lam
    if alpha is not None:
        written = jnp.sum(loss_mask, axis=1, dtype=jnp.float32)
        length = jnp.zeros(mask.shape[0]).at[stream].add(written)
        adapted = jnp.maximum(1.0 - 1.0 / jnp.maximum(alpha * length, 1e-30), 0.0)
        trace = gamma * tokens.per_token(jnp.broadcast_to(adapted[:, None], mask.shape), 0.0)
    ends = tokens.per_token(terminated, False)
    cut = jnp.zeros(mask.shape, bool) if truncated is None else jnp.asarray(truncated)
    cut = cut | last_turns(mask)
    beyond = jnp.asarray(bootstrap, jnp.float32)
    beyond = jnp.broadcast_to(beyond[:, None] if beyond.ndim == 1 else beyond, mask.shape)
    stops = tokens.last & (ends | tokens.per_token(cut, False))
    after = jnp.where(ends, 0.0, tokens.per_token(beyond, 0.0))
    after = jnp.where(stops, after, tokens.following)
    gained = jnp.where(tokens.last, tokens.per_token(reward, 0.0), 0.0)
    if token_penalty is not None:
        gained = gained - tokens.in_sequence(name, token_penalty)
    delta = gained + gamma * after - tokens.value
    return tokens.in_rows(_backwards(delta, jnp.where(stops, 0.0, trace)))


def bilevel_gae(
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    *,
    gamma: float = 1.0,
    turn_gamma: float = 0.95,
    lam: float = 1.0,
    at_limit: AtLimit = "bootstrap",
    truncated: jax.Array | None = None,
) -> jax.Array:
    """GAE over turns, and within each turn over its tokens towards the turn's own advantage.

      turns:  A_k by `gae` with turn_gamma and lam, V_k the value at the turn's last token;
      tokens: A = A_k at the last token of turn k;
              A_p = gamma V_{p+} - V_p + gamma lam A_{p+} before it, p+ in the same turn.

    The discount of tokens does not shorten the horizon in turns, nor the other way round.

    Args:
      token_value: f32[R, L].
      reward, mask, terminated, bootstrap, loss_mask, stream, turn, at_limit, truncated: as for
        `token_gae`.
      gamma: discount per token, turn_gamma: per turn; lam: trace of both. In [0, 1].

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped. With one token per turn it is `gae`
      with turn_gamma.

    Raises:
      ValueError: gamma, turn_gamma or lam outside [0, 1], an unknown at_limit, or arrays of other
        shapes.

    References:
      Wang et al. (2025), VAGEN, https://arxiv.org/abs/2510.16907; code JamesKrW/verl e432c73 (its
      values are tests). RAGEN's copy (20daedc) takes turns to end where the reward is not 0; here
      the turn numbers say it. Both whiten the result: `learner.normalize_advantage`.
    """
    check_range("bilevel_gae gamma", gamma, 0.0, 1.0)
    tokens = _Tokens(token_value, loss_mask, stream, turn, mask.shape)
    of_turns = gae(
        reward,
        tokens.at_ends(),
        mask,
        terminated,
        bootstrap,
        gamma=turn_gamma,
        lam=lam,
        at_limit=at_limit,
        truncated=truncated,
    )
    delta = gamma * tokens.following - tokens.value
    delta = jnp.where(tokens.last, tokens.per_token(of_turns, 0.0), delta)
    return tokens.in_rows(_backwards(delta, jnp.where(tokens.last, 0.0, gamma * lam)))


class _Tokens:
    """The written tokens of all streams in one sequence, by stream, turn and position.

    value, following: f32[M], a token's value and that of the next in the sequence. last: bool[M],
    the turn's last token. Positions that were not written are at the end.
    """

    def __init__(self, value, loss_mask, stream, turn, shape: tuple[int, ...]):
        check_rows("advantages of tokens", loss_mask, stream, turn, numbers={"token_value": value})
        self.shape, self.mask = shape, loss_mask
        number = stream[:, None] * shape[1] + jnp.clip(turn, 0, shape[1] - 1)
        number = jnp.where(loss_mask, number, shape[0] * shape[1]).reshape(-1)
        self.order = jnp.argsort(number, stable=True)
        self.number = number[self.order]
        self.value = self._sequence(value)
        self.following = jnp.append(self.value[1:], 0.0)
        self.last = jnp.append(self.number[1:] != self.number[:-1], True)

    def per_token(self, values: jax.Array, beyond) -> jax.Array:
        """Values [N, T] at the tokens of their turns, [M]; `beyond` at the others."""
        return jnp.append(jnp.asarray(values).reshape(-1), beyond)[self.number]

    def _sequence(self, values: jax.Array) -> jax.Array:
        return jnp.where(self.mask, values, 0.0).reshape(-1)[self.order]

    def in_sequence(self, name: str, values: jax.Array) -> jax.Array:
        """Values f32[R, L] of the written tokens, [M]; 0 behind them. name: in errors."""
        if jnp.shape(values) != self.mask.shape:
            raise ValueError(
                f"{name}: token_penalty has shape {jnp.shape(values)}; expected that of loss_mask, "
                f"{self.mask.shape}"
            )
        return self._sequence(values)

    def at_ends(self) -> jax.Array:
        """The value at each turn's last token, f32[N, T]."""
        size = self.shape[0] * self.shape[1]
        at = jnp.where(self.last, self.number, size)
        return jnp.zeros(size).at[at].set(self.value, mode="drop").reshape(self.shape)

    def in_rows(self, values: jax.Array) -> jax.Array:
        """Values [M] of the sequence at their positions, f32[R, L]; gradient stopped."""
        found = jnp.zeros_like(values).at[self.order].set(values).reshape(self.mask.shape)
        return jax.lax.stop_gradient(jnp.where(self.mask, found, 0.0))


def _backwards(delta: jax.Array, decay: jax.Array) -> jax.Array:
    """A_p = delta_p + decay_p A_{p + 1}, with 0 after the last, for f32[M] each."""

    def joined(later, earlier):
        (a, b), (c, d) = later, earlier
        return a * c, d + c * b

    _, found = jax.lax.associative_scan(joined, (decay, delta), reverse=True)
    return found
