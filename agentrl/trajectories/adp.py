"""Agent Data Protocol: its lines from episodes of language policies, and back.

A trajectory is {id, content: [item, ...], details: {text: text}}. What an agent read is a
`text_observation`, what it wrote a `message_action`, whose `description` is the thought. `details`
takes texts only: "agentrl.episode" is the episode's own line, so that nothing is lost on the way
back. A trajectory of others, without it, becomes an episode of texts, without tokens and seeds.

References:
  Agent Data Protocol, https://arxiv.org/abs/2510.24702, from notes on its schema.
"""

import json
from collections.abc import Iterator
from typing import Any

from agentrl.trajectories.schema import (
    Agent,
    Episode,
    SchemaError,
    Span,
    Task,
    Turn,
    from_line,
    to_line,
)

_OWN = "agentrl.episode"
_ACTIONS = {"message_action": "content", "code_action": "content", "api_action": "function"}
_THOUGHT = ("<think>", "</think>")


def to_adp(episode: Episode) -> str:
    """The line of an episode. SchemaError for one of arrays, which has no text."""
    if not any(agent.rows for agent in episode.agents):
        raise SchemaError("no texts (an episode of arrays); expected one of a language policy")
    items = sorted(
        (turn.number, a, part, item)
        for a, agent in enumerate(episode.agents)
        for turn in agent.turns
        for part, item in enumerate(_items(agent, a, turn.number, len(episode.agents) > 1))
    )
    content = [json.loads(item) for *_, item in items]
    found = {"id": episode.id, "content": content, "details": {_OWN: to_line(episode)}}
    return json.dumps(found, separators=(",", ":"))


def _items(agent: Agent, number: int, turn: int, several: bool) -> Iterator[str]:
    """What was read and written in a turn, as JSON."""
    own = next(row for row in agent.rows if any(s.trained and s.turn == turn for s in row))
    spans = [span for span in own if span.turn == turn]
    read = "".join(span.text for span in spans if not span.trained)
    thought = "".join(s.text for s in spans if s.trained and s.kind == "thought")
    said = "".join(s.text for s in spans if s.trained and s.kind != "thought")
    name = {"name": f"agent {number}"} if several else {}
    yield json.dumps(
        {"class_": "text_observation", "content": read, "source": "environment"} | name
    )
    for tag in _THOUGHT:
        thought = thought.replace(tag, "")
    why = {"description": thought} if thought else {}
    yield json.dumps({"class_": "message_action", "content": said} | why)


def from_adp(line: str) -> Episode:
    """The episode of a line. SchemaError for a line that is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise SchemaError("id: missing or no text, expected {id, content, details}")
    details, content = found.get("details", {}), found.get("content")
    if isinstance(details, dict) and isinstance(details.get(_OWN), str):
        return from_line(details[_OWN])
    if not isinstance(content, list) or not content:
        raise SchemaError("content: expected a list of one item or more")
    spans, turn = [], 0
    for i, item in enumerate(content):
        span = _span(item, turn, f"content[{i}]")
        spans.append(span)
        turn += span.trained
    if not turn:
        raise SchemaError("content: no action, expected one or more")
    # What follows the last action belongs to no turn.
    spans = [s if s.turn != turn else Span(s.kind, None, (), s.text) for s in spans]
    last = turn - 1
    turns = tuple(Turn(t, 0.0, terminated=t == last, truncated=False) for t in range(turn))
    task = Task("adp", {}, turn)
    return Episode(found["id"], task, (Agent(turns=turns, rows=(tuple(spans),)),))


def _span(item: Any, turn: int, where: str) -> Span:
    """An item as a span of text."""
    kind = item.get("class_") if isinstance(item, dict) else None
    if kind == "text_observation" and isinstance(item.get("content"), str):
        return Span("observation", turn, (), item["content"] or "\n")
    key = _ACTIONS.get(kind) if isinstance(kind, str) else None
    if key is None or not isinstance(item.get(key), str):
        raise SchemaError(
            f"{where}: class_ {kind!r}, expected text_observation, or one of "
            f"{', '.join(_ACTIONS)} with its text"
        )
    text = item[key]
    if kind == "api_action":
        text += json.dumps(item.get("kwargs", {}), sort_keys=True)
    why = item.get("description")
    text = f"{why}\n\n{text}" if isinstance(why, str) and why else text
    return Span("action", turn, (), text or "\n", trained=True)
