"""Rollouts of environments in Python: episodes and segments, in words and with arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.rollout.host_actors import HostActor, host_array_actor, host_text_actor
from agentrl.rollout.host_record import Collected
from agentrl.rollout.metrics import Running, metrics_of, restarted_episodes, whole_episodes
from agentrl.rollout.pack import array_rows, of_agents, streams_of
from agentrl.rollout.processes import Host, processes
from agentrl.rollout.text_rows import num_text_rows, text_fields, text_metrics, text_rows
from agentrl.rollout.types import Rollout, Trajectory
from agentrl.rollout.unroll_host import HostLoop
from envs.hosted import Hosted, Pool


class _Bound(NamedTuple):
    """A policy bound to an environment in Python: its programs, and how its rows are made.

    rows: (Trajectory) -> Rows; num_rows: (episodes, turns) -> R.
    """

    actor: HostActor
    rows: Callable[[Trajectory], Any]
    num_rows: Callable[[int, int], int]
    fields: Callable[[Any], dict[str, jax.Array]]
    metrics: Callable[[Any], dict[str, jax.Array]]
    provides: frozenset[str]


def _bind(
    policy: Any, env: Hosted, context: Any, host: Host, turns: int, *, segments: bool
) -> _Bound:
    critic = {"value", "bootstrap"} if policy.has_critic else set()
    if policy.reads_text:
        actor = host_text_actor(
            policy,
            env,
            context,
            turns=turns,
            observation_tokens=host.observation_tokens,
            segments=segments,
        )
        speaker = actor.speaker
        return _Bound(
            actor,
            lambda trajectory: text_rows(speaker, trajectory.turns, trajectory.final.memory[0]),
            lambda batch, turns: num_text_rows(speaker, env.num_acting, batch, turns),
            text_fields,
            text_metrics,
            frozenset({"cost", "well_formed"} | critic),
        )
    if context is not None:
        raise ValueError(
            "config.context is for language policies; this policy reads arrays: set "
            "config.context.name='none'"
        )
    if not env.observation_shape:
        raise ValueError(
            f"{env.name} has observations in words: use a language policy, or give the environment "
            "an observation_shape"
        )
    remembers = policy.memory(1) is not None
    if remembers and env.in_turns:
        raise ValueError(
            f"a recurrent policy with {env.name}, a game in turns in Python, which shows each turn "
            "to one agent only: use a policy without memory"
        )

    def rows(trajectory):
        memory = trajectory.first.memory[0]
        if memory is not None:
            memory = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), memory)
        learns = np.ones((trajectory.turns.running.shape[1], env.num_agents), bool)
        return array_rows(env, trajectory.turns, learns, memory)

    return _Bound(
        host_array_actor(policy, env.num_agents),
        rows,
        lambda batch, turns: batch * env.num_acting * (1 if remembers else turns),
        lambda turns: {},
        lambda turns: {},
        frozenset(critic),
    )


class _Processes:
    """The processes of a rollout, started when they are first needed."""

    def __init__(self, env: Hosted, make_loop: Callable[[Pool], HostLoop], host: Host):
        self._env, self._make_loop, self._host = env, make_loop, host
        self._pool: Pool | None = None
        self.loop: HostLoop | None = None

    def collect(self, *args: Any, **options: Any) -> Collected:
        """`HostLoop.collect`; after an error the processes are ended."""
        if self.loop is None:
            self._pool = self._env.pool(self._host.workers, self._host.timeout_s)
            self.loop = self._make_loop(self._pool)
        try:
            return self.loop.collect(*args, **options)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes; the next collection starts new ones."""
        if self._pool is not None:
            self._pool.close()
        self._pool = self.loop = None


def host_episodes(
    policy: Any,
    env: Hosted,
    context: Any,
    host: Host | None,
    *,
    num_groups: int,
    group_size: int,
    max_turns: int | None,
) -> Rollout:
    """`agentrl.rollout.episodes` of an environment in Python, with the policy on all seats.

    Members of a group share the environment's seed, and so its chance too as long as they act
    alike; they differ in the keys of their decisions. `collect` and `play` are not for `jax.jit`;
    they raise HostError where every episode was lost, or the environment does not start any more.
    """
    host = processes() if host is None else host
    turns = host.max_turns if max_turns is None else max_turns
    if turns < 1:
        raise ValueError(f"rollout max_turns={turns}: expected at least 1")
    bound = _bind(policy, env, context, host, turns, segments=False)

    def make_loop(pool):
        return HostLoop(
            env,
            bound.actor,
            pool,
            workers=host.workers,
            length=turns,
            retries=host.retries,
            restart=False,
        )

    running = _Processes(env, make_loop, host)

    @jax.jit
    def settle(trajectory, bootstrap, group):
        happened = trajectory.turns
        bootstrap = bootstrap if policy.has_critic else None
        fields = bound.fields(happened)
        streams = streams_of(env, happened, group=group, bootstrap=bootstrap, fields=fields)
        metrics = metrics_of(env, whole_episodes(happened, streams), streams)
        return streams, bound.rows(trajectory), metrics | bound.metrics(happened)

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        seeds = np.repeat(_seeds(jax.random.split(task_key, num_groups)), group_size)
        got = running.collect(params, seeds, act_key)
        group = np.repeat(np.arange(num_groups, dtype=np.int32), group_size)
        streams, rows, metrics = settle(got.trajectory, got.bootstrap, group)
        return state, streams, rows, metrics | _counted(got)

    def play(params, task_keys, key, greedy):
        got = running.collect(params, _seeds(task_keys), key, greedy=greedy)
        streams, rows, _ = settle(got.trajectory, got.bootstrap, None)
        return streams, rows

    count = num_groups * group_size
    names = {"reward", "mask", "group", "episode", "anchor"}
    names |= {"terminated", "truncated", "valid", "success"}
    names |= {"role", "task"} if env.num_agents > 1 else set()
    properties = {"whole_episodes", "one_end"} | _properties(bound)
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=count * env.num_agents,
        turns=turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=frozenset(names) | bound.provides,
        num_rows=bound.num_rows(count, turns),
        roles=env.num_agents,
        play=play,
        on_host=True,
        close=running.close,
        properties=frozenset(properties),
    )


def host_segments(
    policy: Any,
    env: Hosted,
    context: Any,
    host: Host | None,
    *,
    num_envs: int,
    length: int,
) -> Rollout:
    """`agentrl.rollout.segments` of an environment in Python: one process per environment.

    The state of running episodes exists in the processes only: a resumed run starts new episodes.
    """
    host = processes(workers=num_envs) if host is None else host
    if host.workers != num_envs:
        raise ValueError(
            f"rollout num_envs={num_envs} with host workers={host.workers}: segments have one "
            "process per environment; set both to the same number"
        )
    bound = _bind(policy, env, context, host, host.max_turns, segments=True)

    def make_loop(pool):
        return HostLoop(
            env,
            bound.actor,
            pool,
            workers=host.workers,
            length=length,
            retries=host.retries,
            restart=True,
            max_turns=host.max_turns,
        )

    running = _Processes(env, make_loop, host)

    @jax.jit
    def settle(trajectory, notes, bootstrap):
        happened = trajectory.turns
        bootstrap = bootstrap if policy.has_critic else None
        fields = bound.fields(happened)
        streams = streams_of(env, happened, group=None, bootstrap=bootstrap, fields=fields)
        ended = restarted_episodes(happened, notes)
        metrics = metrics_of(env, ended, streams) | bound.metrics(happened)
        return streams, bound.rows(trajectory), metrics

    notes = {"so far": None}

    def collect(params, state, key):
        task_key, act_key = jax.random.split(key)
        got = running.collect(params, _seeds(jax.random.split(task_key, num_envs)), act_key)
        before = notes["so far"] if got.continues else None
        gathered, notes["so far"] = _gathered(env, got.trajectory.turns, before)
        streams, rows, metrics = settle(got.trajectory, gathered, got.bootstrap)
        return state, streams, rows, metrics | _counted(got)

    names = {"reward", "mask", "terminated", "truncated", "valid", "success"}
    names |= {"role", "task"} if env.num_agents > 1 else set()
    return Rollout(
        init=lambda key: None,
        collect=collect,
        num_streams=num_envs * env.num_agents,
        turns=length,
        units=(num_envs, "config.rollout.num_envs"),
        provides=frozenset(names) | bound.provides,
        num_rows=bound.num_rows(num_envs, length),
        roles=env.num_agents,
        on_host=True,
        close=running.close,
        properties=frozenset(_properties(bound)),
    )


def _properties(bound: _Bound) -> set[str]:
    return {"tokens_as_cost"} if bound.actor.speaker is not None else set()


def _gathered(env: Hosted, turns: Any, before: Running | None) -> tuple[Running, Running]:
    """What episodes that restart have gathered at each turn, [T, B, ...], and at the end."""
    length, batch = turns.running.shape
    agents = env.num_agents
    acted = np.asarray(of_agents(jnp.asarray(turns.agent), jnp.asarray(turns.learns), agents))
    if before is None:
        zeros = np.zeros((batch, agents), np.float32)
        before = Running(zeros, zeros > 0, np.zeros(batch, np.int32))
    total, has_acted, steps = (x.copy() for x in before)
    out = Running(*(np.zeros((length, *x.shape), x.dtype) for x in before))
    for t in range(length):
        begun = turns.begins[t]
        total[begun], has_acted[begun], steps[begun] = 0, False, 0
        total += turns.outcome.reward[t]
        has_acted |= acted[t]
        steps += turns.learns[t].any(axis=1)
        out.episode_return[t], out.acted[t], out.steps[t] = total, has_acted, steps
    return out, Running(total, has_acted, steps)


def _seeds(task_keys: jax.Array) -> np.ndarray:
    """A seed of 31 bits per task key."""
    bits = jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(task_keys)
    return np.asarray(bits >> 1)


def _counted(got: Collected) -> dict[str, jax.Array]:
    """Episodes left out and played again, and seconds."""
    counts = got.counts
    named = {
        "failed_episodes": counts.failed,
        "retried_episodes": counts.retried,
        "time/generation": counts.policy_seconds,
        "time/environment": counts.environment_seconds,
    }
    return {name: jnp.array([count, 1], jnp.float32) for name, count in named.items()}
