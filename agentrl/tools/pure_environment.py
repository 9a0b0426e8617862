"""An environment in the graph whose actions are calls of pure tools, and the last one an answer."""

import dataclasses
import functools
import string
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.tools.pure import MOST, Kind, PureTool, kinds_of
from envs.environment import Environment, EnvParams, EnvState

# What became of a turn.
NONE, OK, REFUSED, FAILED = range(4)
# Tasks on which the ranges of results are tried out.
_TRIED = 64


@struct.dataclass
class PureToolState(EnvState):
    """State of an episode.

    task: as drawn. made: i32[turns], the command of each turn, -1 for none. outcome: u8[turns],
    NONE, OK, REFUSED or FAILED. results: i32[turns, R], padded with 0. score: f32[], the reward of
    the answer. answered: bool[].
    """

    task: chex.ArrayTree
    made: jax.Array
    outcome: jax.Array
    results: jax.Array
    score: jax.Array
    answered: jax.Array


@dataclasses.dataclass(frozen=True)
class PureToolEnvironment(Environment):
    """Tasks that are solved by calls of pure tools, inside the compiled rollout.

    A subclass in a module of your own is named in the config:

        class Question(NamedTuple):
            prices: jax.Array
            item: Item
            count: Digit

        @dataclasses.dataclass(frozen=True)
        class PriceDesk(PureToolEnvironment):
            tools: ClassVar = (price, times, answer)
            prompt: ClassVar[str] = "{count} {item}?"

            def draw(self, key):
                ...
                return Question(prices, item, count)

            def reward(self, task, calls, answer):
                return answer == task.prices[task.item] * task.count

        config.env = env_section(PriceDesk)

    tools: made by `pure_tool`, with one or more that end. prompt: what the agent reads first, with
    fields of the task in braces, whose annotations state their ranges; the other fields are hidden.

    A reply is one command. The agent then reads its result; several values stand apart by spaces.
    What is no command, or a call beyond a tool's `calls` or the environment's, is illegal: it reads
    "error: no such call". A result outside its range is not shown: "error: no result". A tool with
    `ends` terminates the episode, which is scored; the limit of turns truncates it, unscored.
    Success: a reward of 1 or more. Observation: the numbers of what is read, float32.

    Expert: the first call of `solve` that was not made.

    turns: limit. calls: of tools that do not end, in an episode; 0: any number. every_turn: the
    agent reads the prompt and all calls with their results, for a context that shows nothing else;
    otherwise the prompt, then each turn the last result.

    `OnHost` plays the same subclass in Python.
    """

    turns: int = 8
    calls: int = 0
    every_turn: bool = False

    wordings: ClassVar[str] = "agentrl.tools.pure_wordings"
    costly_reset: ClassVar[bool] = False
    tools: ClassVar[tuple[PureTool, ...]]
    prompt: ClassVar[str]

    def __post_init__(self):
        self._check_tools()
        self._check_types()

    # Written by a subclass.

    def draw(self, key: jax.Array) -> Any:
        """A task: a NamedTuple of integers and arrays of integers."""
        raise self.undefined("draw")

    def reward(
        self, task: chex.ArrayTree, calls: Mapping[str, jax.Array], answer: jax.Array
    ) -> jax.Array:
        """The reward of an answer, f32[].

        calls: i32[] by name of a tool, how often it was called. answer: the result of the call that
        ended the episode, i32[] or i32[n].
        """
        raise self.undefined("reward")

    def solve(self, task: chex.ArrayTree) -> Sequence[tuple[PureTool, tuple[Any, ...]]]:
        """The expert's calls in order, (tool, arguments in the order of its form) each."""
        raise NotImplementedError(f"{self.name} has no expert")

    # What follows from it.

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """Number of the first command of each tool."""
        return tuple(np.cumsum([0, *(tool.size for tool in self.tools)])[:-1].tolist())

    @functools.cached_property
    def shown(self) -> dict[str, tuple[Kind, ...]]:
        """Ranges of the task's fields in the prompt, by name, in the order of their places."""
        task = jax.eval_shape(lambda: self.draw(jax.random.key(0)))
        hints = typing.get_type_hints(type(task), include_extras=True)
        names = [name for _, name, *_ in string.Formatter().parse(self.prompt) if name is not None]
        for name in names:
            if name not in hints:
                raise ValueError(
                    f"{self.name}: prompt {self.prompt!r}: the task has no field {name!r}; it has "
                    f"{', '.join(hints) or 'none, as it is no NamedTuple'}"
                )
        return {name: kinds_of(f"{self.name}: field {name}", hints[name]) for name in names}

    @property
    def width(self) -> int:
        """Most values of a result."""
        return max(len(tool.result) for tool in self.tools)

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(max_steps_in_episode=self.turns)

    @functools.cached_property
    def action_names(self) -> tuple[str, ...]:
        """All commands, tool by tool."""
        return tuple(command for tool in self.tools for command in tool.commands())

    def initial(self, key: jax.Array, params: EnvParams) -> PureToolState:
        return PureToolState(
            time=jnp.zeros((), jnp.int32),
            task=jax.tree.map(lambda x: jnp.asarray(x, jnp.int32), self.draw(key)),
            made=jnp.full(self.turns, -1, jnp.int32),
            outcome=jnp.zeros(self.turns, jnp.uint8),
            results=jnp.zeros((self.turns, self.width), jnp.int32),
            score=jnp.zeros((), jnp.float32),
            answered=jnp.zeros((), bool),
        )

    def called(self, state: PureToolState) -> dict[str, jax.Array]:
        """How often each tool was called, i32[] by name; illegal calls do not count."""
        counts = {}
        for tool, start in zip(self.tools, self.starts, strict=True):
            inside = (state.made >= start) & (state.made < start + tool.size)
            counts[tool.name] = jnp.sum(inside, dtype=jnp.int32)
        return counts

    def result(
        self, action: jax.Array, task: chex.ArrayTree
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(values i32[R], whether they are in range bool[], whether it ends bool[]) of a call."""
        values, fits, ends = jnp.zeros(self.width, jnp.int32), False, False
        for tool, start in zip(self.tools, self.starts, strict=True):
            inside = (action >= start) & (action < start + tool.size)
            number = jnp.clip(action - start, 0, tool.size - 1).astype(jnp.int32)
            out = jnp.asarray(tool.run(tool.values(number), task), jnp.int32).reshape(-1)
            least = np.array([kind.first for kind in tool.result])
            sizes = np.array([len(kind.words) for kind in tool.result])
            there = inside & jnp.all((out >= least) & (out < least + sizes))
            values = jnp.where(there, jnp.pad(out, (0, self.width - len(tool.result))), values)
            fits, ends = fits | there, ends | (there & tool.ends)
        return values, fits, ends

    def transition(
        self, key: jax.Array, state: PureToolState, action: jax.Array, params: EnvParams
    ) -> tuple[PureToolState, jax.Array]:
        values, fits, ends = self.result(action, state.task)
        now = np.arange(self.turns) == state.time
        state = state.replace(
            made=jnp.where(now, action, state.made),
            outcome=jnp.where(now, jnp.where(fits, OK, FAILED).astype(jnp.uint8), state.outcome),
            results=jnp.where(now[:, None], values, state.results),
        )
        last = next(tool for tool in self.tools if tool.ends)
        answer = values[: len(last.result)] if last.vector else values[0]
        score = self.reward(state.task, self.called(state), answer)
        score = jnp.where(ends, score, 0.0).astype(jnp.float32)
        return state.replace(score=score, answered=ends), score

    def rejected(self, state: PureToolState, params: EnvParams) -> PureToolState:
        """The turn is marked as refused."""
        now = np.arange(self.turns) == state.time
        return state.replace(outcome=jnp.where(now, np.uint8(REFUSED), state.outcome))

    def legal(self, state: PureToolState, params: EnvParams) -> jax.Array:
        """Calls within the limits; those that end always are."""
        called = self.called(state)
        total = sum(called[tool.name] for tool in self.tools if not tool.ends)
        legal = []
        for tool in self.tools:
            here = jnp.ones((), bool)
            if tool.calls is not None:
                here = here & (called[tool.name] < tool.calls)
            if self.calls and not tool.ends:
                here = here & (total < self.calls)
            legal.append(jnp.broadcast_to(here, (tool.size,)))
        return jnp.concatenate(legal)

    def observe(self, state: PureToolState, params: EnvParams) -> jax.Array:
        fields = [jnp.reshape(getattr(state.task, name), -1) for name in self.shown]
        turns = jnp.concatenate(
            [1 + state.made[:, None], state.outcome[:, None], state.results], axis=1
        )
        if not self.every_turn:
            last = np.arange(self.turns) == state.time - 1
            turns = jnp.sum(jnp.where(last[:, None], turns, 0), axis=0)
        return jnp.concatenate([*fields, turns.reshape(-1)]).astype(jnp.float32)

    def is_terminated(self, state: PureToolState, params: EnvParams) -> jax.Array:
        return state.answered

    def is_truncated(self, state: PureToolState, params: EnvParams) -> jax.Array:
        """At the limit of turns, which params cannot raise."""
        return super().is_truncated(state, params) | (state.time >= self.turns)

    def is_success(self, state: PureToolState, params: EnvParams) -> jax.Array:
        return state.answered & (state.score >= 1)

    def expert(self, state: PureToolState, params: EnvParams) -> jax.Array:
        """The first call of `solve` that was not made, else its last."""
        calls = self.solve(state.task)
        numbers = jnp.stack(
            [
                jnp.asarray(self.starts[self.tools.index(tool)] + tool.number(arguments))
                for tool, arguments in calls
            ]
        ).astype(jnp.int32)
        missing = ~jnp.any(numbers[:, None] == state.made, axis=1)
        return jnp.where(jnp.any(missing), numbers[jnp.argmax(missing)], numbers[-1])

    def render(self, state: PureToolState, params: EnvParams) -> str:
        """`price plum -> 5 | calc 8*5 -> 40`: the calls and what they gave."""
        said = []
        for made, outcome, row in zip(state.made, state.outcome, state.results, strict=True):
            if int(outcome) == REFUSED:
                said.append("illegal")
            elif int(outcome):
                tool = self.tools[np.searchsorted(self.starts, int(made), side="right") - 1]
                values = zip(tool.result, np.asarray(row).tolist(), strict=False)
                words = " ".join(kind.words[value - kind.first] for kind, value in values)
                shown = words if int(outcome) == OK else "no result"
                said.append(f"{self.action_names[int(made)]} -> {shown}")
        return " | ".join(said)

    # Checks, before anything compiles.

    def _check_tools(self) -> None:
        names = [tool.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: tools {', '.join(names)}: expected each name once")
        if len({(len(tool.result), tool.vector) for tool in self.tools if tool.ends}) != 1:
            raise ValueError(
                f"{self.name}: tools {', '.join(names)}: expected one with ends=True, or several "
                "whose results have as many values"
            )
        if self.turns < 1 or self.calls < 0:
            raise ValueError(
                f"{self.name}: turns={self.turns}, calls={self.calls}: expected 1 or more turns, "
                "and 0 (no limit) or more calls"
            )
        total = sum(tool.size for tool in self.tools)
        if total > MOST:
            raise ValueError(f"{self.name}: {total:,} commands: expected at most {MOST:,}")
        known = set()
        for command in map(str.lower, self.action_names):
            if command in known:
                raise ValueError(f"{self.name}: {command!r} is the command of two calls")
            known.add(command)

    def _check_types(self) -> None:
        task = jax.eval_shape(lambda: self.draw(jax.random.key(0)))
        if not hasattr(task, "_fields"):
            raise ValueError(f"{self.name}: draw gives no NamedTuple: expected one of integers")
        for name, field in task._asdict().items():
            if not jnp.issubdtype(field.dtype, jnp.integer):
                raise ValueError(
                    f"{self.name}: field {name} of the task is {field.dtype}: expected integers"
                )
        for name, kinds in self.shown.items():
            vector = getattr(task, name).ndim > 0
            _check_shape(f"{self.name}: field {name}", getattr(task, name), kinds, vector)
        for tool in self.tools:
            where = f"tool {tool.name}"
            out = _traced(where, tool.run, tool.values(np.int32(0)), task)
            _check_shape(f"{where}: result", out, tool.result, tool.vector)
        counts = {tool.name: np.int32(0) for tool in self.tools}
        last = next(tool for tool in self.tools if tool.ends)
        answer = np.zeros((len(last.result),) if last.vector else (), np.int32)
        score = _traced(f"{self.name}: reward", self.reward, task, counts, answer)
        if score.shape:
            raise ValueError(f"{self.name}: reward of shape {score.shape}: expected one number")

    def check_ranges(self) -> None:
        """Tries all commands on some tasks.

        Raises:
          ValueError: a result, or a field in the prompt, outside its range.
        """

        def tried(key):
            task, results = self.draw(key), {}
            for tool in self.tools:
                run = lambda given, t=tool: jnp.asarray(t.run(given, task)).reshape(-1)  # noqa: E731
                given = tool.values(jnp.arange(tool.size, dtype=jnp.int32))
                results[tool.name] = jax.vmap(run, axis_size=tool.size)(given)
            return {name: jnp.reshape(getattr(task, name), -1) for name in self.shown}, results

        with jax.ensure_compile_time_eval():
            keys = jax.random.split(jax.random.key(0), _TRIED)
            fields, results = jax.device_get(jax.jit(jax.vmap(tried))(keys))
        for name, kinds in self.shown.items():
            _check_range(f"{self.name}: field {name}", fields[name], kinds)
        for tool in self.tools:
            for at, command in enumerate(tool.commands()):
                where = f"tool {tool.name}: result of {command!r}"
                _check_range(where, results[tool.name][:, at], tool.result)


def _traced(where: str, function, *arguments) -> jax.ShapeDtypeStruct:
    """Shape and type of what a function gives."""
    try:
        return jax.eval_shape(lambda *given: jnp.asarray(function(*given)), *arguments)
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            f"{where}: not a function of arrays ({str(error).splitlines()[0]}): expected "
            "arithmetic, jax.numpy, and arrays of jax where arguments are indices"
        ) from None


def _check_shape(where: str, given, kinds: tuple[Kind, ...], vector: bool) -> None:
    shape = (len(kinds),) if vector else ()
    if given.shape != shape or given.dtype != bool and not jnp.issubdtype(given.dtype, jnp.integer):
        raise ValueError(
            f"{where} is {given.dtype}{[*given.shape]}: expected integers {[*shape]}, as its "
            "annotation says"
        )


def _check_range(where: str, values: np.ndarray, kinds: tuple[Kind, ...]) -> None:
    """Of values [n, len(kinds)]."""
    for column, kind in zip(values.T, kinds, strict=True):
        least, most = kind.first, kind.first + len(kind.words) - 1
        wrong = column[(column < least) | (column > most)]
        if wrong.size:
            raise ValueError(f"{where} is {wrong[0]}: expected {least} to {most}, its annotation")
