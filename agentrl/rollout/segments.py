"""Segments of fixed length with automatic restarts, for PPO."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

import envs.vector
from agentrl.actors.types import View
from agentrl.checks import check_range
from agentrl.devices.placement import along_data
from agentrl.players.scripted import is_outside, view_of
from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.episodes import episodes
from agentrl.rollout.host import for_hosts
from agentrl.rollout.metrics import Running, count_turn, metrics_of, no_turns, restarted_episodes
from agentrl.rollout.pack import filled, pack, properties_of
from agentrl.rollout.seating import Opposition, make_opposition
from agentrl.rollout.starts import Sampler, independent, takes_tasks
from agentrl.rollout.types import Rollout, Start, Turn
from agentrl.rollout.unroll import keep_turn, unroll
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context
    from agentrl.rollout.host import Host
    from envs.environment import Environment, EnvParams

# (memory, view) -> f32[B, S]
_Critic = Callable[..., jax.Array]


class SegmentState(struct.PyTreeNode):
    """Environments in mid-episode, [B, ...], and running totals of their episodes."""

    observation: chex.ArrayTree
    env: chex.ArrayTree
    memory: tuple[chex.ArrayTree, ...]  # one per actor, [B, A, ...]
    start: jax.Array  # bool[B], the next step is an episode's first
    notes: Running


@for_hosts("agentrl.rollout.hosted.host_segments")
def segments(
    policy: EitherPolicy,
    env: "Environment",
    env_params: "EnvParams",
    context: "Context | None" = None,
    host: "Host | None" = None,
    sampler: Sampler = independent,
    *,
    num_envs: int = 64,
    length: int = 128,
    opponent: str = "self",
    fresh_tasks: int | None = None,
    mask_illegal: bool = False,
) -> Rollout:
    """Rollout of `length` steps of `num_envs` environments that restart when an episode ends.

    Args:
      opponent: the player of the other seats, as in `episodes`, except "pool" and those outside
        this process.
      fresh_tasks: tasks drawn ahead for each segment; an episode that ends restarts from a random
        one of them, so that costly task generation is paid fresh_tasks times per segment instead of
        at every step of every environment. 0 draws a task at every step, as gymnax does. Default:
        `envs.vector.tasks_ahead`.
      mask_illegal: a policy over arrays chooses among legal actions only.

    Streams: N = num_envs * A, T = length; one stream holds parts of several episodes, separated by
    `terminated` and `truncated`, so estimators that compare whole episodes do not apply. With
    several agents, rewards before an agent's first turn in a segment are dropped.
    """
    check_range("rollout num_envs", num_envs, 1)
    check_range("rollout length", length, 1)
    if opponent == "pool":
        raise ValueError(
            f"rollout opponent='pool' in segments of {env.name}: use rollout 'episodes', in which "
            "an episode has one opponent from its start to its end"
        )
    if is_outside(opponent):
        raise ValueError(
            f"rollout opponent={opponent!r} in segments of {env.name}: use rollout 'episodes', in "
            "which all matches begin together; such a player is told when one begins"
        )
    if takes_tasks(sampler):
        raise ValueError(
            "config.sampler needs the numbers of tasks, which segments do not take: they draw a "
            "task whenever an episode ends; use rollout 'episodes', or sampler 'independent'"
        )
    if fresh_tasks is None:
        fresh_tasks = envs.vector.tasks_ahead(env, num_envs)
    limit = int(env_params.max_steps_in_episode)
    bound = bind(policy, env, env_params, context, limit, mask_illegal=mask_illegal, segments=True)
    # Demonstrations and evaluation are of whole episodes.
    whole = episodes(
        policy, env, env_params, context, num_groups=1, group_size=1, mask_illegal=mask_illegal
    )
    return _Segments(
        world=World(env, env_params),
        bound=bound,
        opposition=make_opposition(env, env_params, opponent),
        sampler=sampler,
        num_envs=num_envs,
        length=length,
        fresh_tasks=fresh_tasks,
    ).rollout(whole)


class _Segments(NamedTuple):
    """What `segments` was asked for, bound and checked."""

    world: World
    bound: BoundPolicy
    opposition: Opposition
    sampler: Sampler
    num_envs: int
    length: int
    fresh_tasks: int

    def rollout(self, whole: Rollout) -> Rollout:
        env, packing = self.world.env, self.bound.packing
        return whole._replace(
            init=self.init,
            collect=self.collect,
            num_streams=self.num_envs * env.num_agents,
            turns=self.length,
            units=(self.num_envs, "config.rollout.num_envs"),
            provides=filled(env, whole=False) | packing.provides,
            num_rows=packing.num_rows(self.num_envs, self.length),
            states=None,
            properties=properties_of(env, whole=False) | packing.properties,
        )

    def draw(self, key: jax.Array, count: int) -> envs.vector.Starts:
        keys, params = self.sampler(key, count, None)
        if params is not None:
            raise ValueError("segments restart with the environment's own parameters only")
        starts = envs.vector.Starts(*self.world.vmap(self.world.env.reset_agents)(keys))
        if self.opposition.reads_arrays(self.bound):
            return starts
        return starts.replace(observation=None)

    def init(self, key: jax.Array) -> SegmentState:
        """num_envs new episodes before their first turn, from which the first collection goes
        on."""
        starts = along_data(self.draw(key, self.num_envs))
        shape = (self.num_envs, self.world.env.num_agents)
        actors = self.opposition.actors(self.bound, self.world, None)
        return SegmentState(
            observation=starts.observation,
            env=starts.state,
            memory=tuple(actor.init(*shape) for actor in actors),
            start=jnp.ones(self.num_envs, bool),
            notes=no_turns(*shape),
        )

    def collect(self, params: chex.ArrayTree, state: SegmentState, key: jax.Array) -> tuple:
        """Plays `length` steps on from where the last collection stopped; arguments and results as
        in `Rollout.collect`."""
        world, bound, env = self.world, self.bound, self.world.env
        pool_key, scan_key = jax.random.split(key)
        restart = functools.partial(self.draw, count=self.num_envs)
        if self.fresh_tasks:
            pooled = envs.vector.pool(self.draw(pool_key, self.fresh_tasks), self.num_envs)
            restart = functools.partial(self.ahead, pooled)
        actors = self.opposition.actors(bound, world, params)
        seats = self.opposition.seating(world, None, self.num_envs)
        value = actors[0].value
        critic = None if value is None else functools.partial(value, actors[0].params)
        trajectory = unroll(
            world,
            actors,
            seats,
            Start(state.env, state.observation, state.memory, begins=state.start),
            scan_key,
            length=self.length,
            restart=restart,
            keep=functools.partial(self.keep, critic),
            notes=state.notes,
        )
        turns, notes, after = trajectory.turns
        bootstrap, final = None, trajectory.final
        if critic is not None:
            truncated = turns.outcome.truncated
            if bound.reads_arrays:
                after = _last_values(world, critic, after, truncated)
            view = _everyone(world, final.state, final.observation, self.num_envs)
            # An episode that is cut by the segment goes on; one that ended there has its own value.
            last = jnp.where(truncated[-1, :, None], after[-1], critic(final.memory[0], view))
            bootstrap = after.at[-1].set(last)
        trajectory = trajectory._replace(turns=turns)
        streams, rows = pack(env, bound.packing, trajectory, seats.learns, bootstrap=bootstrap)
        metrics = metrics_of(env, restarted_episodes(turns, notes), streams, self.opposition.name)
        metrics |= bound.packing.metrics(turns)
        assert final.begins is not None  # `unroll` fills it
        following = SegmentState(
            final.observation, final.state, final.memory, final.begins, trajectory.notes
        )
        return following, streams, rows, metrics

    def ahead(self, pooled: envs.vector.Starts, key: jax.Array) -> envs.vector.Starts:
        """Tasks for all environments out of those that were drawn ahead."""
        offset = jax.random.randint(key, (), 0, self.fresh_tasks)
        return envs.vector.window(pooled, offset, self.num_envs)

    def keep(self, critic: _Critic | None, notes: Running, turn: Turn) -> tuple[Running, tuple]:
        """`unroll` keeps (the turn, the totals with it, what the critic reads after it)."""
        assert turn.after is not None  # inside `unroll`
        following, now = count_turn(notes, turn)
        after: Any = None
        if critic is not None and self.bound.reads_arrays:
            after = (turn.after.observation, None, turn.after.memory[0])
        elif critic is not None:
            # Transcripts of every step would be too much to keep.
            after = _truncated_value(self.world, critic, turn)
        return following, (keep_turn(None, turn)[1], now, after)


def _last_values(world: World, critic: _Critic, after: tuple, truncated: jax.Array) -> jax.Array:
    """f32[T, B, A]: values of the last states of truncated episodes.

    after: observation, states and memory after each step, [T, B, ...]. The critic evaluates last
    states in one batch after the segment, and only if any episode was truncated in it (under vmap
    over seeds, `cond` runs both branches).
    """
    turns, batch = truncated.shape
    shape = (turns, batch, world.env.num_agents)

    def evaluate(_):
        observation, state, memory = jax.tree.map(
            lambda x: x.reshape(turns * batch, *x.shape[2:]), after
        )
        view = _everyone(world, state, observation, turns * batch)
        found = critic(memory, view).reshape(shape)
        return jnp.where(truncated[..., None], found, 0.0)

    return jax.lax.cond(jnp.any(truncated), evaluate, lambda _: jnp.zeros(shape), None)


def _truncated_value(world: World, critic: _Critic, turn: Turn) -> jax.Array:
    """f32[B, A]: the value after a step of the episodes that it truncated."""
    truncated, after = turn.outcome.truncated, turn.after
    shape = (truncated.shape[0], world.env.num_agents)

    def evaluate(_):
        view = _everyone(world, after.state, after.observation, shape[0])
        found = critic(after.memory[0], view)
        return jnp.where(truncated[:, None], found, 0.0)

    return jax.lax.cond(jnp.any(truncated), evaluate, lambda _: jnp.zeros(shape), None)


def _everyone(world: World, state: chex.ArrayTree, observation: chex.ArrayTree, count: int) -> View:
    """A view of all agents, for their values only: without states and legal actions."""
    if state is not None:
        return view_of(world, state, observation, follows=True)
    agent = jnp.arange(world.env.num_agents, dtype=jnp.int32)
    agent = jnp.broadcast_to(agent, (count, agent.size))
    return View(agent, jnp.ones(agent.shape, bool), observation, None, None)
