"""Terms that change what a turn earns: penalties and potential-based shaping."""

import chex
import jax
import jax.numpy as jnp


def invalid_action_penalty(valid: jax.Array, mask: jax.Array, *, coefficient: float) -> jax.Array:
    """Penalty of each turn whose reply was malformed or illegal: coefficient, else 0.

    It is meant for the `penalty` of an estimator, which subtracts it from the turn's own score and
    its own step return, after discounting. Put into the reward instead it would also reach the
    turns before, and the score of every turn of the stream.

    In a game only the seat that replied is charged: others receive nothing for it, so that what a
    zero-sum game pays out sums to less than 0 by exactly the penalties. What the rules themselves
    take for an illegal move comes besides.

    Args:
      valid: bool[N, T], the reply was well formed and legal.
      mask: bool[N, T], the agent acted.
      coefficient: what an invalid turn costs, >= 0 (0.1 in the released scripts, 0.01 for search).

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    References:
      verl-agent 796ed31 (read and executed), the code of Feng et al. (2025), Group-in-group policy
      optimization, https://arxiv.org/abs/2505.10978.
    """
    chex.assert_equal_shape([valid, mask])
    chex.assert_type([valid, mask], bool)
    return jnp.where(mask & ~valid, jnp.asarray(coefficient, jnp.float32), 0.0)


def format_penalty(well_formed: jax.Array, mask: jax.Array, *, coefficient: float) -> jax.Array:
    """Penalty of each turn whose reply broke the reply grammar: coefficient, else 0.

    As `invalid_action_penalty`, but a well-formed command that was illegal costs nothing: what the
    GiGPO code base calls invalid.

    well_formed, mask: bool[N, T]. Returns f32[N, T], >= 0, 0 where mask is False.
    """
    return invalid_action_penalty(well_formed, mask, coefficient=coefficient)


def length_penalty(
    cost: jax.Array, mask: jax.Array, *, limit: float, buffer: float, coefficient: float = 1.0
) -> jax.Array:
    """Penalty of long replies, from 0 to `coefficient` over the last `buffer` tokens before limit.

    coefficient * clip((cost - (limit - buffer)) / buffer, 0, 1), in each acted turn.

    Args:
      cost: f32[N, T], tokens of the reply.
      mask: bool[N, T], the agent acted.
      limit, buffer: tokens, 0 < buffer <= limit.

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    References:
      Yu et al. (2025), DAPO, https://arxiv.org/abs/2503.14476 (soft overlong punishment, equation
      13, written from the paper). There it is added to the reward of the one reply; here to each
      turn's own.
    """
    if not 0 < buffer <= limit:
        raise ValueError(
            f"length_penalty limit={limit}, buffer={buffer}: expected 0 < buffer <= limit"
        )
    chex.assert_equal_shape([cost, mask])
    over = jnp.clip((cost - (limit - buffer)) / buffer, 0.0, 1.0)
    return jnp.where(mask, coefficient * over, 0.0).astype(jnp.float32)


def step_penalty(reward: jax.Array, mask: jax.Array, *, amount: float) -> jax.Array:
    """Reward less a fixed amount for each acted turn, so that shorter solutions earn more.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      amount: what a turn costs, >= 0.

    Returns:
      f32[N, T], r_t - amount, and 0 where mask is False.
    """
    chex.assert_equal_shape([reward, mask])
    chex.assert_type(mask, bool)
    return jnp.where(mask, jnp.asarray(reward, jnp.float32) - amount, 0.0)


def at_end(reward: jax.Array, mask: jax.Array, *, share: float = 1.0) -> jax.Array:
    """Moves a share of every reward to the stream's last acted turn; the stream's sum stays.

    (1 - share) r_t, and share * sum_k r_k more at the last acted turn. With share=1 and no discount
    every turn has the return of the whole episode to go: credit by episodes, from an estimator that
    gives credit by turns.

    Args:
      reward: f32[N, T], a stream being one episode.
      mask: bool[N, T], the agent acted.
      share: in [0, 1]; 0 changes nothing.

    Returns:
      f32[N, T], 0 where mask is False.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"at_end share={share}: expected 0 (rewards stay) to 1 (all move)")
    chex.assert_rank([reward, mask], 2)
    chex.assert_equal_shape([reward, mask])
    chex.assert_type(mask, bool)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    last = mask & (jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    total = jnp.sum(reward, axis=1, keepdims=True)
    return (1 - share) * reward + jnp.where(last, share * total, 0.0)


def potential_shaping(
    reward: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    potential: jax.Array,
    final: jax.Array,
    *,
    gamma: float,
    truncated: jax.Array | None = None,
) -> jax.Array:
    """Reward plus a difference of potentials, which leaves optimal policies as they were.

    r_t + F_t,  F_t = gamma phi'_t - phi_t,

    where t + 1 is the stream's next acted turn and

      phi'_t = 0 where terminated, final_t where the stream is cut (truncated, or no acted turn
      follows), else phi_{t+1}.

    The terms telescope. The discounted return of a terminated episode changes by -phi_0, whatever
    the policy did; that of a cut one by gamma^k final - phi_0, where a bootstrap from the critic of
    the shaped task (V - phi) takes gamma^k final back. A time limit is not a terminal state: with
    phi = 0 there, the policy would be paid for where the clock happened to stop it.

    It telescopes for the discount that the return is taken with. An estimator that sums rewards
    undiscounted (the episode term of GRPO and of GiGPO) needs gamma=1. Streams of one group start
    from the same state, so that -phi_0 then drops out of their comparison too.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      terminated: bool[N, T], the rules ended the episode at this turn.
      potential: f32[N, T], phi of the state (or observation) that the agent acted from.
      final: phi of what followed a cut: f32[N, T] for each turn, f32[N] for the end of each stream,
        or a scalar. Read only at cuts, as is the `bootstrap` of `gae`.
      gamma: discount of the return, in [0, 1].
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its row (a
        segment that holds several episodes); then final is [N, T].

    Returns:
      f32[N, T], 0 where mask is False.

    References:
      Ng, Harada and Russell (1999), Policy invariance under reward transformations, ICML. Grzes
      (2017), Reward shaping in episodic reinforcement learning, AAMAS, for the potential at the
      end of an episode. Written from the equations.
    """
    if truncated is None:
        truncated = jnp.zeros_like(mask)
    chex.assert_rank([reward, mask], 2)
    chex.assert_equal_shape([reward, mask, terminated, truncated, potential])
    chex.assert_type([mask, terminated, truncated], bool)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    potential = jnp.where(mask, jnp.asarray(potential, jnp.float32), 0.0)
    final = jnp.asarray(final, jnp.float32)
    if final.ndim == 1:
        final = final[:, None]
    final = jnp.broadcast_to(final, reward.shape)

    def backward(carry, turn):
        potential_after, follows = carry
        r, phi, acted, ends, cuts, beyond = turn
        # `beyond` may hold anything where the stream goes on or terminates, so it is selected.
        following = jnp.where(follows & ~cuts, potential_after, beyond)
        shaped = r + gamma * jnp.where(ends, 0.0, following) - phi
        carry = (jnp.where(acted, phi, potential_after), follows | acted)
        return carry, jnp.where(acted, shaped, 0.0)

    streams = reward.shape[0]
    start = (jnp.zeros(streams, jnp.float32), jnp.zeros(streams, bool))
    inputs = (reward, potential, mask, terminated, truncated, final)
    _, shaped = jax.lax.scan(backward, start, jax.tree.map(jnp.transpose, inputs), reverse=True)
    return shaped.T
