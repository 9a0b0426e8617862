"""Players by their names on a command line: scripted, checkpoints of runs, programs, servers."""

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import chex
import jax

import envs
from agentrl.actors.array import array_actor
from agentrl.actors.contexts import Context
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.text_source import text_agent
from agentrl.actors.types import Actor
from agentrl.checks import check_range
from agentrl.config.build import Experiment
from agentrl.config.tasks import Task, context_of
from agentrl.evaluation.conversation import Conversation
from agentrl.evaluation.host_conversation import HostConversation
from agentrl.players.asked import Asked, asked_actor
from agentrl.players.outside import outside
from agentrl.players.scripted import OUTSIDE, SCRIPTED, is_outside, scripted, translated
from agentrl.policies.protocol import EitherPolicy
from agentrl.rollout.host import processes
from agentrl.rollout.host_actors import host_text_actor, host_text_agent
from agentrl.rollout.host_turns import HostTurns
from agentrl.run import restored
from envs.environment import AnyEnvironment, Environment, EnvParams
from envs.vector import World

# Name of a person, where one may play: `seated`.
HUMAN = "human"

_RUN = re.compile(r"(?P<path>.+?)(@(?P<update>\d+))?(#(?P<seed>\d+|all))?")


@contextlib.contextmanager
def asked(
    names: Sequence[str], env: Environment, *, timeout_s: float
) -> Iterator[dict[str, Asked]]:
    """The programs and the servers among the names of players, started or found; they are ended, or
    left, with the context.

    timeout_s: seconds for each answer.

    Raises:
      ValueError: a program that does not start, no server, or a game without words.
    """
    check_range("timeout_s", timeout_s, 0, above=True, below=True)
    with contextlib.ExitStack() as stack:
        found: dict[str, Asked] = {}
        for name in dict.fromkeys(names):
            if is_outside(name):
                found[name] = stack.enter_context(outside(name, env, timeout_s=timeout_s))
        yield found


def named(
    names: Sequence[str],
    env: Environment,
    env_params: EnvParams,
    *,
    greedy: bool,
    started: Mapping[str, Asked] | None = None,
) -> dict[str, Actor]:
    """Players by name, in their order.

    A name is one of `agentrl.players.scripted`, or a run: DIR (its newest checkpoint and
    first seed), DIR@UPDATE, DIR#SEED, DIR@UPDATE#SEED; DIR#all for each of its seeds; or one of
    `started`.

    greedy: checkpoints take their most likely actions instead of sampling as in training. started:
    those of `asked`.

    Raises:
      ValueError: no such player, the same one twice, or a policy for other games or without the
        words. RunError,
      CheckpointError: a run that cannot be read.
    """
    found: dict[str, Actor] = {}
    for name in names:
        for called, player in _named(name, env, env_params, greedy, started or {}).items():
            if called in found:
                raise ValueError(f"player {called!r} is named twice")
            found[called] = player
    if not found:
        raise ValueError("no players; name some, for example random,expert")
    return found


def seated(
    names: Sequence[str],
    env: Environment,
    env_params: EnvParams,
    *,
    greedy: bool,
    started: Mapping[str, Asked] | None = None,
) -> list[tuple[str, Actor | None]]:
    """The player of each seat, for `agentrl.evaluation.terminal.play`: `HUMAN` or as in `named`.

    One player may have several seats; DIR#all is not allowed.

    Raises:
      ValueError: the numbers of players and seats differ; or as in `named`.
    """
    count = env.num_agents
    if len(names) != count:
        example = ",".join([HUMAN, *["random"] * (count - 1)])
        raise ValueError(
            f"--players={','.join(names)} in {env.name}, which has {count} "
            f"seat{'s' if count > 1 else ''}: name one player for each, for example {example}"
        )
    found = {}
    for name in dict.fromkeys(names):
        if name == HUMAN:
            found[name] = None
        elif name.endswith("#all"):
            raise ValueError(f"player {name!r} is several: name one of them, {name[:-3]}SEED")
        else:
            found |= _named(name, env, env_params, greedy, started or {}, (HUMAN, *SCRIPTED))
    return [(name, found[name]) for name in names]


def _named(
    name: str,
    env: Environment,
    env_params: EnvParams,
    greedy: bool,
    started: Mapping[str, Asked],
    known: Sequence[str] = SCRIPTED,
) -> dict[str, Actor]:
    if name in started:
        return {name: asked_actor(started[name], World(env, env_params))}
    kinds = {form.partition(":")[0] for form in SCRIPTED}
    if name.partition(":")[0] in kinds:
        return {name: scripted(name, env, env_params)}
    match = _RUN.fullmatch(name)
    if match is None or not pathlib.Path(match["path"]).is_dir():
        raise ValueError(
            f"there is no player {name!r}, and no such directory; expected one of "
            f"{', '.join(known)}, a run (DIR, DIR@UPDATE, DIR#SEED, DIR#all), "
            f"{', or '.join(OUTSIDE)}"
        )
    update = None if match["update"] is None else int(match["update"])
    run = restored.load(pathlib.Path(match["path"]), update)
    seeds = range(run.config.seed, run.config.seed + run.config.num_seeds)
    if match["seed"] == "all":
        stem = name.removesuffix("#all")
        return {f"{stem}#{s}": _of_run(name, run, s, env, env_params, greedy) for s in seeds}
    seed = seeds[0] if match["seed"] is None else int(match["seed"])
    if seed not in seeds:
        raise ValueError(f"player {name!r}: the run has seeds {seeds[0]} to {seeds[-1]}")
    return {name: _of_run(name, run, seed, env, env_params, greedy)}


def _of_run(
    name: str, run: restored.Run, seed: int, env: Environment, env_params: EnvParams, greedy: bool
) -> Actor:
    params = jax.tree.map(lambda x: x[seed - run.config.seed], run.state.params)
    context, world = context_of(run.config), World(env, env_params)
    if context is None:
        return _over_arrays(name, run, params, world, greedy)
    trained, policy = _as_trained(name, run.experiment, env)
    if trained.num_agents == 1:
        raise ValueError(
            f"player {name!r} reads whole conversations, not turns by themselves: use "
            f"launchers.play --run={name}"
        )
    # Text is a view: the policy reads the wording that it was trained on.
    return text_agent(policy, world._replace(env=trained), context).actor(params, greedy=greedy)


def _over_arrays(
    name: str, run: restored.Run, params: chex.ArrayTree, world: World, greedy: bool
) -> Actor:
    """A policy over arrays, in the game that it was trained in or in another form of it."""
    env, mask_illegal = world.env, run.config.rollout.get("mask_illegal", False)
    for task in run.experiment.tasks.values():
        form = env.form_of(task.env) if task.env != env else None
        if form is not None:
            player = array_actor(task.policy, params, greedy=greedy, mask_illegal=mask_illegal)
            return translated(player, form, World(task.env, task.env_params))
    _, policy = _as_trained(name, run.experiment, env)
    return array_actor(policy, params, greedy=greedy, mask_illegal=mask_illegal)


def _as_trained(
    name: str, experiment: Experiment, env: Environment
) -> tuple[AnyEnvironment, EitherPolicy]:
    """The game as one of the run's tasks, and the policy in it.

    A language policy may play games that it was not trained on, if it has the words.

    ValueError: another game, or the same with other rules; wordings may differ.
    """
    tasks = experiment.tasks.values()
    task = next((task for task in tasks if type(task.env) is type(env)), None)
    if task is None:
        try:
            return env, experiment.policy.elsewhere(env, [task.env.name for task in tasks])
        except ValueError as error:
            raise ValueError(f"player {name!r} in {env.name}: {error}") from None
    trained = task.env
    asked = envs.options_of(env) | {"wording": trained.wording}
    other = {k: v for k, v in envs.options_of(trained).items() if v != asked[k]}
    if other:
        shown = ", ".join(f"{key}={value!r}" for key, value in other.items())
        raise ValueError(f"player {name!r} was trained with {shown}; say so in --options")
    return trained, task.policy


def conversation_of(
    run: restored.Run, task: Task, seed: int, greedy: bool
) -> Conversation | HostConversation:
    """A conversation with the policy of a run's first seed in a task, as evaluation plays it.

    Raises:
      ValueError: a policy over arrays, or one that was trained inside of a program.
    """
    if task.policy.codec is None:
        raise ValueError(
            "the run's policy reads arrays and writes no text: use launchers.play, where it is a "
            "player (--env=... --players=DIR), or launchers.report"
        )
    if task.env.calls_model:
        raise ValueError(
            f"{task.env.name} calls the model itself, so there is nobody else to talk to it: use "
            "launchers.serve, and run the program with that server"
        )
    params = jax.tree.map(lambda x: x[0], run.state.params)
    return spoken_of(run, task).conversation(params, jax.random.key(seed + 1), greedy)


class Spoken(NamedTuple):
    """A run's language policy in a task. turns: of an episode. conversation: (params, key, greedy)
    -> one with it."""

    agent: TextAgent
    turns: int
    conversation: Callable[..., Conversation | HostConversation]


def spoken_of(run: restored.Run, task: Task) -> Spoken:
    """A run's language policy as the agent of a task."""
    context, rollout = context_of(run.config), task.rollout
    assert context is not None  # of every language policy
    turns = rollout.turns if "whole_episodes" in rollout.properties else None
    spoken = _in_graph if rollout.runner.traced else _in_processes
    return spoken(run, task, context, turns)


def _in_processes(run: restored.Run, task: Task, context: Context, turns: int | None) -> Spoken:
    host = processes(**run.config.host)
    turns = host.max_turns if turns is None else turns
    sizes = {"turns": turns, "observation_tokens": host.observation_tokens}
    text = host_text_agent(task.policy, task.env, context, **sizes, segments=False)

    def conversation(params, key, greedy):
        played = HostTurns(task.env, host_text_actor(text), host, length=turns)
        return HostConversation(played, params, key, greedy=greedy)

    return Spoken(text, turns, conversation)


def _in_graph(run: restored.Run, task: Task, context: Context, turns: int | None) -> Spoken:
    world = World(task.env, task.env_params)
    turns = int(task.env_params.max_steps_in_episode) if turns is None else turns
    text = text_agent(task.policy, world, context, turns=turns)

    def conversation(params, key, greedy):
        return Conversation(text, world, params, key, turns=turns, greedy=greedy)

    return Spoken(text, turns, conversation)
