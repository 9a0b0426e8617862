"""Environments in processes of their own: the pipe, what goes wrong, and that nobody is left."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.hosted import HostError, Pool, worker
from envs.hosted.answers import answers

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "hosted_toys.py")
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


def pool(name, workers=1, timeout_s=20.0, **options):
    return Pool(
        f"{TOYS}:{name}", options, workers=workers, timeout_s=timeout_s, start_timeout_s=60.0
    )


def started(made, number=1):
    while len(made.idle()) < number:
        assert made.wait() == []


def ask(made, number, **request):
    made.ask(number, request)
    answers = []
    while not answers:
        answers = made.wait()
    (answer,) = answers
    assert answer.worker == number
    return answer


def alive(process):
    """Whether it runs; one that has ended and waits to be counted does not."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)


@given(st.lists(JSON, max_size=4), st.integers(1, 9))
def test_messages_come_out_as_they_went_in_however_they_are_cut(messages, size):
    data = b"".join(worker.frame(m) for m in messages)
    buffer, out = bytearray(), []
    for start in range(0, len(data), size):
        buffer += data[start : start + size]
        while len(buffer) >= 4:
            before = len(buffer)
            message = worker.unframe(buffer)
            if len(buffer) == before:
                break
            out.append(message)
    assert out == messages and not buffer


def test_what_is_no_message_is_an_error():
    with pytest.raises(ValueError, match="4294967295 bytes"):
        worker.unframe(bytearray(b"\xff\xff\xff\xff no frame"))
    with pytest.raises(ValueError):
        worker.unframe(bytearray(b"\x00\x00\x00\x01{"))


def test_an_environment_answers_and_what_it_prints_is_no_message():
    with pool("Echo") as made:
        started(made)
        first = ask(made, 0, op="reset", seed=3).reply
        # `random` is seeded: the same seed says the same.
        assert ask(made, 0, op="reset", seed=3).reply == first
        for text in ("", "héllo\n\x00", "\ud800", "x" * 300_000):
            reply = ask(made, 0, op="step", action=text).reply
            assert reply["observation"] == text and reply["reward"] == [0.5]
            assert reply["success"] == [False] and reply["valid"] and reply["offender"] == -1
        assert ask(made, 0, op="step", action="end").reply["terminated"]
        cut = ask(made, 0, op="step", action="cut").reply
        assert cut["truncated"] and not cut["terminated"]


def test_the_process_needs_nothing_of_ours():
    with pool("Echo") as made:
        started(made)
        loaded = ask(made, 0, op="step", action="modules").reply["observation"].split()
        assert "json" in loaded and not {"jax", "numpy", "agentrl", "envs"} & set(loaded)


@pytest.mark.parametrize(
    "how, message",
    [
        ("raise", "KeyError: 'nothing there'"),
        ("die", "its process ended with status 7; its last words: about to die"),
        ("hang", "no answer within 0.5 seconds"),
        ("garble", "it sent no message"),
        ("forge", "it sent no answer, but {}"),
        ("flee", "KeyError: 'nothing there'"),
        ("nan", "expected finite numbers"),
    ],
)
def test_a_worker_that_fails_is_replaced_with_all_that_it_has_started(how, message, tmp_path):
    limit = 0.5 if how == "hang" else 20.0
    with pool("Trouble", 2, limit, how=how, modulus=1, marks=str(tmp_path)) as made:
        started(made, 2)
        # The other worker is asked at the same time, and nothing happens to it.
        for number, seed in ((0, 0), (1, 1)):
            ask(made, number, op="reset", seed=seed)
        ask(made, 0, op="step", action="a")
        failed = ask(made, 0, op="step", action="a")
        assert failed.reply is None and message in failed.failure, failed
        assert made.replaced == 1 and 1 in made.idle()
        assert ask(made, 1, op="step", action="a").reply["reward"] == [0.25]
        started(made, 2)
        assert ask(made, 0, op="reset", seed=0).reply["observation"]
    marks = [int(p.name) for p in tmp_path.iterdir()]
    assert len(marks) == 3 + (how in ("hang", "flee"))
    wait_for(lambda: not any(map(alive, marks)))


def test_one_that_ends_while_it_is_idle_costs_nothing(tmp_path):
    with pool("Trouble", how="raise", marks=str(tmp_path)) as made:
        started(made)
        (first,) = tmp_path.iterdir()
        os.kill(int(first.name), signal.SIGKILL)
        while made.replaced == 0:
            assert made.wait() == []
        started(made)
        assert ask(made, 0, op="reset", seed=1).reply["seat"] == 0


def test_an_environment_that_does_not_start_says_why(tmp_path):
    for source, options, message in (
        ("nothing", {}, "verifiers:ID, module:f or program:module:f"),
        (f"{tmp_path}/none.py:Env", {}, "no file"),
        ("no_such_module:Env", {}, "No module named 'no_such_module'; run where the module is"),
        (f"{TOYS}:Nobody", {}, "has no Nobody"),
        (f"{TOYS}:refuses", {"a": 1}, "RuntimeError: does not start with {'a': 1}"),
        (f"{TOYS}:Race", {"fast": 1}, "unexpected keyword argument 'fast'"),
        (f"{TOYS}:Race", {"python": "/no/python"}, "cannot start '/no/python'"),
    ):
        with pytest.raises(ValueError, match="does not start|cannot start") as error:
            envs.hosted.make(source, **options)
        assert message in str(error.value)


@pytest.mark.parametrize("package", ["textarena", "gymnasium"])
def test_a_missing_package_is_named_with_what_to_install(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # which makes its import fail
    with pytest.raises(worker.Missing, match=f"pip install {package} there"):
        worker.make(f"{package}:Any-v0", {})


def test_an_environment_that_starts_once_and_then_never_stops_the_run(tmp_path):
    with pool("Trouble", how="die", modulus=1, marks=str(tmp_path)) as made:
        started(made)
        ask(made, 0, op="reset", seed=0)
        ask(made, 0, op="step", action="a")
        tmp_path.rename(tmp_path.parent / "gone")
        made.ask(0, {"op": "step", "action": "a"})
        with pytest.raises(HostError, match="does not start: FileNotFoundError"):
            while True:
                made.wait()


# What a shell starts in the background, and all that this starts, begins with SIGINT ignored.
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from envs.hosted import Pool
options = {"how": "hang", "modulus": 1, "marks": sys.argv[2]}
pool = Pool(sys.argv[1] + ":Trouble", options, workers=2, timeout_s=600, start_timeout_s=60)
while len(pool.idle()) < 2:
    pool.wait()
pool.ask(0, {"op": "reset", "seed": 0})
pool.wait()
for _ in range(2):
    pool.ask(0, {"op": "step", "action": "a"})
    print("asked", flush=True)
    pool.wait()
"""


def test_sigterm_of_a_whole_job_leaves_the_workers_to_the_run(tmp_path):
    """Slurm sends it to all processes; an episode that was lost would change what is learnt."""
    with pool("Trouble", how="nothing", marks=str(tmp_path)) as made:
        started(made)
        before = ask(made, 0, op="reset", seed=3).reply
        (worker,) = (int(path.name) for path in tmp_path.iterdir())
        os.kill(worker, signal.SIGTERM)
        time.sleep(0.2)
        assert ask(made, 0, op="reset", seed=3).reply == before
        assert [path.name for path in tmp_path.iterdir()] == [str(worker)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nobody_is_left_however_the_run_ends(number, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, TOYS, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    # Two workers, and what the one that hangs has started.
    wait_for(lambda: len(list(tmp_path.iterdir())) == 3)
    marks = [int(p.name) for p in tmp_path.iterdir()]
    assert all(map(alive, marks))
    process.send_signal(number)
    process.wait(timeout=30)
    process.stdout.close()
    wait_for(lambda: not any(map(alive, marks)))


def test_metrics_have_to_be_declared_and_be_numbers():
    served = worker.Server()
    served.answer({"op": "make", "source": f"{TOYS}:Sum", "options": {}})
    served.answer({"op": "reset", "seed": 0})
    told = served.answer({"op": "step", "action": "abc"})
    assert told["metrics"] == {"length": 3.0}
    assert answers("step", told, {"seats": 1, "metrics": ["length"]})
    assert not answers("step", told, {"seats": 1, "metrics": ["size"]})
    assert not answers(
        "step", told | {"metrics": {"length": "3"}}, {"seats": 1, "metrics": ["length"]}
    )
    served.metrics = ("size",)
    with pytest.raises(ValueError, match=r"info\['metrics'\] has length; declared: size"):
        served.answer({"op": "step", "action": "abc"})


def test_what_an_environment_says_of_itself():
    env, params = envs.make(f"{TOYS}:Race", slow=0.0)
    assert params is None and env.num_agents == 2 and env.has_success
    assert env.name == f"{TOYS}:Race" and env.options == {"slow": 0.0}
    env, _ = envs.make(f"{TOYS}:Echo")
    assert env.num_agents == 1 and not env.has_success


def test_the_environment_of_the_readme_is_played(tmp_path):
    # The page is in the repository, not in the package.
    text = (pathlib.Path(__file__).parents[2] / "envs/README.md").read_text()
    (code,) = (x.partition("```")[0] for x in text.split("```python\n") if x.startswith("# guess"))
    (tmp_path / "guess.py").write_text(code)
    source = f"{tmp_path / 'guess.py'}:Guess"
    with Pool(source, {"highest": 3}, workers=1, timeout_s=20.0, start_timeout_s=60.0) as made:
        started(made)
        assert ask(made, 0, op="reset", seed=0).reply["observation"] == "A number from 0 to 3?"
        assert not ask(made, 0, op="step", action="what").reply["valid"]
        answers = [ask(made, 0, op="step", action=str(i)).reply for i in range(4)]
        assert sum(answer["reward"][0] for answer in answers) == 1
        assert [a["terminated"] for a in answers] == [a["success"][0] for a in answers]
