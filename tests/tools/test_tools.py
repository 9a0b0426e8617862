"""Tools: schemas, arguments, formats of calls, limits; and the environment that calls them."""

import asyncio
import io
import json
import pathlib
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Annotated, Literal

import pydantic
import pytest
import tool_desk
from hypothesis import given
from hypothesis import strategies as st

import envs
from agentrl.tools import ToolEnvironment, calculator, reward, search, table, tool
from agentrl.tools.calls import FORMATS
from agentrl.tools.environment import Episode
from agentrl.tools.function import Call, run_all, shortened
from agentrl.tools.library import arithmetic

DESK = str(pathlib.Path(tool_desk.__file__).resolve())


@tool
def book(
    seats: int, row: Literal["front", "back"], names: list[str], price: float | None = None
) -> str:
    """Books seats.

    Args:
      seats: how many.
      names: whose they are.
    """
    return f"{seats} {row} {len(names)} {price}"


def test_the_schema_is_that_of_signature_and_docstring():
    assert book.schema == {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Books seats.",
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "required": ["seats", "row", "names"],
                "properties": {
                    "seats": {"type": "integer", "description": "how many."},
                    "row": {"type": "string", "enum": ["front", "back"]},
                    "names": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "whose they are.",
                    },
                    "price": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
                },
            },
        },
    }
    # The episode is given by the environment.
    assert list(tool_desk.price.parameters["properties"]) == ["item"]


def unannotated(x):
    """A parameter without a type."""


def many(*items: str):
    """Parameters without names."""


def undescribed(x: int):
    return x


def named(**items: str):
    """Any names."""


def by_place(x: int, /):
    """No name."""


def hidden(_x: int):
    """A name that begins with a line."""


def not_there(x: "Missing"):  # noqa: F821
    """A type that nobody knows."""


def broken(x: "int |"):  # noqa: F722
    """No type."""


def a_module(x: random):  # type: ignore[valid-type]
    """No type either."""


def of_python(x: threading.Lock):  # type: ignore[valid-type]
    """A type that JSON does not have."""


def a_function(x: Callable[[int], int]):
    """JSON has no functions."""


def a_file(x: list[io.StringIO]):
    """JSON has no files."""


def none_of_it(x: int = "many"):  # type: ignore[assignment]
    """A default of another type."""


def no_choice(row: Literal["front", "back"] = "middle"):  # type: ignore[assignment]
    """A default that is no choice."""


def below(count: Annotated[int, pydantic.Field(ge=1)] = 0):
    """A default below its bound."""


def misspelt(seats: int):
    """A slip in its description.

    Args:
      seat: how many.
    """


UNREADABLE = "an annotation that is no type"
WRONG = [
    (unannotated, {}, "parameter x: expected a name and an annotation"),
    (many, {}, r"parameter \*items: str: expected a name"),
    (named, {}, r"parameter \*\*items: str: expected a name"),
    (by_place, {}, "parameter x: int: expected a name"),
    (hidden, {}, "parameter _x: int: expected a name"),
    (undescribed, {}, "no description; write a docstring"),
    (not_there, {}, UNREADABLE),
    (broken, {}, UNREADABLE),
    (a_module, {}, "expected a type that JSON has|an annotation that is no type"),
    (of_python, {}, "parameter x: .*expected a type that JSON has|an annotation that is no type"),
    (a_function, {}, "parameter x: .*expected a type that JSON has"),
    (a_file, {}, "parameter x: .*expected a type that JSON has"),
    (none_of_it, {}, "parameter x: default 'many': Input should be a valid integer"),
    (no_choice, {}, "parameter row: default 'middle': Input should be 'front' or 'back'"),
    (below, {}, "parameter count: default 0: Input should be greater than or equal to 1"),
    (misspelt, {}, "its docstring describes 'seat', which is no parameter"),
    (3, {}, "3: expected a function"),
    ("price", {}, "'price': expected a function"),
    (lambda: 0, {"description": "x"}, "tool <lambda>: expected a name of 1 to 64 letters"),
    (book.function, {"name": "book seats"}, "tool book seats: expected a name"),
    (book.function, {"name": "x" * 65}, "expected a name of 1 to 64"),
    (book.function, {"name": "böök"}, "expected a name of 1 to 64"),
    (book.function, {"longest": 0}, "longest=0: expected at least 1"),
    (book.function, {"keep": "middle"}, "keep='middle': expected one of"),
    (book.function, {"timeout_s": 0}, "timeout_s=0: expected"),
    (book.function, {"timeout_s": -1.0}, "timeout_s=-1.0: expected"),
    (book.function, {"timeout_s": float("nan")}, "timeout_s=nan: expected"),
    (book.function, {"retries": -1}, "retries=-1: expected at least 0"),
    (book.function, {"calls": 0}, "calls=0: expected at least 1"),
]


@pytest.mark.parametrize(("function", "options", "message"), WRONG)
def test_wrong_definitions(function, options, message):
    """Each is one line that names the tool and what is wrong with it."""
    with pytest.raises(ValueError, match=message) as error:
        tool(function, **options)
    assert str(error.value).startswith("tool") and "\n" not in str(error.value)


@pytest.mark.parametrize("package", ["pydantic", "docstring_parser", "bm25s"])
def test_a_missing_package_is_named_with_what_to_install(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"need the package {package} .*'agentrl\[tools\]'"):
        tool(undescribed, description="x")
        search(["a"])


RIGHT = {"seats": 2, "row": "back", "names": ["a"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "seats: Field required; row: Field required; names: Field required"),
        (RIGHT | {"seats": "two"}, "seats: Input should be a valid integer"),
        (RIGHT | {"seats": 1.5}, "seats: Input should be a valid integer"),
        (RIGHT | {"seats": None}, "seats: Input should be a valid integer"),
        (RIGHT | {"row": "middle"}, "row: Input should be 'front' or 'back'"),
        (RIGHT | {"names": "a"}, "names: Input should be a valid list"),
        (RIGHT | {"names": [1]}, "names.0: Input should be a valid string"),
        (RIGHT | {"price": "cheap"}, "price: Input should be a valid number"),
        (RIGHT | {"colour": "red"}, "colour: Extra inputs are not permitted"),
        (RIGHT | {"episode": {}}, "episode: Extra inputs are not permitted"),
    ],
)
def test_wrong_arguments_are_told_to_the_agent(arguments, message):
    result = book.run(Call("book", arguments))
    assert result.status == "invalid"
    assert result.text.startswith(f"error: book: {message}") and "\n" not in result.text


def test_right_arguments_reach_the_function():
    assert book.run(Call("book", RIGHT | {"seats": "2"})).text == "2 back 1 None"
    assert book(seats=1, row="front", names=[]) == "1 front 0 None"
    with pytest.raises(TypeError):
        book(1, "front", [])


@given(st.text(max_size=60), st.integers(5, 50), st.sampled_from(["head", "tail", "both"]))
def test_results_are_cut_within_their_limit(text, longest, keep):
    out = shortened(text, longest, keep)
    assert len(out) <= longest and (out == text) == (len(text) <= longest)
    if len(text) > longest:
        head, tail = out.split(" ... ", 1) if " ... " not in text else (out[:0], out[:0])
        assert text.startswith(head) and text.endswith(tail)
        assert keep == "both" or not (tail if keep == "head" else head)


def test_which_end_of_a_result_is_kept():
    digits = "0123456789" * 3
    assert shortened(digits, 9, "head") == "0123 ... "
    assert shortened(digits, 9, "tail") == " ... 6789"
    assert shortened(digits, 9, "both") == "01 ... 89"


def test_a_call_has_a_limit_of_time_and_further_attempts():
    attempts = []

    @tool(retries=2)
    def flaky() -> str:
        """Fails twice."""
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("not yet")
        return "now"

    @tool
    async def later(x: int) -> dict:
        """Async, and no text."""
        await asyncio.sleep(0)
        return {"x": x}

    assert flaky.run(Call("flaky", {})).text == "now" and len(attempts) == 3
    attempts[:] = [1] * -9
    failed = tool(flaky.function, name="once").run(Call("once", {}))
    assert (failed.status, failed.text) == ("failed", "error: once: OSError: not yet")
    assert json.loads(later.run(Call("later", {"x": 3})).text) == {"x": 3}
    late = tool_desk.slow.run(Call("slow", {"seconds": 5}))
    assert (late.status, late.text) == ("timeout", "error: slow: no answer in 0.2 s")


def test_calls_of_a_turn_run_at_the_same_time_and_answer_in_order():
    @tool
    def wait(seconds: float) -> str:
        """Waits."""
        time.sleep(seconds)
        return f"{seconds}"

    calls = [Call("wait", {"seconds": s}) for s in (0.3, 0.1, 0.2)] + [Call("fly", {})]
    before = time.monotonic()
    results = run_all({"wait": wait}, calls, {"wait": 2})
    assert time.monotonic() - before < 0.55
    assert [r.status for r in results] == ["ok", "ok", "refused", "invalid"]
    assert [r.text for r in results] == [
        "0.3",
        "0.1",
        "error: wait: no call of it is left in this episode",
        "error: there is no tool 'fly'; there are wait",
    ]


TOOLS = {t.name: t for t in (book, tool_desk.price, tool_desk.submit, tool_desk.slow)}


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("tagged", "7", []),
        ("tagged", 'so <tool_call>{"name": "price"}</tool_call>', [("price", {})]),
        (
            "tagged",
            '<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call> and '
            '<tool_call>{"name": "b", "arguments": {}}</tool_call>',
            [("a", {"x": 1}), ("b", {})],
        ),
        ("tagged", '<tool_call>{"name": "a"}', [("a", {})]),
        ("tagged", "<tool_call>price(3)</tool_call>", "a call is no JSON (Expecting value"),
        ("tagged", '<tool_call>["a"]</tool_call>', 'a call is {"name": a text'),
        ("tagged", '<tool_call>{"name": 3}</tool_call>', 'a call is {"name": a text'),
        ("tagged", '<tool_call>"price"</tool_call>', "a call is no JSON (it is a text)"),
        (
            "tagged",
            '<tool_call>{"name": "a", "arguments": "{}"}</tool_call>',
            "the arguments of a are no JSON object",
        ),
        ("lines", "it costs 3", []),
        ("lines", "price: pear", [("price", {"item": "pear"})]),
        (
            "lines",
            "price pear tree\nsubmit 4",
            [("price", {"item": "pear tree"}), ("submit", {"answer": "4"})],
        ),
        ("lines", 'price {"item": "pear"}', [("price", {"item": "pear"})]),
        ("lines", "price", [("price", {"item": ""})]),
        ("lines", "prices: 3", []),
        ("lines", "book: 3", "the arguments of book are no JSON object"),
        ("lines", "slow: {1}", "the arguments of slow are no JSON object"),
    ],
)
def test_calls_are_read_from_replies(form, text, expected):
    calls = FORMATS[form][0](text, TOOLS)
    if isinstance(expected, str):
        assert calls[0].arguments is None and calls[0].error.startswith(expected)
    else:
        assert [(call.name, call.arguments) for call in calls] == expected


@given(st.text(max_size=80), st.sampled_from(list(FORMATS)))
def test_any_reply_is_read(text, form):
    for reply in (text, f"<tool_call>{text}</tool_call>", f"price {text}"):
        for call in FORMATS[form][0](reply, TOOLS):
            assert isinstance(call.name, str) and (call.arguments is None) == bool(call.error)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 * (4 + 5)", 27),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 4", 6),
        ("2 ** 0.5", 2**0.5),
        (" 1e3 ", 1000),
    ],
)
def test_arithmetic(expression, value):
    assert arithmetic(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "1 / 0",
        "10 ** 1000",
        "9 ** 9 ** 9",
        "(-8) ** 0.5",
        "'a' * 3",
        "abs(-1)",
        "x",
        "1e400",
    ]
    + [
        "__import__('os')",
        "(" * 500,
        "1e99 * 1e99",
        "True + 1",
        "[1][0]",
        "0 ** -1",
        "1 if 1 else 2",
    ],
)
def test_what_is_no_arithmetic_is_an_error(expression):
    with pytest.raises(ValueError, match="arithmetic|zero|large|expected numbers|fraction"):
        arithmetic(expression)


def test_search_finds_what_has_the_words_of_a_query():
    find = search(["the red fox runs", "a blue whale swims", "red apples are sweet"], count=2)
    assert find(query="red sweet fruit").splitlines() == [
        "red apples are sweet",
        "the red fox runs",
    ]
    assert find(query="zebra") == find(query="") == "nothing found"
    with pytest.raises(ValueError, match="one document or more"):
        search([])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select price from prices where item = 'pear'", "price\n4"),
        ("select * from prices order by price desc limit 1", "item | price\nplum | 7"),
        ("drop table prices", "not authorized"),
        ("insert into prices values ('a', 1)", "not authorized"),
        ("attach database '/tmp/agentrl_left' as x", "not authorized"),
        ("vacuum into '/tmp/agentrl_left'", "authorization denied"),
        ("pragma writable_schema = 1", "not authorized"),
        ("select load_extension('x')", "not authorized"),
        ("select 1; select 2", "one statement"),
        ("select zeroblob(100000000)", "too big"),
        ("with recursive c(x) as (select 1 union all select x + 1 from c) select sum(x) from c",
         "interrupted"),
        ("selec", "syntax error"),
    ],
)  # fmt: skip
def test_a_table_answers_queries_that_read(query, expected):
    rows = [{"item": item, "price": cost} for item, cost in tool_desk.ITEMS.items()]
    text = table({"prices": rows}).run(Call("sql", {"query": query})).text
    assert text == expected or (expected in text and text.startswith("error: sql: "))


def test_wrong_tables():
    with pytest.raises(ValueError, match="table 'a' has no rows"):
        table({"a": []})
    with pytest.raises(ValueError, match="table 'a', row 1: columns y, expected x"):
        table({"a": [{"x": 1}, {"y": 1}]})


def play(env, *replies, seed=0):
    env.reset(seed=seed)
    return [env.step(reply) for reply in replies]


def answer_of(env, seed=0):
    env.reset(seed=seed)
    return env.episode.task["answer"]


def test_an_episode_ends_with_a_reply_without_a_call():
    env = tool_desk.make(form="lines")
    text, _ = env.reset(seed=0)
    assert '"name": "price"' in text and text.endswith(env.episode.task["prompt"])
    (first, wrong), answer = play(env, "price: apple\ncalculator: 2 * 3", "99"), answer_of(env)
    assert first[:4] == ("3\n6", 0.125, False, False)
    assert first[4] == {
        "valid": True,
        "metrics": {"calls": 2.0, "invalid_calls": 0.0, "failed_calls": 0.0},
    }
    assert wrong[1:4] == (0.0, True, False) and not wrong[4]["success"]
    ((_, reward, terminated, truncated, info),) = play(env, f" {answer}\n")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["success"] and info["metrics"] == {"answered": 1.0, "letters": float(len(answer))}


def test_a_tool_that_ends_ends_whatever_else_is_called():
    env = tool_desk.make(form="lines")
    answer = answer_of(env)
    ((_, reward, terminated, _, info),) = play(env, f"submit: {answer}\nprice: pear")
    assert reward == 1.125 and terminated and info["success"]
    assert info["metrics"] == {
        "calls": 2.0,
        "invalid_calls": 0.0,
        "failed_calls": 0.0,
        "answered": 0.0,
        "letters": float(len(answer)),
    }
    # One that fails does not.
    ((text, _, terminated, _, info),) = play(env, "submit: many")
    assert not terminated and not info["valid"] and text.startswith("error: submit: answer: ")


def test_calls_beyond_the_budgets_are_refused():
    env = tool_desk.make(form="lines", calls_per_turn=2)
    turns = play(env, "price: pear", "price: plum\nprice: apple\nslow:")
    assert turns[0][4]["valid"] and not turns[1][4]["valid"]
    assert turns[1][0].splitlines() == [
        "7",
        "error: price: no call of it is left in this episode",
        "error: a turn has 2 calls at most",
    ]
    assert turns[1][4]["metrics"]["invalid_calls"] == 2.0 and env.episode.state == {"asked": 2}


def test_a_prompt_of_every_turn_shows_everything():
    env = tool_desk.make(form="tagged", every_turn=True)
    call = '<tool_call>{"name": "price", "arguments": {"item": "plum"}}</tool_call>'
    first, _ = env.reset(seed=3)
    assert env.step(call)[0] == f"{first}\n{call}\n<tool_response>\n7\n</tool_response>"


def test_rewards_say_what_they_miss():
    @reward
    def needs(final_response: str, gold: str):
        return float(final_response == gold)

    @reward
    def talks(final_response: str):
        return {"reward": 1.0, "style": 2.0}

    episode = Episode(0, {"prompt": "?", "answer": "7"}, random.Random(0))
    with pytest.raises(ValueError, match="reward needs wants gold: expected prompt, answer, final"):
        needs(episode)
    with pytest.raises(ValueError, match="reward talks gives style: name them"):
        talks(episode)
    for options, message in (
        ({"form": "xml"}, "form='xml': expected one of tagged, lines"),
        ({"tools": [book, book]}, "tools book, book: expected each name once"),
        ({"tasks": []}, "tasks: expected one or more"),
    ):
        given = {"tools": [book], "tasks": [{}], "reward": needs} | options
        with pytest.raises(ValueError, match=message):
            ToolEnvironment(**given)


def test_a_process_plays_it_and_a_tool_that_hangs_costs_its_episode_only():
    env, _ = envs.make(f"{DESK}:make", form="lines")
    assert env.metrics == ("calls", "invalid_calls", "failed_calls", "answered", "letters")
    env, _ = envs.make(f"{DESK}:Hanging")
    with env.pool(2, 1.0) as pool:
        while len(pool.idle()) < 2:
            pool.wait()
        for op in ({"op": "reset", "seed": 0}, {"op": "step", "action": "price: pear"}):
            for worker, seed in ((0, 0), (1, 1)):
                pool.ask(worker, op | ({"seed": seed} if op["op"] == "reset" else {}))
            answers = {}
            while len(answers) < 2:
                answers |= {a.worker: a for a in pool.wait()}
        assert answers[0].reply is None and "no answer within 1 seconds" in answers[0].failure
        assert answers[1].reply["observation"] == "4"
    assert calculator().name == "calculator"
