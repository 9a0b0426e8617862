"""A config, bound to functions: the experiment that a run executes."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import ml_collections

from agentrl.config import refused, requirements
from agentrl.config.base import check, warm_start
from agentrl.config.bind import bind
from agentrl.config.components import make_components, selection_of
from agentrl.config.environments import environments
from agentrl.config.learning import learner_of, supervised
from agentrl.config.tasks import Task, context_of, make_policy, make_task
from agentrl.config.trajectories import writing_of
from agentrl.learner.component import Component, InitInputs, Setup
from agentrl.learner.components.population import Selection
from agentrl.learner.learner import Learner
from agentrl.learner.optimizer import check_options
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import Phase, Train, make_train, next_batches
from agentrl.learner.update import Batch
from agentrl.policies.protocol import EitherPolicy
from agentrl.policies.scoring import split
from agentrl.rollout import Rollout, several
from agentrl.rollout.runner import only_seed
from envs.environment import AnyEnvironment


class Experiment(NamedTuple):
    """A config, bound to functions.

    tasks: what is trained on, by name. rollout: of all of them. components: by name.
    selection: of the seeds as members of a population, or None.
    phases: the updates of the run, each with the program (TrainState) -> (TrainState, metrics) of
      `log_every` updates; metrics are totals and weights f32[2] by name.
    batches: (TrainState) -> {source: Batch}, what the next update learns from.
    """

    config: ml_collections.ConfigDict
    tasks: dict[str, Task]
    rollout: Rollout
    components: Mapping[str, Component]
    selection: Selection | None
    phases: tuple[tuple[Phase, Train], ...]
    batches: Callable[[TrainState], dict[str, Batch]]

    def init(self, seed: jax.Array) -> TrainState:
        """The state before the first update, of a seed i32[]."""
        param_key, rollout_key, carry_key, key = jax.random.split(jax.random.key(seed), 4)
        params = self.policy.init(param_key)
        trained, _ = split(params, self.policy.frozen)
        zero = jnp.zeros((), jnp.int32)
        return TrainState(
            params=params,
            opt_state=self.phases[0][0].learner.optimizer.init(trained),
            rollout=self.rollout.init(rollout_key),
            key=key,
            update=zero,
            carry=_carry(self.components, InitInputs(trained, carry_key, seed, zero)),
        )

    def restart(self, state: TrainState) -> TrainState:
        """Between two phases: a fresh optimizer, and components that begin from the parameters."""
        trained, _ = split(state.params, self.policy.frozen)
        key, carry_key = jax.random.split(state.key)
        start = InitInputs(trained, carry_key, jnp.zeros((), jnp.int32), state.update)
        again = {name: part for name, part in self.components.items() if part.restarts}
        return state.replace(
            opt_state=self.phases[-1][0].learner.optimizer.init(trained),
            key=key,
            carry=state.carry | _carry(again, start),
        )

    @property
    def env(self) -> AnyEnvironment:
        """The environment of the first of `tasks`; of most configs the only one."""
        return self._first.env

    @property
    def env_params(self) -> chex.ArrayTree:
        """The parameters of `env`, as `envs.make` returns them."""
        return self._first.env_params

    @property
    def policy(self) -> EitherPolicy:
        """The policy, as it acts in the first task."""
        return self._first.policy

    @property
    def _first(self) -> Task:
        return next(iter(self.tasks.values()))

    @property
    def maybe_jit(self) -> Callable[..., Callable]:
        """`jax.jit`, or nothing where collecting is Python that runs programs of its own."""
        return self.rollout.runner.compiled

    @property
    def over_seeds(self) -> Callable[[Callable], Callable]:
        """How a function of one seed that collects becomes one of all seeds; one is not mapped."""
        return only_seed if self.config.num_seeds == 1 else self.rollout.runner.over_seeds


def build(config: ml_collections.ConfigDict) -> Experiment:
    """Binds a config. ValueError, with the remedy, for anything that cannot be run as it says."""
    check(config)
    made = environments(config.env)
    policy = make_policy(config, made)
    tasks = {
        name: make_task(config, policy, name, env, env_params)
        for name, (env, env_params) in made.items()
    }
    rollout = next(iter(tasks.values())).rollout
    if not isinstance(config.env.name, str):
        rollout = several({name: task.rollout for name, task in tasks.items()})
        # Rows of each environment have an opening of their own.
        tasks = {
            name: task._replace(policy=task.policy.among_several()) for name, task in tasks.items()
        }
    policy = next(iter(tasks.values())).policy
    warm = bind("warm_start", warm_start, config.warm_start)
    check_options("config.warm_start", warm)
    requirements.check_batch(config, rollout)
    refused.check_environment(config, next(iter(made.values()))[0], learning=True)
    updates = (warm["updates"], config.updates)
    learner = learner_of(config, policy, rollout, updates)
    setup = Setup(
        envs=made,
        policy=policy,
        rollout=rollout,
        seed=config.seed,
        num_seeds=config.num_seeds,
        updates=updates,
        log_every=config.log_every,
        microbatch=learner.options.pass_rows,
        lengths=learner.options.lengths,
        reads=requirements.names_read(learner.terms, learner.recipe),
        context=context_of(config),
    )
    selection = selection_of(config, setup, learner)
    components = make_components(config, setup, learner, selection)
    requirements.check_names(config, setup, learner, components)
    phases = _phases(config, setup, learner, components, warm["learning_rate"])
    experiment = Experiment(
        config=config,
        tasks=tasks,
        rollout=rollout,
        components=components,
        selection=selection,
        phases=tuple((phase, make_train(setup, phase)) for phase in phases),
        batches=functools.partial(next_batches, setup, phases[-1]),
    )
    requirements.check_traced(config, experiment)
    writing_of(config, experiment)
    return experiment


def _phases(
    config: ml_collections.ConfigDict,
    setup: Setup,
    learner: Learner,
    components: Mapping[str, Component],
    warm_rate: float,
) -> list[Phase]:
    """The warm start, if there is one, and reinforcement learning."""
    first, end = setup.updates
    annotations = requirements.annotations_of(config)
    phases = []
    for name, span in (("warm_start", (0, first)), ("rl", (first, end))):
        if span[0] == span[1] and (name == "warm_start" or first):
            continue
        here = {key: term for key, term in learner.terms.items() if term.during in (name, "both")}
        if not here:
            raise ValueError(
                f"config.objective has no term for the updates {span[0]} to {span[1]} "
                f"(during={name!r}): add one, or change config.warm_start.updates"
            )
        warm = name == "warm_start"
        taking_part = {
            key: component
            for key, component in components.items()
            if not warm or component.in_warm_start
        }
        sources = _in_order({term.source for term in here.values()}, components)
        # Of those that terms read it of, and of what filters choose from.
        filtered = {"rollout"} if config.filters and not warm else set()
        credited = frozenset(
            term.source
            for term in here.values()
            if term.reads & {"advantage", "target"} or term.source in filtered
        )
        phase = Phase(
            name=name,
            first=span[0],
            end=span[1],
            learner=(supervised(learner, first, warm_rate) if warm else learner)._replace(
                terms=here
            ),
            sources=sources,
            credited=credited,
            reads={
                source: requirements.names_read(
                    {key: term for key, term in here.items() if term.source == source},
                    learner.recipe if source in credited else None,
                )
                for source in sources
            },
            annotations={} if warm else annotations,
            components=taking_part,
        )
        phases.append(phase)
    return phases


def _in_order(sources: set[str], components: Mapping[str, Component]) -> tuple[str, ...]:
    """The sources and those that they are made from, each after those; "rollout" first.

    ValueError: a component reads a source that there is not, or one that is made from it.
    """
    order: list[str] = []

    def add(name: str, readers: tuple[str, ...]) -> None:
        part = components.get(name)
        there = name in ("rollout", "expert") or (part is not None and part.source is not None)
        if readers and (not there or name in readers):  # those of terms are checked by themselves
            known = [key for key, one in components.items() if one.source is not None]
            raise ValueError(
                f"config.components.{readers[-1]}: reads source {name!r}; expected 'rollout' or a "
                f"component that is a source and not made from it ({', '.join(known)})"
            )
        if part is not None and part.source is not None:
            for other in sorted(part.source.reads):
                if other not in order:
                    add(other, (*readers, name))
        if name not in order:
            order.append(name)

    for name in sorted(sources):
        add(name, ())
    return tuple(sorted(order, key=lambda name: name != "rollout"))


def _carry(components: Mapping[str, Component], start: InitInputs) -> dict[str, Any]:
    keys = jax.random.split(start.key, max(len(components), 1))
    return {
        name: component.init(start._replace(key=key))
        for key, (name, component) in zip(keys, components.items(), strict=False)
    }
