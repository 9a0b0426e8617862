"""Runs that are arithmetic: a learning curve of a cell, written as a run directory has it.

As a program it searches with them, and is killed by itself where it is told:
`python fake_runs.py DIRECTORY CONFIG KIND KILL_AT`, KILL_AT the number of steps until SIGKILL.
"""

import json
import os
import pathlib
import shlex
import signal
import sys

CONFIG = """
import ml_collections
def get_config():
    return ml_collections.ConfigDict(dict(
        updates=90, log_every=10, seed=0, num_seeds=2, rate=0.3, weight=0.5, epochs=1))
"""
SPACE = "rate=0.1,0.2,0.3;weight=0.1,0.5,0.9;epochs=1,2,3"
RANGES = "rate=log(0.01,1.0);weight=uniform(0.1,0.9);epochs=int(1,3)"


def curve(config, seed, update):
    """Success of a cell: best at rate 0.2, weight 0.5, 2 epochs; noise by seed and update."""
    far = abs(config.rate - 0.2) + 0.5 * abs(config.weight - 0.5) + 0.05 * abs(config.epochs - 2)
    noise = 0.01 * ((7 * seed + update) % 5 - 2)
    return (1 - far) * update / config.updates + noise * (1 - update / config.updates)


class Runner:
    """Carries out jobs; step is called in the middle of every update and when one is done."""

    def __init__(self, step=lambda: None, fails=lambda config: False):
        self.step, self.fails, self.trained = step, fails, []

    def __call__(self, jobs):
        for job in jobs:
            self._train(job)

    def _train(self, job):
        from launchers.search.definition import resolved

        stop = [int(x.partition("=")[2]) for x in job.arguments if x.startswith("--stop_after")]
        config = resolved([x for x in job.arguments if not x.startswith("--stop_after")])
        end = min([*stop, config.updates])
        if self.fails(config):
            return
        path = job.workdir
        path.mkdir(parents=True, exist_ok=True)
        command = shlex.join(["python", "-m", "launchers.train", *job.arguments])
        (path / "config.json").write_text(json.dumps(config.to_dict()))
        (path / "provenance.json").write_text(json.dumps({"command": command}))
        saved = max((int(x.name) for x in (path / "checkpoints").glob("*")), default=0)
        lines = path / "metrics.jsonl"
        kept = [x for x in lines.read_text().splitlines()] if lines.exists() else []
        kept = [x for x in kept if json.loads(x)["update"] <= saved]
        lines.write_text("".join(x + "\n" for x in kept))
        for update in range(saved + config.log_every, end + 1, config.log_every):
            with lines.open("a") as file:
                for seed in range(config.seed, config.seed + config.num_seeds):
                    record = {"seed": seed, "update": update, "env_steps": 10 * update}
                    record["success_rate"] = curve(config, seed, update)
                    file.write(json.dumps(record) + "\n")
            self.step()
        self.trained.append((job.name, saved, end))
        (path / "checkpoints" / str(end)).mkdir(parents=True, exist_ok=True)
        self.step()


def search(directory, config, kind, run, **changes):
    from launchers.search.definition import Search
    from launchers.search.driver import search as driver
    from launchers.search.space import parse

    options = {"fresh_seeds": 4, "seed": 3}
    if kind in ("random", "tpe"):
        options |= {"trials": 14, "at_once": 2, "rungs": (30,)}
    text = changes.pop("space", RANGES if kind in ("random", "tpe") else SPACE)
    what = Search(parse([str(config)], text), kind, **(options | changes))
    return driver(what, pathlib.Path(directory), run)


def main(directory, config, kind, kill_at):
    left = int(kill_at)

    def step():
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    from launchers.search.trials import Trials

    # Also between any two lines of the journal.
    for name in ("add", "report", "finish"):
        whole = getattr(Trials, name)

        def counted(self, *arguments, whole=whole):
            step()
            return whole(self, *arguments)

        setattr(Trials, name, counted)
    runner = Runner(step)
    search(directory, config, kind, runner)
    print(json.dumps(runner.trained))


if __name__ == "__main__":
    main(*sys.argv[1:])
