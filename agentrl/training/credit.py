"""From streams to an advantage for each turn: reward terms, then the configured estimator."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import advantages, rewards
from agentrl.streams import Streams
from agentrl.training import config as configs


def rae(
    reward: jax.Array,
    mask: jax.Array,
    role: jax.Array,
    task: jax.Array,
    baseline: jax.Array,
    *,
    decay: float = 0.95,
    order: str = "batch",
    gamma: float = 1.0,
    penalty: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """`advantages.rae` of each stream's return, on each of its turns: (f32[N, T], baseline).

    gamma: discounts what is left above the baseline from the stream's last turn back.
    penalty: f32[N, T], subtracted from the turn's own advantage; outcome and baseline are without
    it. In the outcome it would be charged to all turns of the stream, legal ones too, and once
    every match ends alike the baseline would have taken it up: nobody would pay for anything.
    """
    outcome = jnp.sum(jnp.where(mask, reward, 0.0), axis=1)
    played = jnp.any(mask, axis=1)
    above, baseline = advantages.rae(
        outcome, role, task, baseline, decay=decay, order=order, moves=played
    )
    advantage = advantages.spread(above, mask, gamma=gamma)
    if penalty is not None:
        advantage = advantage - jnp.where(mask, penalty, 0.0)
    return advantage, baseline


def hae(
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
    """`advantages.hae` for a planner and its executor, who are streams of their own: f32[N, T].

    A segment is a turn of the planner, which takes no time, and what the executor does until the
    planner's next: V is the executor's value, W the planner's, the executor gets the advantages of
    actions, the planner those of subgoals.

    parent: i32[N], the planner's stream of each executor's, -1 for planners; one executor each.
    Streams are whole episodes, in which one of the two acts at a time.
    reward: the executor's; the planner's is not read, as it was given the same. penalty: f32[N, T],
    taken off the turn in which either has earned it.
    """
    planner, called = jnp.maximum(parent, 0), (parent >= 0)[:, None]
    acts, plans = mask & called, mask[planner] & called
    played = acts | plans
    last = played & (jnp.cumsum(played[:, ::-1], axis=1)[:, ::-1] == 1)

    def at_end(flag):
        """Each stream says at its own last turn how the episode ended."""
        flag = jnp.any(flag & mask, axis=1)
        return last & (flag | flag[planner])[:, None]

    def of_both(own, planners):
        return jnp.where(acts, own, jnp.where(plans, planners[planner], 0.0))

    score = of_both(reward, jnp.zeros_like(reward))
    if penalty is not None:
        score = score - of_both(penalty, penalty)
    given = advantages.hae(
        score,
        of_both(value, value),
        jnp.where(plans, value[planner], 0.0),
        played,
        plans,
        at_end(terminated),
        bootstrap,
        bootstrap[planner],
        gamma=gamma,
        lam=lam,
        subgoal_lam=subgoal_lam,
        truncated=None if truncated is None else at_end(truncated),
        duration=acts.astype(jnp.float32),
    )
    planned = jnp.zeros_like(reward).at[planner].add(jnp.where(plans, given.subgoal, 0.0))
    return jnp.where(acts, given.action, planned)


def speaking(
    reward: jax.Array, mask: jax.Array, persuasion: jax.Array, *, weight: float = 1.0
) -> jax.Array:
    """`rewards.speaking_reward` of messages, on the turns of who sent them: f32[N, T]."""
    return reward + weight * jnp.where(mask, persuasion, 0.0)


# Those with a parameter `baseline` carry it from update to update, and return it besides.
ESTIMATORS: dict[str, Callable] = {
    function.__name__: function
    for function in (
        rae,
        hae,
        advantages.dr_mas,
        advantages.gae,
        advantages.gigpo,
        advantages.grpo,
        advantages.m_grpo,
        advantages.marft,
        advantages.mars,
        advantages.matpo,
        advantages.reinforce_pp,
        advantages.reinforce_pp_baseline,
        advantages.rloo,
    )
}

# Terms that cost a turn something, by its own score.
PENALTIES: dict[str, Callable] = {
    function.__name__: function
    for function in (
        rewards.format_penalty,
        rewards.invalid_action_penalty,
        rewards.length_penalty,
    )
}
# Terms that give another reward, in their order; what they read is among the streams' fields.
CHANGES: dict[str, Callable] = {
    function.__name__: function for function in (rewards.step_penalty, speaking, rewards.at_end)
}
REWARD_TERMS: dict[str, Callable] = {**PENALTIES, **CHANGES}

FILTERS: dict[str, Callable] = {
    function.__name__: function
    for function in (advantages.dynamic_sampling, advantages.top_variance)
}


class Credit(NamedTuple):
    """Credit of N streams of T turns.

    advantage: f32[N, T], 0 where a turn is not learnt from.
    keep: bool[N], streams that the update learns from.
    target: f32[N, T], the critic's target, or None without a critic.
    baseline: f32[tasks, roles], what the estimator carries to the next update, or None.
    """

    advantage: jax.Array
    keep: jax.Array
    target: jax.Array | None
    baseline: jax.Array | None = None


def estimate(function: Callable, options: Mapping[str, Any], streams: Streams, **extra: Any):
    """Calls an estimator with the fields of `streams` that its parameters name.

    extra: arrays beyond the streams (a penalty, a baseline), passed if the estimator takes them.
    """
    takes = inspect.signature(function).parameters
    arrays = {n: getattr(streams, n) for n in configs.inputs_of(function) if n not in extra}
    # Fields that an estimator can do without: it gets them where the rollout fills them.
    optional = {"truncated", "episode", "cost"} & takes.keys() - arrays.keys()
    arrays |= {name: getattr(streams, name) for name in optional}
    arrays |= {name: value for name, value in extra.items() if name in takes}
    return function(**arrays, **options)


def carries_baseline(function: Callable) -> bool:
    """Whether an estimator carries a baseline for each task and role from update to update."""
    return "baseline" in configs.inputs_of(function)


def make_credit(
    reward_section: Mapping[str, Any],
    advantage_section: Mapping[str, Any],
    provides: frozenset[str],
    *,
    filter_section: Mapping[str, Any] | None = None,
    mask_truncated: bool = False,
    rollout_name: str,
) -> Callable[..., Credit]:
    """The credit function of a config: (streams, baseline or None) -> Credit.

    Order: step penalty and messages into the reward, and what moves to the end; the estimator,
    which takes the sum of the penalties on each turn's own score (an estimator without such an
    argument gets them in the reward); the filter on the environment's own returns.

    filter_section: names one of `FILTERS`, or "none". mask_truncated: streams that a limit cut are
      compared with the others, but not learnt from (Mini-o3's over-turn masking: Lai et al. 2025,
      https://arxiv.org/abs/2509.07969, written from the paper).

    Raises:
      ValueError: unknown names or options; an estimator that needs what the rollout does not give.
    """
    function = configs.lookup("advantage", advantage_section["name"], ESTIMATORS)
    options = configs.bind("advantage", function, advantage_section)
    terms = {}
    for name, values in reward_section.items():
        term = configs.lookup("reward", name, REWARD_TERMS)
        terms[name] = configs.bind(f"reward.{name}", term, values)
    for name in terms:
        for field in configs.inputs_of(REWARD_TERMS[name]):
            if field not in provides:
                remedy = {
                    "persuasion": "set config.rollout.listeners, in matches of a game that asks "
                    "about beliefs, such as SocialDeduction-v1",
                }.get(field, "it is for language policies")
                raise ValueError(
                    f"config.reward.{name} needs {field!r}, which rollout {rollout_name!r} does "
                    f"not give; {remedy}"
                )
    if "persuasion" in provides and "speaking" not in terms:
        raise ValueError(
            "config.rollout.listeners is used by nothing: set config.reward.speaking="
            "{'weight': 1.0}, or leave it out"
        )
    for name in configs.inputs_of(function):
        if name not in provides | {"baseline"}:
            critic = "give the policy a critic (config.policy.critic)"
            agents = "it tells agents apart: use an environment of several, such as TicTacToe-v1"
            remedy = {
                "value": critic,
                "bootstrap": critic,
                "role": agents,
                "task": agents,
                "parent": "it ties workers to their planner: use an environment with one, such as "
                "PlannedHousehold-v1",
            }.get(name, "it compares whole episodes: use config.rollout.name='episodes'")
            raise ValueError(
                f"config.advantage.name={function.__name__!r} needs {name!r}, which rollout "
                f"{rollout_name!r} does not give here; {remedy}"
            )
    uses_critic = "value" in configs.inputs_of(function)
    if "value" in provides and not uses_critic:
        raise ValueError(
            f"config.policy.critic is trained by nothing: advantage {function.__name__!r} takes no "
            f"value; set config.policy.critic='none' or use advantage 'gae'"
        )
    keep_groups = None
    if filter_section is not None and filter_section["name"] != "none":
        chosen = configs.lookup("filter", filter_section["name"], FILTERS)
        keep_groups = functools.partial(chosen, **configs.bind("filter", chosen, filter_section))
        if "group" not in provides:
            raise ValueError(
                f"config.filter needs groups, which rollout {rollout_name!r} does not give; set "
                "config.filter.name='none' or use config.rollout.name='episodes'"
            )
    elif filter_section is not None:
        configs.check_keys("config.filter", filter_section, {"name": "none"})
    has_penalty = "penalty" in inspect.signature(function).parameters

    def credit(streams: Streams, baseline: jax.Array | None = None) -> Credit:
        reward = streams.reward
        for name in (name for name in CHANGES if name in terms):
            of_streams = (n for n in configs.inputs_of(CHANGES[name]) if n != "reward")
            arrays = {n: getattr(streams, n) for n in of_streams}
            reward = CHANGES[name](reward, **arrays, **terms[name])
        penalty = None
        for name in sorted(PENALTIES.keys() & terms.keys()):
            arrays = {f: getattr(streams, f) for f in configs.inputs_of(PENALTIES[name])}
            one = PENALTIES[name](**arrays, **terms[name])
            penalty = one if penalty is None else penalty + one
        if penalty is not None and not has_penalty:
            reward, penalty = reward - penalty, None
        advantage = estimate(
            function, options, streams.replace(reward=reward), penalty=penalty, baseline=baseline
        )
        if carries_baseline(function):
            advantage, baseline = advantage
        keep = jnp.any(streams.mask, axis=1)
        if keep_groups is not None:
            keep = keep_groups(streams.reward, streams.mask, streams.group)
        if mask_truncated:
            keep = keep & ~jnp.any(streams.truncated & streams.mask, axis=1)
        target = None
        if uses_critic:
            target = jnp.where(streams.mask, advantage + streams.value, 0.0)
        return Credit(advantage, keep, target, baseline)

    return credit


def group_metrics(streams: Streams) -> dict[str, jax.Array]:
    """Totals and weights, f32[2], that show whether groups and anchors carry a signal.

    frac_zero_std_groups: streams in groups whose returns are all equal, of all streams.
    group_return_std: mean standard deviation of the raw returns of a group (RAGEN's sign of an echo
    trap is its fall while success stands still).
    anchor_group_size: mean size of a turn's anchor group; frac_singleton_anchor: turns in groups of
    one; anchor_size/*: turns in groups of that size.
    """
    signal = advantages.dynamic_sampling(streams.reward, streams.mask, streams.group)
    present = jnp.any(streams.mask, axis=1)

    def share(x, of):
        return jnp.stack([jnp.sum(jnp.where(of, x, 0), dtype=jnp.float32), jnp.sum(of) * 1.0])

    out = {"frac_zero_std_groups": share(~signal, present)}
    returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0), axis=1)
    spread = advantages.moments(returns, advantages.group_owner(streams.group, present))
    out["group_return_std"] = share(spread.std, present)
    if streams.anchor is not None:
        owner = advantages.anchor_owner(streams.mask, streams.group, streams.anchor).reshape(-1)
        count = owner.shape[0]
        members = jax.ops.segment_sum(jnp.ones(count), owner, num_segments=count)
        size = members[jnp.minimum(owner, count - 1)].reshape(streams.mask.shape)
        out["anchor_group_size"] = share(size, streams.mask)
        out["frac_singleton_anchor"] = share(size == 1, streams.mask)
        for low, high in ((1, 1), (2, 3), (4, 7), (8, 15), (16, None)):
            inside = (size >= low) & (size <= (high or jnp.inf))
            label = f"{low}" if low == high else f"{low}_{high}" if high else f"{low}_up"
            out[f"anchor_size/{label}"] = share(inside, streams.mask)
    return out
