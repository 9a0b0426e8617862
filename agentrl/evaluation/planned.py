"""Search with a planner: subgoals in a row, those that are reached shared, new plans where stuck.

Letters: E tasks; B = E searches at once; T turns of the expert at most.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range
from agentrl.evaluation.best_first import Found, code_of
from agentrl.players.scripted import check_expert, expert_actor
from agentrl.rollout.seating import seat_all
from agentrl.rollout.types import Start, Turn
from agentrl.rollout.unroll import unroll
from envs.vector import World

# (points, goals u32[B, 2], budgets i32[B], key) -> what was found, see `BestFirst`.
Search = Callable[..., Found]
# (points) -> (fingerprints of observations u32[T, B, 2], turns i32[B]), see `ExpertPath`.
Planner = Callable[[Start], tuple[jax.Array, jax.Array]]
# The goal that only a solved task reaches, `BestFirst`.
_END = bytes(8)


@dataclasses.dataclass(frozen=True, eq=False)
class ExpertPath:
    """A planner that knows the way: what the environment's expert sees on it.

    BFS-Prover-V2's planner is a language model that is not trained, and its subgoals can be wrong.
    """

    world: World
    turns: int

    def __call__(self, start: Start) -> tuple[jax.Array, jax.Array]:
        """(fingerprints of the observations after each turn u32[T, E, 2], turns i32[E] to the
        solved task, 0 where the expert does not solve it)."""
        batch = jax.tree.leaves(start.state)[0].shape[0]
        played = unroll(
            self.world,
            [expert_actor(self.world)],
            seat_all(self.world.env, batch),
            start,
            jax.random.key(0),
            length=self.turns,
            keep=self.keep,
        )
        shown, success = played.turns
        number = jnp.argmax(success, axis=0) + 1
        return shown, jnp.where(jnp.any(success, axis=0), number, 0).astype(jnp.int32)

    def keep(self, notes: chex.ArrayTree, turn: Turn) -> tuple[chex.ArrayTree, chex.ArrayTree]:
        """For `unroll`: what is seen after a turn, and whether it solves the task."""
        assert turn.after is not None  # `unroll` fills it
        shown = code_of(self.world, turn.after.state, "observation")
        return notes, (shown, turn.outcome.success[:, 0])


def expert_path(world: World) -> ExpertPath:
    """The planner of an environment's expert, to be compiled. ValueError where it has none."""
    check_expert(world.env, world.params)
    return ExpertPath(world, int(world.params.max_steps_in_episode))


class Reached(NamedTuple):
    """A subgoal that a search has reached: where, after how many turns, whether that solves the
    task. code: of the state there."""

    point: Start
    steps: int
    success: bool
    code: bytes


class Solved(NamedTuple):
    """What came of the tasks. solved: bool[E]. nodes: i32[E], states that were expanded for each.

    shared: subgoals that were taken from an earlier search. plans: i32[E], plans for each task.
    """

    solved: np.ndarray
    nodes: np.ndarray
    shared: int
    plans: np.ndarray


class _Work:
    """E tasks in work. stride: turns of the expert between two subgoals, 0: no planner."""

    def __init__(self, start: Start, codes: np.ndarray, limit: int, stride: int):
        count = len(codes)
        self.limit = limit
        self.point = jax.tree.map(np.array, start)
        self.code = [code.tobytes() for code in codes]
        self.plan: list[list[bytes]] = [[] for _ in codes]
        self.stride = [stride] * count
        self.solved, self.stuck = np.zeros(count, bool), np.zeros(count, bool)
        self.nodes, self.plans = np.zeros(count, np.int32), np.zeros(count, np.int32)
        self.known: dict[tuple[bytes, bytes], Reached] = {}
        self.shared = 0

    def make_plans(self, going: Sequence[int], planner: Planner | None) -> None:
        """Plans for the tasks that have none: what the expert sees every `stride` turns."""
        without = [task for task in going if not self.plan[task]]
        if not without:
            return
        self.plans[without] += 1
        for task in without:
            self.plan[task] = [_END]
        if planner is None:
            return
        shown, number = map(np.asarray, planner(self.point))
        for task in without:
            turns = range(self.stride[task], number[task], self.stride[task])
            self.plan[task] = [shown[turn - 1][task].tobytes() for turn in turns] + [_END]

    def share(self, task: int) -> None:
        """Goes on from known states as far as they lead, within the environment's limit."""
        while self.plan[task] and not self.solved[task]:
            known = self.known.get((self.code[task], self.plan[task][0]))
            time = self.point.state.time[task]
            if known is None or time + known.steps > self.limit:
                return
            self.shared += 1
            self.advance(task, known, time + known.steps)

    def advance(self, task: int, found: Reached, time: int) -> None:
        """Puts a task where its next subgoal is reached."""

        def put(all_, row):
            all_[task] = row

        jax.tree.map(put, self.point, found.point)
        self.point.state.time[task] = time
        self.code[task], self.solved[task] = found.code, found.success
        self.plan[task] = self.plan[task][1:]

    def search(self, task: int, found: Found) -> None:
        """Takes in the result of a task's search."""
        key = self.code[task], self.plan[task][0]
        self.nodes[task] += found.nodes[task]
        if found.reached[task]:
            point = jax.tree.map(lambda x: np.array(x[task]), found.point)
            steps, success = int(found.steps[task]), bool(found.success[task])
            self.known[key] = Reached(point, steps, success, found.code[task].tobytes())
            self.advance(task, self.known[key], self.point.state.time[task] + steps)
            return
        # Nothing can be expanded at the environment's limit.
        self.stuck[task] = found.nodes[task] == 0
        self.stride[task] = -(-self.stride[task] // 2)
        self.plan[task] = []


def solve(
    search: Search,
    start: Start,
    codes: jax.Array,
    key: jax.Array,
    *,
    limit: int,
    nodes: int,
    planner: Planner | None = None,
    stride: int = 0,
    per_subgoal: int | None = None,
) -> Solved:
    """Searches for the solutions of E tasks, from subgoal to subgoal.

    A plan is what the planner's path passes every `stride` turns, and then the solved task. A
    search goes from the state that reached the last subgoal to the next one, with at most
    `per_subgoal` nodes. What it reaches is known from then on to all tasks: a search for the same
    subgoal from the same state is not begun, and while it is under way others wait for it. Where
    the nodes are spent, or no state is open, the task asks for a new plan from where it stands,
    with half the stride; at stride 1 the same subgoal is tried again, with other replies. A task
    ends when it is solved or its nodes are spent.

    Without a planner each search is for the solved task; one that ends before its nodes are spent
    begins again, with other replies.

    Args:
      search: `best_first.BestFirst`, compiled, with parameters.
      start: the tasks. codes: u32[E, 2], fingerprints of their states. key: randomness of replies.
      limit: steps of an episode. nodes: states that may be expanded for a task.
      planner: (points) -> see `ExpertPath`. stride: turns between two subgoals, at least 1 with
        a planner. per_subgoal: nodes of a search; by default all that are left.

    Raises:
      ValueError: an option outside its range.

    References:
      Xin et al. (2025), BFS-Prover-V2, https://arxiv.org/abs/2509.06493, from notes; no code: a
      planner splits the goal, provers work on subgoals, what is proven is shared, and a subgoal
      whose budget is spent asks for a new plan. There the subgoals of a task are proven side by
      side, as each may assume those before it; a state has to be reached first, so that here the
      searches that run side by side are those of different tasks. There the prover reads the
      subgoal; here it reads the state alone.
    """
    check_range("search nodes", nodes, 1)
    check_range("search per_subgoal", per_subgoal, 1)
    check_range("search stride", stride, 1 if planner is not None else 0)
    most = nodes if per_subgoal is None else per_subgoal
    work = _Work(start, np.asarray(codes), limit, stride)
    number = 0
    while True:
        going = np.flatnonzero(~work.solved & ~work.stuck & (work.nodes < nodes)).tolist()
        if not going:
            return Solved(work.solved, work.nodes, work.shared, work.plans)
        work.make_plans(going, planner)
        for task in going:
            work.share(task)
        # Of equal searches the first task's.
        wanted = {
            (work.code[task], work.plan[task][0]): task
            for task in reversed(going)
            if not work.solved[task]
        }
        budget, goal = np.zeros(len(codes), np.int32), np.zeros((len(codes), 2), np.uint32)
        for (_, subgoal), task in wanted.items():
            budget[task] = min(most, nodes - work.nodes[task])
            goal[task] = np.frombuffer(subgoal, np.uint32)
        found = jax.device_get(search(work.point, goal, budget, jax.random.fold_in(key, number)))
        for task in sorted(wanted.values()):
            work.search(task, found)
        number += 1


def solved_within(length: np.ndarray, success: np.ndarray, budget: int) -> np.ndarray:
    """Tasks that attempts one after the other solve within a budget of turns, bool[E].

    Args:
      length, success: [attempts, E], of each attempt. budget: turns in all; an attempt that ends
        later counts for nothing.
    """
    return np.any(success & (np.cumsum(length, axis=0) <= budget), axis=0)
