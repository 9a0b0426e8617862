r"""Cost and quality of runs as points, which of them no other one dominates, and the front's area.

    python -m launchers.front --workdirs=runs/planner --most_cost=6
    python -m launchers.front --workdirs=runs/planner_gain,runs/planner_outcome \
        --cost=episode_length --most_cost=20

A run whose metrics are named cost/PRICE and quality/PRICE (component trade_off) has a point per
price, another one the point of its two metrics. Points are means over the last tenth of a run's
updates, for each seed; the area is that of one front through the points of all runs of a seed,
within --most_cost and --least_quality, with Student's 95 % interval over seeds.

    python -m launchers.front --workdirs=runs/desk_heads --evaluated --most_cost=7

With --evaluated the points are a run's evaluations instead (`launchers.evaluate`), in its own
environment, in others, with other options or with other ones of its policy, each at the newest
checkpoint that was: length against success.
"""

import json
import pathlib

import numpy as np
from absl import flags

from launchers import cli

_WORKDIRS = flags.DEFINE_list("workdirs", [], "Directories of runs, separated by commas.")
_COST = flags.DEFINE_string("cost", "cost", "Metric of which less is better.")
_QUALITY = flags.DEFINE_string("quality", "quality", "Metric of which more is better.")
_EVALUATED = flags.DEFINE_bool("evaluated", False, "A point per evaluation, length and success.")
_MOST = flags.DEFINE_float("most_cost", None, "Cost up to which the area counts.")
_LEAST = flags.DEFINE_float("least_quality", 0.0, "Quality from which on the area counts.")


def main(argv: list[str]) -> None:
    """Prints the points of the runs, their front, and its area with an interval over seeds."""
    if len(argv) > 1 or not _WORKDIRS.value or _MOST.value is None:
        cli.fail("give --workdirs=runs/a,runs/b and --most_cost=6, where the front's area ends")
    from agentrl.evaluation import runs, selection, statistics

    try:
        points = {}
        for name in _WORKDIRS.value:
            path = pathlib.Path(name)
            points |= _evaluated(path) if _EVALUATED.value else _points(runs.load([path])[0])
    except (ValueError, OSError) as error:
        cli.fail(error)
    seeds = min(cost.size for cost, _ in points.values())
    cost, quality = (np.array([x[i][:seeds] for x in points.values()]) for i in (0, 1))
    front = selection.pareto_front(cost.mean(axis=1), quality.mean(axis=1))
    for name, spent, good, best in zip(points, cost, quality, front, strict=True):
        mark = "front" if best else "dominated"
        print(f"{name:32} cost {spent.mean():8.3f}  quality {good.mean():6.3f}  {mark}")
    bounds = {"most_cost": _MOST.value, "least_quality": _LEAST.value}
    area = np.array(
        [selection.hypervolume(cost[:, s], quality[:, s], **bounds) for s in range(seeds)]
    )
    value, (low, high) = statistics.paired_difference(area, np.zeros(seeds))
    print(f"area of the front, {seeds} seed(s): {value:.3f} [{low:.3f}, {high:.3f}]")


def _points(run):
    """{name: (cost, quality), f64[seeds] each} of a run."""
    names, head = run.metrics(), f"{_COST.value}/"
    prices = sorted((x[len(head) :] for x in names if x.startswith(head)), key=float)
    if not prices and {_COST.value, _QUALITY.value} - names:
        raise ValueError(
            f"{run.name} has no metrics {_COST.value!r} and {_QUALITY.value!r}: expected those of "
            "component trade_off, or others by --cost and --quality"
        )
    suffixes = [f"/{price}" for price in prices] or [""]
    return {
        run.name + suffix: tuple(run.final(x + suffix) for x in (_COST.value, _QUALITY.value))
        for suffix in suffixes
    }


def _evaluated(workdir):
    """{name: (mean length, success), f64[seeds] each} of a run's evaluations."""
    points = {}
    found = (workdir / "eval").rglob("update_*.json")
    for path in sorted(found, key=lambda path: (str(path.parent), path.name)):
        record = json.loads(path.read_text())
        name = str(path.parent.relative_to(workdir.parent)).replace("/eval", "", 1)
        played = [record["per_seed"][str(seed)] for seed in record["seeds"]]
        points[name] = tuple(
            np.array([np.mean(x[column]) for x in played]) for column in ("length", "success")
        )
    if not points:
        raise ValueError(f"{workdir} has no evaluations: run launchers.evaluate on it")
    return points


if __name__ == "__main__":
    cli.run(main)
