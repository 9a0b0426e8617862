r"""Compares methods under one protocol: the same tasks, budget of turns, network, tuning and seeds.

    python -m launchers.compare --suite=arrays --workdir=runs/compare
    python -m launchers.compare --suite=arrays --workdir=runs/mine --method=my_module.my_estimator \
        --reduced
    python -m launchers.compare --suite=arrays --table

The first command runs a suite of `configs/comparison`: for every world and method the run among
whose seeds its values are chosen, and then its results on other seeds. It may be stopped and given
again: what is done stays, run by run. --worlds and --methods take some of them. --method runs one
of your own, and ranks it against the stored results of the others (configs/comparison/SUITE.csv),
which are not run again; with --reduced in the few worlds that rank methods nearly as all do.
--missing runs what the stored results do not have, and --store adds to them what --workdir has.
--noise measures, on the same episodes for all, how clear the gradient of early turns is by each
method's estimator.
--table prints the stored results, and those of --workdir, without running anything.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

from launchers import cli, drawing
from launchers.cluster import job_flags, reports

_SUITE = flags.DEFINE_string("suite", "arrays", "A module of configs/comparison.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the runs.")
_WORLDS = flags.DEFINE_list("worlds", None, "Some worlds; all.")
_REDUCED = flags.DEFINE_bool("reduced", False, "The few worlds that rank methods as all do.")
_METHODS = flags.DEFINE_list("methods", None, "Some methods; all.")
_METHOD = flags.DEFINE_string("method", None, "my_module.my_estimator[;key=value;...] of yours.")
_BACKEND = flags.DEFINE_enum("backend", "local", reports.BACKENDS, "Where runs are.")
_AT_ONCE = flags.DEFINE_integer("at_once", 1, "Runs at the same time.")
_MISSING = flags.DEFINE_bool("missing", False, "Leave out pairs that have stored results.")
_STORE = flags.DEFINE_bool("store", False, "Add the results to the stored ones.")
_NOISE = flags.DEFINE_bool("noise", False, "How clear each estimator's gradient is, instead.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Check all runs and print how many there are.")
_TABLE = flags.DEFINE_bool("table", False, "Print the table of what there is.")
_FIGURE = flags.DEFINE_string("figure", None, "Draw the table into this file (SVG or PNG).")
job_flags.define()


def _some(name: str, known: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    for one in asked or ():
        if one not in known:
            cli.fail(f"--{name}: there is no {one!r}; expected some of {', '.join(known)}")
    return list(asked or known)


def _worlds(suite: Any) -> list[str]:
    """The worlds that the command line asks for."""
    if not _REDUCED.value:
        return _some("worlds", list(suite.worlds), _WORLDS.value)
    if _WORLDS.value:
        cli.fail("--reduced says which worlds, and --worlds, too; give one of them")
    if not suite.reduced:
        cli.fail(f"--reduced: the suite {suite.name!r} has no reduced worlds; give --worlds")
    return list(suite.reduced)


def _methods(suite: Any) -> list[Any]:
    """The methods that the command line asks for: some of the suite, or one's own."""
    from launchers.comparison import suites

    names = _some("methods", list(suite.methods), _METHODS.value)
    if not _METHOD.value:
        return [suites.Method(name, name) for name in names]
    if _METHODS.value:
        cli.fail("--method is one of your own, --methods some of the suite; give one")
    if _STORE.value:
        cli.fail("--store is for the suite's methods, --method is one of your own; leave one out")
    return [suites.own_method(_METHOD.value, suite)]


def _machines() -> Any:
    """Where the runs are, and what each is given."""
    from launchers.comparison import driver

    return driver.Machines(_BACKEND.value, _AT_ONCE.value, job_flags.resources())


def _with_runs(suite: Any, worlds: Sequence[str], known: list[Any]) -> tuple[list[Any], list[str]]:
    """(the stored rows with those of --workdir in their place, runs that did not end well)."""
    from launchers.comparison import driver, rows, suites

    methods, workdir, failed = _methods(suite), pathlib.Path(_WORKDIR.value), []
    if not (_TABLE.value or _FIGURE.value):
        pairs = _pairs(worlds, methods, known)
        failed = driver.run(suite, pairs, workdir, _machines())
    new = driver.collect(suite, worlds, methods, workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    rows.write(workdir / "results.csv", new)
    seen = {(row.world, row.method) for row in new}
    known = [row for row in known if (row.world, row.method) not in seen] + new
    if _STORE.value:
        rows.write(suites.packaged(suite.name), known)
    return known, failed


def _of_gradients(suite: Any, worlds: Sequence[str], known: list[Any]) -> list[str]:
    """Measures gradients, and prints their table with that of the stored ones."""
    from launchers.comparison import noise, suites

    workdir, path = pathlib.Path(_WORKDIR.value), suites.packaged(f"{suite.name}_noise")
    new, failed = noise.run(suite, worlds, known, workdir, _machines())
    found = [row for row in noise.read(path) if row.world not in {one.world for one in new}] + new
    noise.write(path if _STORE.value else workdir / path.name, found)
    print("\n".join(noise.table(suite, found)))
    return failed


def _pairs(worlds: Sequence[str], methods: Sequence[Any], known: Sequence[Any]) -> list[Any]:
    """All pairs of a world and a method; with --missing those without stored rows."""
    there = {(row.world, row.method) for row in known if _MISSING.value}
    return [(w, m) for w in worlds for m in methods if (w, m.name) not in there]


def main(argv: list[str]) -> None:
    """Runs what is missing, and prints the table."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --suite=arrays --workdir=DIR")
    import jax

    # Configs are checked without the accelerators, which belong to the runs.
    jax.config.update("jax_platforms", "cpu")
    from launchers.comparison import driver, rows, suites, tables

    if _SUITE.value not in suites.SUITES:
        cli.fail(f"--suite={_SUITE.value}: expected one of {', '.join(suites.SUITES)}")
    suite, failed = suites.find(_SUITE.value), []
    worlds = _worlds(suite)
    if not (_WORKDIR.value or ((_TABLE.value or _FIGURE.value) and not _NOISE.value)):
        cli.fail("--workdir is missing: the directory of the runs; or --table")
    if _FIGURE.value:
        drawing.check_format(cli.output("figure", _FIGURE.value))
    if _WORKDIR.value and not _DRY_RUN.value:
        cli.output("workdir", _WORKDIR.value, folder=True)
    try:
        known = rows.read(suites.packaged(suite.name))
        if _WORKDIR.value and _DRY_RUN.value:
            print(driver.plan(suite, _pairs(worlds, _methods(suite), known)))
            return
        if _NOISE.value:
            for message in _of_gradients(suite, worlds, known):
                cli.fail(message)
            return
        if _WORKDIR.value:
            known, failed = _with_runs(suite, worlds, known)
    except ValueError as error:
        cli.fail(error)
    ended = ""
    if failed:
        ended = f"{len(failed)} runs did not end well; {failed[0]}; the same command goes on"
    known = [row for row in known if row.world in worlds]
    if not known:
        cli.fail(ended or "there are no results yet; without --table the command runs them")
    if _FIGURE.value:
        from launchers.comparison.drawing import draw

        draw(suite, known, pathlib.Path(_FIGURE.value))
    print("\n".join(tables.text(suite, known)))
    if ended:
        cli.fail(ended)


if __name__ == "__main__":
    cli.run(main)
