"""Episodes of a file as a page: what was read, done and said, turn by turn, and what stands out.

One self-contained HTML file in the form of the reports (`agentrl.evaluation.page`).
"""

import collections
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agentrl.evaluation import boards
from agentrl.evaluation.credit_cards import indent, shade, signed
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, stacked, tag
from agentrl.evaluation.page import page
from agentrl.trajectories import replay, topology, triage
from agentrl.trajectories.attribution import Blame
from agentrl.trajectories.references import Step, dependencies
from agentrl.trajectories.schema import Agent, Episode, Span, Turn

# Numbers of an observation that are printed.
_NUMBERS = 64


class _Shown(NamedTuple):
    """An episode with what is known of it. drawings: before each turn, and at the end. names: of
    the actions; both empty where it cannot be played again. limit: the largest advantage."""

    episode: Episode
    triaged: triage.Triaged
    blame: Blame | None
    drawings: list[str]
    names: Sequence[str]
    limit: float


def viewer(
    title: str,
    episodes: Sequence[Episode],
    *,
    turns_of: Sequence[str],
    blames: Mapping[str, Blame] | None = None,
) -> str:
    """The page of some episodes: signs, tasks, blame, and the episodes turn by turn.

    Boards are drawn by playing episodes over arrays again; where that cannot be done, observations
    are their numbers.

    Args:
      turns_of: ids of the episodes that are shown turn by turn, as they are to follow each other;
        tables are about all of them.
      blames: `agentrl.trajectories.attribution.blame` of failed episodes, by their id.

    Raises:
      ValueError: no episode.
    """
    if not episodes:
        raise ValueError("no episode to show")
    found, blames = triage.triage(episodes), blames or {}
    advantages = [abs(t.advantage or 0.0) for e in episodes for a in e.agents for t in a.turns]
    limit = max([*advantages, 1e-6])
    known, of_id = {one.id: one for one in found}, {one.id: one for one in episodes}
    shown = [
        _Shown(of_id[name], known[name], blames.get(name), *_drawn(of_id[name]), limit)
        for name in turns_of
    ]
    sections: list[tuple] = [
        ("signs", "What stands out", _signs(found)),
        ("tasks", "Tasks and their states", _tasks(episodes)),
    ]
    if blames:
        sections.append(("blame", "Who made them fail", _blames(blames)))
    sections += [
        ("turns", "Turn by turn", tag("div", *[_course(one, one is shown[0]) for one in shown])),
        ("episodes", "All episodes", _list(episodes, known, turns_of)),
    ]
    return page(title, _lead(episodes, len(shown)), sections)


def worth_a_look(episodes: Sequence[Episode], most: int) -> list[str]:
    """Ids of `most` episodes (0: all): those that deserve a look first, then as they come."""
    found = triage.triage(episodes)
    first = triage.chosen(found, most or len(found))
    return list(dict.fromkeys(one.id for one in (*first, *found)))[: most or None]


def _drawn(episode: Episode) -> tuple[list[str], Sequence[str]]:
    """Drawings, and the names of actions."""
    if any(agent.rows for agent in episode.agents):
        return [], ()
    try:
        env = replay.world_of(episode.task).env
        return replay.drawings(episode), () if env.continuous else env.action_names
    except (replay.ReplayError, NotImplementedError):
        return [], ()


def _lead(episodes: Sequence[Episode], shown: int) -> Markup:
    solved = sum(episode.success for episode in episodes)
    worlds = ", ".join(sorted({episode.task.environment for episode in episodes}))
    total = math.fsum(sum(episode.returns) for episode in episodes) / len(episodes)
    return tag(
        "p",
        f"{len(episodes)} episodes of {worlds}: {solved} solved, mean return {number(total)}. "
        f"{shown} of them are shown turn by turn.",
        class_="lead",
    )


def _anchor(name: str) -> str:
    return "episode-" + name.replace("/", "-")


def _list(episodes, known: Mapping[str, triage.Triaged], turns_of: Sequence[str]) -> Markup:
    """A row per episode, with a link where it is shown turn by turn."""
    head = ("episode", "group", "success", "return", "turns", "quality", "signs")
    rows = []
    for episode in episodes:
        one, name = known[episode.id], episode.id
        link = tag("a", name, href=f"#{_anchor(name)}") if name in turns_of else name
        counts = collections.Counter(sign.kind for sign in one.signals)
        group = "" if episode.group is None else episode.group
        returns = ", ".join(number(value) for value in episode.returns)
        turns = sum(len(agent.turns) for agent in episode.agents)
        told = ", ".join(f"{n} × {kind}" for kind, n in sorted(counts.items()))
        cells = (_end(episode), returns, turns, f"{one.quality:.0f}", told)
        rows.append((link, group, *cells))
    return stacked(head, rows, ("", "n", "", "n", "n", "n", "words"))


def _signs(found: Sequence[triage.Triaged]) -> Markup:
    """How many episodes and turns have each sign, and how good episodes are by them."""
    episodes: collections.Counter = collections.Counter()
    turns: collections.Counter = collections.Counter()
    for one in found:
        kinds = [sign.kind for sign in one.signals]
        turns.update(kinds)
        episodes.update(set(kinds))
    buckets = collections.Counter(one.bucket for one in found)
    told = ", ".join(f"{buckets[name]} {name}" for _, name in triage.BUCKETS if buckets[name])
    rows = [(kind, count, turns[kind]) for kind, count in episodes.most_common()]
    table = stacked(("sign", "episodes", "times"), rows, ("", "n", "n")) if rows else None
    return tag("div", tag("p", f"Quality by these signs: {told}."), table)


def _tasks(episodes: Sequence[Episode]) -> Markup:
    """Groups of episodes as graphs of merged states."""
    try:
        tasks = topology.curated(episodes).tasks
    except ValueError as error:
        return tag("p", f"Not merged: {error}.")
    head = ("task (seed/update/group)", "episodes", "solved", "states", "errors", "ways", "score")
    rows = [
        (
            "/".join(map(str, task.name)),
            len(task.episodes),
            sum(one.success for one in task.episodes),
            len(task.graph.children),
            f"{task.graph.error_branches:.2f}",
            f"{task.graph.heterogeneity:.2f}",
            f"{task.score:.2f}",
        )
        for task in tasks
    ]
    return stacked(head, rows, ("", *["n"] * 6))


def _blames(blames: Mapping[str, Blame]) -> Markup:
    head = ("episode", "agent", "turn", "shares of the agents")
    rows = []
    for name, blame in blames.items():
        shares = zip(blame.agents, blame.shares, strict=True)
        told = ", ".join(f"agent {a}: {share:.2f}" for a, share in shares if share > 0)
        agent = "nobody" if blame.agent is None else blame.agent
        rows.append((name, agent, "" if blame.step is None else blame.step.turn, told))
    return stacked(head, rows, ("", "n", "n", "words"))


def _course(shown: _Shown, open_: bool) -> Markup:
    """An episode: its turns in the order of the clock."""
    episode, end = shown.episode, _end(shown.episode)
    returns = ", ".join(number(value) for value in episode.returns)
    summary = f"{episode.id} · {end} · return {returns}"
    cards, before = [], None
    for step in sorted(_uses(episode)):
        cards.append(_turn(shown, step, before))
        before = _drawing(shown, step.turn)
    if shown.drawings:
        last = _picture(shown.drawings[-1], before, episode.task.environment, "at the end")
        cards.append(tag("li", last, tag("div", end, class_="did"), class_="turn last"))
    return tag(
        "details",
        tag("summary", summary),
        tag("ol", *cards),
        class_="credit run",
        id=_anchor(episode.id),
        open=open_,
    )


def _end(episode: Episode) -> str:
    told = any(turn.success is not None for agent in episode.agents for turn in agent.turns)
    return "solved" if episode.success else "not solved" if told else "success not known"


def _uses(episode: Episode) -> dict[Step, list[Step]]:
    """The steps whose results each step used."""
    graph = dependencies(episode)
    columns = graph.edges.T
    return {
        step: [graph.steps[i] for i in column.nonzero()[0]]
        for step, column in zip(graph.steps, columns, strict=True)
    }


def _drawing(shown: _Shown, turn: int) -> str | None:
    return shown.drawings[turn] if turn < len(shown.drawings) else None


def _picture(text: str | None, before: str | None, environment: str, label: str) -> Markup | None:
    if not text:
        return None
    glyphs = boards.palette(environment)
    drawn = boards.is_grid(text, glyphs)
    return boards.grid(text, glyphs, label) if drawn else boards.text(text, before)


def _turn(shown: _Shown, step: Step, before: str | None) -> Markup:
    """A card: what the agent had before it, what it did, and what came of it."""
    episode, agent = shown.episode, shown.episode.agents[step.agent]
    turn = next(turn for turn in agent.turns if turn.number == step.turn)
    drawing = _drawing(shown, step.turn)
    label = f"turn {step.turn}, before acting"
    read = _picture(drawing, before, episode.task.environment, label) or _observed(turn)
    return tag(
        "li",
        read,
        *_said(agent, step.turn),
        tag("div", *_facts(shown, step, turn), class_="did"),
        tag("div", *_numbers(turn, shown.limit), class_="cells"),
        class_="turn",
        style=indent(_depth(episode, step.agent)),
    )


def _depth(episode: Episode, agent: int) -> int:
    """How many calls deep an agent is."""
    depth, parent = 0, episode.agents[agent].parent
    while parent is not None and depth < len(episode.agents):
        depth, parent = depth + 1, episode.agents[parent].parent
    return depth


def _observed(turn: Turn) -> Markup | None:
    if turn.observation is None:
        return None
    array = turn.observation
    told = " ".join(number(value) for value in array.data[:_NUMBERS])
    rest = " …" if len(array.data) > _NUMBERS else ""
    return tag("pre", f"{array.dtype}{list(array.shape)} {told}{rest}", class_="board")


def _said(agent: Agent, turn: int) -> Iterator[Markup]:
    """The spans of a turn, of the row in which the reply stands."""
    for row in agent.rows:
        if any(span.trained and span.turn == turn for span in row):
            spans = [_span(span) for span in row if span.turn == turn]
            yield tag("div", *spans, class_="talk", style="grid-column:1/-1")
            return


def _span(span: Span) -> Markup:
    text = span.text.encode("utf-8", "replace").decode()
    if not span.trained:
        return tag("p", text, class_="read")
    facts = f"{span.kind or 'text'}, {len(span.tokens)} tokens"
    if span.logp:
        facts += f", mean log-probability {math.fsum(span.logp) / len(span.logp):.3f}"
    written = tag("b", text, class_="token")
    return tag("p", written, " ", tag("span", facts, class_="note"))


def _facts(shown: _Shown, step: Step, turn: Turn) -> Iterator[Markup]:
    """Who acted, in which turn, and what stands out about it."""
    episode, agent = shown.episode, shown.episode.agents[step.agent]
    role = f", role {agent.role}" if agent.role else ""
    caller = "" if agent.parent is None else f", called by agent {agent.parent}"
    one = f" of agent {step.agent}{role}{caller}" if len(episode.agents) > 1 else ""
    action = turn.action
    if shown.names and isinstance(action, int):
        action = shown.names[action]
    yield tag("span", f"turn {step.turn}{one}" + f": {action}" * (action is not None))
    for name, told in (("valid", "not valid"), ("well_formed", "not well formed")):
        if getattr(turn, name) is False:
            yield tag("span", told, class_="invalid")
    for name in ("terminated", "truncated"):
        if getattr(turn, name):
            yield tag("span", name, class_="note")
    if turn.stop == "length":
        yield tag("span", "cut at its longest", class_="invalid")
    for sign in shown.triaged.signals:
        if (sign.agent, sign.turn) == (step.agent, step.turn):
            yield tag("span", sign.kind, class_="anchor", title=sign.snippet or None)
    if shown.blame is not None and shown.blame.step == step:
        yield tag("span", "to blame", class_="invalid")
    others = [one for one in _uses(episode)[step] if one.agent != step.agent]
    if others:
        told = ", ".join(f"turn {one.turn} of agent {one.agent}" for one in others)
        yield tag("span", f"uses {told}", class_="note")


def _numbers(turn: Turn, limit: float) -> Iterator[Markup]:
    """Reward, credit and the like; credit in its shade."""
    if turn.reward:
        yield tag("span", tag("i", "reward"), f" {number(turn.reward)}", class_="cell")
    if turn.advantage is not None:
        value = turn.advantage
        yield tag(
            "span",
            tag("i", "advantage"),
            f" {signed(value)}",
            class_="cell",
            style=shade(value, limit),
        )
    for name in ("value", "bootstrap", "cost", "duration", "logp"):
        value = getattr(turn, name)
        if value:
            yield tag("span", tag("i", name), f" {number(value)}", class_="cell")
