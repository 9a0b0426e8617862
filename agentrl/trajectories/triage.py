"""Which episodes deserve a look, by signs that cost nothing to find: Signals.

Signs are found in the texts, calls and flags of an episode, without a model: repeated calls,
repeated texts, failures, exhausted limits, words of impatience and of thanks. From their numbers
follows a quality of 0 to 100, and `chosen` takes the worst of each kind.

Source: Signals (arXiv:2604.00356; a port of the authors' code was read, no paper). Where it differs
here: phrases are matched as sequences of words, not by similarity; repetition is looked for in what
agents write, not in an environment's texts, which are alike by their templates; without calls to
tools, an agent's action in what it acted from is the call, so that three steps to the right are no
loop; flags of turns (valid, well formed, success, ends) count beside the texts.
"""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.trajectories.loops import Call, loops
from agentrl.trajectories.schema import Agent, Episode

INTERACTION = ("misalignment", "disengagement", "stagnation", "satisfaction")
CATEGORIES = (*INTERACTION, "failure", "loop", "exhaustion")
BUCKETS = ((75, "excellent"), (60, "good"), (40, "neutral"), (25, "poor"), (0, "severe"))

# Of what an agent reads: its user's words.
PHRASES = {
    "misalignment.correction": ("that is not what i", "that's not what i", "no i meant"),
    "misalignment.rephrase": ("let me rephrase", "in other words", "what i mean is"),
    "misalignment.clarification": ("what do you mean", "i don't understand", "can you clarify"),
    "disengagement.escalation": ("speak to a human", "talk to a human", "speak to a manager"),
    "disengagement.quit": ("never mind", "forget it", "i give up"),
    "disengagement.negative_stance": ("this is useless", "this is frustrating", "waste of time"),
    "satisfaction.gratitude": ("thank you", "thanks"),
    "satisfaction.confirmation": ("that works", "sounds good", "exactly what i"),
    "satisfaction.success": ("that solved it", "it works now", "problem solved"),
}
# Of results of tools, the first that matches; with confidence.
_FAILURES = (
    (
        "failure.invalid_arguments",
        0.9,
        r"(invalid|missing|unexpected|wrong)( required)? (argument|parameter|input|value|keyword)"
        r"|validation error|field required|arguments of \S+ are no|is no (json|arithmetic)",
    ),
    (
        "failure.tool_not_found",
        0.95,
        r"(unknown|no such|unrecogni[sz]ed|there is no) (tool|function|command)\b"
        r"|(tool|function|command)( \S+)? not found",
    ),
    (
        "failure.authorisation",
        0.8,
        r"unauthori[sz]ed|forbidden|(permission|access) denied|not authori[sz]ed",
    ),
    (
        "failure.state",
        0.85,
        r"already (exists|open|closed|done|used)|invalid state|precondition|conflict"
        r"|(is|was|does) not (exist|found|available|possible)",
    ),
    ("failure.bad_query", 0.8, r"syntax error|parse error|no (results|matches)|no such column"),
)
_EXHAUSTION = (
    ("exhaustion.api_error", 0.9, r"internal server error|service unavailable|bad gateway"),
    ("exhaustion.timeout", 0.9, r"timed? ?out|deadline exceeded|no (answer|end) in [\d.]+ s"),
    (
        "exhaustion.rate_limit",
        0.9,
        r"rate limit|too many requests|quota exceeded|no call of it is left",
    ),
    ("exhaustion.network", 0.9, r"connection (refused|reset|error)|network (error|unreachable)"),
    ("exhaustion.malformed_response", 0.85, r"malformed|invalid json|cannot be (parsed|decoded)"),
    ("exhaustion.context_overflow", 0.9, r"context (length|window)|too many tokens"),
)
_MESSAGES, _LONGEST = 100, 2000
_SAME, _ALIKE, _EARLIER, _WORDS = 0.95, 0.85, 2, 5


class Signal(NamedTuple):
    """A sign, in a turn of an agent. kind: category and name, such as "loop.retry"."""

    kind: str
    agent: int
    turn: int
    confidence: float
    snippet: str = ""


class Triaged(NamedTuple):
    """An episode's signs, and what follows from them.

    quality: 0 to 100. bucket: its name in `BUCKETS`. severity: 0 to 3 of each category.
    """

    id: str
    success: bool
    signals: tuple[Signal, ...]
    quality: float
    bucket: str
    severity: dict[str, int]


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower())


def similarity(first: str, second: str) -> float:
    """Jaccard's index of the sets of three neighbouring characters, of the texts' words."""
    a, b = (
        {text[i : i + 3] for i in range(len(text) - 2)}
        for text in (" ".join(words(text)) for text in (first, second))
    )
    return len(a & b) / len(a | b) if a | b else 0.0


def efficiency(turns: int, usual: float = 5) -> float:
    """1 up to the usual number of turns, then 1 / (1 + 0.25 for each further one)."""
    return 1 / (1 + 0.25 * max(turns - usual, 0))


def calls(agent: Agent) -> list[Call]:
    """The calls of an agent, in their order.

    Calls to tools as `<tool_call>{"name": ..., "arguments": ...}</tool_call>` in what it wrote; of
    a turn without one, the action together with what it acted from.
    """
    found = []
    for turn in agent.turns:
        _, said = agent.texts(turn.number) or ("", "")
        tools = re.findall(r"<tool_call>(.*?)</tool_call>", said, flags=re.DOTALL)
        for tool in tools:
            name = re.search(r'"name"\s*:\s*"([^"]*)"', tool)
            found.append(Call(turn.number, name[1] if name else "", " ".join(tool.split())))
        if not tools:
            seen = turn.anchor or (turn.observation and turn.observation.data)
            found.append(Call(turn.number, f"{seen} {turn.action} {said.strip()}", ""))
    return found


def _short(text: str) -> str:
    """The first fifth and the last four fifths of what may be read of a text."""
    first = _LONGEST // 5
    return text if len(text) <= _LONGEST else text[:first] + text[-(_LONGEST - first) :]


def _spoken(number: int, agent: Agent) -> Iterator[Signal]:
    """Signs of what an agent reads and writes."""
    phrases = [(kind, words(text)) for kind, texts in PHRASES.items() for text in texts]
    said_before: list[str] = []
    for turn in agent.turns[-_MESSAGES:]:
        heard, said = map(_short, agent.texts(turn.number) or ("", ""))
        text = f" {' '.join(words(heard))} "
        for kind, phrase in phrases:
            if f" {' '.join(phrase)} " in text:
                yield Signal(kind, number, turn.number, 1.0, " ".join(phrase))
        for patterns in (_FAILURES, _EXHAUSTION):
            for kind, confidence, pattern in patterns:
                match = re.search(pattern, heard, flags=re.IGNORECASE)
                if match:
                    yield Signal(kind, number, turn.number, confidence, match[0])
                    break
        if len(words(said)) >= _WORDS:
            alike = max((similarity(said, other) for other in said_before[-_EARLIER:]), default=0.0)
            if alike >= _ALIKE:
                name = "exact" if alike >= _SAME else "near"
                yield Signal(f"stagnation.{name}_repetition", number, turn.number, alike, said[:80])
            said_before.append(said)


def _flagged(number: int, agent: Agent) -> Iterator[Signal]:
    """Signs of the flags of turns."""
    seen: list[tuple[int, int]] = []
    for turn in agent.turns:
        flags = (
            ("satisfaction.solved", bool(turn.success)),
            ("failure.malformed_reply", turn.well_formed is False),
            ("failure.invalid_action", turn.valid is False and turn.well_formed is not False),
            ("exhaustion.turns", turn.truncated),
            ("exhaustion.length", turn.stop == "length"),
            ("stagnation.same_state", not agent.rows and turn.anchor in seen[-_EARLIER:]),
        )
        yield from (Signal(kind, number, turn.number, 1.0) for kind, found in flags if found)
        if turn.anchor is not None:
            seen.append(turn.anchor)


def signals(episode: Episode, usual: float = 5) -> tuple[Signal, ...]:
    """The signs of an episode, by agent. usual: number of turns that does not drag."""
    found: list[Signal] = []
    for number, agent in enumerate(episode.agents):
        found += _spoken(number, agent)
        found += _flagged(number, agent)
        found += (
            Signal(f"loop.{loop.kind}", number, loop.first, loop.confidence, loop.what)
            for loop in loops(calls(agent))
        )
        if efficiency(len(agent.turns), usual) < 0.5:
            last = agent.turns[-1].number
            found.append(Signal("stagnation.dragging", number, last, 1.0, f"{len(agent.turns)}"))
    return tuple(found)


def severity(count: int) -> int:
    """0 for none, 1 for one or two, 2 for three or four, 3 for more."""
    return min((count + 1) // 2, 3)


def quality(kinds: Sequence[str], turns: int) -> float:
    """0 to 100, from the kinds of an episode's signs and the number of its turns.

    50, plus 20 times 0.6, 0.8 or 0.95 for one, two or more signs of satisfaction; minus 10 for each
    degree of disengagement; 15 if signs of misalignment are more than 0.3 of the turns; 8 for each
    degree of stagnation if there are more than two signs; 8 for each failure, 5 for each loop, 3
    for each exhausted limit. 0 if the user left or asked for a human, and for the third degree of
    disengagement or stagnation. So the best is 69: "excellent" cannot be reached, as in the source.
    """
    count = Counter(kind.partition(".")[0] for kind in kinds)
    left = {"disengagement.escalation", "disengagement.quit"} & set(kinds)
    degrees = {name: severity(count[name]) for name in ("disengagement", "stagnation")}
    if left or 3 in degrees.values():
        return 0.0
    value = 50 + 20 * (0, 0.6, 0.8, 0.95)[min(count["satisfaction"], 3)]
    value -= 10 * degrees["disengagement"] + 15 * (count["misalignment"] > 0.3 * turns)
    value -= 8 * degrees["stagnation"] * (count["stagnation"] > 2)
    value -= 8 * count["failure"] + 5 * count["loop"] + 3 * count["exhaustion"]
    return float(np.clip(value, 0, 100))


def triage(episodes: Iterable[Episode]) -> list[Triaged]:
    """The signs and the quality of each episode.

    No episode drags with as many turns as the median of an agent in solved episodes, or with 5.
    """
    episodes, found = list(episodes), []
    solved = [len(a.turns) for e in episodes if e.success for a in e.agents if a.turns]
    usual = max(5.0, statistics.median(solved)) if solved else 5.0
    for episode in episodes:
        signs = signals(episode, usual)
        value = quality([sign.kind for sign in signs], sum(len(a.turns) for a in episode.agents))
        bucket = next(name for least, name in BUCKETS if value >= least)
        count = Counter(sign.kind.partition(".")[0] for sign in signs)
        degrees = {name: severity(count[name]) for name in CATEGORIES}
        found.append(Triaged(episode.id, episode.success, signs, value, bucket, degrees))
    return found


def chosen(found: Sequence[Triaged], budget: int, seed: int = 0) -> list[Triaged]:
    """At most `budget` episodes with signs other than satisfaction, from the categories in turn.

    From each category the one of highest severity, then of lowest quality; equal ones in an order
    drawn from the seed. No episode is taken twice.
    """
    drawn = np.random.default_rng(seed).permutation(len(found)).tolist()
    order = [found[i] for i in drawn]
    queues = [
        sorted(
            (one for one in order if one.severity[name]),
            key=lambda one, name=name: (-one.severity[name], one.quality),
        )
        for name in CATEGORIES
        if name != "satisfaction"
    ]
    taken: dict[str, Triaged] = {}
    while len(taken) < budget and any(queues):
        for queue in queues:
            while queue and queue[0].id in taken:
                queue.pop(0)
            if queue and len(taken) < budget:
                one = queue.pop(0)
                taken[one.id] = one
    return list(taken.values())
