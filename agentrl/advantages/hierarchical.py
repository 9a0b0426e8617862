"""Hierarchical advantage estimation: one GAE inside a subgoal, another across subgoals."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp


class Hierarchical(NamedTuple):
    """Advantages f32[N, T] of the three decisions of a turn, 0 where none was taken.

    action: of each turn's action, under the subgoal then in force.
    subgoal: of each new subgoal, on the turn that chose it.
    switch: of choosing anew or keeping, on each turn; None without a critic for it.
    """

    action: jax.Array
    subgoal: jax.Array
    switch: jax.Array | None


def chosen_anew(mask: jax.Array, ends: jax.Array, switch: jax.Array) -> jax.Array:
    """Turns that begin a segment, bool[N, T]: an episode's first one, and where `switch` says so.

    mask, ends, switch: bool[N, T]; ends: the episode ended or was cut at this turn.
    """

    def forward(fresh, turn):
        acted, ended, new = turn
        begins = acted & (fresh | new)
        return jnp.where(acted, ended, fresh), begins

    first = jnp.ones(mask.shape[0], bool)
    _, begins = jax.lax.scan(forward, first, jax.tree.map(jnp.transpose, (mask, ends, switch)))
    return begins.T


def hae(
    reward: jax.Array,
    value: jax.Array,
    subgoal_value: jax.Array,
    mask: jax.Array,
    switch: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    subgoal_bootstrap: jax.Array,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    subgoal_lam: float = 0.95,
    switch_value: jax.Array | None = None,
    truncated: jax.Array | None = None,
    duration: jax.Array | None = None,
) -> Hierarchical:
    """Hierarchical advantage estimation (HAE): credit for actions stops where a subgoal ends.

    A stream's acted turns fall into segments, each from a turn b that chose a subgoal to the turn
    before the next choice, b' (where the episode ends in between, there is none). V is the value of
    a state under a subgoal, W that of a state in which a subgoal is to be chosen.

      action:   delta_t = r_t + gamma N_t - V_t,  A_t = delta_t + gamma lam c_t A_{t+1},
                (N_t, c_t) = (V_{t+1}, 1) inside the segment, (W_{b'}, 0) at its last turn
      outcome:  H_t = r_t + gamma [H_{t+1} inside the segment, W_{b'} at its last turn]
      subgoal:  A_b = H_b - W_b + gamma^(b'-b) subgoal_lam A_{b'}
      switch:   A_t = H_t - U_t, U the critic of H

    At a terminal turn what follows is 0; where the stream is cut, N_t is `bootstrap` and the tail
    of H_t is `subgoal_bootstrap`. Turns with mask False are skipped over. With no switch, A of
    actions is `gae`; with a switch in each turn and lam of any size, it is the one-step advantage
    over W, and A of subgoals is `gae` on W. With durations d_t, gamma is gamma^d_t in turn t, and
    gamma^(b'-b) their product: time stands still in turns of 0.

    Args:
      reward, value (V), subgoal_value (W), switch_value (U): f32[N, T].
      mask, switch, terminated, truncated: bool[N, T]; an episode's first turn always chooses.
      bootstrap, subgoal_bootstrap: f32[N, T], f32[N] or a scalar, as for `gae`.
      duration: f32[N, T], time that each turn takes; None: 1.
      gamma, lam, subgoal_lam: discount of a turn, traces within and across segments, in [0, 1].

    Returns:
      `Hierarchical`, gradient stopped. Critics' targets: action + V, subgoal + W, switch + U.

    References:
      HiPER (2026), https://arxiv.org/abs/2602.16165; equations from its code, JonP07/HiPER-agent
      9d3c118, whose arrays this equals. The paper's advantage of switching is W - V, signed by the
      decision; its code learns a critic U of the outcome instead, and so do we. Deviation: where an
      episode is cut, the code takes V_t for N_t and W_b for the tail of H, as it has not seen the
      next state; here the caller says what followed (those values, for the same).
    """
    chex.assert_rank([reward, value, subgoal_value, mask, switch, terminated], 2)
    chex.assert_equal_shape([reward, value, subgoal_value, mask, switch, terminated])
    cut = jnp.zeros_like(mask) if truncated is None else truncated
    begins = chosen_anew(mask, terminated | cut, switch)
    took = jnp.ones(reward.shape) if duration is None else duration

    def per_turn(after):
        after = jnp.asarray(after, jnp.float32)
        after = after[:, None] if after.ndim == 1 else after
        return jnp.broadcast_to(after, reward.shape)

    def backward(carry, turn):
        after, follows = carry
        r, v, w, g, acted, new, ends, cuts, beyond, beyond_w = turn
        goes_on = follows & ~ends & ~cuts
        inside = goes_on & ~after["new"]
        anew = goes_on & after["new"]
        outside = jnp.where(ends, 0.0, beyond)
        following = jnp.where(inside, after["v"], jnp.where(anew, after["w"], outside))
        action = r + g * following - v + g * lam * jnp.where(inside, after["action"], 0.0)
        outside = jnp.where(ends, 0.0, beyond_w)
        outcome = jnp.where(inside, after["outcome"], jnp.where(anew, after["w"], outside))
        outcome = r + g * outcome
        # The next subgoal's advantage, discounted to this turn.
        trace = jnp.where(inside, after["trace"], jnp.where(anew, after["subgoal"], 0.0))
        trace = g * trace
        subgoal = outcome - w + subgoal_lam * trace
        now = {
            "new": new,
            "v": v,
            "w": w,
            "action": action,
            "outcome": outcome,
            "trace": trace,
            "subgoal": subgoal,
        }
        after = jax.tree.map(lambda x, y: jnp.where(acted, x, y), now, after)
        return (after, follows | acted), (action, jnp.where(new, subgoal, 0.0), outcome)

    nothing = jnp.zeros(reward.shape[0], jnp.float32)
    names = ("v", "w", "action", "outcome", "trace", "subgoal")
    first = {name: nothing for name in names} | {"new": jnp.zeros(reward.shape[0], bool)}
    inputs = (reward, value, subgoal_value, gamma**took, mask, begins, terminated, cut)
    inputs += (per_turn(bootstrap), per_turn(subgoal_bootstrap))
    _, out = jax.lax.scan(
        backward,
        (first, jnp.zeros(reward.shape[0], bool)),
        jax.tree.map(jnp.transpose, inputs),
        reverse=True,
    )
    action, subgoal, outcome = (jax.lax.stop_gradient(jnp.where(mask, x.T, 0.0)) for x in out)
    switched = None
    if switch_value is not None:
        switched = jax.lax.stop_gradient(jnp.where(mask, outcome - switch_value, 0.0))
    return Hierarchical(action, subgoal, switched)
