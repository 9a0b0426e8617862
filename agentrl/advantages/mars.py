"""Turn-level returns against the turns of the same task and role (MARS, MARSHAL)."""

import chex
import jax
import jax.numpy as jnp

from agentrl.advantages.grouping import choice, distinct, joint_owner, moments, relative
from agentrl.advantages.reinforce import whiten
from agentrl.rewards import discounted_return

# Whether streams are told apart by task, and by role.
GROUPS = {
    "task_role": (True, True),
    "task": (True, False),
    "role": (False, True),
    "batch": (False, False),
}


def _owner(include: jax.Array, task: jax.Array, role: jax.Array, group: str) -> jax.Array:
    """Group of each turn or position, i32[N * T]; include bool[N, T], task and role i32[N]."""
    choice("group", group, tuple(GROUPS))
    keys = [key for key, used in zip((task, role), GROUPS[group], strict=True) if used]
    keys = keys or [jnp.zeros(include.shape[0], jnp.int32)]
    wide = (jnp.broadcast_to(jnp.asarray(key)[:, None], include.shape).reshape(-1) for key in keys)
    return joint_owner(include.reshape(-1), *wide)


def mars(
    reward: jax.Array,
    mask: jax.Array,
    task: jax.Array,
    role: jax.Array,
    *,
    order: str = "sum_then_normalise",
    group: str = "task_role",
    weight: str = "turn",
    normalize: str = "mean",
    gamma: float = 1.0,
    whitened: bool = False,
    cost: jax.Array | None = None,
    epsilon: float = 1e-6,
) -> jax.Array:
    """Return to go of each turn, less the mean over the turns of the same task and role.

    order="sum_then_normalise" (the paper's):

      A[i, t] = G[i, t] - mean_g(G),  G[i, t] = sum_{k >= t} gamma^(k - t) r[i, k];

    order="normalise_then_sum" (its ablation, and what its code runs):

      A[i, t] = sum_{k >= t} gamma^(k - t) (r[i, k] - mean_g(r)),

    which depends on how many turns are left. g holds turns of the whole batch; different starts of
    a task are not told apart (`group` of the streams is not read).

    Args:
      reward: f32[N, T]; mask: bool[N, T]; task, role: i32[N], any ids.
      group: what is compared: "task_role", "task", "role", or "batch".
      weight: how often a turn counts in its group: "turn", once; "token", as often as it has tokens
        (`cost`); "distinct", each distinct value once, however many turns have it.
      normalize: "mean", or "std" to divide by the group's deviation too.
      gamma: discount once an own turn.
      whitened: whiten the result over the batch, by tokens where `cost` is given, else by turns.
      cost: f32[N, T], tokens of each turn.
      epsilon: added to the standard deviation (ddof 1), outside the root.

    Returns:
      f32[N, T], 0 where mask is False. A group whose values are all equal gives exactly 0.

    References:
      Yuan et al. (2025), MARS (later MARSHAL), https://arxiv.org/abs/2510.15414. The formula is
      reconstructed from the project's page and a review; the paper's text was not read. The
      released code does something else: `mars_released`. Without its second centring the two agree,
      with order="normalise_then_sum", whitened=True and `cost` given.
    """
    choice("order", order, ("sum_then_normalise", "normalise_then_sum"))
    choice("weight", weight, ("turn", "distinct", "token"))
    if weight == "token" and cost is None:
        raise ValueError("mars weight='token' counts tokens; give cost=, the tokens of each turn")
    chex.assert_rank([reward, mask], 2)
    chex.assert_equal_shape([reward, mask])
    owner = _owner(mask, task, role, group)
    if order == "sum_then_normalise":
        values = discounted_return(reward, mask, gamma=gamma)
    else:
        values = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    values = values.reshape(-1)
    counts = None
    if weight == "token":
        counts = jnp.where(mask, cost, 0.0).reshape(-1)
    elif weight == "distinct":
        counts = distinct(values, owner)
    against = moments(values, owner, weight=counts)
    advantage = relative(values, against, normalize=normalize, epsilon=epsilon).reshape(mask.shape)
    if order == "normalise_then_sum":
        advantage = discounted_return(advantage, mask, gamma=gamma)
    if whitened:
        return whiten(advantage, mask, weight=cost)
    return jnp.where(mask, advantage, 0.0)


def mars_released(
    score: jax.Array,
    turn_end: jax.Array,
    response: jax.Array,
    task: jax.Array,
    role: jax.Array,
    *,
    group: str = "task_role",
    normalize: str = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    recentre: str = "mean",
    whiten_advantages: bool = True,
    resolution: float = 1e-5,
    epsilon: float = 1e-6,
) -> jax.Array:
    """What MARS's released code computes, on tokens; the defaults are its shipped configuration.

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
      turn_end, response: bool[R, L], last positions of turns; positions that the policy produced.
      task, role: i32[R], one row a stream.
      group: of step 1: "task_role" or "task" (the code's separate_norm_for_selfplay), or others.
      normalize: of step 1: "mean", "std", or "none" (its method mean, mean_std, identity).
      gamma: discount once a position, not once a turn.
      recentre: of step 4: "mean", "std", or "none".
      resolution: values of G closer than this share of the role's largest are one. The reference
        compares float32 exactly (0 here), and the rounding of its sums adds values: in one of its
        arrays 17 where there are 11. Its mean, and so the result, depends on the order of
        summation, by up to 0.3 in batches of eight rows.
      whiten_rewards, whiten_advantages: whether to do steps 2 and 5. epsilon: as for `mars`.

    Returns:
      f32[R, L], 0 where response is False.

    References:
      thu-nics/MARSHAL 2db0222 (read), thu-nics/MARS 5979f75 (executed; the same file):
      reward_postprocess_agentic, compute_advantage. There a group with one turn end raises an
      error, here it gives 0; and the first position is cut off before step 2: cut it off here too.
    """
    choice("normalize", normalize, ("mean", "std", "none"))
    choice("recentre", recentre, ("mean", "std", "none"))
    chex.assert_rank([score, turn_end, response], 2)
    chex.assert_equal_shape([score, turn_end, response])
    chex.assert_type([turn_end, response], bool)
    shape = score.shape
    values = jnp.where(turn_end, jnp.asarray(score, jnp.float32), 0.0)
    if normalize != "none":
        flat = values.reshape(-1)
        against = moments(flat, _owner(turn_end, task, role, group))
        flat = relative(flat, against, normalize=normalize, epsilon=epsilon)
        values = jnp.where(turn_end, flat.reshape(shape), 0.0)
    if whiten_rewards:
        values = whiten(values, response)
    values = jnp.where(response, values, 0.0)
    returns = discounted_return(values, jnp.ones(shape, bool), gamma=gamma)
    if recentre != "none":
        rows = jnp.broadcast_to(jnp.any(response, axis=1, keepdims=True), shape)
        flat, owner = returns.reshape(-1), _owner(rows, task, role, "role")
        against = moments(flat, owner, weight=distinct(flat, owner, resolution=resolution))
        flat = relative(flat, against, normalize=recentre, epsilon=epsilon)
        returns = flat.reshape(shape)
    if whiten_advantages:
        return whiten(returns, response)
    return jnp.where(response, returns, 0.0)
