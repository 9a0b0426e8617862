"""Types of the acting loop: starts, seating, trajectories, rollouts.

Letters besides those of `agentrl.streams` and `agentrl.actors`: K actors.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import chex
import jax

from agentrl.actors.types import Decision
from agentrl.streams import Rows, Streams
from envs.agents import Outcome

if TYPE_CHECKING:
    from agentrl.rollout.mixture import SlotsOfSeveral
    from agentrl.rollout.seating import Slots


class Start(NamedTuple):
    """States from which B episodes begin or continue.

    state: [B, ...]. observation: [B, A, ...], None where no actor reads arrays. memory: one per
    actor, or (): as before an episode's first turn. running: bool[B], or None: all of them.
    begins: bool[B], the next step is an episode's first; None: of all of them.
    """

    state: chex.ArrayTree
    observation: chex.ArrayTree
    memory: tuple[chex.ArrayTree, ...] = ()
    running: jax.Array | None = None
    begins: jax.Array | None = None


class Seating(NamedTuple):
    """The actor in each seat, and the seats that are learnt from.

    actor: i32[B, A], index of the actor. learns: bool[B, A], seats of the first actor that it
    learns from.
    """

    actor: jax.Array
    learns: jax.Array


class Turn(NamedTuple):
    """One step of B episodes; in a `Trajectory` of T of them, [T, B, ...].

    running: bool[B], the episode had this step; other values are ignored.
    begins: bool[B], it is the first of its episode; None where episodes do not restart.
    agent: i32[B, S], agents with a view. acting: bool[B, S], the agent acted. learns: bool[B, S],
      it acted and is learnt from.
    decision: the first actor's, for all agents with a view.
    action: [B, S, ...], the action taken, by any actor; None where not kept.
    outcome: its result.
    before, after: in front of the step, and behind it before a restart; None where not kept.
    """

    running: jax.Array
    begins: jax.Array | None
    agent: jax.Array
    acting: jax.Array
    learns: jax.Array
    decision: Decision
    action: jax.Array | None
    outcome: Outcome
    before: Start | None = None
    after: Start | None = None


class Trajectory(NamedTuple):
    """T steps of B episodes. turns: the kept part of each `Turn`, [T, B, ...]. first, final: before
    the first step and after the last one; final.running: bool[B], episodes that neither ended
    nor were cut. notes: further values carried from step to step.
    """

    turns: chex.ArrayTree
    first: Start
    final: Start
    notes: chex.ArrayTree = None


class Outcomes(NamedTuple):
    """Results of episodes, [...]: returns f32, turns acted i32, success bool."""

    episode_return: jax.Array
    length: jax.Array
    success: jax.Array


class Runner(NamedTuple):
    """How functions of one seed that collect are compiled, and become functions of all seeds.

    compiled: as `jax.jit`, options included. over_seeds: as `jax.vmap`. learning: the runner of
    functions that do not collect; None: this one. traced: they can be parts of a program; False:
    they step environments in processes.
    """

    compiled: Callable[..., Callable] = jax.jit
    over_seeds: Callable[[Callable], Callable] = jax.vmap
    learning: "Runner | None" = None
    traced: bool = True

    def of_phase(self, collects: bool) -> "Runner":
        """The runner of a phase's updates."""
        return self if collects or self.learning is None else self.learning


class Rollout(NamedTuple):
    """How experience is collected, as pure functions.

    init: (key) -> state carried from one collection to the next (environments in mid-episode).
    collect: (params, state, key, **given) -> (state, Streams, Rows, metrics); given: by name, what
      `needs` lists.
    num_streams, turns: N and T of the streams. num_rows: R of the rows. units: number of units that
      can be sharded over devices (episodes, or groups, which stay whole), and the config key that
      sets it.
    provides: fields of `Streams` that it fills.
    needs: "opponents": parameters of the members of a pool, [members, ...] of what is trained;
      "tasks": input of the task sampler.
    properties: those that hold for the streams, of "whole_episodes" (each stream is one whole
      episode), "one_end" (all streams of an episode end in the same turn), "team" (all agents play
      together), "tokens_as_cost" (`Streams.cost` is the number of reply tokens).
    demonstrate: (task keys [B], key, thoughts=False, noise=0.0) -> (Streams, Rows) of the
      environment's expert; or None.
    play: (params, task keys [B], key, greedy bool) -> (Outcomes [B, A], Streams, Rows) of whole
      episodes, where evaluation cannot use the actor alone; else None.
    states: (params, state, key, **given) -> the environments' states [T + 1, B, ...] of the
      episodes that `collect` returns for these arguments, before each turn and after the last one;
      None if unavailable.
    agents: number of streams per episode. roles: number of roles in the streams. tasks: names of
      their tasks.
    slots: where episodes meet members of a pool, which episode meets which; else None.
    runner: how collect and play are run for all seeds; by default as programs under `jax.vmap`.
    asks: collect asks a player outside this process, in the order of its steps: by one seed, on one
      device. close: releases resources.

    Metrics hold sums and weights f32[2] by name, so that means of several collections combine.
    """

    init: Callable[[jax.Array], chex.ArrayTree]
    collect: Callable[..., tuple[chex.ArrayTree, Streams, Rows, dict[str, jax.Array]]]
    num_streams: int
    turns: int
    units: tuple[int, str]
    provides: frozenset[str]
    num_rows: int
    demonstrate: Callable[..., tuple[Streams, Rows]] | None = None
    play: Callable[..., tuple[Outcomes, Streams, Rows]] | None = None
    states: Callable[..., chex.ArrayTree] | None = None
    agents: int = 1
    roles: int = 1
    tasks: tuple[str, ...] = ("0",)
    slots: "Slots | SlotsOfSeveral | None" = None
    runner: Runner = Runner()
    asks: bool = False
    close: Callable[[], None] = lambda: None
    needs: tuple[str, ...] = ()
    properties: frozenset[str] = frozenset()
