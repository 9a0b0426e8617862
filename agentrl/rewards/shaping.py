"""Reward terms: penalties of a turn, and functions from rewards to other rewards."""

from typing import Literal

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import assumes, breaks, moves_reward
from agentrl.streams import last_turns


def invalid_action_penalty(valid: jax.Array, mask: jax.Array, *, coefficient: float) -> jax.Array:
    """Penalty of each turn whose reply was malformed or illegal: coefficient, else 0.

    It is meant for the `penalty` of an estimator, which subtracts it from the turn's own score and
    its own step return, after discounting. Put into the reward instead it would also reach the
    turns before, and the score of every turn of the stream.

    In a game only the player that replied is charged and the others receive nothing for it, so that
    the rewards of a zero-sum game sum to minus the penalties. The game's own penalty for an illegal
    move is added to it.

    Args:
      valid: bool[N, T], the reply was well formed and legal.
      mask: bool[N, T], the agent acted.
      coefficient: cost of an invalid turn, >= 0 (0.1 in the released scripts, 0.01 for search).

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.

    References:
      verl-agent 796ed31 (read and executed), the code of Feng et al. (2025), Group-in-group policy
      optimization, https://arxiv.org/abs/2505.10978.
    """
    check_range("invalid_action_penalty coefficient", coefficient, 0.0)
    check_streams("invalid_action_penalty", mask, flags={"valid": valid})
    return jnp.where(mask & ~valid, jnp.asarray(coefficient, jnp.float32), 0.0)


def format_penalty(well_formed: jax.Array, mask: jax.Array, *, coefficient: float) -> jax.Array:
    """Penalty of each turn whose reply broke the reply grammar: coefficient, else 0.

    As `invalid_action_penalty`, but a well-formed command that was illegal costs nothing: this is
    the rule that the GiGPO code base calls invalid.

    Args:
      well_formed: bool[N, T], the reply kept the reply grammar.
      mask: bool[N, T], the agent acted.
      coefficient: cost of a malformed turn, >= 0.

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.
    """
    check_range("format_penalty coefficient", coefficient, 0.0)
    check_streams("format_penalty", mask, flags={"well_formed": well_formed})
    return invalid_action_penalty(well_formed, mask, coefficient=coefficient)


@assumes("tokens_as_cost")
def length_penalty(
    cost: jax.Array, mask: jax.Array, *, limit: float, buffer: float, coefficient: float = 1.0
) -> jax.Array:
    """Penalty of long replies, from 0 to `coefficient` over the last `buffer` tokens before limit.

    coefficient * clip((cost - (limit - buffer)) / buffer, 0, 1), in each acted turn.

    Args:
      cost: f32[N, T], tokens of the reply.
      mask: bool[N, T], the agent acted.
      limit, buffer: tokens, 0 < buffer <= limit.
      coefficient: the largest penalty, >= 0.

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      Yu et al. (2025), DAPO, https://arxiv.org/abs/2503.14476 (soft overlong punishment, equation
      13, written from the paper). There it is added to the reward of the one reply; here to each
      turn's own.
    """
    if not 0 < buffer <= limit:
        raise ValueError(
            f"length_penalty limit={limit}, buffer={buffer}: expected 0 < buffer <= limit"
        )
    check_range("length_penalty coefficient", coefficient, 0.0)
    check_streams("length_penalty", mask, numbers={"cost": cost})
    over = jnp.clip((cost - (limit - buffer)) / buffer, 0.0, 1.0)
    return jnp.where(mask, coefficient * over, 0.0).astype(jnp.float32)


@breaks("team")
def step_penalty(reward: jax.Array, mask: jax.Array, *, amount: float) -> jax.Array:
    """Reward minus a fixed amount per acted turn, so that shorter solutions earn more.

    Each agent pays for its own turns: in a team the streams no longer carry the same reward.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      amount: cost of a turn, >= 0.

    Returns:
      f32[N, T], r_t - amount, and 0 where mask is False.

    Raises:
      ValueError: a negative amount, or arrays of other shapes or types.
    """
    check_range("step_penalty amount", amount, 0.0)
    check_streams("step_penalty", mask, numbers={"reward": reward})
    return jnp.where(mask, jnp.asarray(reward, jnp.float32) - amount, 0.0)


def reference_penalty(mask: jax.Array, turn_penalty: jax.Array) -> jax.Array:
    """Penalty of turns for their divergence from a reference: the KL as a part of the reward.

    Args:
      mask: bool[N, T], the agent acted.
      turn_penalty: f32[N, T], beta sum_p (log pi(a_p) - log pi_ref(a_p)) over the turn's tokens, of
        component `agentrl.methods.reference_penalty` with per="turn". Of a sample it may be
        negative.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Ziegler et al. (2019), https://arxiv.org/abs/1909.08593 (recalled).
    """
    check_streams("reference_penalty", mask, numbers={"turn_penalty": turn_penalty})
    return jnp.where(mask, turn_penalty, 0.0)


@assumes("whole_episodes")
def keep_penalty(
    mask: jax.Array,
    kept: jax.Array,
    *,
    coefficient: float,
    mode: Literal["fixed", "normalized"] = "fixed",
) -> jax.Array:
    """Penalty of turns that keep their subgoal (HiPER).

    "fixed": `coefficient` each. "normalized": the coefficient times the share of the episode's
    turns that keep, divided equally among them: coefficient / T each, T the episode's turns.

    Args:
      mask: bool[N, T], the agent acted.
      kept: bool[N, T], the turn keeps the subgoal, of component
        `agentrl.methods.decisions.decisions`.
      coefficient: >= 0.
      mode: "fixed" or "normalized".

    Returns:
      f32[N, T], >= 0, and 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, an unknown mode, or arrays of other shapes or types.

    References:
      HiPER (2026), https://arxiv.org/abs/2602.16165; code JonP07/HiPER-agent 9d3c118 (read):
      0.3 fixed in ALFWorld, 3.5 normalized in WebShop.
    """
    check_range("keep_penalty coefficient", coefficient, 0.0)
    check_choice("keep_penalty mode", mode, ("fixed", "normalized"))
    check_streams("keep_penalty", mask, flags={"kept": kept})
    turns = jnp.sum(mask, axis=1, keepdims=True) if mode == "normalized" else 1
    each = coefficient / jnp.maximum(turns, 1)
    return jnp.where(mask & kept, each, 0.0).astype(jnp.float32)


@moves_reward
@assumes("whole_episodes")
def at_end(reward: jax.Array, mask: jax.Array, *, share: float = 1.0) -> jax.Array:
    """Reward of which a share is moved to the stream's last acted turn; the stream's sum stays.

    (1 - share) r_t, and share * sum_k r_k more at the last acted turn. With share=1 and no discount
    every turn has the return of the whole episode to go: credit by episodes, from an estimator that
    gives credit by turns.

    Args:
      reward: f32[N, T], a stream being one episode.
      mask: bool[N, T], the agent acted.
      share: in [0, 1]; 0 changes nothing.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: share outside [0, 1], or arrays of other shapes or types.
    """
    check_range("at_end share", share, 0.0, 1.0)
    check_streams("at_end", mask, numbers={"reward": reward})
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    last = last_turns(mask)
    total = jnp.sum(reward, axis=1, keepdims=True)
    return (1 - share) * reward + jnp.where(last, share * total, 0.0)


@breaks("team")
def persuasion_reward(
    reward: jax.Array, mask: jax.Array, persuasion: jax.Array, *, coefficient: float = 1.0
) -> jax.Array:
    """Reward plus a share of what a message changed in its listeners' beliefs.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      persuasion: f32[N, T], `speaking_reward` of the message of each turn.
      coefficient: weight of the persuasion.

    Returns:
      f32[N, T], r_t + coefficient * persuasion_t, and 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.
    """
    numbers = {"reward": reward, "persuasion": persuasion}
    check_streams("persuasion_reward", mask, numbers=numbers)
    changed = jnp.asarray(reward, jnp.float32) + coefficient * persuasion
    return jnp.where(mask, changed, 0.0)


@assumes("whole_episodes")
def gated_accumulation(
    reward: jax.Array,
    mask: jax.Array,
    reward_levels: jax.Array,
    *,
    thresholds: tuple[float, ...],
) -> jax.Array:
    """Reward plus reward levels, each dropped in episodes whose higher levels were not reached.

    With R^j[b] = sum_t r^j[b, t] of levels 1 (lowest priority) to n (highest),

      r[b, t] + sum_i gate_i[b] r^i[b, t],  gate_i[b] = prod_{j > i} 1[R^j[b] > v_j].

    The highest level is never gated. The reward itself is added as it is; with a threshold of its
    own it is a level above all others, and gates them. Without gates dense rewards for format and
    tool use are easier to collect than the task's own, and completion falls while the sum rises. An
    all-failed group then has equal returns and no signal, unless the outcome has levels of its own.

    Args:
      reward: f32[N, T], what is paid besides, or the level above; zeros if there is neither.
      mask: bool[N, T], the agent acted.
      reward_levels: f32[N, T, n], lowest priority first; an annotation.
      thresholds: v_2 to v_n, of levels 2 to n, and one more if the reward is the level above. A
        level is reached if its sum is larger: choose the value that separates "not completed" from
        "completed". One below all sums opens the gate for all.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: another number of thresholds, or arrays of other shapes or types.

    References:
      G-RA (2025), https://arxiv.org/abs/2508.10548. From notes on the paper and one third-party
      implementation; the paper's text was not read.
    """
    check_streams("gated_accumulation", mask, numbers={"reward": reward})
    shape = jnp.shape(reward_levels)
    if len(shape) != 3 or shape[:2] != jnp.shape(mask):
        raise ValueError(
            f"gated_accumulation: reward_levels has shape {shape}; expected "
            f"{(*jnp.shape(mask), 'n')}, one reward per level"
        )
    above = len(thresholds) - shape[2] + 1
    if above not in (0, 1):
        raise ValueError(
            f"gated_accumulation: {len(thresholds)} thresholds for {shape[2]} reward levels; "
            f"expected {shape[2] - 1}, one for each level but the lowest, or {shape[2]}, the last "
            "of them for the reward itself"
        )
    levels = jnp.where(mask[..., None], jnp.asarray(reward_levels, jnp.float32), 0.0)
    own = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    sums = jnp.sum(jnp.concatenate([levels, own[..., None]], axis=-1), axis=1)
    reached = sums[:, 1 : len(thresholds) + 1] > jnp.asarray(thresholds, jnp.float32)
    gate = jnp.cumprod(reached[:, ::-1], axis=1)[:, ::-1]
    gate = jnp.concatenate([gate, jnp.ones((shape[0], 1), gate.dtype)], axis=1)
    return own + jnp.sum(levels * gate[:, None, : shape[2]], axis=-1)


def _of_turns(final: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    if final.ndim and final.shape not in (shape, shape[:1]):
        raise ValueError(
            f"potential_shaping: final_potential has shape {final.shape}; expected {shape} or "
            f"{shape[:1]}, of each turn or of each stream"
        )
    return jnp.broadcast_to(final[:, None] if final.ndim == 1 else final, shape)


def potential_shaping(
    reward: jax.Array,
    potential: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    final_potential: jax.Array,
    *,
    gamma: float,
    truncated: jax.Array | None = None,
) -> jax.Array:
    """Reward plus a difference of potentials, which leaves optimal policies as they were.

    r_t + F_t,  F_t = gamma phi'_t - phi_t,

    where t + 1 is the stream's next acted turn and

      phi'_t = 0 where terminated, final_potential_t where the stream is cut (truncated, or no acted
      turn follows), else phi_{t+1}.

    The terms telescope. The discounted return of a terminated episode changes by -phi_0, whatever
    the policy did; that of a cut one by gamma^k final_potential - phi_0, where a bootstrap from the
    critic of the shaped task (V - phi) takes gamma^k final_potential back. A time limit is not a
    terminal state: with phi = 0 there, the policy would be paid for the state that the limit
    happened to cut it in.

    It telescopes for the discount that the return is taken with. An estimator that sums rewards
    undiscounted (the episode term of GRPO and of GiGPO) needs gamma=1. Streams of one group start
    from the same state, so that -phi_0 then drops out of their comparison too.

    Args:
      reward: f32[N, T].
      potential: f32[N, T], phi of the state (or observation) that the agent acted from; an
        annotation.
      mask: bool[N, T], the agent acted.
      terminated: bool[N, T], the rules ended the episode at this turn.
      final_potential: phi of what followed a cut: f32[N, T] for each turn, f32[N] for the end of
        each stream, or a scalar; an annotation. Read only at cuts, as is the `bootstrap` of `gae`.
      gamma: discount of the return, in [0, 1].
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its row (a
        segment that holds several episodes); then final_potential is [N, T].

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: gamma outside [0, 1], or arrays of other shapes or types.

    References:
      Ng, Harada and Russell (1999), Policy invariance under reward transformations, ICML. Grzes
      (2017), Reward shaping in episodic reinforcement learning, AAMAS, for the potential at the
      end of an episode. Written from the equations.
    """
    if truncated is None:
        truncated = jnp.zeros_like(mask)
    check_range("potential_shaping gamma", gamma, 0.0, 1.0)
    numbers = {"reward": reward, "potential": potential}
    flags = {"terminated": terminated, "truncated": truncated}
    check_streams("potential_shaping", mask, numbers=numbers, flags=flags)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    potential = jnp.where(mask, jnp.asarray(potential, jnp.float32), 0.0)
    final = _of_turns(jnp.asarray(final_potential, jnp.float32), reward.shape)

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
