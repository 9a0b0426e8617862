"""Tools: Python functions that an agent calls, with a schema from signature and docstring."""

import asyncio
import concurrent.futures
import dataclasses
import importlib
import inspect
import json
import queue
import re
import threading
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agentrl.checks import check_choice, check_range

if TYPE_CHECKING:
    from agentrl.tools.environment import Episode

Keep = Literal["head", "tail", "both"]
Status = Literal["ok", "invalid", "failed", "timeout", "refused"]
_MARK = " ... "
# A parameter of this name gets the episode, and is no argument of the tool.
EPISODE = "episode"


class Call(NamedTuple):
    """A call as it was written. arguments: None where they are no JSON object; error: why."""

    name: str
    arguments: Mapping[str, Any] | None
    error: str = ""


class Result(NamedTuple):
    """What came of a call.

    text: what the agent reads. status: "ok"; "invalid", no such tool, or wrong arguments; "failed",
    it raised; "timeout"; "refused", no call was left. ends: the episode ends with it. reward: that
    the tool gives.
    """

    call: Call
    text: str
    status: Status
    ends: bool = False
    reward: float = 0.0


class Rewarded(NamedTuple):
    """What a tool may return in place of its value: the value, and a reward for the call."""

    value: Any
    reward: float


def shortened(text: str, longest: int, keep: Keep) -> str:
    """At most `longest` characters of a text, the mark of what was left out included.

    keep: its "head", its "tail", or "both" ends.
    """
    if len(text) <= longest:
        return text
    room = max(0, longest - len(_MARK))
    head = {"head": room, "tail": 0, "both": room - room // 2}[keep]
    tail = room - head
    return (text[:head] + _MARK + text[len(text) - tail :])[:longest]


@dataclasses.dataclass(frozen=True)
class Tool:
    """A function that an agent calls by name with arguments in JSON; `tool` makes one.

    parameters: JSON schema of the arguments. ends, longest, keep, timeout_s, retries, calls: see
    `tool`. check: (arguments) -> those of the function, or a ValueError.
    """

    function: Callable[..., Any]
    name: str
    description: str
    parameters: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    takes_episode: bool
    ends: bool = False
    longest: int = 2048
    keep: Keep = "both"
    timeout_s: float = 10.0
    retries: int = 0
    calls: int | None = None

    def __call__(self, **arguments: Any) -> Any:
        """The function itself; arguments by name only."""
        return self.function(**arguments)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as the chat-completions protocol describes it."""
        about = {"name": self.name, "description": self.description}
        return {"type": "function", "function": about | {"parameters": dict(self.parameters)}}

    def run(self, call: Call, episode: "Episode | None" = None) -> Result:
        """Checks the arguments and calls the function, again after a failure if it has retries.

        A text is shown as it is, anything else as JSON. A function that does not end in time is
        left alone in its thread: what may loop belongs into a process (`interpreter`).
        """
        if call.arguments is None:
            return Result(call, f"error: {call.error}", "invalid")
        try:
            given = dict(self.check(call.arguments))
        except ValueError as error:
            return Result(call, f"error: {self.name}: {error}", "invalid")
        if self.takes_episode:
            given[EPISODE] = episode
        for _ in range(self.retries + 1):
            try:
                out, reward = _in_time(self.function, given, self.timeout_s), 0.0
                if isinstance(out, Rewarded):
                    out, reward = out.value, float(out.reward)
                text = out if isinstance(out, str) else json.dumps(out)
            except TimeoutError:
                text, status = f"error: {self.name}: no answer in {self.timeout_s:g} s", "timeout"
            except Exception as error:  # the agent reads what went wrong
                text, status = f"error: {self.name}: {type(error).__name__}: {error}", "failed"
            else:
                text = shortened(text, self.longest, self.keep)
                return Result(call, text, "ok", self.ends, reward)
        return Result(call, shortened(text, self.longest, self.keep), status)


def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str = "",
    description: str = "",
    ends: bool = False,
    longest: int = 2048,
    keep: Keep = "both",
    timeout_s: float = 10.0,
    retries: int = 0,
    calls: int | None = None,
) -> Any:
    """Makes a tool of a function, or is a decorator with these options.

        @tool
        def price(item: str, count: int = 1) -> float:
            \"\"\"What an item costs.

            Args:
              item: as the list of prices has it.
              count: how many.
            \"\"\"
            return PRICES[item] * count

    Each parameter has an annotation, from which its JSON schema and the check of its arguments are
    made by pydantic; its description is that of the docstring. A parameter `episode` gets the
    `Episode` that calls, and is not shown to the agent. The function may be `async`.

    Args:
      name, description: default: those of the function and its docstring.
      ends: the episode ends in the turn of a call that succeeds.
      longest: characters of a result; what is longer is cut. keep: its "head", "tail" or "both".
      timeout_s: seconds that a call may take.
      retries: further attempts after one that raised or took too long.
      calls: of each episode; those beyond are refused. None: any number.

    Raises:
      ValueError: in one line, what is wrong: a parameter without an annotation that JSON has, one
        that has no name of its own, a default that is none of its type, a docstring that describes
        what is no parameter, no description, a name that the protocol does not allow, or an option
        outside its range.
    """
    if function is None:
        options = dict(locals())
        del options["function"]
        return lambda function: tool(function, **options)
    docstring_parser = needed("docstring_parser")
    if not callable(function):
        raise ValueError(f"tool: {function!r}: expected a function")
    called = name or getattr(function, "__name__", type(function).__name__)
    _check_options(called, longest, keep, timeout_s, retries, calls)
    about = docstring_parser.parse(inspect.getdoc(function) or "")
    description = description or about.short_description or ""
    if not description:
        raise ValueError(f"tool {called}: no description; write a docstring, or description=")
    told = {p.arg_name: p.description or "" for p in about.params}
    for unknown in told.keys() - inspect.signature(function).parameters.keys():
        raise ValueError(
            f"tool {called}: its docstring describes {unknown!r}, which is no parameter"
        )
    parameters, check = _arguments_of(called, function, told)
    return Tool(
        function=function,
        name=called,
        description=description,
        parameters=parameters,
        check=check,
        takes_episode=EPISODE in inspect.signature(function).parameters,
        ends=ends,
        longest=longest,
        keep=keep,
        timeout_s=timeout_s,
        retries=retries,
        calls=calls,
    )


def _check_options(
    called: str, longest: int, keep: str, timeout_s: float, retries: int, calls: int | None
) -> None:
    """ValueError for a name that the protocol does not allow, or an option outside its range."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", called):
        raise ValueError(
            f"tool {called}: expected a name of 1 to 64 letters, digits, _ and -; give name="
        )
    where = f"tool {called}: "
    check_range(f"{where}longest", longest, 1)
    check_range(f"{where}timeout_s", timeout_s, 0.0, above=True)
    check_range(f"{where}retries", retries, 0)
    check_choice(f"{where}keep", keep, typing.get_args(Keep))
    if calls is not None:
        check_range(f"{where}calls", calls, 1)


def _arguments_of(called: str, function: Callable[..., Any], told: Mapping[str, str]):
    """(JSON schema, check) of a function's arguments."""
    pydantic = needed("pydantic")
    try:
        hints, fields = typing.get_type_hints(function, include_extras=True), {}
    except (NameError, TypeError, SyntaxError) as error:
        raise ValueError(f"tool {called}: an annotation that is no type ({error})") from None
    for parameter in inspect.signature(function).parameters.values():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if parameter.name == EPISODE:
            continue
        if not named or parameter.name not in hints or parameter.name.startswith("_"):
            raise ValueError(
                f"tool {called}: parameter {parameter}: expected a name and an annotation, such as "
                f"{parameter.name}: str"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        about = told.get(parameter.name) or None
        fields[parameter.name] = (hints[parameter.name], pydantic.Field(default, description=about))
        _check_parameter(called, parameter, hints[parameter.name])
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    model = pydantic.create_model(called, __config__=config, **fields)

    def check(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            wrong = (
                f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}" for e in error.errors()
            )
            raise ValueError("; ".join(wrong)) from None
        return {field: getattr(made, field) for field in fields}

    # Titles repeat the names.
    schema = {key: value for key, value in model.model_json_schema().items() if key != "title"}
    for about in schema.get("properties", {}).values():
        about.pop("title", None)
    return schema, check


def _check_parameter(called: str, parameter: inspect.Parameter, hint: Any) -> None:
    """ValueError for a type that JSON does not have, or a default of another type."""
    pydantic, where = needed("pydantic"), f"tool {called}: parameter {parameter.name}: "
    try:
        kind = pydantic.TypeAdapter(hint)
        kind.json_schema()
    except (pydantic.errors.PydanticUserError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f"{where}{first}; expected a type that JSON has") from None
    if parameter.default is parameter.empty:
        return
    try:
        kind.validate_python(parameter.default)
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]["msg"]
        raise ValueError(f"{where}default {parameter.default!r}: {wrong}") from None


def needed(package: str) -> types.ModuleType:
    """A package of the extra "tools". ImportError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"tools of agents need the package {package} ({error}): pip install 'agentrl[tools]'"
        ) from None


def _in_time(function: Callable[..., Any], given: Mapping[str, Any], seconds: float) -> Any:
    """function(**given) in a thread of its own. TimeoutError: it takes longer."""
    out: queue.SimpleQueue = queue.SimpleQueue()

    def run():
        try:
            got = function(**given)
            out.put((asyncio.run(got) if inspect.iscoroutine(got) else got, None))
        except BaseException as error:  # of a thread: raised by the caller below
            out.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        value, error = out.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return value


def run_all(
    tools: Mapping[str, Tool],
    calls: Sequence[Call],
    left: Mapping[str, int],
    episode: "Episode | None" = None,
) -> list[Result]:
    """Results of the calls of a turn, which run at the same time, in the order of the calls.

    left: by name of a tool, how many calls of it are left in the episode; missing: any number.
    """
    counted = {name: 0 for name in tools}
    waiting: list[Callable[[], Result]] = []
    with concurrent.futures.ThreadPoolExecutor(max(1, len(calls))) as threads:
        for call in calls:
            if call.name not in tools:
                known = ", ".join(tools)
                error = call.error or f"there is no tool {call.name!r}; there are {known}"
                text = f"error: {error}"
                waiting.append(lambda call=call, text=text: Result(call, text, "invalid"))
                continue
            counted[call.name] += 1
            if counted[call.name] > left.get(call.name, counted[call.name]):
                text = f"error: {call.name}: no call of it is left in this episode"
                waiting.append(lambda call=call, text=text: Result(call, text, "refused"))
                continue
            waiting.append(threads.submit(tools[call.name].run, call, episode).result)
        return [result() for result in waiting]
