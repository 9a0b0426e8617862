"""An environment in Python whose actions are calls of tools, and whose last action is an answer."""

import collections
import dataclasses
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.tools.calls import FORMATS, Form, described, responses
from agentrl.tools.function import Call, Result, Tool, run_all

Task = Mapping[str, Any]


class Turn(NamedTuple):
    """A reply and the results of its calls."""

    reply: str
    results: list[Result]


@dataclasses.dataclass
class Episode:
    """An episode, as tools, rewards and prompts see it.

    seed, task: which one. rng: for tools that draw; calls of one turn run at the same time. turns:
    so far. state: what tools keep, empty at the beginning. used: calls so far, by tool.
    final_response: the answer, or the result of the call that ended it.
    """

    seed: int
    task: Task
    rng: random.Random
    turns: list[Turn] = dataclasses.field(default_factory=list)
    state: dict[str, Any] = dataclasses.field(default_factory=dict)
    used: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    final_response: str = ""


@dataclasses.dataclass(frozen=True)
class Reward:
    """A function that scores an episode, with arguments by name; `reward` makes one."""

    function: Callable[..., Any]
    metrics: tuple[str, ...] = ()

    def __call__(self, episode: Episode) -> tuple[float, bool, dict[str, float]]:
        """(reward, success, metrics) of an episode that has ended."""
        there = {
            **episode.task,
            "final_response": episode.final_response,
            "turns": episode.turns,
            "episode": episode,
        }
        wanted = inspect.signature(self.function).parameters.values()
        missing = [p.name for p in wanted if p.default is p.empty and p.name not in there]
        if missing:
            raise ValueError(
                f"reward {self.function.__name__} wants {', '.join(missing)}: expected "
                f"{', '.join(there)}"
            )
        out = self.function(**{p.name: there[p.name] for p in wanted if p.name in there})
        told = dict(out) if isinstance(out, Mapping) else {"reward": out}
        value = float(told.pop("reward"))
        success = bool(told.pop("success", value >= 1))
        if told.keys() - set(self.metrics):
            raise ValueError(
                f"reward {self.function.__name__} gives {', '.join(told)}: name them in "
                "@reward(metrics=...)"
            )
        return value, success, {key: float(x) for key, x in told.items()}


def reward(function: Callable[..., Any] | None = None, *, metrics: Sequence[str] = ()) -> Any:
    """Makes a reward of a function, or is a decorator with these options.

        @reward(metrics=["letters"])
        def exact(final_response: str, answer: str):
            return {"reward": float(final_response == answer), "letters": len(final_response)}

    Its parameters are filled by name: `final_response`, `turns`, `episode`, and any field of the
    task. It returns a number, or "reward" with "success" (default: the reward is 1 or more) and
    metrics, whose names are declared.
    """
    if function is None:
        return lambda function: Reward(function, tuple(metrics))
    return Reward(function, tuple(metrics))


class ToolEnvironment:
    """Tasks that are solved by calls of tools, as `envs.hosted.worker` plays them.

    A file of your own makes one, and is named in the config:

        def make():
            return ToolEnvironment([price, calculator()], TASKS, exact)

        config.env = env_section("path/to/file.py:make")

    A reply with calls gets their results to read; calls of one turn run at the same time. A reply
    without a call is the answer: the episode terminates and is scored. It terminates, too, where a
    tool with `ends` succeeds, whatever else was called in that turn. Episodes that are cut by the
    limit of turns are not scored. An action is valid if none of its calls was refused or malformed.

    Metrics: calls, invalid_calls and failed_calls per turn (a time-out is a failure); answered, the
    share of the ended episodes that gave an answer; those of the reward.
    """

    has_success = True

    def __init__(
        self,
        tools: Sequence[Tool],
        tasks: Sequence[Task] | Callable[[random.Random], Task],
        reward: Reward,
        *,
        form: str | Form = "tagged",
        prompt: Callable[[Episode], str] | None = None,
        every_turn: bool = False,
        calls_per_turn: int = 8,
    ):
        """tasks: with a text "prompt" and fields for tools and reward; a list, or drawn.

        Args:
          form: how calls are written, one of `agentrl.tools.calls.FORMATS`, or one of your own.
          prompt: writes what the agent reads first; default: the tools, then the task's prompt.
          every_turn: `prompt` writes all of what the agent reads in every turn, for a context that
            shows nothing else (`contexts.window(history=0)`); else it reads the results.
          calls_per_turn: those beyond are refused.

        Raises:
          ValueError: no tasks, tools of the same name, or an unknown form.
        """
        names = [tool.name for tool in tools]
        if isinstance(form, str) and form not in FORMATS:
            raise ValueError(f"form={form!r}: expected one of {', '.join(FORMATS)}")
        if len(set(names)) < len(names):
            raise ValueError(f"tools {', '.join(names)}: expected each name once")
        if not callable(tasks) and not tasks:
            raise ValueError("tasks: expected one or more")
        self.tools, self.tasks, self.reward = dict(zip(names, tools, strict=True)), tasks, reward
        self.form = FORMATS[form] if isinstance(form, str) else form
        self.prompt, self.every_turn = prompt or self._prompt, every_turn
        self.calls_per_turn = calls_per_turn
        self.episode = Episode(0, {}, random.Random(0))
        self.metrics = ("calls", "invalid_calls", "failed_calls", "answered", *reward.metrics)

    def reset(self, *, seed: int) -> tuple[str, dict[str, Any]]:
        """The task of a seed, as the agent reads it."""
        drawn = random.Random(seed)
        task = self.tasks(drawn) if callable(self.tasks) else drawn.choice(self.tasks)
        self.episode = Episode(seed, task, drawn)
        return self.prompt(self.episode), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Runs the calls of a reply, or takes it for the answer."""
        episode = self.episode
        calls = self.form.read(action, self.tools)
        if not calls:
            return self._end(action.strip(), 0.0, {"answered": 1.0}, valid=True)
        results = self._results(calls)
        episode.turns.append(Turn(action, results))
        episode.used.update(result.call.name for result in results)
        counted = collections.Counter(result.status for result in results)
        told = {
            "calls": float(len(results)),
            "invalid_calls": float(counted["invalid"] + counted["refused"]),
            "failed_calls": float(counted["failed"] + counted["timeout"]),
        }
        valid, earned = not told["invalid_calls"], sum(result.reward for result in results)
        ending = [result for result in results if result.ends]
        if ending:
            return self._end(ending[0].text, earned, told | {"answered": 0.0}, valid=valid)
        text = self.prompt(episode) if self.every_turn else responses(results, self.form)
        return text, earned, False, False, {"valid": valid, "metrics": told}

    def _results(self, calls: Sequence[Call]) -> list[Result]:
        some, beyond = calls[: self.calls_per_turn], calls[self.calls_per_turn :]
        left = {
            name: max(0, tool.calls - self.episode.used[name])
            for name, tool in self.tools.items()
            if tool.calls is not None
        }
        text = f"error: a turn has {self.calls_per_turn} calls at most"
        refused = [Result(call, text, "refused") for call in beyond]
        return run_all(self.tools, some, left, self.episode) + refused

    def _end(self, response: str, earned: float, told: dict[str, float], *, valid: bool):
        self.episode.final_response = response
        value, success, more = self.reward(self.episode)
        info = {"valid": valid, "success": success, "metrics": told | more}
        return "", earned + value, True, False, info

    def _prompt(self, episode: Episode) -> str:
        """The tools, the task, and with `every_turn` what was called so far."""
        said = [described([*self.tools.values()], self.form), str(episode.task["prompt"])]
        for turn in episode.turns:
            said += [turn.reply, responses(turn.results, self.form)]
        return "\n".join(said)


def demonstrations(
    env: ToolEnvironment, solve: Callable[[Episode, str], str], seeds: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Episodes that a function plays, as trajectories of the Agent Data Protocol.

    solve: (episode, text that was read) -> reply. What it needs to remember stands in
    `episode.turns`.
    """
    for seed in seeds:
        text, _ = env.reset(seed=seed)
        content, ended = [], False
        while not ended:
            reply = solve(env.episode, text)
            content += [
                {"class_": "text_observation", "content": text, "source": "environment"},
                {"class_": "message_action", "content": reply},
            ]
            text, _, terminated, truncated, _ = env.step(reply)
            ended = terminated or truncated
        yield {"id": f"demonstration_{seed}", "content": content, "details": {}}
