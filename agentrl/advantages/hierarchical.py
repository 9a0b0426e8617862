"""Hierarchical advantage estimation: one GAE inside a subgoal, another across subgoals."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import as_advantage
from agentrl.advantages.temporal import check_bootstrap
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes
from agentrl.streams import last_turns


class Hierarchical(NamedTuple):
    """Advantages f32[N, T] of the three decisions of a turn, 0 where none was taken.

    action: of each turn's action, under the subgoal then in force.
    subgoal: of each new subgoal, on the turn that chose it.
    switch: of choosing a new subgoal or keeping the old one, on each turn; None without its critic.
    """

    action: jax.Array
    subgoal: jax.Array
    switch: jax.Array | None


def segment_starts(mask: jax.Array, ends: jax.Array, switch: jax.Array) -> jax.Array:
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
    gamma^(b'-b) their product: turns of duration 0 are not discounted.

    `hae_by_turn` computes it from the streams of a planner and its executor, `hae_by_span` from
    replies that hold all three decisions.

    Args:
      reward, value (V), subgoal_value (W): f32[N, T].
      mask, switch, terminated: bool[N, T]; an episode's first turn always chooses.
      bootstrap, subgoal_bootstrap: f32[N, T], f32[N] or a scalar, as for `gae`.
      gamma, lam, subgoal_lam: discount of a turn, traces within and across segments, in [0, 1].
      switch_value (U): f32[N, T].
      truncated: bool[N, T], as for `gae`.
      duration: f32[N, T], time that each turn takes; None: 1.

    Returns:
      `Hierarchical`, gradient stopped. Critics' targets: action + V, subgoal + W, switch + U.

    Raises:
      ValueError: a number outside [0, 1], or arrays of other shapes or types.

    References:
      HiPER (2026), https://arxiv.org/abs/2602.16165; equations from its code, JonP07/HiPER-agent
      9d3c118, whose arrays this equals. The paper's advantage of switching is W - V, signed by the
      decision; its code learns a critic U of the outcome instead, and so do we. Deviation: where an
      episode is cut, the code takes V_t for N_t and W_b for the tail of H, as it has not seen the
      next state; here the caller gives the value of the next state (those values, for the same).
    """
    for name, number in (("gamma", gamma), ("lam", lam), ("subgoal_lam", subgoal_lam)):
        check_range(f"hae {name}", number, 0.0, 1.0)
    numbers = {
        "reward": reward,
        "value": value,
        "subgoal_value": subgoal_value,
        "switch_value": switch_value,
        "duration": duration,
    }
    flags = {"switch": switch, "terminated": terminated, "truncated": truncated}
    check_streams("hae", mask, numbers=numbers, flags=flags)
    check_bootstrap("hae", bootstrap, mask)
    check_bootstrap("hae", subgoal_bootstrap, mask)
    action, subgoal, outcome = _recursion(
        (reward, value, subgoal_value),
        mask,
        switch,
        terminated,
        jnp.zeros_like(mask) if truncated is None else truncated,
        tuple(_per_turn(x, mask.shape) for x in (bootstrap, subgoal_bootstrap)),
        discount=gamma ** (jnp.ones(mask.shape) if duration is None else duration),
        lam=lam,
        subgoal_lam=subgoal_lam,
    )
    switched = None if switch_value is None else as_advantage(outcome - switch_value, mask)
    return Hierarchical(as_advantage(action, mask), as_advantage(subgoal, mask), switched)


def _per_turn(after: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    after = jnp.asarray(after, jnp.float32)
    return jnp.broadcast_to(after[:, None] if after.ndim == 1 else after, shape)


def _recursion(numbers, mask, switch, terminated, cut, beyond, *, discount, lam, subgoal_lam):
    """(action, subgoal, outcome H) of `hae`, f32[N, T] each, anything where mask is False.

    numbers: reward, value and subgoal_value; beyond: bootstrap and subgoal_bootstrap, f32[N, T].
    """
    begins = segment_starts(mask, terminated | cut, switch)

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

    nothing = jnp.zeros(mask.shape[0], jnp.float32)
    names = ("v", "w", "action", "outcome", "trace", "subgoal")
    first = {name: nothing for name in names} | {"new": jnp.zeros(mask.shape[0], bool)}
    inputs = (*numbers, discount, mask, begins, terminated, cut, *beyond)
    _, out = jax.lax.scan(
        backward,
        (first, jnp.zeros(mask.shape[0], bool)),
        jax.tree.map(jnp.transpose, inputs),
        reverse=True,
    )
    return tuple(x.T for x in out)


@assumes("whole_episodes", "one_end")
def hae_by_turn(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    parent: jax.Array,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    subgoal_lam: float = 0.95,
    truncated: jax.Array | None = None,
    penalty: jax.Array | None = None,
) -> jax.Array:
    """`hae` of the streams of planners and executors, f32[N, T].

    A segment is one turn of the planner, which takes no time, and the turns of the executor up to
    the planner's next one. V is the executor's value, W the planner's; the executor gets the
    advantages of actions, the planner those of subgoals. In an episode one of the two acts at a
    time.

    Args:
      reward: f32[N, T], the executor's; the planner's is not read, as it was given the same.
      value: f32[N, T], each stream's own.
      mask, terminated, truncated: bool[N, T].
      bootstrap: f32[N, T], value of what followed each stream's end. Of a planner it is read at the
        last turn of its team, also where the planner's mask is False.
      parent: i32[N], the planner's stream of each executor's, -1 for planners; one executor each.
      gamma, lam, subgoal_lam: as for `hae`.
      penalty: f32[N, T], subtracted from the reward of the turn itself, of planner or executor.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: a number outside [0, 1], or arrays of other shapes or types.
    """
    numbers = {"reward": reward, "value": value, "bootstrap": bootstrap, "penalty": penalty}
    flags = {"terminated": terminated, "truncated": truncated}
    check_streams("hae_by_turn", mask, numbers=numbers, flags=flags, ids={"parent": parent})
    rates = {"gamma": gamma, "lam": lam, "subgoal_lam": subgoal_lam}
    streams = (reward, value, mask, terminated, bootstrap, parent)
    return _of_teams(*streams, truncated=truncated, penalty=penalty, **rates)[0]


@assumes("whole_episodes", "one_end")
def switched_hae_by_turn(
    reward: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    terminated: jax.Array,
    bootstrap: jax.Array,
    parent: jax.Array,
    role: jax.Array,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    subgoal_lam: float = 0.95,
    switcher: int = 2,
    truncated: jax.Array | None = None,
    penalty: jax.Array | None = None,
) -> jax.Array:
    """`hae_by_turn` with a switcher, who keeps the subgoal or asks for a new one in its own turns.

    A of a switcher's turn is H of the planner's or executor's next turn, less its own value U; 0 if
    there is none. The others have what `hae_by_turn` gives them.

    Args:
      reward, value, mask, terminated, bootstrap, gamma, lam, subgoal_lam, truncated, penalty: as
        for `hae_by_turn`; the switcher's reward is not read, and a penalty of its turn is taken
        from its own advantage.
      parent: i32[N], the planner's stream of each other one, -1 for planners; one executor and at
        most one switcher each.
      role: i32[N]. switcher: the role of switchers, as in `envs.switched.env`.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped.

    Raises:
      ValueError: a number outside [0, 1], or arrays of other shapes or types.

    References:
      As for `hae`: the third advantage of HiPER's code, whose numbers this equals.
    """
    numbers = {"reward": reward, "value": value, "bootstrap": bootstrap, "penalty": penalty}
    flags = {"terminated": terminated, "truncated": truncated}
    ids = {"parent": parent, "role": role}
    check_streams("switched_hae_by_turn", mask, numbers=numbers, flags=flags, ids=ids)
    rates = {"gamma": gamma, "lam": lam, "subgoal_lam": subgoal_lam}
    switches = role == switcher
    called = jnp.where(switches, -1, parent)
    streams = (reward, value, mask, terminated, bootstrap, called)
    advantage, outcome, played = _of_teams(*streams, truncated=truncated, penalty=penalty, **rates)
    following, there = _of_next_turn(outcome, played)
    # From the executor's stream to the planner's, and from there to the switcher's.
    place = jnp.where(called >= 0, parent, mask.shape[0])
    planner = jnp.maximum(parent, 0)
    following = jnp.zeros_like(following).at[place].set(following, mode="drop")[planner]
    decided = jnp.zeros_like(there).at[place].set(there, mode="drop")[planner]
    decided &= mask & switches[:, None]
    own = jnp.where(decided, value if penalty is None else value + penalty, 0.0)
    chosen = jnp.where(decided, following - own, 0.0)
    return as_advantage(jnp.where(switches[:, None], chosen, advantage), mask)


def _of_next_turn(outcome: jax.Array, played: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(H of the next turn that is played after each one f32[N, T], whether there is one)."""

    def backward(after, turn):
        outcome, played = turn
        return jax.tree.map(lambda x, y: jnp.where(played, x, y), (outcome, played), after), after

    nothing = jnp.zeros(outcome.shape[0]), jnp.zeros(outcome.shape[0], bool)
    turns = jnp.where(played, outcome, 0.0).T, played.T
    _, (following, there) = jax.lax.scan(backward, nothing, turns, reverse=True)
    return following.T, there.T


def _of_teams(
    reward, value, mask, terminated, bootstrap, parent, *, truncated, penalty, **rates
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(advantages of planners and executors, H, which turns were played), [N, T] each.

    The last two belong to executors' streams and cover the turns of both.
    """
    planner, called = jnp.maximum(parent, 0), (parent >= 0)[:, None]
    acts, plans = mask & called, mask[planner] & called
    played = acts | plans
    last = last_turns(played)

    def at_end(flag):
        """An end that either stream marks on its own last turn, at the last turn of both."""
        flag = jnp.any(flag & mask, axis=1)
        return last & (flag | flag[planner])[:, None]

    def of_both(own, planners):
        return jnp.where(acts, own, jnp.where(plans, planners[planner], 0.0))

    score = of_both(reward, jnp.zeros_like(reward))
    if penalty is not None:
        score = score - of_both(penalty, penalty)
    given = hae(
        score,
        of_both(value, value),
        jnp.where(plans, value[planner], 0.0),
        played,
        plans,
        at_end(terminated),
        bootstrap,
        bootstrap[planner],
        # The outcome itself, from which a switcher takes its own value.
        switch_value=jnp.zeros_like(value),
        truncated=None if truncated is None else at_end(truncated),
        duration=acts.astype(jnp.float32),
        **rates,
    )
    assert given.switch is not None  # `switch_value` was given
    planned = jnp.zeros_like(reward).at[planner].add(jnp.where(plans, given.subgoal, 0.0))
    return jnp.where(acts, given.action, planned), given.switch, played
