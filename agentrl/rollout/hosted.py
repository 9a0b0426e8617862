"""Rollouts of environments in Python: episodes and segments, in words and with arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.contexts import Context
from agentrl.actors.types import select
from agentrl.checks import check_range
from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.bound import in_words
from agentrl.rollout.host import Host, processes
from agentrl.rollout.host_actors import (
    HostActor,
    host_array_actor,
    host_text_actor,
    host_text_agent,
)
from agentrl.rollout.metrics import (
    Running,
    count_turn,
    metrics_of,
    no_turns,
    restarted_episodes,
    whole_episodes,
)
from agentrl.rollout.pack import (
    Packing,
    array_packing,
    filled,
    outcomes_of,
    pack,
    properties_of,
)
from agentrl.rollout.runner import IN_PYTHON
from agentrl.rollout.text_rows import text_packing
from agentrl.rollout.types import Rollout, Trajectory
from agentrl.rollout.unroll_host import HostLoop
from envs.hosted import Hosted


def host_episodes(
    policy: EitherPolicy,
    env: Hosted,
    context: Context | None,
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
    check_range("rollout num_groups", num_groups, 1)
    check_range("rollout group_size", group_size, 1)
    host = processes() if host is None else host
    turns = host.max_turns if max_turns is None else max_turns
    check_range("rollout max_turns", turns, 1)
    actor, packing = _bind(policy, env, context, host, turns, segments=False)
    loop = HostLoop(env, actor, host, length=turns, restart=False)
    played = _Episodes(loop, packing, num_groups, group_size)
    count = num_groups * group_size
    return Rollout(
        init=lambda key: None,
        collect=played.collect,
        num_streams=count * env.num_agents,
        turns=turns,
        units=(num_groups, "config.rollout.num_groups"),
        provides=filled(env, whole=True) | packing.provides,
        num_rows=packing.num_rows(count, turns),
        agents=env.num_agents,
        roles=env.num_roles,
        play=played.play,
        runner=IN_PYTHON,
        close=loop.close,
        properties=properties_of(env, whole=True) | packing.properties,
    )


class _Episodes:
    """Whole episodes in groups. settle: `settled`, compiled."""

    def __init__(self, loop: HostLoop, packing: Packing, num_groups: int, group_size: int):
        self.loop, self.packing = loop, packing
        self.num_groups, self.group_size = num_groups, group_size
        self.settle = jax.jit(self.settled)

    def settled(self, trajectory: Trajectory, bootstrap, group):
        """(Streams, Rows, metrics) of a collection."""
        env, turns = self.loop.setup.env, trajectory.turns
        streams, rows = _packed(self.loop, self.packing, trajectory, bootstrap, group)
        metrics = metrics_of(env, whole_episodes(turns, streams), streams)
        return streams, rows, metrics | self.packing.metrics(turns)

    def collect(self, params, state, key):
        task_key, act_key = jax.random.split(key)
        tasks = seeds_of(jax.random.split(task_key, self.num_groups))
        got = self.loop.collect(params, np.repeat(tasks, self.group_size), act_key)
        group = np.repeat(np.arange(self.num_groups, dtype=np.int32), self.group_size)
        streams, rows, metrics = self.settle(got.trajectory, got.bootstrap, group)
        return state, streams, rows, metrics | got.metrics

    def play(self, params, task_keys, key, greedy):
        got = self.loop.collect(params, seeds_of(task_keys), key, greedy=greedy)
        streams, rows, _ = self.settle(got.trajectory, got.bootstrap, None)
        return outcomes_of(got.trajectory.turns), streams, rows


def host_segments(
    policy: EitherPolicy,
    env: Hosted,
    context: Context | None,
    host: Host | None,
    *,
    num_envs: int,
    length: int,
) -> Rollout:
    """`agentrl.rollout.segments` of an environment in Python: one process per environment.

    The state of running episodes exists in the processes only: a resumed run starts new episodes.
    """
    check_range("rollout num_envs", num_envs, 1)
    check_range("rollout length", length, 1)
    host = processes(workers=num_envs) if host is None else host
    if host.workers != num_envs:
        raise ValueError(
            f"rollout num_envs={num_envs} with host workers={host.workers}: segments have one "
            "process per environment; set both to the same number"
        )
    actor, packing = _bind(policy, env, context, host, host.max_turns, segments=True)
    loop = HostLoop(env, actor, host, length=length, restart=True)
    # Evaluation is of whole episodes, in processes of its own.
    whole = host_episodes(policy, env, context, host, num_groups=1, group_size=1, max_turns=None)
    played = _Segments(loop, packing, num_envs, whole)
    return Rollout(
        init=lambda key: None,
        collect=played.collect,
        num_streams=num_envs * env.num_agents,
        turns=length,
        units=(num_envs, "config.rollout.num_envs"),
        provides=filled(env, whole=False) | packing.provides,
        num_rows=packing.num_rows(num_envs, length),
        agents=env.num_agents,
        roles=env.num_roles,
        play=whole.play,
        runner=IN_PYTHON,
        close=played.close,
        properties=properties_of(env, whole=False) | packing.properties,
    )


class _Segments:
    """Segments of running episodes. totals: of the episodes that go on in the next collection.
    settle: `settled`, compiled. whole: what evaluation plays."""

    def __init__(self, loop: HostLoop, packing: Packing, num_envs: int, whole: Rollout):
        self.loop, self.packing, self.num_envs, self.whole = loop, packing, num_envs, whole
        self.nothing = self.totals = no_turns(num_envs, loop.setup.env.num_agents)
        self.settle = jax.jit(self.settled)

    def settled(self, trajectory: Trajectory, totals: Running, bootstrap):
        """(the totals after a collection, (Streams, Rows, metrics) of it)."""
        turns, nothing = trajectory.turns, no_turns(*totals.acted.shape)

        def count(totals, turn):
            # An episode that was lost did not end: totals start again where the next one begins.
            return count_turn(select(turn.begins, nothing, totals), turn)

        streams, rows = _packed(self.loop, self.packing, trajectory, bootstrap, None)
        totals, by_turn = jax.lax.scan(count, totals, turns)
        metrics = metrics_of(self.loop.setup.env, restarted_episodes(turns, by_turn), streams)
        return totals, (streams, rows, metrics | self.packing.metrics(turns))

    def collect(self, params, state, key):
        task_key, act_key = jax.random.split(key)
        seeds = seeds_of(jax.random.split(task_key, self.num_envs))
        got = self.loop.collect(params, seeds, act_key)
        before = self.totals if got.continues else self.nothing
        self.totals, packed = self.settle(got.trajectory, before, got.bootstrap)
        streams, rows, metrics = packed
        return state, streams, rows, metrics | got.metrics

    def close(self):
        self.loop.close()
        self.whole.close()


def _bind(
    policy: EitherPolicy,
    env: Hosted,
    context: Context | None,
    host: Host,
    turns: int,
    *,
    segments: bool,
) -> tuple[HostActor, Packing]:
    """A policy bound to an environment in Python."""
    if env.calls_model:
        raise ValueError(
            f"{env.name} is a program that calls the model itself: use rollout "
            "agentrl.serving.programs.programs"
        )
    if in_words(policy, context):
        assert context is not None  # of every language policy
        text = host_text_agent(
            policy,
            env,
            context,
            turns=turns,
            observation_tokens=host.observation_tokens,
            segments=segments,
        )
        return host_text_actor(text), text_packing(text, env)
    if not env.observation_shape:
        raise ValueError(
            f"{env.name} has observations in words: use a language policy, or give the environment "
            "an observation_shape"
        )
    if policy.memory(1) is not None and env.in_turns:
        raise ValueError(
            f"a recurrent policy with {env.name}, a game in turns in Python, which shows each turn "
            "to one agent only: use a policy without memory"
        )
    return host_array_actor(policy, env.num_agents), array_packing(policy, env)


def _packed(loop: HostLoop, packing: Packing, trajectory: Trajectory, bootstrap, group):
    """(Streams, Rows); every agent is learnt from."""
    env = loop.setup.env
    learns = np.ones((trajectory.turns.running.shape[1], env.num_agents), bool)
    bootstrap = None if loop.setup.actor.value is None else bootstrap
    return pack(env, packing, trajectory, learns, group=group, bootstrap=bootstrap)


def seeds_of(task_keys: jax.Array) -> np.ndarray:
    """A seed of 31 bits per task key."""
    bits = jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(task_keys)
    return np.asarray(bits >> 1)
