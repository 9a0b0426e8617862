"""Searches for solutions with a run's policy: with a planner, without, and by sampling."""

import functools
import json
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import ml_collections
import numpy as np

from agentrl.actors.types import Actor
from agentrl.checks import check_choice, check_range
from agentrl.config.tasks import Task, context_of
from agentrl.evaluation.best_first import Found, best_first, code_of
from agentrl.evaluation.planned import Planner, expert_path, solve, solved_within
from agentrl.evaluation.play import Outcomes
from agentrl.rollout.bound import bind
from agentrl.rollout.types import Start
from agentrl.rollout.unroll import fresh
from envs.vector import World


class SearchOptions(NamedTuple):
    """How a policy searches. nodes: states that may be expanded for a task. width: replies of an
    expansion. power: alpha, see `agentrl.evaluation.best_first`. per_subgoal: nodes of a search for
    a subgoal. stride: turns of the expert between two subgoals of the first plan."""

    nodes: int = 128
    width: int = 4
    power: float = 1.0
    per_subgoal: int = 16
    stride: int = 8


class Way(NamedTuple):
    """What one way of solving took, [E] each. replies: those that the policy was asked for, of the
    last attempt up to the budget. plans: of a planner, else zeros. shared: subgoals that another
    search had reached, in all."""

    solved: np.ndarray
    replies: np.ndarray
    plans: np.ndarray
    shared: int = 0

    def within(self, replies: int) -> np.ndarray:
        """Tasks that are solved with so many replies, bool[E]."""
        return self.solved & (self.replies <= replies)


class Searches(NamedTuple):
    """A task of a run and its programs: search for the end, and for subgoals; the planner; play of
    episodes; fingerprints of states. limit: steps of an episode."""

    task: Task
    options: SearchOptions
    limit: int
    whole: Callable[..., Found]
    part: Callable[..., Found]
    planner: Planner
    play: Callable[..., Outcomes]
    codes: Callable[[chex.ArrayTree], jax.Array]

    @property
    def replies(self) -> int:
        """Most replies per task."""
        return self.options.nodes * self.options.width

    def ways(
        self, params: chex.ArrayTree, keys: jax.Array, key: jax.Array, greedy: bool
    ) -> dict[str, Way]:
        """How many tasks each way solves within the same number of replies, nodes times width.

        Args:
          params: of one seed. keys: of the tasks [E]. key: randomness of replies.
          greedy: of sampling; then its attempts differ only by what the environment draws.

        Returns:
          "sampling": episodes one after the other, each from the start to its end. "search": best
          first for the solved task. "planner": from subgoal to subgoal.
        """
        world, options = World(self.task.env, self.task.env_params), self.options
        start = fresh(world, keys)
        start = Start(start.state, None if self.task.policy.reads_text else start.observation)
        codes, limit, nodes = self.codes(start.state), self.limit, options.nodes
        whole, part = (functools.partial(search, params) for search in (self.whole, self.part))
        found = {
            "search": solve(whole, start, codes, key, limit=limit, nodes=nodes),
            "planner": solve(
                part, start, codes, key, limit=limit, nodes=nodes, planner=self.planner,
                stride=options.stride, per_subgoal=options.per_subgoal,
            ),
        }  # fmt: skip
        ways = {
            name: Way(one.solved, one.nodes * options.width, one.plans, one.shared)
            for name, one in found.items()
        }
        return {"sampling": self._sampled(params, keys, key, greedy)} | ways

    def _sampled(
        self, params: chex.ArrayTree, keys: jax.Array, key: jax.Array, greedy: bool
    ) -> Way:
        """Attempts one after the other, until all are solved or no replies are left."""
        budget = self.replies
        lengths: list[np.ndarray] = []
        successes: list[np.ndarray] = []
        solved, spent = np.zeros(len(keys), bool), np.zeros(len(keys), int)
        while np.any(~solved & (spent < budget)):
            outcome = self.play(params, keys, jax.random.fold_in(key, len(lengths)), greedy)
            lengths.append(np.asarray(outcome.length))
            successes.append(np.asarray(outcome.success))
            spent = np.where(solved, spent, np.minimum(spent + lengths[-1], budget))
            solved = solved_within(np.stack(lengths), np.stack(successes), budget)
        return Way(solved, spent, np.zeros_like(spent))


def search_options(given: list[str]) -> SearchOptions:
    """Options from KEY=VALUE each. ValueError for another key or value."""
    options = SearchOptions()
    for item in given:
        name, _, text = item.partition("=")
        check_choice("--search", name, SearchOptions._fields)
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = None
        kind = int | float if name == "power" else int
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"--search={item}: expected a number, as in {name}=4")
        options = options._replace(**{name: value})
    for name in ("nodes", "width", "per_subgoal", "stride"):
        check_range(f"--search {name}", getattr(options, name), 1)
    return options


def _actor(config: ml_collections.ConfigDict, task: Task, params: chex.ArrayTree) -> Actor:
    """The task's policy, as its rollout has it."""
    context, mask = context_of(config), config.rollout.mask_illegal
    turns, env, env_params = task.rollout.turns, task.env, task.env_params
    bound = bind(task.policy, env, env_params, context, turns, mask_illegal=mask)
    return bound.actor(World(env, env_params), params)


def searches(config: ml_collections.ConfigDict, task: Task, options: SearchOptions) -> Searches:
    """The searches of a run's policy in one of its environments.

    Raises:
      ValueError: the environment cannot be searched or has no expert or no success, or the policy
        needs its earlier turns.
    """
    env = task.env
    if not env.has_success:
        raise ValueError(f"--search: {env.name} has no success, so nothing is a solution")
    world, actor = World(env, task.env_params), functools.partial(_actor, config, task)
    make = functools.partial(best_first, world, actor, width=options.width, power=options.power)
    whole, part = (
        jax.jit(make(nodes=nodes))
        for nodes in (options.nodes, min(options.per_subgoal, options.nodes))
    )
    planner = expert_path(world)
    return Searches(
        task=task,
        options=options,
        limit=planner.turns,
        whole=whole,
        part=part,
        planner=jax.jit(planner),
        play=jax.jit(task.evaluate, static_argnums=3),
        codes=jax.jit(functools.partial(code_of, world, of="state")),
    )
