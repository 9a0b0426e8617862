"""Segments of fixed length with automatic reset: what PPO learns from."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
from flax import struct

import envs.vector
from agentrl.policies.actor_critic import Policy
from agentrl.policies.placement import along_data
from agentrl.rollout.acting import Rollout, act, rows_of
from agentrl.rollout.demonstrated import make_demonstrate
from agentrl.streams import Streams


@struct.dataclass
class SegmentState:
    """Environments in mid-episode, and what their episodes have gathered so far."""

    observation: chex.ArrayTree
    env: chex.ArrayTree
    memory: chex.ArrayTree | None  # [B, ...]
    start: jax.Array  # bool[B], the next turn is an episode's first
    episode_return: jax.Array  # f32[B]
    episode_length: jax.Array  # i32[B]


def segments(
    policy: Policy,
    env: Any,
    env_params: Any,
    *,
    num_envs: int = 64,
    length: int = 128,
    fresh_tasks: int | None = None,
    mask_illegal: bool = False,
) -> Rollout:
    """Rollout of `length` steps of `num_envs` environments that restart when an episode ends.

    Args:
      fresh_tasks: tasks drawn ahead for each segment; an episode that ends restarts from a random
        one of them, so that costly task generation is paid fresh_tasks times a segment instead of
        at every step of every environment. 0 draws a task at every step, as gymnax does. Default:
        `envs.vector.tasks_ahead`.
      mask_illegal: the policy chooses among legal actions only.

    Streams: N = num_envs, T = length; one stream holds parts of several episodes, separated by
    `terminated` and `truncated`, so estimators that compare whole episodes do not apply.
    """
    for name, given in (("num_envs", num_envs), ("length", length)):
        if given < 1:
            raise ValueError(f"rollout {name}={given}: expected at least 1")
    if fresh_tasks is None:
        fresh_tasks = envs.vector.tasks_ahead(env, num_envs)
    turn = act(policy, env, env_params, anchor=None, mask_illegal=mask_illegal)

    def draw(key, count):
        return envs.vector.draw(env, env_params, jax.random.split(key, count))

    def init(key):
        starts = along_data(draw(key, num_envs))
        return SegmentState(
            observation=starts.observation,
            env=starts.state,
            memory=policy.memory(num_envs),
            start=jnp.ones(num_envs, bool),
            episode_return=jnp.zeros(num_envs),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )

    def collect(params, state, key):
        pool_key, scan_key = jax.random.split(key)
        pooled = envs.vector.pool(draw(pool_key, fresh_tasks), num_envs) if fresh_tasks else None

        def advance(carry: SegmentState, key):
            sample_key, step_key, start_key = jax.random.split(key, 3)
            memory = carry.memory
            if memory is not None:
                memory = jax.tree.map(
                    lambda m: jnp.where(carry.start.reshape(-1, *[1] * (m.ndim - 1)), 0, m), memory
                )
            acted, memory = turn(params, memory, carry.observation, carry.env, sample_key)
            last, env_state, reward, terminated, truncated, info = envs.vector.step(
                env, env_params, step_key, carry.env, acted.action
            )
            done = terminated | truncated
            if fresh_tasks:
                offset = jax.random.randint(start_key, (), 0, fresh_tasks)
                starts = envs.vector.window(pooled, offset, num_envs)
            else:
                starts = draw(start_key, num_envs)
            observation, env_state = envs.vector.restart(done, last, env_state, starts)
            episode_return = carry.episode_return + reward
            episode_length = carry.episode_length + 1
            out = {
                "acted": acted,
                "start": carry.start,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
                "valid": info["valid"],
                "success": info["success"],
                "ended_return": jnp.where(done, episode_return, 0.0),
                "ended_length": jnp.where(done, episode_length, 0),
                # The critic's view of a truncated episode's last state: see below.
                "last": last,
                "memory": memory,
            }
            following = SegmentState(
                observation=observation,
                env=env_state,
                memory=memory,
                start=done,
                episode_return=jnp.where(done, 0.0, episode_return),
                episode_length=jnp.where(done, 0, episode_length),
            )
            return following, out

        following, out = jax.lax.scan(advance, state, jax.random.split(scan_key, length))
        truncated = out["truncated"]
        value = bootstrap = None
        if policy.has_critic:
            value = out["acted"].value.T
            bootstrap = _bootstrap(policy, params, following, out, truncated).T
        per_stream = {
            name: out[name].T for name in ("reward", "terminated", "truncated", "valid", "success")
        }
        collected = Streams(
            mask=jnp.ones((num_envs, length), bool),
            value=value,
            bootstrap=bootstrap,
            **per_stream,
        )
        mask = jnp.ones((length, num_envs), bool)
        rows = rows_of(out["acted"], mask, out["start"], state.memory)
        return following, collected, rows, _finished(out, env.has_success)

    provides = {"reward", "mask", "terminated", "truncated", "valid", "success"}
    if policy.has_critic:
        provides |= {"value", "bootstrap"}
    return Rollout(
        init=init,
        collect=collect,
        num_streams=num_envs,
        turns=length,
        units=(num_envs, "config.rollout.num_envs"),
        provides=frozenset(provides),
        properties=frozenset({"one_end"}),
        num_rows=num_envs * (length if policy.memory(1) is None else 1),
        demonstrate=make_demonstrate(policy, env, env_params, mask_illegal=mask_illegal),
    )


def _bootstrap(policy, params, following, out, truncated) -> jax.Array:
    """f32[T, B]: value of a truncated episode's last state, and of what follows the segment.

    The critic looks at last states in one batch after the segment, and only if any episode was
    truncated in it (under vmap over seeds, `cond` runs both branches).
    """

    def evaluate(_):
        turns, batch = truncated.shape
        memory = jax.tree.map(lambda x: x.reshape(turns * batch, *x.shape[2:]), out["memory"])
        last = jax.tree.map(lambda x: x.reshape(turns * batch, *x.shape[2:]), out["last"])
        _, value, _ = policy.step(params, memory, last)
        return jnp.where(truncated, value.reshape(turns, batch), 0.0)

    values = jax.lax.cond(jnp.any(truncated), evaluate, lambda _: jnp.zeros(truncated.shape), None)
    _, after, _ = policy.step(params, following.memory, following.observation)
    # An episode that is cut by the segment goes on; one that ended there has its own value.
    return values.at[-1].set(jnp.where(truncated[-1], values[-1], after))


def _finished(out: dict, has_success: bool) -> dict[str, jax.Array]:
    """Totals and weights over the episodes that ended within the segment."""
    done = out["terminated"] | out["truncated"]
    count = jnp.sum(done, dtype=jnp.float32)

    def mean(x):
        return jnp.stack([jnp.sum(x.astype(jnp.float32)), count])

    success = {"success_rate": mean(out["success"] & done)} if has_success else {}
    return success | {
        "episode_return": mean(out["ended_return"]),
        "episode_length": mean(out["ended_length"]),
        "truncation_rate": mean(out["truncated"]),
        "invalid_action_rate": jnp.stack(
            [jnp.sum(~out["valid"], dtype=jnp.float32), jnp.float32(done.size)]
        ),
        "episodes": jnp.stack([count, jnp.float32(1)]),
    }
