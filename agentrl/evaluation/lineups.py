"""Results of line-ups as text and as a record in JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.evaluation.standings import columns, shown
from agentrl.evaluation.statistics import Interval, paired_difference
from agentrl.selfplay.lineups import LineUps, variance_ratio

_NOTE = (
    "All line-ups play the same tasks with the same randomness. Intervals are 95 %, Student's t "
    "over tasks; differences are paired task by task. Precision: how many times as many tasks two "
    "independent samples would need for an interval as narrow."
)


def _mean(values: np.ndarray) -> tuple[float, Interval]:
    return paired_difference(values, np.zeros_like(values))


def _title(played: LineUps, lineup: int) -> str:
    return " ".join(played.players[player] for player in played.seats[lineup])


def differences(played: LineUps) -> list[dict[str, Any]]:
    """What one player in the place of another changes in the return of its seat, per swap."""
    found = []
    for swap in played.swaps():
        x, y = (played.returns[i, swap.seat] for i in (swap.other, swap.lineup))
        value, interval = paired_difference(x, y)
        found.append(
            {
                "lineup": played.seats[swap.lineup].tolist(),
                "other": played.seats[swap.other].tolist(),
                "seat": swap.seat,
                "difference": value,
                "interval": list(interval),
                "precision": variance_ratio(x, y),
            }
        )
    return found


def text(played: LineUps, lead: str) -> str:
    """For a terminal: every line-up and seat, every swap, and players by their number of seats."""
    seats = played.seats.shape[1]
    rows = [["line-up", "seat", "player", "mean return (95 %)", "won", "illegal moves"]]
    for i in range(len(played.seats)):
        for seat in range(seats):
            rows.append(
                [
                    _title(played, i),
                    str(seat),
                    played.players[played.seats[i, seat]],
                    shown(*_mean(played.returns[i, seat])),
                    f"{played.won[i, seat].mean():.3f}",
                    f"{played.illegal[i, seat]:.3f}",
                ]
            )
    parts = [lead, columns(rows)]
    found = differences(played)
    if found:
        rows = [["line-up", "seat", "instead", "difference (95 %)", "precision"]]
        for one, swap in zip(found, played.swaps(), strict=True):
            rows.append(
                [
                    _title(played, swap.lineup),
                    str(swap.seat),
                    played.players[played.seats[swap.other, swap.seat]],
                    shown(one["difference"], Interval(*one["interval"])),
                    f"{one['precision']:.1f}",
                ]
            )
        parts.append(columns(rows))
    rows = [["player", "seats", "mean return of its seats (95 %)"]]
    for number, name in enumerate(played.players):
        for count, values in played.by_count(number).items():
            rows.append([name, f"{count} of {seats}", shown(*_mean(values))])
    return "\n\n".join([*parts, columns(rows), _NOTE])


def record(played: LineUps, about: Mapping[str, Any]) -> dict[str, Any]:
    """The line-ups as JSON. about: settings, such as `game`, `seed`, `command`."""
    return dict(about) | {
        "players": list(played.players),
        "lineups": played.seats.tolist(),
        "returns": played.returns.tolist(),
        "won": played.won.tolist(),
        "illegal": played.illegal.tolist(),
        "differences": differences(played),
    }
