"""launchers.sweep --diagnose: over directories of a sweep, and over a file of results."""

import json
import pathlib
import re

import pytest
from in_process import call_here

import configs


def write(directory, rate, width, seed, success):
    """A finished run of one seed, whose last line counts."""
    directory.mkdir(parents=True)
    flags = f"--config=a.py --config.rate={rate} --config.width={width} --config.seed={seed}"
    files = {
        "config.json": {"rate": rate, "width": width, "seed": seed, "num_seeds": 1, "updates": 20},
        "provenance.json": {"command": f"python -m launchers.train {flags}"},
    }
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content))
    lines = [
        {"seed": seed, "update": update, "env_steps": update, "success_rate": success * update / 20}
        for update in (10, 20)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))


@pytest.mark.parametrize("nested", [True, False])
def test_a_sweep_of_directories(nested, tmp_path):
    """The rate decides, the width does not; seeds are in directories of their own."""
    for rate in (0.1, 0.2):
        for width in (8, 16):
            for seed in range(6):
                name = f"rate={rate}__width={width}"
                place = f"{name}/seed_{seed}" if nested else f"{name}__seed={seed}"
                noise = (7 * seed + 5 * (width == 16)) % 6 / 100
                write(tmp_path / place, rate, width, seed, (0.8 if rate == 0.2 else 0.5) + noise)
    done = call_here("sweep", f"--diagnose={tmp_path}", "--best_of=4")
    assert not done.stderr
    first, *_ = lines = done.stdout.splitlines()
    assert first.startswith("success_rate at update 20: 24 runs, of which 4 are drawn")
    rows = {line.split()[0]: line.split()[1:3] for line in lines if re.match(r"\d", line)}
    assert rows["0.2"] == ["12", "0.938"] and rows["0.1"] == ["12", "0.062"]  # 1 - 1/2^4
    rate, width = (line for line in lines if line.startswith("The best of"))
    assert "rate=0.2 with probability 0.94 (0.50 if" in rate and "is hardly luck" in rate
    assert "runs that are equal otherwise" in rate and "probability 1.00." in rate
    assert "may be luck" in width


def test_a_file_of_results():
    path = pathlib.Path(configs.__path__[0]) / "comparison" / "arrays.csv"
    flags = (f"--diagnose={path}", "--metric=at_100", "--only=world=coin;method=gigpo")
    done = call_here("sweep", *flags, "--axes=seed", "--best_of=2")
    assert "at_100: 10 runs" in done.stdout
    assert re.search(r"Fewer than 5 runs have \d \(1\), ", done.stdout)
    for more, message in (
        (("--axes=method",), r"--axes=method: all runs have 'gigpo'; expected two values"),
        (("--axes=methods",), r"--axes=methods: not in .*expected one of world, method"),
        ((), r"a file needs --axes=column"),
        (("--axes=seed", "--only=world=cions"), r"--only=world=cions: no such row; .*has coin"),
    ):
        assert re.search(message, call_here("sweep", *flags, *more).stderr), message
