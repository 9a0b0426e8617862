"""Hierarchical advantages of one reply: its switch, its subgoal and its action (HiPER)."""

import jax
import jax.numpy as jnp

from agentrl.advantages.hierarchical import hae
from agentrl.checks import check_range, check_rows, check_streams
from agentrl.declarations import assumes

# What a position of a reply decides (`decision`): whether to switch, the subgoal, the action.
DECISIONS = SWITCH, SUBGOAL, ACTION = range(3)


def first_positions(
    decision: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    shape: tuple[int, ...],
) -> jax.Array:
    """The first position of each decision of each turn, i32[N, T, 3]; R L where there is none.

    Positions are counted through all rows, R of L each. A turn is written in one row.

    decision: i32[R, L], one of `DECISIONS`, or -1. loss_mask: bool[R, L]. stream: i32[R]. turn:
    i32[R, L]. shape: (N, T).
    """
    size, kinds = shape[0] * shape[1] * len(DECISIONS), len(DECISIONS)
    number = stream[:, None] * shape[1] + jnp.maximum(turn, 0)
    number = number * kinds + jnp.clip(decision, 0, kinds - 1)
    there = loss_mask & (turn >= 0) & (decision >= 0)
    number = jnp.where(there, number, size).reshape(-1)
    place = jnp.arange(number.shape[0], dtype=jnp.int32)
    empty = jnp.full(size, place.shape[0], jnp.int32)
    return empty.at[number].min(place, mode="drop").reshape(*shape, kinds)


@assumes("whole_episodes")
def hae_by_span(
    reward: jax.Array,
    token_value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    decision: jax.Array,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    subgoal_lam: float = 0.95,
    truncated: jax.Array | None = None,
) -> jax.Array:
    """`hae` of policies whose one reply switches or keeps the subgoal, names one, and acts.

    One critic of tokens has all three values, each where its decision begins: U, before the reply
    says whether it switches, at its first position; W, after it has said so, at the first of the
    subgoal; V, under the subgoal, at the first of the action. A turn begins a segment if it has
    positions of a subgoal, or is the episode's first one; that has W = U where it names none, and a
    reply without an action has V = U. Each position has the advantage of its decision.

    Args:
      reward: f32[N, T]. mask, terminated: bool[N, T].
      token_value: f32[R, L], the critic's value at each position, before its token. Component
        `agentrl.methods.token_values.token_values` fills it.
      bootstrap: f32[N, T], value of what followed a turn before anything is written there: it
        stands for both of `hae`'s.
      loss_mask: bool[R, L], tokens that the policy wrote. stream: i32[R]. turn: i32[R, L].
      decision: i32[R, L], 0 switch, 1 subgoal, 2 action, -1 for none. Component
        `agentrl.methods.decisions.decisions` fills it.
      gamma, lam, subgoal_lam: as for `hae`; turns are what is discounted, not tokens.
      truncated: bool[N, T], needed where a limit cuts an episode before the end of its stream.

    Returns:
      f32[R, L], 0 where loss_mask is False or decision is -1, gradient stopped. It plus token_value
      is the target of the critic at a decision's first position (`losses.decision_value_loss`), and
      at no other. Turns that keep have no positions of a subgoal to train. With no switch after the
      first turn actions have `gae` on V; with one in each turn, one-step advantages over W.

    Raises:
      ValueError: a number outside [0, 1], or arrays of other shapes or types.

    References:
      HiPER (2026), https://arxiv.org/abs/2602.16165; code JonP07/HiPER-agent 9d3c118 (read). The
      advantage of switching is the code's, over a critic of the outcome. The paper's is W - V of
      the old subgoal, signed by the decision; where the policy switches no reply holds that V.
      Deviation: the code reads U and W from two heads at the first position of the reply, here one
      head reads W behind the switch.
    """
    for name, number in (("gamma", gamma), ("lam", lam), ("subgoal_lam", subgoal_lam)):
        check_range(f"hae_by_span {name}", number, 0.0, 1.0)
    numbers = {"token_value": token_value, "decision": decision}
    check_rows("hae_by_span", loss_mask, stream, turn, numbers=numbers)
    flags = {"terminated": terminated, "truncated": truncated}
    check_streams("hae_by_span", mask, numbers={"reward": reward}, flags=flags)
    first = first_positions(decision, loss_mask, stream, turn, mask.shape)
    there = first < loss_mask.size
    found = jnp.append(jnp.where(loss_mask, token_value, 0.0).reshape(-1), 0.0)
    u = found[jnp.min(first, axis=-1)]
    w, v = (jnp.where(there[..., i], found[first[..., i]], u) for i in (SUBGOAL, ACTION))
    given = hae(
        reward,
        v,
        w,
        mask,
        there[..., SUBGOAL],
        terminated,
        bootstrap,
        bootstrap,
        gamma=gamma,
        lam=lam,
        subgoal_lam=subgoal_lam,
        switch_value=u,
        truncated=truncated,
    )
    assert given.switch is not None  # `switch_value` was given
    levels = jnp.stack([given.switch, given.subgoal, given.action], axis=-1)
    decided = loss_mask & (turn >= 0) & (decision >= 0)
    kind = jnp.clip(decision, 0, len(DECISIONS) - 1)
    advantage = levels[stream[:, None], jnp.maximum(turn, 0), kind]
    return jax.lax.stop_gradient(jnp.where(decided, advantage, 0.0))


def standardized_by_decision(
    advantage: jax.Array,
    mask: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    decision: jax.Array,
    *,
    epsilon: float = 1e-8,
) -> jax.Array:
    """Advantages of switches, subgoals and actions, each kind standardised by itself.

    (A - mean) / (std + epsilon), with the mean and the standard deviation (ddof 0) of a kind over
    the turns that have it, each counted once however many tokens it has. It takes the place of
    learner.normalize_advantage, which does not tell kinds apart.

    Args:
      advantage: f32[R, L], the same at all positions of one decision, as of `hae_by_span`.
      mask: bool[N, T], the agent acted.
      loss_mask: bool[R, L], tokens that the policy wrote. stream: i32[R]. turn: i32[R, L].
      decision: i32[R, L], as for `hae_by_span`.
      epsilon: above 0.

    Returns:
      f32[R, L], 0 where loss_mask is False or decision is -1, gradient stopped.

    Raises:
      ValueError: epsilon of 0 or less, or arrays of other shapes or types.

    References:
      HiPER (2026), option norm_adv of its recipes; code JonP07/HiPER-agent 9d3c118 (read).
    """
    check_range("standardized_by_decision epsilon", epsilon, 0.0, above=True)
    numbers = {"advantage": advantage, "decision": decision}
    check_rows("standardized_by_decision", loss_mask, stream, turn, numbers=numbers)
    check_streams("standardized_by_decision", mask)
    first = first_positions(decision, loss_mask, stream, turn, mask.shape)
    there = first < loss_mask.size
    found = jnp.append(jnp.where(loss_mask, advantage, 0.0).reshape(-1), 0.0)[first]
    mean = jnp.mean(found, axis=(0, 1), where=there)
    std = jnp.std(found, axis=(0, 1), where=there)
    # Of a kind that nobody decided there is no mean.
    some = jnp.any(there, axis=(0, 1))
    mean, std = jnp.where(some, mean, 0.0), jnp.where(some, std, 1.0)
    kind = jnp.clip(decision, 0, len(DECISIONS) - 1)
    new = (advantage - mean[kind]) / (std[kind] + epsilon)
    decided = loss_mask & (turn >= 0) & (decision >= 0)
    return jax.lax.stop_gradient(jnp.where(decided, new, 0.0))
