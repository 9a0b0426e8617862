"""Turn-level returns against the turns of the same task and role (MARS, MARSHAL)."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import (
    Normalize,
    as_advantage,
    distinct,
    moments,
    relative,
    turn_segments,
)
from agentrl.advantages.reinforce import whiten
from agentrl.checks import check_choice, check_range, check_rows, check_streams
from agentrl.declarations import assumes
from agentrl.rewards import discounted_return

Within = Literal["task_role", "task", "role", "batch"]
Compared = Literal["returns", "rewards"]
CountBy = Literal["turn", "distinct", "token"]
Centring = Literal["mean", "std", "none"]

# Whether streams are told apart by task, and by role.
_KEYS = {
    "task_role": (True, True),
    "task": (True, False),
    "role": (False, True),
    "batch": (False, False),
}


def _segments(include: jax.Array, task: jax.Array, role: jax.Array, within: Within) -> jax.Array:
    """Segment of each turn or position, i32[N * T]; include bool[N, T], task and role i32[N]."""
    check_choice("within", within, get_args(Within))
    keys = [key for key, used in zip((task, role), _KEYS[within], strict=True) if used]
    return turn_segments(include, *keys)


@assumes("whole_episodes", "tokens_as_cost")
def mars(
    reward: jax.Array,
    mask: jax.Array,
    task: jax.Array,
    role: jax.Array,
    *,
    compared: Compared = "returns",
    within: Within = "task_role",
    count_by: CountBy = "turn",
    normalize: Normalize = "mean",
    gamma: float = 1.0,
    whitened: bool = False,
    cost: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Return to go of each turn minus the mean over the turns of the same task and role.

    compared="returns" (the paper's):

      A[i, t] = G[i, t] - mean_g(G),  G[i, t] = sum_{k >= t} gamma^(k - t) r[i, k];

    compared="rewards" (its ablation, and what its code runs), centred before they are summed:

      A[i, t] = sum_{k >= t} gamma^(k - t) (r[i, k] - mean_g(r)),

    which depends on how many turns are left. g holds turns of the whole batch; different starts of
    a task are not told apart (`group` of the streams is not read).

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      task, role: i32[N], any ids.
      compared: "returns" or "rewards", see above.
      within: the turns that are compared: those of the same "task_role", "task", "role", or of the
        whole "batch".
      count_by: how often a turn counts in its mean: "turn", once; "token", as often as it has
        tokens (`cost`); "distinct", each distinct value once, however many turns have it.
      normalize: "mean", or "std" to divide by the deviation, too.
      gamma: discount once per own turn, in [0, 1].
      whitened: whiten the result over the batch, by tokens where `cost` is given, else by turns.
      cost: f32[N, T], tokens of each turn.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False, gradient stopped. Where all compared values are equal, it is
      exactly 0.

    Raises:
      ValueError: an unknown choice, count_by="token" without `cost`, a number outside its range, or
        arrays of other shapes or types.

    References:
      Yuan et al. (2025), MARS (later MARSHAL), https://arxiv.org/abs/2510.15414. The formula is
      reconstructed from the project's page and a review; the paper's text was not read. The
      released code does something else: `mars_released`. Without its second centring the two agree,
      with compared="rewards", whitened=True and `cost` given.
    """
    check_choice("compared", compared, get_args(Compared))
    check_choice("count_by", count_by, get_args(CountBy))
    check_range("mars gamma", gamma, 0.0, 1.0)
    if count_by == "token" and cost is None:
        raise ValueError("mars count_by='token' counts tokens; give cost=, the tokens of each turn")
    numbers, ids = {"reward": reward, "cost": cost}, {"task": task, "role": role}
    check_streams("mars", mask, numbers=numbers, ids=ids)
    segment = _segments(jnp.asarray(mask), task, role, within)
    values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    scale = jnp.abs(values)
    if compared == "returns":
        values, scale = (discounted_return(x, mask, gamma=gamma) for x in (values, scale))
    values = values.reshape(-1)
    frequency = None
    if count_by == "token" and cost is not None:
        frequency = jnp.where(mask, cost, 0.0).reshape(-1)
    elif count_by == "distinct":
        frequency = distinct(values, segment)
    against = moments(values, segment, frequency=frequency, scale=scale.reshape(-1))
    advantage = relative(values, against, normalize=normalize, epsilon=epsilon).reshape(mask.shape)
    if compared == "rewards":
        advantage = discounted_return(advantage, mask, gamma=gamma)
    return whiten(advantage, mask, frequency=cost) if whitened else as_advantage(advantage, mask)


def mars_released(
    score: jax.Array,
    turn_end: jax.Array,
    response: jax.Array,
    task: jax.Array,
    role: jax.Array,
    *,
    within: Within = "task_role",
    normalize: Centring = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    recentre: Centring = "mean",
    whiten_advantages: bool = True,
    resolution: float = 1e-5,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Advantages per token as MARS's released code computes them; the defaults are its own.

      1. x = r - mean_g(r) at the turns' ends, 0 elsewhere (over std_g too, or not at all).
      2. x is whitened over all response positions, and 0 elsewhere. The mean being 0 after step 1,
         this divides by a deviation that is small, for most positions hold 0. After
         normalize="none" it is not 0, and every token of a turn has another return.
      3. G_j = x_j + gamma G_{j+1}, over all positions, tools and prompts included.
      4. G - mean over the distinct values of G in all rows of the role, of whichever task and at
         positions of any kind: 0 after the last turn, the whole return before the first.
      5. Whitened over all response positions.

    Args:
      score: f32[R, L], reward of a turn, at its last position; not read elsewhere.
      turn_end: bool[R, L], last positions of turns.
      response: bool[R, L], positions that the policy produced.
      task, role: i32[R], any ids; one row per stream.
      within, normalize: of step 1; "none" is no centring (its separate_norm_for_selfplay, method).
      gamma: discount once per position, not once per turn; in [0, 1].
      recentre: of step 4: "mean", "std", or "none".
      resolution: values of G closer than this share of the role's largest are one. The reference
        compares float32 exactly (0 here), and the rounding of its sums adds values: in one of its
        arrays 17 where there are 11. Its result depends on the order of summation, by up to 0.3.
      whiten_rewards, whiten_advantages: whether to do steps 2 and 5.
      epsilon: as for `mars`.

    Returns:
      f32[R, L], 0 where response is False, gradient stopped.

    Raises:
      ValueError: an unknown choice, a number outside its range, or arrays of other shapes or types.

    References:
      thu-nics/MARSHAL 2db0222 (read), thu-nics/MARS 5979f75 (executed; the same file):
      reward_postprocess_agentic, compute_advantage. There a group with one turn end raises an
      error, here it gives 0; and the first position is cut off before step 2: cut it off here too.
    """
    check_choice("normalize", normalize, get_args(Centring))
    check_choice("recentre", recentre, get_args(Centring))
    check_range("mars_released gamma", gamma, 0.0, 1.0)
    check_range("mars_released resolution", resolution, 0.0)
    check_streams(
        "mars_released",
        response,
        numbers={"score": score},
        flags={"turn_end": turn_end},
        ids={"task": task, "role": role},
    )
    shape = score.shape
    values = jnp.where(turn_end, jnp.asarray(score, jnp.float32), 0.0)
    if normalize != "none":
        flat = values.reshape(-1)
        against = moments(flat, _segments(turn_end, task, role, within))
        flat = relative(flat, against, normalize=normalize, epsilon=epsilon)
        values = jnp.where(turn_end, flat.reshape(shape), 0.0)
    if whiten_rewards:
        values = whiten(values, response)
    values = jnp.where(response, values, 0.0)
    returns = discounted_return(values, jnp.ones(shape, bool), gamma=gamma)
    if recentre != "none":
        returns = _recentred(
            returns, values, response, task, role, recentre, gamma, resolution, epsilon
        )
    return whiten(returns, response) if whiten_advantages else as_advantage(returns, response)


def _recentred(
    returns, values, response, task, role, recentre, gamma, resolution, epsilon
) -> jax.Array:
    """Step 4 of `mars_released`: returns [R, L] of values [R, L] against their role's."""
    shape = returns.shape
    rows = jnp.broadcast_to(jnp.any(response, axis=1, keepdims=True), shape)
    flat, segment = returns.reshape(-1), _segments(rows, task, role, "role")
    # Whitening rounds every position by the largest: returns of nothing but that are constant.
    largest = jnp.full(shape, jnp.max(jnp.abs(values), initial=0.0))
    scale = discounted_return(largest, jnp.ones(shape, bool), gamma=gamma)
    against = moments(
        flat,
        segment,
        frequency=distinct(flat, segment, resolution=resolution),
        scale=scale.reshape(-1),
    )
    return relative(flat, against, normalize=recentre, epsilon=epsilon).reshape(shape)


@assumes("whole_episodes", "one_row")
def mars_by_position(
    reward: jax.Array,
    mask: jax.Array,
    task: jax.Array,
    role: jax.Array,
    loss_mask: jax.Array,
    stream: jax.Array,
    turn: jax.Array,
    *,
    within: Within = "task_role",
    normalize: Centring = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    recentre: Centring = "mean",
    whiten_advantages: bool = True,
    resolution: float = 1e-5,
    epsilon: float = 1e-6,
) -> jax.Array:
    """`mars_released` of streams and their rows: advantages per position, f32[R, L].

    The reward of a turn stands at the last position of `loss_mask` that belongs to it.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      task, role: i32[N], any ids.
      loss_mask: bool[R, L], positions that the policy produced.
      stream: i32[R], the stream of each row; a stream is one row.
      turn: i32[R, L], the turn of each position, ascending along a row; -1 for none.
      within, normalize, whiten_rewards, gamma, recentre, whiten_advantages, resolution, epsilon: as
        for `mars_released`.

    Returns:
      f32[R, L], 0 where loss_mask is False, gradient stopped.

    Raises:
      ValueError: as `mars_released`.
    """
    check_streams(
        "mars_by_position", mask, numbers={"reward": reward}, ids={"task": task, "role": role}
    )
    check_rows("mars_by_position", loss_mask, stream, turn)
    at = (stream[:, None], jnp.maximum(turn, 0))
    end = _turn_ends(loss_mask, turn) & jnp.asarray(mask)[at]
    return mars_released(
        jnp.where(end, jnp.asarray(reward)[at], 0.0),
        end,
        loss_mask,
        jnp.asarray(task)[stream],
        jnp.asarray(role)[stream],
        within=within,
        normalize=normalize,
        whiten_rewards=whiten_rewards,
        gamma=gamma,
        recentre=recentre,
        whiten_advantages=whiten_advantages,
        resolution=resolution,
        epsilon=epsilon,
    )


def _turn_ends(loss_mask: jax.Array, turn: jax.Array) -> jax.Array:
    """The last position of each turn among those of loss_mask, bool[R, L]."""
    none = jnp.iinfo(jnp.int32).max
    number = jnp.where(loss_mask, turn, none).astype(jnp.int32)
    later = jax.lax.cummin(number, axis=1, reverse=True)
    later = jnp.pad(later[:, 1:], ((0, 0), (0, 1)), constant_values=none)
    return loss_mask & (turn >= 0) & (later > number)
