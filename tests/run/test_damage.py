"""Damaged run directories: one clear line each, and nothing of them is changed or lost."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile

import in_process
import pytest
import tiny
from commands import refused

from agentrl.run import checkpoint, checksums, files, loop, metrics, restored
from agentrl.run.status import status
from agentrl.run.workdir import claimed

LINK = "LINK"  # to itself


def config(updates=6):
    return tiny.groups_config(checkpoint__every=2, updates=updates)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six updates, the last checkpoints of which are of 2, 4 and 6."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    assert loop.run(config(), workdir, command="test")
    return workdir


@pytest.fixture
def copy(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def content(directory):
    """All below a directory, by path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
        if path.exists()
    }


def put(path: pathlib.Path, what):
    """In the place of what is there: a directory (None), bytes, a text, or a link to itself."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if what is None:
        path.mkdir()
    elif what == LINK:
        path.symlink_to(path)
    else:
        path.write_bytes(what if isinstance(what, bytes) else what.encode())


@pytest.mark.parametrize(
    ("name", "what", "words"),
    [
        *((name, "x", "is a file, expected a directory") for name in files.FOLDERS),
        *((name, None, "is a directory, expected a file") for name in files.FILES),
        ("tb", LINK, "is a link that leads nowhere, expected a directory"),
        ("metrics.jsonl", LINK, "is a link that leads nowhere, expected a file"),
        ("config.json", "[1, 2]", "contains [1, 2], expected a JSON object"),
        ("config.json", "5", "contains 5, expected a JSON object"),
        ("config.json", "", "is not readable JSON"),
        ("config.json", b'{"seed": "\xff"}', "is not readable JSON"),
        ("pending.json", "{}", "has no 'update', 'records', 'machine'"),
        ("pending.json", "[]", "contains [], expected a JSON object"),
        ("pending.json", "", "is not readable JSON"),
        ("pending.json", b"\xff", "is not readable JSON"),
        ("pending.json", '{"update": "4", "records": [], "machine": {}}', "holds no update"),
        ("pending.json", '{"update": 4, "records": [1], "machine": {}}', "holds no update"),
        ("checkpoints/9999", None, "has the name of a checkpoint and holds none"),
    ],
)
def test_what_is_damaged_is_named_before_anything_is_changed(name, what, words, copy, monkeypatch):
    put(copy / name, what)
    before = content(copy)
    # What compiles, plays or locks comes later.
    monkeypatch.delattr(loop, "compile_programs")
    for longer in (6, 8):
        with pytest.raises((files.RunError, checkpoint.CheckpointError)) as refusal:
            loop.run(config(updates=longer), copy, command="test")
    text = str(refusal.value)
    assert str(copy / name) in text and words in text and len(text.splitlines()) == 1
    assert "move it away" in text or "another --workdir" in text
    assert content(copy) == before
    status(copy)  # never raises


@pytest.mark.parametrize("what", ["{}", '{"learner": 5}', '{"learner": {}}'])
def test_a_config_without_a_microbatch_is_not_asked_for_it(what, copy):
    put(copy / "config.json", what)
    wants = config()
    with wants.ignore_type():
        wants.learner.microbatch = "auto"
    with pytest.raises(files.RunError, match="config.json has no '?learner"):
        loop.run(wants, copy, command="test")


@pytest.mark.parametrize("what", ["[1, 2]", "5", "", b"\xff", None])
def test_a_config_that_cannot_be_read_back_is_named(what, copy):
    put(copy / "config.json", what)
    with pytest.raises(restored.RunError, match="config.json (contains|is not|cannot be)"):
        restored.load(copy)


PLACES = {
    "a file": ("file", "is a file, expected a directory"),
    "below a file": ("file/deep/run", "is a file, expected a directory"),
    "in /proc": ("/proc/nobody/run", "no run can be written there (in /proc: "),
    "a long name": ("n" * 300, "no run can be written there (File name too long"),
    "below a long name": ("n" * 300 + "/run", "no run can be written there (File name too long"),
    "a link to itself": ("loop", "no run can be written there (Too many levels of symbolic links"),
    "a link to nothing": ("nothing", "is a link that leads nowhere, expected a directory"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_where_no_run_can_be(place, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nothing").symlink_to(tmp_path / "missing")
    name, words = PLACES[place]
    before = content(tmp_path)
    with pytest.raises(files.RunError) as refusal:
        loop.run(config(), tmp_path / name, command="test")
    assert words in str(refusal.value) and "another --workdir" in str(refusal.value)
    with contextlib.chdir(tmp_path), pytest.raises(files.RunError):
        files.check(pathlib.Path(name))
    assert content(tmp_path) == before


@pytest.mark.parametrize("place", ["a file", "a long name"])
def test_the_commands_say_so_in_one_line(place, tmp_path):
    (tmp_path / "file").touch()
    workdir, words = tmp_path / PLACES[place][0], PLACES[place][1]
    given = "--config=configs/credit/coin.py:gigpo"
    refused(in_process.call_here("train", given, f"--workdir={workdir}"), words)
    refused(in_process.call_here("evaluate", f"--workdir={workdir}"), words)


@pytest.fixture
def outside():
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name).chmod(0o755)
        yield pathlib.Path(name)


@contextlib.contextmanager
def nobody():
    """Not as root, who can write everywhere."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("where", ["run", "run/new", "run/checkpoints", "run/eval"])
def test_what_is_read_only_is_named(where, outside):
    for name in ("run", "run/checkpoints", "run/eval"):
        (outside / name).mkdir(mode=0o777)
        (outside / name).chmod(0o777)
    shut = outside / where.removesuffix("/new")
    workdir = outside / where if where.endswith("new") else outside / "run"
    with nobody():
        files.check(workdir)
        shut.exists()
    shut.chmod(0o555)
    with nobody(), pytest.raises(files.RunError, match=f"(?s){shut}.*(writable|in {shut}: )"):
        files.check(workdir)
    shut.chmod(0o755)


def test_nothing_is_played_where_nothing_can_be_written(copy, monkeypatch):
    def fails(workdir):
        raise files.RunError("it is read-only")

    with monkeypatch.context() as patched:
        patched.setattr(files, "check", fails)
        patched.delattr(restored, "load")
        refused(in_process.call_here("evaluate", f"--workdir={copy}"), "it is read-only")


def test_an_error_of_files_in_the_middle_is_one_line(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", str(tmp_path / "run" / "metrics.jsonl"))

    monkeypatch.setattr(loop, "run", full)
    given = "--config=configs/credit/coin.py:gigpo"
    done = in_process.call_here("train", given, f"--workdir={tmp_path / 'run'}")
    refused(done, "metrics.jsonl: No space left on device", "the same command resumes")


@pytest.mark.parametrize("name", ["٣", "²", "0007", "4.damaged"])
def test_digits_of_other_scripts_are_no_checkpoint(name, copy):
    shutil.copytree(copy / "checkpoints" / "4", copy / "checkpoints" / name)
    assert checkpoint.steps(copy / "checkpoints") == [2, 4, 6]
    assert status(copy).state == "done" and restored.load(copy).update == 6
    assert (copy / "checkpoints" / name).exists()


def test_a_left_over_of_a_killed_process_is_no_obstacle(tmp_path):
    """Killed between writing a file and renaming it."""
    (tmp_path / "config.tmp").write_text('{"upd')
    with claimed(tmp_path, config()):
        pass
    assert json.loads((tmp_path / "config.json").read_text())["updates"] == 6


# Checkpoints.


def flip(path: pathlib.Path):
    """One bit, in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def files_of(workdir, update):
    folder = workdir / "checkpoints" / str(update)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_every_bit_of_a_checkpoint_counts(copy):
    for path in (path for path in files_of(copy, 6) if path.name != checksums.NAME):
        before = path.read_bytes()
        for harm in (flip, lambda p: p.write_bytes(p.read_bytes()[:-1]), pathlib.Path.unlink):
            harm(path)
            assert str(path) in checksums.damage(copy / "checkpoints" / "6")
            path.write_bytes(before)
    assert checksums.damage(copy / "checkpoints" / "6") is None


@pytest.mark.parametrize("content", ["", "5", "{}", '{"algorithm": "none", "files": {}}', b"\xff"])
def test_checksums_that_cannot_be_read_are_damage(content, copy):
    put(copy / "checkpoints" / "6" / checksums.NAME, content)
    assert "is not readable" in checksums.damage(copy / "checkpoints" / "6")


def largest(workdir, update):
    return max(files_of(workdir, update), key=lambda path: path.stat().st_size)


def test_the_newest_checkpoint_that_is_whole_is_read(copy, capfd):
    wrong = largest(copy, 6)
    flip(wrong)
    before = content(copy)
    assert restored.load(copy).update == 4
    told = [line for line in capfd.readouterr().err.splitlines() if "warning: " in line]
    assert len(told) == 1 and str(wrong) in told[0] and "update 4" in told[0]
    assert content(copy) == before, "reading changes nothing"
    with pytest.raises(
        checkpoint.CheckpointError, match=f"{wrong} is not as it was.*another update .2, 4."
    ):
        restored.load(copy, 6)


def test_without_a_whole_checkpoint_one_error_says_what_to_do(copy):
    for update in (2, 4, 6):
        flip(largest(copy, update))
    before = content(copy)
    for read in (restored.load, lambda d: loop.run(config(updates=8), d, command="test")):
        with pytest.raises(
            checkpoint.CheckpointError, match="none of 3 checkpoints.*put a copy"
        ) as error:
            read(copy)
        assert str(largest(copy, 6)) in str(error.value)
    after = content(copy)
    for name in ("process.json", "config.json"):
        del before[name], after[name]
    assert after == before


def test_a_run_goes_on_from_the_newest_whole_checkpoint(whole, copy):
    """The damaged ones stay under another name, and what follows is as if nothing had been."""
    flip(largest(copy, 6))
    (copy / "checkpoints" / "6.damaged").mkdir()
    longer = config(updates=8)
    assert loop.run(longer, copy, command="test")
    assert checkpoint.steps(copy / "checkpoints") == [4, 6, 8]
    assert (copy / "checkpoints" / "6.damaged1" / checksums.NAME).exists()
    for update in (6, 8):
        assert checksums.damage(copy / "checkpoints" / str(update)) is None
    ours, theirs = (
        [
            {k: v for k, v in line.items() if k not in metrics.MACHINE_METRICS}
            for line in metrics.read(workdir / "metrics.jsonl")
        ]
        for workdir in (copy, whole)
    )
    assert [line["update"] for line in ours] == [2, 4, 6, 8] and ours[:3] == theirs


def test_a_checkpoint_of_an_earlier_version_is_read_unchecked(copy):
    for update in (2, 4, 6):
        (copy / "checkpoints" / str(update) / checksums.NAME).unlink()
    assert restored.load(copy).update == 6
