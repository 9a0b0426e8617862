"""From streams to an advantage for each turn: reward terms, then the configured estimator."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import advantages, rewards
from agentrl.declarations import PROPERTIES, check_assumptions
from agentrl.streams import Streams
from agentrl.training import config as configs

# Those with a parameter `baseline` carry it from update to update, and return it besides.
ESTIMATORS: dict[str, Callable] = {
    function.__name__: function
    for function in (
        advantages.dr_mas,
        advantages.gae,
        advantages.gigpo,
        advantages.grpo,
        advantages.hae_by_turn,
        advantages.m_grpo,
        advantages.mapo,
        advantages.marft_by_turn,
        advantages.mars,
        advantages.matpo,
        advantages.pairwise_sign,
        advantages.rae_by_turn,
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
    function.__name__: function
    for function in (rewards.step_penalty, rewards.persuasion_reward, rewards.at_end)
}
REWARD_TERMS: dict[str, Callable] = {**PENALTIES, **CHANGES}

FILTERS: dict[str, Callable] = {
    function.__name__: function
    for function in (
        advantages.dynamic_sampling,
        advantages.over_turn_masking,
        advantages.top_variance,
    )
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
    """Calls an estimator or a filter with the fields of `streams` that its parameters name.

    extra: arrays beyond the streams (a penalty, a baseline), passed if the function takes them.
    """
    optional = configs.optional_inputs(function)
    arrays = {name: extra[name] for name in extra if name in configs.inputs_of(function)}
    for name in configs.inputs_of(function):
        if name not in arrays:
            arrays[name] = getattr(streams, name)
    arrays |= {name: extra.get(name, getattr(streams, name, None)) for name in optional}
    return function(**arrays, **options)


def _properties_of(rollout_name: str) -> frozenset[str]:
    """Properties of the streams of a rollout that does not state them."""
    unknown = {"team"} | ({"whole_episodes"} if rollout_name == "segments" else set())
    return frozenset(PROPERTIES) - unknown


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
    properties: frozenset[str] | None = None,
) -> Callable[..., Credit]:
    """The credit function of a config: (streams, baseline or None) -> Credit.

    Order: step penalty and persuasion into the reward, then moving it to the end; the estimator,
    which takes the sum of the penalties on each turn's own score (an estimator without such an
    argument gets them in the reward); the filter on the environment's own returns.

    filter_section: names one of `FILTERS`, or "none". mask_truncated: streams that a limit cut are
      compared with the others, but not learnt from (Mini-o3's over-turn masking: Lai et al. 2025,
      https://arxiv.org/abs/2509.07969, written from the paper).
    properties: keys of `declarations.PROPERTIES` that hold of the rollout's streams.

    Raises:
      ValueError: unknown names or options; a function that needs an array that the rollout does not
        give, or that assumes a property which its streams do not have.
    """
    if properties is None:
        properties = _properties_of(rollout_name)
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
                }.get(field, "it is for conversations (config.rollout.name='conversation')")
                raise ValueError(
                    f"config.reward.{name} needs {field!r}, which rollout {rollout_name!r} does "
                    f"not give; {remedy}"
                )
    if "persuasion" in provides and "persuasion_reward" not in terms:
        raise ValueError(
            "config.rollout.listeners is used by nothing: set config.reward.persuasion_reward="
            "{'coefficient': 1.0}, or leave it out"
        )
    for name in configs.inputs_of(function):
        if name not in provides | {"baseline"}:
            critic = "give the policy a critic (config.policy.critic)"
            agents = "it tells several agents apart: use config.rollout.name='matches'"
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
    check_assumptions(
        f"config.advantage.name={function.__name__!r}", function, properties, provides
    )
    for name in terms:
        check_assumptions(f"config.reward.{name}", REWARD_TERMS[name], properties, provides)
    uses_critic = "value" in configs.inputs_of(function)
    if "value" in provides and not uses_critic:
        raise ValueError(
            f"config.policy.critic is trained by nothing: advantage {function.__name__!r} takes no "
            f"value; set config.policy.critic='none' or use advantage 'gae'"
        )
    keep_groups = None
    if filter_section is not None and filter_section["name"] != "none":
        chosen = configs.lookup("filter", filter_section["name"], FILTERS)
        check_assumptions(f"config.filter.name={chosen.__name__!r}", chosen, properties, provides)
        keep_groups = functools.partial(
            estimate, chosen, configs.bind("filter", chosen, filter_section)
        )
        if "group" not in provides:
            raise ValueError(
                f"config.filter needs groups, which rollout {rollout_name!r} does not give; set "
                "config.filter.name='none' or use config.rollout.name='episodes'"
            )
    elif filter_section is not None:
        configs.check_keys("config.filter", filter_section, {"name": "none"})
    if mask_truncated:
        check_assumptions(
            "config.mask_truncated=True", advantages.not_truncated, properties, provides
        )
    has_penalty = "penalty" in inspect.signature(function).parameters

    def credit(streams: Streams, baseline: jax.Array | None = None) -> Credit:
        reward = streams.reward
        for name in (name for name in CHANGES if name in terms):
            reward = estimate(CHANGES[name], terms[name], streams.replace(reward=reward))
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
            keep = keep_groups(streams)
        if mask_truncated:
            keep = keep & advantages.not_truncated(streams.mask, streams.truncated)
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
    group, role = streams.group, streams.role
    signal = advantages.dynamic_sampling(streams.reward, streams.mask, group, role=role)
    present = jnp.any(streams.mask, axis=1)

    def share(x, of):
        return jnp.stack([jnp.sum(jnp.where(of, x, 0), dtype=jnp.float32), jnp.sum(of) * 1.0])

    out = {"frac_zero_std_groups": share(~signal, present)}
    returns = jnp.sum(jnp.where(streams.mask, streams.reward, 0), axis=1)
    statistics = advantages.moments(returns, advantages.group_segments(group, present, role))
    out["group_return_std"] = share(statistics.std, present)
    if streams.anchor is not None:
        segment = advantages.anchor_segments(streams.mask, group, streams.anchor, role=role)
        segment, count = segment.reshape(-1), segment.size
        members = jax.ops.segment_sum(jnp.ones(count), segment, num_segments=count)
        size = members[jnp.minimum(segment, count - 1)].reshape(streams.mask.shape)
        out["anchor_group_size"] = share(size, streams.mask)
        out["frac_singleton_anchor"] = share(size == 1, streams.mask)
        for low, high in ((1, 1), (2, 3), (4, 7), (8, 15), (16, None)):
            inside = (size >= low) & (size <= (high or jnp.inf))
            label = f"{low}" if low == high else f"{low}_{high}" if high else f"{low}_up"
            out[f"anchor_size/{label}"] = share(inside, streams.mask)
    return out
