"""Rewards of planners and of policies that take turns: HierSearch, EAGLET, Long and Short."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes, breaks
from agentrl.streams import last_turns, main_streams


@assumes("whole_episodes")
def consolation(
    reward: jax.Array,
    mask: jax.Array,
    tools_used: jax.Array,
    *,
    tools_listed: jax.Array | None = None,
    well_formed: jax.Array | None = None,
    truncated: jax.Array | None = None,
    share: float = 0.1,
) -> jax.Array:
    """Failures are paid a little for the variety of tools that they tried (HierSearch).

    A stream whose rewards sum to 0 or less gains at its last turn share d / K, where d of the K
    tools of its prompt were used in any of its turns; other streams keep their rewards. One with a
    reply of a bad format, or that is cut, has 0 at all turns instead.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      tools_used: bool[N, T, K], the tools that each turn used; component
        `agentrl.methods.tools_used` supplies it.
      tools_listed: i32[N, T], tools in the prompt of each turn, from there too; None: all K.
      well_formed: bool[N, T], the reply kept the grammar; None, of policies over arrays: all did.
      truncated: bool[N, T], a limit cut the episode at this turn; None: never.
      share: at least 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative share, or arrays of other shapes or types.

    References:
      HierSearch (2025), https://arxiv.org/abs/2508.08088; code plageon/HierSearch 4e3a4d0 (read).
      There the outcome is an F1, as in `HierResearch-v1`.
    """
    check_range("consolation share", share, 0.0)
    flags = {"well_formed": well_formed, "truncated": truncated}
    check_streams(
        "consolation",
        mask,
        numbers={"reward": reward, "tools_listed": tools_listed},
        vectors={"tools_used": tools_used},
        flags=flags,
    )
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    used = jnp.sum(jnp.any(tools_used & mask[..., None], axis=1), axis=1)
    listed = jnp.full(mask.shape[0], tools_used.shape[-1])
    if tools_listed is not None:
        listed = jnp.max(jnp.where(mask, tools_listed, 1), axis=1, initial=1)
    failed = jnp.sum(reward, axis=1) <= 0
    gained = jnp.where(failed, share * used / listed, 0.0)
    paid = reward + jnp.where(last_turns(mask), gained[:, None], 0.0)
    bad = jnp.zeros(mask.shape, bool) if well_formed is None else ~well_formed
    bad = bad if truncated is None else bad | truncated
    return jnp.where(jnp.any(bad & mask, axis=1)[:, None], 0.0, paid)


# What the first call of the web costs, by its number among all calls of tools.
_FIRST_WEB = (1.0, 1.0, 1.0, 0.2, 0.15, 0.1, 0.045, 0.03)


@assumes("whole_episodes")
def local_first(
    reward: jax.Array, mask: jax.Array, tools_used: jax.Array, *, web: tuple[int, ...]
) -> jax.Array:
    """An agent that has local and web tools loses for turning to the web early (HierSearch).

    At its last turn a stream loses, where the first turn that uses a tool of the web is number n of
    the turns that use any tool: 1 for n up to 3; 0.2, 0.15, 0.1 for 4 to 6; 0.045, 0.03 for 7 and
    8; 0.01 later; nothing if it never does.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      tools_used: bool[N, T, K], the tools that each turn used, as for `consolation`.
      web: numbers of the tools of the web, 0 to K - 1.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: unknown tools, or arrays of other shapes or types.

    References:
      HierSearch (2025), https://arxiv.org/abs/2508.08088; code plageon/HierSearch 4e3a4d0 (read),
      option LOCAL_WEB_REWARD of the agent without a hierarchy.
    """
    vectors = {"tools_used": tools_used}
    check_streams("local_first", mask, numbers={"reward": reward}, vectors=vectors)
    count = tools_used.shape[-1]
    if not web or any(not 0 <= tool < count for tool in web):
        raise ValueError(f"local_first web={web!r}: expected some of the tools 0 to {count - 1}")
    used = tools_used & mask[..., None]
    number = jnp.cumsum(jnp.any(used, axis=-1), axis=1)
    turns = jnp.any(used[..., jnp.asarray(web)], axis=-1)
    first = jnp.take_along_axis(number, jnp.argmax(turns, axis=1)[:, None], axis=1)[:, 0]
    prices = jnp.asarray((*_FIRST_WEB, 0.01), jnp.float32)
    price = prices[jnp.clip(first - 1, 0, len(_FIRST_WEB))]
    lost = jnp.where(jnp.any(turns, axis=1), price, 0.0)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    return reward - jnp.where(last_turns(mask), lost[:, None], 0.0)


def capability_gain(
    planned: jax.Array,
    alone: jax.Array,
    planned_steps: jax.Array,
    alone_steps: jax.Array,
    *,
    alpha: float = 0.1,
    most: float | None = None,
) -> jax.Array:
    """What a plan adds to its executors (EAGLET): the sum over executors of

      1[planned > alone] (1 + alpha)^(alone_steps - planned_steps).

    An executor that succeeds without the plan gives 0, however much shorter the plan makes it.

    Args:
      planned, alone: f32[..., E], rewards of E executors with the plan and without it.
      planned_steps, alone_steps: their numbers of steps.
      alpha: at least 0.
      most: bound on the steps that count, in both directions; None: none.

    Returns:
      f32[...].

    Raises:
      ValueError: a number outside its range.

    References:
      EAGLET (2025), https://arxiv.org/abs/2510.05608, from notes; alpha and the reward for the
      format, which is added to it, were not found.
    """
    check_range("capability_gain alpha", alpha, 0.0)
    check_range("capability_gain most", most, 0.0)
    saved = jnp.asarray(alone_steps - planned_steps, jnp.float32)
    if most is not None:
        saved = jnp.clip(saved, -most, most)
    return jnp.sum(jnp.where(planned > alone, (1 + alpha) ** saved, 0.0), axis=-1)


def thought_scores(
    accuracy: jax.Array,
    length: jax.Array,
    *,
    decay: float = 0.1,
    brevity: float = 0.1,
) -> jax.Array:
    """How much the thoughts of a chain are worth (Long and Short): those above 0.1 or so are worth
    writing at length.

      s_i = g_i - decay 1[g_i <= 0] + brevity (1 - l_i / sum_j l_j),  g_i = acc_i - acc_{i - 1},

    which is in [-1 - decay, 1 + brevity].

    Args:
      accuracy: f32[..., n + 1], share of right answers when the chain is completed after 0 to n of
        its thoughts, in [0, 1].
      length: f32[..., n], tokens of each thought, above 0 in sum.
      decay, brevity: at least 0; the price of thoughts that bring nothing, the weight of length.

    Returns:
      f32[..., n].

    Raises:
      ValueError: a negative number, or arrays that do not fit each other.

    References:
      Long and Short (2025). Notes on it name a gain in accuracy by rollouts after each thought, the
      length and a penalty for thoughts that bring nothing; the formula was not found, this is ours.
    """
    check_range("thought_scores decay", decay, 0.0)
    check_range("thought_scores brevity", brevity, 0.0)
    accuracy, length = jnp.asarray(accuracy, jnp.float32), jnp.asarray(length, jnp.float32)
    if accuracy.shape != (*length.shape[:-1], length.shape[-1] + 1):
        raise ValueError(
            f"thought_scores accuracy {accuracy.shape}, length {length.shape}: expected one "
            "accuracy more than thoughts, that before the first one"
        )
    gain = jnp.diff(accuracy, axis=-1)
    share = length / jnp.sum(length, axis=-1, keepdims=True)
    return gain - decay * (gain <= 0) + brevity * (1 - share)


@assumes("whole_episodes", "tokens_as_cost")
def short_reply_bonus(
    reward: jax.Array,
    mask: jax.Array,
    cost: jax.Array,
    group: jax.Array,
    *,
    coefficient: float = 1.0,
    threshold: float = 0.0,
    role: jax.Array | None = None,
) -> jax.Array:
    """Short successes are paid, long ones and long failures cost, against their own group.

    With L_i the sum of a stream's costs and b_i = 1/2 - (L_i - min_g L) / (max_g L - min_g L), the
    last turn gains coefficient b_i if the stream's return is above the threshold, else
    coefficient min(0, b_i); nothing where all lengths of the group are equal.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      cost: f32[N, T], tokens of a turn's reply.
      group: i32[N], any ids.
      coefficient: at least 0.
      threshold: returns above it are successes.
      role: i32[N], streams of a group are compared within their role; None: all with all.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.

    References:
      Long and Short (2025), code usail-hkust/LongShort 4101257 (read), after Kimi's report. There
      the extremes are those of all streams at once, which mixes tasks; here of the group.
    """
    check_range("short_reply_bonus coefficient", coefficient, 0.0)
    numbers = {"reward": reward, "cost": cost}
    check_streams("short_reply_bonus", mask, numbers=numbers, ids={"group": group, "role": role})
    present = jnp.any(mask, axis=1)
    length = jnp.sum(jnp.where(mask, cost, 0.0), axis=1)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    same = (group[:, None] == group) & present
    same = same if role is None else same & (role[:, None] == role)
    least = jnp.min(jnp.where(same, length, jnp.inf), axis=1)
    extent = jnp.max(jnp.where(same, length, -jnp.inf), axis=1) - least
    apart = present & (extent > 0)
    bonus = 0.5 - (length - jnp.where(apart, least, 0.0)) / jnp.where(apart, extent, 1.0)
    bonus = jnp.where(jnp.sum(reward, axis=1) > threshold, bonus, jnp.minimum(bonus, 0.0))
    gained = coefficient * jnp.where(apart, bonus, 0.0)
    return reward + jnp.where(last_turns(mask), gained[:, None], 0.0)


@assumes("whole_episodes")
@breaks("team")
def delegated_reward(
    reward: jax.Array,
    mask: jax.Array,
    parent: jax.Array,
    *,
    format_weight: float = 0.1,
    outcome_weight: float = 0.9,
    sub_format_weight: float = 0.1,
    sub_outcome_weight: float = 0.9,
    judge_weight: float = 0.0,
    well_formed: jax.Array | None = None,
    judgement: jax.Array | None = None,
) -> jax.Array:
    """Rewards of a main agent and of each agent that it called, at their last turns (M-GRPO).

    With f_i = 1 if all replies of stream i kept the grammar, else 0, R_i the sum of its rewards, m
    the main agent of i (its caller's caller and so on) and q_i the mean judgement of its turns:

      main: format_weight f_m + outcome_weight R_m,
      sub-agent: sub_format_weight f_i + sub_outcome_weight R_m + judge_weight q_i.

    Args:
      reward: f32[N, T]. mask: bool[N, T], the agent acted.
      parent: i32[N], the stream that called this one, -1 for main agents.
      format_weight, outcome_weight, sub_format_weight, sub_outcome_weight, judge_weight: at least
        0.
      well_formed: bool[N, T], the reply kept the grammar; None, of policies over arrays: all did.
      judgement: f32[N, T], a judge's score of the turn; needed with a judge_weight above 0.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative weight, a weight of a judgement that is not there, or arrays of other
        shapes or types.

    References:
      Hong et al. (2025), M-GRPO, https://arxiv.org/abs/2511.13288, the composition from its
      abstract and a review; the weights are ours. AQ-MedAI/MrlX 0d04788 (read) has no sums: a main
      agent has 0 for a broken format, 1 if right, else 0.1, a sub-agent 0 for its own broken
      format, else 1 or 0.1 with the main agent.
    """
    weights = {
        "format_weight": format_weight,
        "outcome_weight": outcome_weight,
        "sub_format_weight": sub_format_weight,
        "sub_outcome_weight": sub_outcome_weight,
        "judge_weight": judge_weight,
    }
    for name, weight in weights.items():
        check_range(f"delegated_reward {name}", weight, 0.0)
    if judge_weight and judgement is None:
        raise ValueError(
            f"delegated_reward judge_weight={judge_weight} without judgements: collect with a "
            "judge (config.rollout.judge), or set 0"
        )
    check_streams(
        "delegated_reward",
        mask,
        numbers={"reward": reward, "judgement": judgement},
        flags={"well_formed": well_formed},
        ids={"parent": parent},
    )
    returns = jnp.sum(jnp.where(mask, reward, 0.0), axis=1)
    kept = jnp.ones(returns.shape)
    if well_formed is not None:
        kept = jnp.all(well_formed | ~mask, axis=1) * 1.0
    outcome = returns[main_streams(parent)]
    judged = jnp.zeros(returns.shape)
    if judgement is not None:
        total = jnp.sum(jnp.where(mask, judgement, 0.0), axis=1)
        judged = judge_weight * total / jnp.maximum(jnp.sum(mask, axis=1), 1)
    main = format_weight * kept + outcome_weight * outcome
    sub = sub_format_weight * kept + sub_outcome_weight * outcome + judged
    paid = jnp.where(parent < 0, main, sub)
    return jnp.where(last_turns(mask), paid[:, None], 0.0)


def winner_reward(reward: jax.Array, mask: jax.Array, winner_reward: jax.Array) -> jax.Array:
    """The reward of each agent's best draft, in the place of the environment's (DRAFT-RL).

    Args:
      reward: f32[N, T], of which nothing is left.
      mask: bool[N, T], the agent acted.
      winner_reward: f32[N, T], of component `agentrl.methods.drafts`.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Li et al. (2025), DRAFT-RL, https://arxiv.org/abs/2511.20468; code ArthasTY 06b2bd3 (read).
    """
    check_streams("winner_reward", mask, numbers={"reward": reward, "winner_reward": winner_reward})
    return jnp.where(mask, winner_reward, 0.0)
