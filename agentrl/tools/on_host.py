"""An environment of pure tools as one in Python, turn for turn the same."""

import os
import random
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from agentrl.tools.calls import Form
from agentrl.tools.environment import Episode, Reward, ToolEnvironment
from agentrl.tools.function import Call, Result, Tool
from agentrl.tools.pure import Kind, PureTool
from agentrl.tools.pure_environment import PureToolEnvironment
from agentrl.tools.pure_wordings import NO_CALL, NO_RESULT, rules
from envs.hosted.worker import MARK

_MADE = ("ok", "failed")
_ANSWER = "answer"


def key_of(drawn: random.Random) -> jax.Array:
    """The key from which an episode with these random numbers draws its task."""
    return jax.random.key(drawn.getrandbits(31))


class OnHost(ToolEnvironment):
    """Plays an environment in the graph as `envs.hosted.worker` plays others, task by task.

        def make():
            return OnHost(PriceDesk())

        config.env = env_section("desk.py:make")

    The same replies get the same texts, rewards and ends. Tools get integers of Python and tasks of
    NumPy. The worker process uses the processor only.
    """

    def __init__(self, env: PureToolEnvironment):
        """env: its tools, tasks and reward are played."""
        if MARK in os.environ:  # the accelerator belongs to the process that started this one
            jax.config.update("jax_platforms", "cpu")
        env.check_ranges()
        self.env, draw = env, jax.jit(env.draw)
        self.commands = {
            command.lower().encode(): Call(tool.name, tool.values(number))
            for tool in env.tools
            for number, command in enumerate(tool.commands())
        }

        def question(drawn: random.Random) -> dict[str, Any]:
            task = jax.device_get(draw(key_of(drawn)))
            fields = {
                name: _written(np.reshape(getattr(task, name), -1), kinds)
                for name, kinds in env.shown.items()
            }
            return {"task": task, "prompt": env.prompt.format(**fields)}

        super().__init__(
            [_host_tool(tool) for tool in env.tools],
            question,
            Reward(self._score),
            form=Form(self._read, rules(env)),
            prompt=self._asked,
            every_turn=env.every_turn,
        )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As the base class; truncates at the limit of turns."""
        text, earned, terminated, _, info = super().step(action)
        over = not terminated and len(self.episode.turns) >= self.env.turns
        return text, earned, terminated, over, info

    def _read(self, text: str, tools) -> list[Call]:
        written = text.encode(errors="replace").strip(b" \t\n\r\x0b\x0c").lower()
        return [self.commands.get(written, Call("", None, NO_CALL))]

    def _results(self, calls: Sequence[Call]) -> list[Result]:
        """As the base class, within the limit of calls in all, in the words of the graph."""
        free = [name for name, tool in self.tools.items() if tool.ends]
        made = [r for turn in self.episode.turns for r in turn.results if r.status in _MADE]
        total = sum(result.call.name not in free for result in made)
        full = self.env.calls and total >= self.env.calls
        (call,) = calls
        if full and call.name in self.tools and call.name not in free:
            return [Result(call, NO_CALL, "refused")]
        (result,) = super()._results(calls)
        told = {"ok": result.text, "failed": NO_RESULT}
        return [result._replace(text=told.get(result.status, NO_CALL))]

    def _score(self, episode: Episode) -> float:
        made = [r.call.name for turn in episode.turns for r in turn.results if r.status in _MADE]
        counts = {name: np.int32(made.count(name)) for name in self.tools}
        answer = np.asarray(episode.state[_ANSWER], np.int32)
        return float(np.float32(self.env.reward(episode.task["task"], counts, answer)))

    def _asked(self, episode: Episode) -> str:
        """The prompt, and with `every_turn` the calls with their results."""
        said = [episode.task["prompt"]]
        for turn in episode.turns:
            (result,) = turn.results
            if result.status in _MADE:
                tool = next(tool for tool in self.env.tools if tool.name == result.call.name)
                number = tool.number([result.call.arguments[name] for name, _ in tool.arguments])
                said.append(tool.commands()[number])
            said.append(result.text)
        return "\n".join(said)


def _written(values: Sequence[Any], kinds: Sequence[Kind]) -> str:
    """Values as they are read, apart by spaces. ValueError: one is not in its range."""
    words = []
    for value, kind in zip(values, kinds, strict=True):
        place = int(value) - kind.first
        if not 0 <= place < len(kind.words):
            raise ValueError(f"{value} is out of range")
        words.append(kind.words[place])
    return " ".join(words)


def _host_tool(tool: PureTool) -> Tool:
    def run(episode: Episode, **arguments: int) -> str:
        out = np.asarray(tool.run(arguments, episode.task["task"]))
        said = _written(out.reshape(-1), tool.result)
        if tool.ends:
            episode.state[_ANSWER] = out
        return said

    return Tool(
        function=run,
        name=tool.name,
        description=tool.description,
        parameters={name: {"enum": [*kind.words]} for name, kind in tool.arguments},
        check=dict,  # what stands in a command is in its range
        takes_episode=True,
        ends=tool.ends,
        calls=tool.calls,
    )
