"""Pure tools: the same episode in the graph and on the host, one program, and what is refused."""

import dataclasses
import functools
import random
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pure_desk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.tools import pure_tool
from agentrl.tools.on_host import OnHost, key_of
from agentrl.tools.pure_environment import PureToolEnvironment
from configs._shared import pure_price_desk
from envs.text import join, make_grammar, parse

SIZE = 24
DESKS = {
    "price": pure_price_desk.PriceDesk(),
    "cells": pure_desk.Desk(),
    "cells_in_full": pure_desk.Desk(every_turn=True),
    "out_of_range": pure_desk.Wide(small=False),
}


@functools.cache
def programs(name):
    """(host, reset of a key, turn of state and reply, how often the turn was traced)."""
    env, traced = DESKS[name], []
    params = env.default_params

    @jax.jit
    def reset(key):
        state = env.initial(key, params)
        return state, env.describe(state, params)

    @jax.jit
    def turn(state, reply, length):
        traced.append(1)
        slots = env.view.slots(state, params)
        action = parse(make_grammar("bare"), env.view, slots, reply, length).actions[0]
        _, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
        text, truncated = env.describe(state, params), env.is_truncated(state, params)
        return state, text, reward, terminated, truncated, info["valid"], info["success"]

    return OnHost(env), reset, turn, traced


def read(name, text):
    return join(DESKS[name].view.lexicon, np.asarray(text.fragments)[0])


@given(st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("name", DESKS)
def test_the_same_replies_make_the_same_episode_in_the_graph_and_on_the_host(name, data):
    env = DESKS[name]
    host, reset, turn, traced = programs(name)
    seed = data.draw(st.integers(0, 2**40))
    state, text = reset(key_of(random.Random(seed)))
    said, _ = host.reset(seed=seed)
    assert said == read(name, text)
    written = st.sampled_from(env.action_names)
    # Calls of tools oftener than answers; other cases, spaces; and what is no command.
    replies = st.one_of(
        st.sampled_from(env.action_names[: env.starts[-1]]),
        written,
        st.builds("{1}{0}{1}".format, written.map(str.swapcase), st.sampled_from(" \n\t")),
        st.builds("{}{}".format, written, st.sampled_from(["?", " 1", "\n2"])),
        st.text(max_size=5),
        st.sampled_from(["", "price", "price ", "price grape", "calc 12*3", "calc 1 * 2", "99"]),
    )
    for _ in range(env.turns):
        reply = data.draw(replies)
        raw = reply.encode(errors="replace")[:SIZE]
        out = turn(state, np.frombuffer(raw.ljust(SIZE, b"#"), np.uint8), np.int32(len(raw)))
        state, text, *told = jax.device_get(out)
        said, reward, terminated, truncated, info = host.step(raw.decode(errors="replace"))
        truncated_here = told[2] & ~told[1]
        assert (reward, terminated, truncated) == (told[0], told[1], truncated_here)
        assert (info["valid"], info.get("success", False)) == (told[3], told[4])
        if terminated or truncated:
            break
        assert said == read(name, text)
    assert len(traced) == 1
    ended = state.answered
    assert env.render(state, None).count("|") == len(host.episode.turns) - 1 or ended


def test_the_expert_makes_the_calls_of_solve():
    env = DESKS["price"]
    played = playing.episodes(env, env.default_params, 64, 3)
    assert played.info["success"][:, -1].all() and played.info["valid"].all()
    np.testing.assert_array_equal(played.last.made[:, -1], -1)


def test_a_turn_has_no_callback_of_the_host():
    env = DESKS["cells_in_full"]
    state = env.initial(jax.random.key(0), env.default_params)
    batch = jax.tree.map(lambda x: jnp.stack([x] * 4), state)
    step = jax.vmap(lambda s, a: env.step_env(jax.random.key(1), s, a, env.default_params))
    told = jax.make_jaxpr(lambda s, a: (step(s, a), jax.vmap(env.view.describe, (0, None))(s, 0)))
    assert "callback" not in str(told(batch, jnp.arange(4)))


class Task(NamedTuple):
    digit: Annotated[int, range(10)]


@pure_tool(ends=True)
def answer(digit: Annotated[int, range(10)]) -> Annotated[int, range(10)]:
    """Answers."""
    return digit


@dataclasses.dataclass(frozen=True)
class Toy(PureToolEnvironment):
    """Whose tools a test replaces."""

    tools: ClassVar = (answer,)
    prompt: ClassVar[str] = "{digit}"

    def draw(self, key):
        return Task(jax.random.randint(key, (), 0, 10))

    def reward(self, task, calls, answer):
        return answer == task.digit


def no_range(x: int) -> Annotated[int, range(3)]:
    """No range."""


def no_annotation(x) -> Annotated[int, range(3)]:
    """No annotation."""


def no_result(x: Literal["a"]):
    """No result."""


def steps(x: Annotated[int, range(0, 9, 2)]) -> Annotated[int, range(3)]:
    """Steps of two."""


def too_many(x: Annotated[int, range(1 << 20)]) -> Annotated[int, range(3)]:
    """A large range."""


def too_many_together(
    x: Annotated[int, range(200)], y: Annotated[int, range(200)]
) -> Annotated[int, range(3)]:
    """Large together."""


def spaces(x: Literal["a "]) -> Annotated[int, range(3)]:
    """White space."""


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (no_range, {}, r"tool no_range: parameter x: int: expected Annotated\[int, range\(10\)\]"),
        (no_annotation, {}, "tool no_annotation: parameter x: no annotation: expected"),
        (no_result, {}, "tool no_result: result: no annotation: expected"),
        (steps, {}, r"tool steps: parameter x: range\(0, 9, 2\): expected steps of 1"),
        (too_many, {}, r"range\(0, 1048576\): expected steps of 1, and 1 to 16,384 values"),
        (too_many_together, {}, "too_many_together: 40,000 commands: expected at most 16,384"),
        (spaces, {}, "expected words without white space around them"),
        (lambda: 0, {"name": "none"}, "tool none: no description; write a docstring"),
        (answer.function, {"form": "say {x}"}, "form 'say {x}': expected digit in braces"),
        (answer.function, {"ends": True, "calls": 2}, "calls=2: expected 1 or more, of a tool"),
    ],
)
def test_tools_that_state_no_range_are_refused(function, options, message):
    with pytest.raises(ValueError, match=message):
        pure_tool(function, **options)


Digit = Annotated[int, range(10)]
SQUARES = np.arange(10) ** 2


def halved(x: Digit) -> Digit:
    """A float."""
    return x / 2


def branching(x: Digit) -> Digit:
    """Python's if."""
    return 1 if x > 2 else 0


def indexing(x: Digit) -> Digit:
    """An array of the host."""
    return SQUARES[x]


def double(x: Digit) -> Digit:
    """Too large."""
    return 2 * x


def two(x: Digit) -> tuple[Digit, Digit]:
    """One in place of two."""
    return x


@pytest.mark.parametrize(
    ("tools", "options", "message"),
    [
        ([halved], {}, r"tool halved: result is float32\[\]: expected integers \[\]"),
        ([branching], {}, "tool branching: not a function of arrays .*: expected arithmetic"),
        ([indexing], {}, "tool indexing: not a function of arrays"),
        ([two], {}, r"tool two: result is int32\[\]: expected integers \[2\]"),
        ([double], {}, "tool double: result of 'double 5' is 10: expected 0 to 9, its annotation"),
        ([], {"prompt": "{digits}"}, "has no field 'digits'; it has digit"),
        ([], {"draw": lambda self, key: 3}, "Toy: draw gives no NamedTuple"),
        ([], {"draw": lambda self, key: Task(jnp.ones(()))}, "digit of the task is float32"),
        ([], {"draw": lambda self, key: Task(jnp.int32(10))}, "field digit is 10: expected 0 to 9"),
        ([], {"reward": lambda *_: jnp.ones(2)}, r"reward of shape \(2,\): expected one number"),
        ([answer], {}, "tools answer, answer: expected each name once"),
    ],
)
def test_what_is_no_environment_in_the_graph_is_refused_before_it_compiles(tools, options, message):
    made = [t if hasattr(t, "form") else pure_tool(t) for t in tools]
    kind = type("Toy", (Toy,), {"tools": (*made, answer), **options})
    with pytest.raises(ValueError, match=message):
        kind().view  # noqa: B018


def test_two_calls_of_one_command_are_refused():
    say = pure_tool(answer.function, name="say", form="answer {digit}", ends=True)
    kind = type("Toy", (Toy,), {"tools": (answer, say)})
    with pytest.raises(ValueError, match="'answer 0' is the command of two calls"):
        kind()
    with pytest.raises(ValueError, match="expected one with ends=True"):
        type("Toy", (Toy,), {"tools": (pure_tool(double),)})()
    with pytest.raises(ValueError, match="turns=0, calls=0: expected 1 or more turns"):
        Toy(turns=0)
