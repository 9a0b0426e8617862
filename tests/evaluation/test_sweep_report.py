"""The report of a sweep, over run directories written by hand."""

import html.parser
import json
import math
import pathlib
import re
import sys

import numpy as np
import pytest

from agentrl.evaluation import sweep_report, sweeps
from agentrl.evaluation.sweeps import scale

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import directories  # noqa: E402


def cell(directory, rate, kind, best, updates=40, every=10):
    """A run of two seeds whose success grows to `best`."""
    name = f"rate={rate}__kind={kind}"
    directories.write(
        directory / name,
        config={"rate": rate, "kind": kind, "updates": 40},
        lines=[
            x
            for x in directories.learning(best=best, updates=40, every=every)
            if x["update"] <= updates
        ],
        provenance={
            "command": f"python -m launchers.train --config=a.py --config.rate={rate} "
            f"--config.kind={kind} --config.num_seeds=2 --stop_after={updates}"
        },
    )
    return name


@pytest.fixture
def sweep(tmp_path):
    """Four cells: two to the end, two stopped at update 20, which there were better."""
    cell(tmp_path, 0.001, "<a>", 0.5)
    cell(tmp_path, 0.1, "<a>", 0.7)
    cell(tmp_path, 0.001, "b", 0.1, updates=20)
    cell(tmp_path, 0.1, "b", 0.9, updates=20)
    return tmp_path


def test_axes_are_what_the_commands_differ_in_and_cells_compare_at_the_same_update(sweep):
    read = sweeps.read(sweep)
    assert read.axes == ("rate", "kind")
    assert [(c.values["rate"], c.values["kind"], c.update) for c in read.cells] == [
        (0.1, "<a>", 40),
        (0.001, "<a>", 40),
        (0.1, "b", 20),
        (0.001, "b", 20),
    ]
    # Seed 1 has a tenth more than seed 0; halfway there, half of it.
    assert np.allclose([read.value(c) for c in read.cells], [0.75, 0.55, 0.475, 0.075])
    assert np.allclose([read.value(c, 20) for c in read.cells], [0.375, 0.275, 0.475, 0.075])
    assert read.common_update() == 20
    assert read.cells[0].env_steps(40) == 40 * 10.5


def test_less_is_better_if_asked(sweep):
    read = sweeps.read(sweep, "success_rate", minimize=True)
    assert [c.values["rate"] for c in read.cells] == [0.001, 0.1, 0.001, 0.1]


def test_the_table_has_a_row_for_each_seed_and_every_metric(sweep):
    rows = sweeps.rows(sweeps.read(sweep))
    assert len(rows) == 8
    assert rows[0]["rate"] == 0.1 and rows[0]["seed"] == 0
    assert rows[0]["success_rate"] == pytest.approx(0.7)
    assert rows[0]["entropy"] == pytest.approx(0.4) and rows[-1]["update"] == 20


def paths(text):
    return re.findall(r'<path class="line [^"]*" d="([^"]*)"', text)


def test_a_line_of_the_picture_ends_where_its_cell_stopped(sweep):
    text = sweep_report.parallel(sweeps.read(sweep))
    drawn = paths(text)
    # Two keys and two rungs; the best cell is drawn last.
    assert [d.count("L") + 1 for d in drawn] == [3, 3, 4, 4]
    assert 'class="line series-1"' in text.split("<path")[-1]
    heights = [[float(p.split()[1]) for p in re.split("[ML]", d)[1:]] for d in drawn]
    # The higher rate lies above, and what scored more at update 20 too.
    assert heights[3][0] < heights[2][0] and heights[1][2] < heights[3][2] < heights[2][2]
    assert "0.375 at update 20, 0.75 at update 40" in text
    assert "&lt;a&gt;" in text and "<a>" not in text


def test_the_page_stands_alone(sweep):
    class Parser(html.parser.HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.links = [], []

        def handle_starttag(self, name, attributes):
            self.links += [v for k, v in attributes if k in ("src", "href")]
            if name not in ("meta", "br", "wbr"):
                self.open.append(name)

        def handle_endtag(self, name):
            assert self.open.pop() == name

    text = sweep_report.report(sweeps.read(sweep), {"rate": 0.75, "kind": 0.25})
    parser = Parser()
    parser.feed(text)
    assert not parser.open and all(link.startswith("#") for link in parser.links)
    assert "120 of 160 updates (75%)" in text and "75%" in text and "--config.rate=0.1" in text
    assert 'id="check"' not in text


def test_the_best_meets_the_default_with_an_interval(sweep):
    """Differences of pairs: 0.2, 0.2 and 0.5; 0.3 +- 4.303 * 0.1732 / sqrt(3)."""
    names = {"best": [], "default": []}
    for side, best in (("best", (0.5, 0.6, 0.8)), ("default", (0.3, 0.4, 0.3))):
        for seed, value in zip((5, 6, 7), best, strict=True):
            folder = sweep / "fresh_seeds" / f"{side}__seed={seed}"
            line = {"seed": seed, "update": 40, "success_rate": value}
            directories.write(folder, lines=[line])
            names[side].append(str(folder.relative_to(sweep)))
    (sweep / "search.json").write_text(json.dumps({"fresh": names | {"cell": "x"}}))
    read = sweeps.read(sweep)
    assert read.fresh.seeds == (5, 6, 7) and len(read.cells) == 4
    value, (low, high) = read.fresh.difference
    half = 4.302653 * math.sqrt(0.03) / math.sqrt(3)
    assert np.allclose([value, low, high], [0.3, 0.3 - half, 0.3 + half])
    text = sweep_report.report(read, {})
    assert "The interval of the difference holds 0" in text
    assert f"0.300 [−{half - 0.3:.3f}, {0.3 + half:.3f}]" in text


def test_scales():
    assert scale([0.001, 0.003, 0.01]) == "log" and scale([0.8, 0.9, 0.99]) == "uniform"
    assert scale([1, 2, 4]) == "int" and scale(["a", 1]) == "choice"
    assert scale([True, False]) == "choice" and scale([0.0, 1.0]) == "uniform"


def test_runs_without_the_metric_are_left_out_and_without_any_the_directory_is_refused(sweep):
    directories.write(sweep / "begun", lines=[])
    assert len(sweeps.read(sweep).cells) == 4
    with pytest.raises(ValueError, match="no metric 'succes' up to update"):
        sweeps.read(sweep, "succes")
    with pytest.raises(ValueError, match="name the --workdir of a sweep"):
        sweeps.read(sweep / "begun")
