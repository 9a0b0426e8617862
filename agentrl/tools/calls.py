"""Calls in the text of a reply: which formats there are, and how they are read."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.tools.function import Call, Result, Tool

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_]\w*)[ \t]*:?[ \t]*(.*?)\s*\Z", re.DOTALL)


def _tagged_calls(text: str, tools: Mapping[str, Tool]) -> list[Call]:
    """<tool_call>{"name": ..., "arguments": {...}}</tool_call>, any number (Hermes' format)."""
    return [_of_json(body) for body in _TAGGED.findall(text)]


def _of_json(body: str) -> Call:
    given = _json(body)
    if isinstance(given, str):
        return Call("", None, f"a call is no JSON ({given})")
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return Call("", None, 'a call is {"name": a text, "arguments": {...}}')
    return _with(given["name"], given.get("arguments", {}))


def _json(text: str) -> Any:
    """What a text is as JSON, or why it is none."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        return str(error)
    return "it is a text" if isinstance(given, str) else given


def _with(name: str, arguments: Any) -> Call:
    if isinstance(arguments, dict):
        return Call(name, arguments)
    return Call(name, None, f"the arguments of {name} are no JSON object")


def _lines(text: str, tools: Mapping[str, Tool]) -> list[Call]:
    """Lines that begin with a tool's name, and the rest as its only argument, or as JSON."""
    calls = []
    for line in text.splitlines():
        found = _WORD.match(line)
        if not found or found[1] not in tools:
            continue
        name, rest = found[1], found[2]
        parameters = list(tools[name].parameters.get("properties", {}))
        if rest.startswith("{") or len(parameters) > 1:
            calls.append(_with(name, _json(rest)))
        else:
            calls.append(Call(name, {parameters[0]: rest} if parameters else {}))
    return calls


class Form(NamedTuple):
    """A format of calls.

    read: (reply, tools by name) -> its calls. told: how the agent is told to write them. response:
    how it reads a result, in place of the braces.
    """

    read: Callable[[str, Mapping[str, Tool]], list[Call]]
    told: str
    response: str = "{}"


FORMATS: Mapping[str, Form] = {
    "tagged": Form(
        _tagged_calls,
        'Call a tool by <tool_call>{"name": NAME, "arguments": {...}}</tool_call>, several in one '
        "reply if you like. A reply without a call is your answer.",
        "<tool_response>\n{}\n</tool_response>",
    ),
    "lines": Form(
        _lines,
        "Call a tool by a line NAME: ARGUMENT, or NAME: JSON if it takes several, several lines in "
        "one reply if you like. A reply without a call is your answer.",
    ),
}


def described(tools: Sequence[Tool], form: Form) -> str:
    """The tools and how to call them, as an agent reads them."""
    lines = [json.dumps(tool.schema["function"]) for tool in tools]
    return "\n".join(["Tools:", *lines, form.told])


def responses(results: Sequence[Result], form: Form) -> str:
    """The results of a turn's calls, as an agent reads them."""
    return "\n".join(form.response.format(result.text) for result in results)
