"""Whole episodes in groups that share a task: what GRPO, RLOO and GiGPO learn from."""

from typing import Any

import jax
import jax.numpy as jnp

import envs.vector
from agentrl.policies.actor_critic import Policy
from agentrl.policies.placement import along_data
from agentrl.rollout.acting import Rollout, act, check_anchor, check_groups, rows_of
from agentrl.streams import Streams


def episodes(
    policy: Policy,
    env: Any,
    env_params: Any,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    max_turns: int | None = None,
    anchor: str = "observation",
    mask_illegal: bool = False,
) -> Rollout:
    """Rollout of num_groups * group_size episodes from their start to their end.

    The members of a group share the task's key and differ in the keys of actions and of the
    environment's own chance. All episodes run for `max_turns` turns (default: the environment's
    limit); those that end earlier absorb, masked out. An episode that reaches max_turns is
    truncated, not terminated.

    Args:
      anchor: what GiGPO groups turns by: "observation" or "state".
      mask_illegal: the policy chooses among legal actions only.

    Streams: N = num_groups * group_size, T = max_turns.
    """
    check_anchor(anchor)
    check_groups(num_groups, group_size)
    limit = int(env_params.max_steps_in_episode)
    turns = limit if max_turns is None else max_turns
    if not 1 <= turns <= limit:
        raise ValueError(
            f"rollout max_turns={turns}: expected 1 to the environment's own limit {limit}; "
            f"raise env.max_steps_in_episode for more"
        )
    streams = num_groups * group_size
    turn = act(policy, env, env_params, anchor=anchor, mask_illegal=mask_illegal)

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        task_keys = along_data(jax.random.split(task_key, num_groups))
        starts = envs.vector.draw(env, env_params, task_keys)
        # Group g is streams g * group_size to (g + 1) * group_size - 1.
        first = jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), starts)
        first = along_data(first)
        memory = policy.memory(streams)

        def advance(carry, key):
            observation, state, memory, running = carry
            sample_key, step_key = jax.random.split(key)
            acted, memory = turn(params, memory, observation, state, sample_key)
            observation, state, reward, terminated, truncated, info = envs.vector.step(
                env, env_params, step_key, state, acted.action
            )
            out = {
                "acted": acted,
                "mask": running,
                "reward": jnp.where(running, reward, 0.0),
                "terminated": running & terminated,
                "truncated": running & truncated,
                "valid": running & info["valid"],
                "success": running & info["success"],
            }
            running = running & ~terminated & ~truncated
            return (observation, state, memory, running), out

        carry = (first.observation, first.state, memory, jnp.ones(streams, bool))
        (observation, _, memory_after, running), out = jax.lax.scan(
            advance, carry, jax.random.split(act_key, turns)
        )
        # Whoever still runs is cut by max_turns.
        out["truncated"] = out["truncated"].at[-1].set(out["truncated"][-1] | running)
        mask = out["mask"].T
        value = bootstrap = None
        if policy.has_critic:
            value = out["acted"].value.T
            # Only the last state of a truncated episode is read, and absorbing keeps it.
            _, after, _ = policy.step(params, memory_after, observation)
            bootstrap = jnp.broadcast_to(after[:, None], mask.shape)
        per_stream = {
            name: out[name].T for name in ("reward", "terminated", "truncated", "valid", "success")
        }
        collected = Streams(
            mask=mask,
            group=jnp.repeat(jnp.arange(num_groups, dtype=jnp.int32), group_size),
            episode=jnp.arange(streams, dtype=jnp.int32),
            anchor=jnp.swapaxes(out["acted"].anchor, 0, 1),
            value=value,
            bootstrap=bootstrap,
            **per_stream,
        )
        start = jnp.zeros((turns, streams), bool)
        rows = rows_of(out["acted"], out["mask"], start, memory)
        return state, collected, rows, _finished(collected, env.has_success)

    provides = {"reward", "mask", "group", "episode", "anchor"}
    provides |= {"terminated", "truncated", "valid", "success"}
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=streams,
        turns=turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(provides),
        properties=frozenset({"whole_episodes", "team", "one_end"}),
        num_rows=streams * (turns if policy.memory(1) is None else 1),
    )


def _finished(streams: Streams, has_success: bool) -> dict[str, jax.Array]:
    """Totals and weights over the episodes; every one has ended."""
    count = jnp.float32(streams.mask.shape[0])

    def mean(per_stream):
        return jnp.stack([jnp.sum(per_stream.astype(jnp.float32)), count])

    acted = jnp.sum(streams.mask, dtype=jnp.float32)
    success = {"success_rate": mean(jnp.any(streams.success, axis=1))} if has_success else {}
    return success | {
        "episode_return": mean(jnp.sum(streams.reward, axis=1)),
        "episode_length": mean(jnp.sum(streams.mask, axis=1)),
        "truncation_rate": mean(jnp.any(streams.truncated, axis=1)),
        "invalid_action_rate": jnp.stack(
            [jnp.sum(streams.mask & ~streams.valid, dtype=jnp.float32), acted]
        ),
        "episodes": jnp.stack([count, jnp.float32(1)]),
    }
