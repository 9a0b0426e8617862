"""Signs of trouble in episodes, and which episodes deserve a look."""

import json
import random

import pytest
from in_process import call_here

from agentrl.trajectories import files, schema, triage
from agentrl.trajectories.loops import Call, loops


def made(texts, name="a", success=False, **flags):
    """An episode of (read, written) texts; flags: {turn: fields of the turn}."""
    last = len(texts) - 1
    turns, spans = [], []
    for t, (read, written) in enumerate(texts):
        own = {"terminated": t == last, "truncated": False, "success": success and t == last}
        turns.append(schema.Turn(t, 0.0, **(own | flags.get(f"turn{t}", {}))))
        spans.append(schema.Span("observation", t, (), read or " "))
        spans.append(schema.Span("action", t, (), written, trained=True))
    agent = schema.Agent(turns=tuple(turns), rows=(tuple(spans),))
    return schema.Episode(name, schema.Task("adp", {}, len(texts)), (agent,))


def called(name, argument):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': {'x': argument}})}</tool_call>"


@pytest.mark.parametrize(
    "calls, found",
    [
        (
            ["a1", "a1", "a1", "b0", "a1", "a2", "a3"],
            [("retry", 0, 2), ("parameter_drift", 4, 6)],
        ),
        (["a1", "b1", "a1", "b1", "a1", "b1"], [("oscillation", 0, 5)]),
        (["a1", "a1", "b1", "b1"], []),
        (["a1", "b1", "a1", "b1", "a1"], []),
        # The drift touches a retry and is dropped, as in the source.
        (["a1", "a1", "a1", "a2"], [("retry", 0, 2)]),
    ],
)
def test_loops_of_calls(calls, found):
    calls = [Call(turn, name, argument) for turn, (name, argument) in enumerate(calls)]
    assert [(x.kind, x.first, x.last) for x in loops(calls)] == found


def test_worked_numbers():
    dragging = [triage.efficiency(n) for n in (5, 6, 7, 9, 10, 15)]
    assert dragging == pytest.approx([1, 0.8, 0.6667, 0.5, 0.4444, 0.2857], abs=5e-5)
    alike = triage.similarity("go to the shelf 1 now", "Go to the shelf 2, now!")
    assert alike == pytest.approx(15 / 21)
    assert [triage.severity(n) for n in range(7)] == [0, 1, 1, 2, 2, 3, 3]
    # 50 + 20 * 0.6 - 8 - 5
    kinds = ["satisfaction.gratitude", "failure.state", "loop.retry"]
    assert triage.quality(kinds, 9) == pytest.approx(49)
    assert triage.quality(["satisfaction.gratitude"] * 3, 9) == pytest.approx(69)
    assert triage.quality(["disengagement.quit"], 9) == 0
    assert triage.quality(["stagnation.exact_repetition"] * 5, 9) == 0
    assert triage.quality(["misalignment.correction"] * 3, 9) == pytest.approx(35)


def kinds(episode):
    return [sign.kind for sign in triage.signals(episode)]


def test_signs_of_texts_and_flags():
    assert kinds(made([("A room.", "look"), ("A door.", "open it")])) == []
    told = "error: there is no tool 'serach'; there are search"
    assert kinds(made([("", "x"), (told, "y")])) == ["failure.tool_not_found"]
    told = "error: search: no answer in 5 s"
    assert kinds(made([("", "x"), (told, "y")])) == ["exhaustion.timeout"]
    told = "Thanks, that works. Never mind the rest."
    assert set(kinds(made([(told, "x")]))) == {
        "satisfaction.gratitude",
        "satisfaction.confirmation",
        "disengagement.quit",
    }
    wrong = {"valid": False, "well_formed": False}
    cut = {"terminated": False, "truncated": True, "stop": "length"}
    found = made([("", "x"), ("", "y"), ("", "z")], turn0=wrong, turn1={"valid": False}, turn2=cut)
    assert kinds(found) == [
        "failure.malformed_reply",
        "failure.invalid_action",
        "exhaustion.turns",
        "exhaustion.length",
    ]
    same = [("", "I go to the kitchen now."), ("", "I go to the kitchen, now.")]
    assert kinds(made(same)) == ["stagnation.exact_repetition"]
    assert kinds(made([("", called("find", i)) for i in (1, 2, 3)])) == ["loop.parameter_drift"]


def test_signs_of_actions_are_of_what_they_were_taken_in():
    def walk(*places):
        turns = [
            schema.Turn(t, 0.0, t == len(places) - 1, False, anchor=(at, 0), action=1)
            for t, at in enumerate(places)
        ]
        task = schema.Task("Coin-v1", {}, len(places))
        return schema.Episode("a", task, (schema.Agent(turns=tuple(turns)),))

    assert kinds(walk(1, 2, 3, 4)) == []
    assert kinds(walk(1, 1, 1)) == [*["stagnation.same_state"] * 2, "loop.retry"]
    assert "loop.oscillation" in kinds(walk(1, 2, 1, 2, 1, 2))
    assert kinds(walk(*range(10))) == ["stagnation.dragging"]


def world(rng, number):
    """An episode of ten calls, with a fault in three of ten, from which most recover."""
    wanted = rng.sample(range(100), 9)
    texts, fault = [("", called(f"tool{wanted[0]}", 0))], rng.random() < 0.3
    at, kind = rng.randrange(1, 7), rng.randrange(3)
    for t in range(1, 9):
        read, written = f"result {rng.random()}", called(f"tool{wanted[t]}", t)
        if fault and kind == 0 and at <= t < at + 3:
            written = called(f"tool{wanted[at]}", at)
        if fault and kind == 1 and at == t:
            read = "error: validation error"
        if fault and kind == 2 and at <= t < at + 3:
            written = called(f"tool{wanted[at]}", t)
        texts.append((read, written))
    solved = rng.random() < (0.7 if fault else 0.8)
    return made(texts, str(number), solved), fault


def test_chosen_episodes_hold_faults_more_often_than_failures_and_than_any():
    rng = random.Random(0)
    made_ = [world(rng, i) for i in range(400)]
    for part in (made_, [pair for pair in made_ if pair[0].success]):
        fault = {episode.id: wrong for episode, wrong in part}
        found = triage.triage(episode for episode, _ in part)
        chosen = triage.chosen(found, len(part) // 10)
        rate = sum(fault[one.id] for one in chosen) / len(chosen)
        failed = [fault[episode.id] for episode, _ in part if not episode.success]
        others = [sum(x) / len(x) for x in (list(fault.values()), failed) if x]
        assert len(chosen) == len(part) // 10 and rate > 1.5 * max(others)
        categories = {s.kind.partition(".")[0] for one in chosen for s in one.signals}
        assert {"loop", "failure"} <= categories


def test_the_launcher_prints_a_table_and_writes_a_file(tmp_path):
    good = made([("A room.", "look")], "good", success=True)
    bad = made([("", called("find", 1))] * 3, "bad")
    path = tmp_path / "some.jsonl"
    files.write(path, [good, bad])
    done = call_here("trajectories", f"--triage={path}")
    assert done.returncode == 0, done.stderr
    assert "2 episodes, 1 solved" in done.stdout and "loop.retry" in done.stdout
    written = json.loads((tmp_path / "some.triage.json").read_text())
    assert written["chosen"] == ["bad"]
    assert [one["quality"] for one in written["episodes"]] == [62, 45]
