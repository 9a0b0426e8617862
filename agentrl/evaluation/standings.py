"""Results of an arena, as a record in JSON, as text and as a section of the report."""

import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from agentrl.evaluation import figures, statistics
from agentrl.evaluation.markup import Markup, join, table, tag
from agentrl.evaluation.page import page
from agentrl.selfplay.arena import ENDS, Arena
from agentrl.selfplay.ratings import Ratings, elo

# Quantile of the normal distribution for intervals of mean returns.
_Z = 1.96
_BY_SEAT = {"mean": float, "deviation": float, "illegal": float, "courses": int}
_ARRAYS = {"ends": int, "spread": float, **_BY_SEAT}

_RATED = (
    "Ratings are the maximum likelihood of the Bradley-Terry model on Elo's scale with mean 0: 400 "
    "points are odds of 10 to 1, a draw is half a win, every pair has one drawn game more. Score: "
    "points per match against the others. Intervals are 95 %, of ratings by Fisher information, of "
    "shares by Wilson."
)
_ALIKE = (
    "Where all matches took one course (courses: 1), nothing is left to chance between the two: "
    "one match says it all, and there is no interval."
)


def record(arena: Arena, about: Mapping[str, Any]) -> dict[str, Any]:
    """The arena as JSON. about: its settings: `game`, `seed`, `command` and so on."""
    lists = {name: getattr(arena, name).tolist() for name in _ARRAYS}
    kept = {"players": list(arena.players), "matches": arena.matches}
    derived: dict[str, Any] = {"payoff": arena.payoff.tolist()}
    if not arena.cooperative:
        derived["ratings"] = {k: v.tolist() for k, v in elo(arena.score)._asdict().items()}
    end_names = {"end_names": list(ENDS)}
    return dict(about) | kept | {"cooperative": arena.cooperative} | end_names | lists | derived


def read(path: pathlib.Path) -> tuple[Arena, dict[str, Any]]:
    """(arena, about) of a record. ValueError if it is invalid."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        players = tuple(content.pop("players"))
        arrays = {name: np.asarray(content.pop(name), kind) for name, kind in _ARRAYS.items()}
        arena = Arena(players, int(content["matches"]), bool(content["cooperative"]), **arrays)
        shape = (len(players), len(players), arena.ends.shape[2])
        whole = content.pop("end_names") == list(ENDS) and arena.ends.shape == (*shape, len(ENDS))
        whole = whole and all(getattr(arena, name).shape == shape for name in _BY_SEAT)
        whole = whole and arena.spread.shape == shape[:2]
        whole = whole and bool((arena.ends.sum(axis=-1) == arena.matches).all())
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, UnicodeDecodeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is not a complete record of an arena; run launchers.arena again")
    return arena, content


class _Meeting(NamedTuple):
    """One line of the table of matches.

    Names, player i's share of wins, and of losses, with intervals or None, share of draws, shares
    of matches ended by an illegal action of either side, mean return of player i, number of
    distinct courses.
    """

    names: tuple[str, str]
    seat: int
    won: tuple[float, statistics.Interval | None]
    lost: tuple[float, statistics.Interval | None]
    drawn: float
    illegal: tuple[float, float]
    cut: float
    mean: tuple[float, statistics.Interval | None]
    courses: int


def _meetings(arena: Arena) -> Iterator[_Meeting]:
    """All cells; with two seats those of seat 0, which the others repeat from the other side."""
    seats = arena.ends.shape[2]
    for i, j, seat in np.ndindex(arena.courses.shape):
        if seat > 0 and (seats == 2 or i == j):
            continue
        ends = dict(zip(ENDS, arena.ends[i, j, seat].tolist(), strict=True))
        # A pair whose matches all went the same way has no interval.
        varies = arena.courses[i, j, seat] > 1

        def share(name, ends=ends, varies=varies):
            interval = statistics.wilson(ends[name], arena.matches) if varies else None
            return ends[name] / arena.matches, interval

        mean, spread = arena.mean[i, j, seat], arena.deviation[i, j, seat]
        width = _Z * spread / np.sqrt(arena.matches)
        yield _Meeting(
            (arena.players[i], arena.players[j]),
            seat,
            share("won"),
            share("lost"),
            ends["drawn"] / arena.matches,
            (ends["own_illegal"] / arena.matches, ends["other_illegal"] / arena.matches),
            ends["cut"] / arena.matches,
            (mean, statistics.Interval(mean - width, mean + width) if spread > 0 else None),
            int(arena.courses[i, j, seat]),
        )


class _Standing(NamedTuple):
    """One line of the standings.

    Rating and interval (None in cooperative games), score per match and mean return against the
    others, and share of illegal actions.
    """

    name: str
    rating: tuple[float, float, float] | None
    score: float
    mean: float
    illegal: float


def standings(arena: Arena) -> list[_Standing]:
    """The players, best first. Games of a player with itself count in cooperative games only."""
    number, seats = len(arena.players), arena.ends.shape[2]
    others = ~np.eye(number, dtype=bool) | arena.cooperative
    ratings: Ratings | None = None if arena.cooperative else elo(arena.score)
    lines = []
    for i, name in enumerate(arena.players):
        pairs = others[i]
        empty = not pairs.any()
        score = np.nan if empty else arena.score[i, pairs].mean() / (arena.matches * seats)
        mean = np.nan if empty else arena.payoff[i, pairs].mean()
        rating = None if ratings is None else tuple(float(x[i]) for x in ratings)
        lines.append(_Standing(name, rating, score, mean, arena.illegal[i].mean()))
    return sorted(lines, key=lambda s: -(s.mean if s.rating is None else s.rating[0]))


def _lead(arena: Arena, about: Mapping[str, Any]) -> str:
    seats = arena.ends.shape[2]
    options = about.get("options") or {}
    shown = "".join(f", {key}={value!r}" for key, value in options.items())
    greedy = ", checkpoints greedy" if about.get("greedy") else ""
    return (
        f"{about['game']}{shown}: {arena.matches * seats} matches of each pair, {arena.matches} on "
        f"each seat, seed {about['seed']}{greedy}"
    )


def _signed(value: float) -> str:
    return f"{value:+.0f}"


def shown(value: float, interval: statistics.Interval | None, digits: int = 3) -> str:
    """For example `0.983 [0.976, 0.988]`, or without an interval."""
    text = f"{value:.{digits}f}"
    if interval is None:
        return text
    return f"{text} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def columns(rows: list[list[str]]) -> str:
    """Aligned lines of columns, the first one left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def text(arena: Arena, about: Mapping[str, Any]) -> str:
    """The arena for a terminal: standings, payoffs, pairs of runs, and pairs on every seat."""
    parts = [_lead(arena, about), columns(_standing_rows(arena))]
    head = ["mean return of row", *arena.players]
    body = [
        [name, *(f"{value:.3f}" for value in arena.payoff[i])]
        for i, name in enumerate(arena.players)
    ]
    parts.append(columns([head, *body]))
    if not arena.cooperative and len(arena.players) > 1:
        parts.append(columns(_pair_rows(arena)))
    parts.append(columns(_meeting_rows(arena)))
    if not arena.cooperative:
        parts.append(_RATED)
    if (arena.courses == 1).any():
        parts.append(_ALIKE)
    return "\n\n".join(parts)


def _standing_rows(arena: Arena) -> list[list[str]]:
    rated = not arena.cooperative
    head = [
        "player",
        *(["rating (95 %)", "score"] if rated else []),
        "mean return",
        "illegal moves",
    ]
    rows = [head]
    for line in standings(arena):
        cells = [line.name]
        if line.rating is not None:
            value, low, high = line.rating
            cells += [f"{_signed(value)} [{_signed(low)}, {_signed(high)}]", f"{line.score:.3f}"]
        rows.append([*cells, f"{line.mean:.3f}", f"{line.illegal:.3f}"])
    return rows


def _meeting_rows(arena: Arena) -> list[list[str]]:
    """With two seats a line is seat 0's result; with more, that of one player among others."""
    two = arena.ends.shape[2] == 2
    sides = ["seat 0", "seat 1"] if two else ["player", "others", "seat"]
    if arena.cooperative:
        rows = [[*sides, "mean return (95 %)", "success (95 %)", "courses"]]
    else:
        one, other = sides[:2]
        ways = [f"{one} wins (95 %)", "draws", f"{other} wins (95 %)"]
        rows = [[*sides, *ways, "illegal ends", "cut", "mean return", "courses"]]
    for line in _meetings(arena):
        names = [*line.names] if two else [*line.names, str(line.seat)]
        if arena.cooperative:
            cells = [shown(*line.mean), shown(*line.won)]
        else:
            ends = f"{line.illegal[0]:.3f} / {line.illegal[1]:.3f}"
            cells = [shown(*line.won), f"{line.drawn:.3f}", shown(*line.lost), ends]
            cells += [f"{line.cut:.3f}", f"{line.mean[0]:.3f}"]
        rows.append([*names, *cells, str(line.courses)])
    return rows


def _run_of(name: str) -> str:
    """A player without its seed: runs/a for runs/a#3."""
    run, _, seed = name.rpartition("#")
    return run if run and seed.isdecimal() else name


def _pair_rows(arena: Arena) -> list[list[str]]:
    """Every pair of runs, all their seeds and seats together: shares of the decided matches."""
    runs = list(dict.fromkeys(map(_run_of, arena.players)))
    of = np.array([runs.index(_run_of(name)) for name in arena.players])
    rows = [["row", "column", "won", "lost", "others", "won of decided (95 %)"]]
    for i, j in itertools.combinations(range(len(runs)), 2):
        both = np.ix_(of == i, of == j)
        ends = dict(zip(ENDS, arena.ends[both].sum(axis=(0, 1, 2)).tolist(), strict=True))
        won = ends["won"] + ends["other_illegal"]
        decided = won + ends["lost"] + ends["own_illegal"]
        share = "none"
        if decided:
            # If all matches take one course there is no interval.
            varies = (arena.courses[both] > 1).any()
            interval = statistics.wilson(won, decided) if varies else None
            share = shown(won / decided, interval)
        others = f"{sum(ends.values()) - decided:,}"
        rows.append([runs[i], runs[j], f"{won:,}", f"{decided - won:,}", others, share])
    return rows


def section(arena: Arena, about: Mapping[str, Any]) -> Markup:
    """The arena for the report: payoffs as a heat map, ratings, and every pair on every seat."""
    error = _Z * arena.payoff_error
    details = [
        [f"± {figures.number(float(e))}" if np.isfinite(e) else "" for e in row] for row in error
    ]
    payoffs = figures.heat_map(
        "Mean return of the row against the column",
        arena.players,
        arena.payoff,
        details,
        note="all seats; ± half of a 95 % interval, where returns differ",
    )
    order = {name: i for i, name in enumerate(arena.players)}
    head, *rows = _standing_rows(arena)
    lines = standings(arena)
    ends = [x for line in lines if line.rating is not None for x in line.rating]
    body = []
    for line, cells in zip(lines, rows, strict=True):
        style = order[line.name]
        shown = [tag("th", figures.key(style), line.name, scope="row")]
        for i, cell in enumerate(cells[1:]):
            dot = None
            if i == 0 and line.rating is not None:
                dot = figures.whisker(*line.rating, (min(ends), max(ends)), style, reference=0.0)
            shown.append(tag("td", cell.replace("-", "−"), dot, class_="metric"))
        body.append(tag("tr", *shown))
    meeting_head, *meetings = _meeting_rows(arena)
    pairs = [
        tag("tr", *[tag("td", cell.replace("-", "−"), class_="metric") for cell in cells])
        for cells in meetings
    ]
    by_run = None
    if not arena.cooperative and len(arena.players) > 1:
        pair_head, *decided = _pair_rows(arena)
        by_run = join(
            tag("h3", "Every pair of runs, seeds and seats together"),
            table(pair_head, [tag("tr", *[tag("td", c) for c in cells]) for cells in decided]),
        )
    return join(
        tag("p", _lead(arena, about)),
        payoffs,
        table(head, body),
        None if arena.cooperative else tag("p", _RATED, class_="note"),
        by_run,
        tag("h3", "Every pair on every seat"),
        table(meeting_head, pairs),
        tag("p", _ALIKE, class_="note") if (arena.courses == 1).any() else None,
        *[tag("p", one, class_="note") for one in (about.get("programs") or {}).values()],
        tag("pre", about["command"], class_="command") if about.get("command") else None,
    )


def document(arena: Arena, about: Mapping[str, Any]) -> str:
    """The HTML page of an arena: its players, their games and ratings."""
    lead = tag("p", f"{len(arena.players)} players, {about['game']}", class_="lead")
    sections = [("arena", "Arena", section(arena, about))]
    return page(f"agentrl: arena of {about['game']}", lead, sections)
