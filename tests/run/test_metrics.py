"""metrics.jsonl with damaged lines: each is told once, the others are read and kept."""

import json
import pathlib

import pytest

from agentrl.evaluation import runs
from agentrl.run import metrics
from agentrl.run.status import status
from launchers.cluster import table
from launchers.comparison import rows

GOOD = [json.dumps({"seed": 0, "update": update, "x": 0.5}).encode() for update in (2, 4, 6)]
DAMAGE = {
    "garbage": b"\x00\x17}{",
    "a number": b"5",
    "an empty object": b"{}",
    "a list": b"[1, 2]",
    "no number of an update": b'{"seed": 0, "update": "4"}',
    "not UTF-8": b'{"seed": 0, "update": 4, "\xff": 1}',
    "half a line": GOOD[1][:9],
}


def written(path: pathlib.Path, *lines: bytes, end: bytes = b"\n"):
    path.write_bytes(b"\n".join(lines) + end)
    return path


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_line_is_told_once_and_the_others_are_read(name, tmp_path, capfd):
    path = written(tmp_path / "metrics.jsonl", GOOD[0], DAMAGE[name], GOOD[1], GOOD[2])
    (tmp_path / "config.json").write_text('{"updates": 6, "seed": 0, "num_seeds": 1}')
    for _ in range(2):
        assert [record["update"] for record in metrics.read(path)] == [2, 4, 6]
    for read in (
        lambda: runs.load([tmp_path])[0].lines,  # figure, report and sweeps
        lambda: table._lines(path),
        lambda: rows.lines_of(tmp_path),
    ):
        assert [record["update"] for record in read()[0]] == [2, 4, 6]
    assert metrics.first_with("x", path)[0]["update"] == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: line 2 is no record of a run")
    assert status(tmp_path).update == 6
    assert status(tmp_path).message == "metrics.jsonl: line 2 is no record of a run"


def test_many_damaged_lines_are_one_warning(tmp_path, capfd):
    path = written(tmp_path / "metrics.jsonl", *[b"?"] * 7, GOOD[0])
    assert len(metrics.read(path)) == 1
    assert "lines 1, 2, 3, 4, 5 and 2 more are no record" in capfd.readouterr().err


def test_blank_lines_hold_nothing(tmp_path, capfd):
    path = written(tmp_path / "metrics.jsonl", b"", GOOD[0], b"  ", b"", GOOD[1])
    assert [record["update"] for record in metrics.read(path)] == [2, 4]
    assert not capfd.readouterr().err


def test_a_line_does_not_depend_on_the_order_of_its_names(tmp_path):
    record = {"update": 2, "seed": 0, "x": 0.5, "env_steps": 64}
    with metrics.Writer(tmp_path, [0], [], print) as writer:
        writer.write(record)
        writer.write({name: record[name] for name in sorted(record)})
    one, other = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert one == other


def test_lines_after_the_update_and_half_a_last_one_are_written_again(tmp_path, capfd):
    path = written(tmp_path / "metrics.jsonl", *GOOD, GOOD[2][:9], end=b"")
    assert len(metrics.read(path)) == 3
    metrics.rewind(path, 4)
    assert path.read_bytes() == b"\n".join(GOOD[:2]) + b"\n"
    assert not capfd.readouterr().err, "a run that was killed leaves such a line"
    written(path, *GOOD, end=b"")  # killed before the end of the line
    metrics.rewind(path, 6)
    assert path.read_bytes() == b"\n".join(GOOD) + b"\n"


@pytest.mark.parametrize("name", DAMAGE)
def test_resuming_keeps_what_it_cannot_read(name, tmp_path):
    """But after lines that are written again."""
    path = written(
        tmp_path / "metrics.jsonl", GOOD[0], DAMAGE[name], b"", GOOD[1], GOOD[2], DAMAGE[name]
    )
    metrics.rewind(path, 4)
    assert path.read_bytes() == b"\n".join([GOOD[0], DAMAGE[name], GOOD[1]]) + b"\n"
