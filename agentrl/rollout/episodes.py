"""Whole episodes in groups that share a task, for GRPO, RLOO, GiGPO and self-play."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.actors.array import ANCHORS
from agentrl.checks import check_choice, check_range
from agentrl.devices.placement import along_data
from agentrl.players.scripted import random_actor, view_of
from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.bound import BoundPolicy, bind
from agentrl.rollout.host import for_hosts
from agentrl.rollout.judges import Judging, Scene, judging, own_key
from agentrl.rollout.metrics import metrics_of, whole_episodes
from agentrl.rollout.pack import by_stream, filled, outcomes_of, pack, properties_of
from agentrl.rollout.seating import Opposition, make_opposition, seat_all, seat_teams, sides, teams
from agentrl.rollout.starts import Sampler, independent, start_groups, takes_tasks
from agentrl.rollout.types import Outcomes, Rollout, Runner, Seating, Start, Trajectory
from agentrl.rollout.unroll import fresh, keep_states, keep_turn, states_of, unroll
from agentrl.streams import Rows, Streams
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.contexts import Context
    from agentrl.players.asked import Asked
    from agentrl.rollout.host import Host
    from envs.environment import Environment, EnvParams


@for_hosts("agentrl.rollout.hosted.host_episodes")
def episodes(
    policy: EitherPolicy,
    env: "Environment",
    env_params: "EnvParams",
    context: "Context | None" = None,
    host: "Host | None" = None,
    sampler: Sampler = independent,
    *,
    num_groups: int = 16,
    group_size: int = 8,
    opponent: str = "self",
    members: int | None = None,
    side: str = "none",
    max_turns: int | None = None,
    anchor: str = "observation",
    mask_illegal: bool = False,
    listeners: str = "none",
    question: str = "",
    questions: int = 32,
    judge: str = "none",
    horizons: tuple[int, ...] = (),
    horizon_every: int | None = None,
    limited: bool = False,
) -> Rollout:
    """Rollout of num_groups * group_size episodes from their start to their end.

    The members of a group share the task and differ in the keys of actions and of the environment's
    own chance. Every agent of an episode is a stream; its seat is its role. max_turns truncates.

    Args:
      sampler: which tasks are played, see `agentrl.rollout.starts`.
      opponent: the player of the other seats, if there are several agents. "self": the policy has
        all of them and learns from all. "random" (legal play), "expert" (the environment's) or
        another of `agentrl.players.scripted`, for example "mcts:100", one outside this process
        (`agentrl.players.served`, `agentrl.players.program`: "served:URL#MODEL"), or "pool" (frozen
        parameters of this policy, which `collect` is given as `opponents`): the policy has seat i %
        A of episode i (of teams: all seats of team i % 2), and learns from that.
      members: number of pool members per collection, see `agentrl.rollout.seating`.
      side: the policy has all seats of this one of the environment's `sides` instead, or "none".
      max_turns: T; default: the environment's limit.
      anchor: basis of GiGPO's anchors: "observation" or "state".
      mask_illegal: a policy over arrays chooses among legal actions only.
      listeners: the beliefs that count in `Streams.persuasion`: "all" of the policy's agents that
        are asked, or those of "others" than the speaker; "none": not filled.
      question: text that ends the prompt in which a language policy is asked the environment's
        belief question, wherever the environment asks it; "": it is not asked. Each question is a
        row of its own, after those of the turns, and the true answer stands in it (`Rows.asked`,
        for losses.listening_loss_in_words); no later prompt shows it.
      questions: of an episode as many are asked, the first ones.
      judge: fills `Streams.judgement`, a score of each turn: "expert", "progress", "critic",
        "continuations:8", "served:URL#MODEL" or a function of yours, see
        `agentrl.rollout.judges.judging`.
      horizons: turns that an episode may take in the first `horizon_every` collections, in the
        next, and so on; the last one stays (ScalingInter's curriculum). Default: max_turns always.
      limited: the turns that episodes of each task of a list may take are the input `limits` i32[K]
        of component `agentrl.methods.turn_limits`; needs a sampler of tasks by number.

    Streams: N = num_groups * group_size * A, of stream i agent i % A.
    """
    check_choice("rollout anchor", anchor, ANCHORS)
    check_range("rollout num_groups", num_groups, 1)
    check_range("rollout group_size", group_size, 1)
    turns = turn_limit(env_params, max_turns)
    if not all(1 <= horizon <= turns for horizon in horizons):
        raise ValueError(f"rollout horizons={horizons}: expected 1 to max_turns={turns}")
    if bool(horizons) != (horizon_every is not None) or (horizon_every or 1) < 1:
        raise ValueError(
            f"rollout horizons={horizons}, horizon_every={horizon_every}: set both (horizon_every "
            "to 1 or more collections), or neither"
        )
    # Limits of tasks are looked up by the tasks' numbers, and are the only ones.
    if limited and (horizons or not takes_tasks(sampler)):
        raise ValueError(
            "rollout limited=True: expected no horizons, and the task sampler "
            "agentrl.methods.curriculum.tasks_by_number"
        )
    bound = bind(
        policy, env, env_params, context, turns,
        anchor=anchor, mask_illegal=mask_illegal, listeners=listeners,
        question=question, questions=questions,
    )  # fmt: skip
    opposition = make_opposition(
        env, env_params, opponent,
        members=members, side=side, num_groups=num_groups, group_size=group_size,
    )  # fmt: skip
    plan = _Episodes(
        world=World(env, env_params),
        bound=bound,
        opposition=opposition,
        sampler=sampler,
        num_groups=num_groups,
        group_size=group_size,
        turns=turns,
        horizons=horizons,
        horizon_every=horizon_every,
        limited=limited,
        listeners=listeners,
        judging=judging(judge, env, env_params, policy),
    )
    return plan.rollout()


class _Episodes(NamedTuple):
    """What `episodes` was asked for, bound and checked."""

    world: World
    bound: BoundPolicy
    opposition: Opposition
    sampler: Sampler
    num_groups: int
    group_size: int
    turns: int
    horizons: tuple[int, ...]
    horizon_every: int | None
    limited: bool
    listeners: str
    judging: Judging | None

    def rollout(self) -> Rollout:
        env, packing = self.world.env, self.bound.packing
        count = self.num_groups * self.group_size
        needs = {
            "opponents": self.opposition.slots is not None,
            "tasks": takes_tasks(self.sampler),
            "limits": self.limited,
        }
        listened = {"persuasion"} if self.listeners != "none" else set()
        judged = set() if self.judging is None else {"judgement"}
        return Rollout(
            # One clock per group, all alike: the state's leaves have the batch first.
            init=lambda key: jnp.zeros(self.num_groups, jnp.int32) if self.horizons else None,
            collect=self.collect,
            num_streams=count * env.num_agents,
            turns=self.turns,
            units=(self.num_groups, "config.rollout.num_groups"),
            provides=packing.provides | filled(env, whole=True) | listened | judged,
            num_rows=packing.num_rows(count, self.turns) + self.num_questions(count),
            agents=env.num_agents,
            roles=env.num_roles,
            slots=self.opposition.slots,
            demonstrate=self.demonstrate,
            play=None if self.bound.reads_arrays else self.play,
            states=None if self.asked else self.states,  # nobody is asked twice
            asks=bool(self.asked),
            runner=Runner(over_seeds=self.bound.over_members),
            close=self.close,
            needs=tuple(name for name, needed in needs.items() if needed),
            properties=properties_of(env, whole=True) | packing.properties,
        )

    @property
    def asked(self) -> "list[Asked]":
        """The opponent and the judge, if they are outside this process."""
        judge = None if self.judging is None else self.judging.asked
        return [player for player in (self.opposition.asked, judge) if player is not None]

    def close(self) -> None:
        """Ends what was started for them."""
        for player in self.asked:
            player.close()

    def num_questions(self, count: int) -> int:
        """Rows of questions in `count` episodes."""
        asking = self.bound.questions
        if asking is None:
            return 0
        return count * min(asking.most, self.turns * self.world.env.num_agents)

    def watch(self, scene: Scene, start: Start) -> tuple[Any, Callable]:
        """(notes, keep) of `unroll`: turns alone, or pairs of a turn and what was asked, or judged,
        there."""
        if self.bound.questions is not None:
            return None, self.bound.questions.watch(scene.world)
        return (None, keep_turn) if self.judging is None else self.judging.watch(scene, start)

    def act(
        self,
        params: chex.ArrayTree,
        state: chex.ArrayTree,
        key: jax.Array,
        given: dict[str, chex.ArrayTree],
        watch: Callable[[Scene, Start], tuple[Any, Callable]],
    ) -> tuple[World, Seating, Trajectory]:
        """The episodes of a collection; watch gives `notes` and `keep` of `unroll`."""
        task_key, act_key = jax.random.split(key)
        world, start = start_groups(
            self.sampler, self.world, task_key, self.num_groups, self.group_size, given.get("tasks")
        )
        seating = self.opposition.seating(world, start.state, self.num_groups * self.group_size)
        if not self.opposition.reads_arrays(self.bound):
            start = start._replace(observation=None)
        limit = None
        if self.horizons:
            # i32[], turns that an episode may take after so many collections.
            stage = jnp.minimum(state[0] // self.horizon_every, len(self.horizons) - 1)
            limit = jnp.asarray(self.horizons, jnp.int32)[stage]
        members, most = given.get("opponents"), self.turns if limit is None else limit
        if self.limited:
            of_group = jnp.clip(given["limits"][given["tasks"]], 1, self.turns)
            limit = jnp.repeat(of_group, self.group_size)

        def actors(world):
            return self.opposition.actors(self.bound, world, params, members)

        notes, keep = watch(Scene(world, actors, self.turns, most, own_key(act_key)), start)
        trajectory = unroll(
            world,
            actors(world),
            seating,
            start,
            act_key,
            length=self.turns,
            limit=limit,
            early_exit=self.bound.early_exit,
            skip_others=self.bound.skip_others,
            keep=keep,
            notes=notes,
        )
        return world, seating, trajectory

    def collect(
        self,
        params: chex.ArrayTree,
        state: chex.ArrayTree,
        key: jax.Array,
        **given: chex.ArrayTree,
    ) -> tuple:
        """Plays num_groups x group_size whole episodes; arguments and results as in
        `Rollout.collect`."""
        asking = self.bound.questions
        world, seating, trajectory = self.act(params, state, key, given, self.watch)
        noted: chex.ArrayTree = None
        if asking is not None or self.judging is not None:
            turns, noted = trajectory.turns
            trajectory = trajectory._replace(turns=turns)
        score = noted if asking is None else None
        group = jnp.repeat(jnp.arange(self.num_groups, dtype=jnp.int32), self.group_size)
        streams, rows = packed(self.bound, world, trajectory, seating, params, group)
        first = trajectory.first.state
        own = jax.tree.map(lambda x: jnp.repeat(x, world.env.num_agents, axis=0), first)
        judgement = None if score is None else jnp.where(streams.mask, by_stream(score), 0.0)
        streams = streams.replace(first_state=own, judgement=judgement)
        turns, side_of = trajectory.turns, sides(world, first)
        heard = None
        if asking is not None:
            own, place = asking.rows(noted, seating.learns, rows)
            if self.listeners != "none":
                heard = asking.beliefs(params, own, place, noted)
            rows = asking.behind(rows, own)
        elif self.listeners != "none":
            record = turns.decision.record
            heard = record.asked & turns.running[..., None] & seating.learns, record.belief
        if heard is not None:
            assert side_of is not None  # where beliefs are asked there are sides
            moved = rewards.persuasion_of_turns(
                *heard, turns.acting, side_of != 0, among=self.listeners
            )
            streams = streams.replace(persuasion=by_stream(moved))
        ended = whole_episodes(turns, streams, side_of)
        metrics = metrics_of(world.env, ended, streams, self.opposition.name)
        metrics |= self.bound.packing.metrics(turns)
        return (state + 1 if self.horizons else state), streams, rows, metrics

    def states(
        self,
        params: chex.ArrayTree,
        state: chex.ArrayTree,
        key: jax.Array,
        **given: chex.ArrayTree,
    ) -> chex.ArrayTree:
        """The environments' states before each turn of the episodes that `collect` plays for the
        same key, and after the last, [T + 1, B, ...]; see `Rollout.states`."""

        _, _, trajectory = self.act(params, state, key, given, lambda *scene: (None, keep_states))
        return states_of(trajectory.turns, trajectory.final.state)

    def demonstrate(
        self, task_keys: jax.Array, key: jax.Array, *, thoughts: bool = False, noise: float = 0.0
    ) -> tuple[Streams, Rows]:
        """`Rollout.demonstrate`: episodes of the environment's expert in all seats.

        noise: probability that a random action is played instead of the one in the expert's row.
        """
        world, bound = self.world, self.bound
        expert = bound.demonstrator(world, noise, thoughts)
        start, seating = fresh(world, along_data(task_keys)), seat_all(world.env, len(task_keys))
        trajectory = unroll(
            world, [expert], seating, start, key, length=self.turns, early_exit=bound.early_exit
        )
        streams, rows = pack(world.env, bound.packing, trajectory, seating.learns)
        own = jax.tree.map(lambda x: jnp.repeat(x, world.env.num_agents, axis=0), start.state)
        return streams.replace(first_state=own), rows

    def play(
        self, params: chex.ArrayTree, task_keys: jax.Array, key: jax.Array, greedy: bool
    ) -> tuple[Outcomes, Streams, Rows]:
        """`Rollout.play`.

        The policy has seat i % A of episode i, against random legal play, or all seats of
        cooperative games.
        """
        world, bound, count = self.world, self.bound, task_keys.shape[0]
        actors = [bound.actor(world, params, greedy)]
        if world.env.num_agents == 1 or world.env.cooperative:
            seating = seat_all(world.env, count)
        else:
            actors.append(random_actor(world.env))
            number = jnp.arange(count, dtype=jnp.int32) % (teams(world.env).max() + 1)
            seating = seat_teams(world.env, number)
        start = fresh(world, along_data(task_keys))
        if not bound.reads_arrays:
            start = start._replace(observation=None)
        trajectory = unroll(
            world,
            actors,
            seating,
            start,
            key,
            length=self.turns,
            early_exit=bound.early_exit,
            skip_others=bound.skip_others,
        )
        streams, rows = packed(bound, world, trajectory, seating, params, None)
        return outcomes_of(trajectory.turns), streams, rows


def packed(
    bound: BoundPolicy,
    world: World,
    trajectory: Trajectory,
    seating: Seating,
    params: chex.ArrayTree,
    group: jax.Array | None,
) -> tuple[Streams, Rows]:
    """Streams and rows of a trajectory of whole episodes."""
    actor, bootstrap = bound.actor(world, params), None
    if actor.value is not None:
        # Only states in which an episode was cut are read; those that ended absorb.
        final = trajectory.final
        view = view_of(world, final.state, final.observation, follows=True)
        bootstrap = actor.value(params, final.memory[0], view)
    return pack(
        world.env, bound.packing, trajectory, seating.learns, group=group, bootstrap=bootstrap
    )


def turn_limit(env_params: "EnvParams", max_turns: int | None) -> int:
    """T of whole episodes. ValueError if the environment's limit is smaller."""
    limit = int(env_params.max_steps_in_episode)
    turns = limit if max_turns is None else max_turns
    if not 1 <= turns <= limit:
        raise ValueError(
            f"rollout max_turns={turns}: expected 1 to the environment's own limit {limit}; "
            f"raise env.max_steps_in_episode for more"
        )
    return turns
