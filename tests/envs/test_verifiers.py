"""Environments of the package verifiers here, and ours there, against its own rollouts."""

import asyncio
import json
import os
import pathlib
import types

import jax
import numpy as np
import pytest

import envs
from agentrl import policies, rollout
from agentrl.rollout import contexts
from envs.hosted import worker

vf = pytest.importorskip("verifiers", reason="pip install 'verifiers<0.4'")
if not hasattr(vf, "MultiTurnEnv"):
    pytest.skip("pip install 'verifiers<0.4'", allow_module_level=True)

import httpx  # noqa: E402
import openai  # noqa: E402
from verifiers.clients import OpenAIChatCompletionsClient  # noqa: E402

from envs import gymnasium_bridge, verifiers_bridge  # noqa: E402

TOYS = str(pathlib.Path(__file__).parents[1] / "support" / "verifiers_toys.py")
TOY = worker._module_of_file(TOYS)


def stub(replies):
    """A client of OpenAI's that gives these replies; a list is calls of tools."""
    left = list(replies)

    def answer(request):
        said = left.pop(0)
        message = {"role": "assistant", "content": said}
        if isinstance(said, list):
            calls = [
                {"id": f"call_{i}", "type": "function", "function": call}
                for i, call in enumerate(said)
            ]
            message |= {"content": "", "tool_calls": calls}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        made = {"id": "1", "created": 0, "model": "m", "object": "chat.completion"}
        return httpx.Response(200, json=made | {"choices": [choice]})

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = openai.AsyncOpenAI(api_key="none", base_url="http://none", http_client=http)
    return OpenAIChatCompletionsClient(client)


def by_verifiers(env, row, replies):
    """What verifiers itself makes of these replies to a row."""
    inputs = [env.get_dataset()[row]]
    run = env.run_group(inputs, stub(replies), "m", {}, state_columns=["stop_condition"])
    return asyncio.run(run)[0]


def play(env, seed, replies):
    """(observations, rewards, the last answer) of an environment of the worker."""
    seen, rewards = [env.reset(seed=seed)[0]], []
    for reply in replies:
        shown, reward, terminated, truncated, info = env.step(reply)
        seen.append(shown)
        rewards.append(reward)
    return seen, rewards, types.SimpleNamespace(terminated=terminated, truncated=truncated, **info)


def same(rewards, answer, output):
    """The last answer has verifiers' reward and all of its metrics."""
    assert output["error"] is None
    assert rewards[-1] == pytest.approx(output["reward"]) and not any(rewards[:-1])
    assert answer.metrics == pytest.approx(output["metrics"])
    assert answer.terminated != answer.truncated


def test_an_environment_of_one_turn():
    one, theirs = worker.make(f"verifiers:{TOYS}:sums", {"highest": 3}), TOY.sums(3)
    assert one.metrics == ("_exact", "_length", "num_turns")
    for seed, reply in ((4, "2"), (5, "2"), (2, "four")):
        number = seed % 3
        (first, _), rewards, answer = play(one, seed, [reply])
        output = by_verifiers(theirs, number, [reply])
        same(rewards, answer, output)
        assert answer.terminated and answer.success == (output["reward"] >= 0.5)
        assert first == (
            "System: Answer with a number.\n\nUser: 8+1=\n\nAssistant: 9\n\n"
            f"User: {number}+{number}="
        )


def test_an_environment_of_several_turns():
    one, theirs = worker.make(f"verifiers:{TOYS}:guesses", {}), TOY.guesses()
    for replies, over in ((["5", "3"], True), (["3"], True), (["5", "1", "4"], False)):
        seen, rewards, answer = play(one, 0, replies)
        output = by_verifiers(theirs, 0, replies)
        same(rewards, answer, output)
        assert answer.terminated == over == (output["stop_condition"] != "max_turns_reached")
        assert seen[0] == "Guess 3" and set(seen[1:-1]) <= {"less", "more"}
    # A reset amid an episode begins a new one; an error costs the episode.
    play(one, 1, ["5"])
    assert play(one, 1, ["7"])[2].success
    for failing, why in (("raise", ValueError), ("give up", vf.ToolError)):
        one.reset(seed=0)
        with pytest.raises(why):
            one.step(failing)
    # Its evaluation set has one row.
    assert worker.make(f"verifiers:{TOYS}:guesses", {"rows": "eval"}).reset(seed=4)[0] == "Guess 7"
    one.close()


def test_an_environment_with_tools():
    call = '<tool_call>{"name": "price", "arguments": {"item": "%s"}}</tool_call>'
    calls = [{"name": "price", "arguments": json.dumps({"item": i})} for i in ("apple", "pear")]
    one = worker.make(f"verifiers:{TOYS}:shop", {})
    seen, rewards, answer = play(one, 0, [call % "apple" + "\n" + call % "pear", "7"])
    same(rewards, answer, by_verifiers(TOY.shop(), 0, [calls, "7"]))
    assert answer.metrics["price_calls"] == 2 and rewards == [0.0, 1.0]
    assert seen[0].startswith('Tools:\n{"name": "price"') and seen[0].endswith("and a pear?")
    assert seen[1] == "3\n\n4"
    # Of a call that is no JSON none is made: it is the answer.
    _, rewards, answer = play(one, 0, ["<tool_call>{price}</tool_call>"])
    assert answer.terminated and not answer.valid and rewards == [0.0]


def test_a_run_of_workers_reports_the_reward_and_its_functions(monkeypatch):
    """By its id, as verifiers finds an installed environment."""
    folder = pathlib.Path(TOYS).parent
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    env, params = envs.make("verifiers:verifiers-toys", number=3)
    assert env.has_success and env.metrics == ("_exact", "_length", "num_turns")
    policy = policies.transformer(
        env.view, codec="byte", width=16, layers=1, heads=2, kv_heads=1, hidden=32
    )
    made = rollout.episodes(
        policy,
        env,
        params,
        contexts.window(history=0, max_new_tokens=2),
        rollout.processes(observation_tokens=64, workers=1, retries=0),
        num_groups=2,
        group_size=2,
        max_turns=1,
    )
    try:
        _, streams, _, metrics = made.collect(
            policy.init(jax.random.key(0)), None, jax.random.key(1)
        )
    finally:
        made.close()
    assert metrics["failed_episodes"][0] == 0
    exact, length = (np.divide(*metrics[f"env/{name}"]) for name in ("_exact", "_length"))
    assert np.asarray(streams.reward).sum() / 4 == pytest.approx(exact + length / 100)


def test_what_cannot_be_is_told_before_anything_is_played():
    for name, options, why in (
        ("compared", {}, "scored by itself"),
        ("sums", {"rows": "test"}, "expected 'train' or 'eval'"),
    ):
        with pytest.raises(ValueError, match=why):
            worker.make(f"verifiers:{TOYS}:{name}", options)
    with pytest.raises(worker.Missing, match="has no missing"):
        worker.make(f"verifiers:{TOYS}:missing", {})
    with pytest.raises(ValueError, match="Could not import 'no-such-thing'"):
        worker.make("verifiers:no-such-thing", {})


@pytest.mark.parametrize("name, steps", [("FrozenLake-v1", 4), ("Coin-v1", 30)])
def test_ours_play_there_as_they_play_here(name, steps):
    """By its own rollouts: the texts, rewards and ends of the Gymnasium bridge."""
    options = {"max_steps_in_episode": steps}
    env = vf.load_environment("envs.verifiers_bridge", name=name, episodes=3, seed=5, **options)
    ours, rng = gymnasium_bridge.single(name, words=True, **options), np.random.default_rng(0)
    for row in range(3):
        text, info = ours.reset(seed=5 + row)
        seen, replies, total, over, valid = [text], [], 0.0, False, 0
        while not over:
            names = [*filter(None, info["commands"]), "no such thing"]
            replies.append(str(rng.choice(names)).upper())
            text, reward, terminated, truncated, info = ours.step(replies[-1])
            seen.append(text)
            total, over, valid = total + reward, terminated or truncated, valid + info["valid"]
        output = by_verifiers(env, row, replies)
        assert output["error"] is None and output["reward"] == pytest.approx(total)
        assert output["metrics"]["valid_share"] == pytest.approx(valid / len(replies))
        assert output["metrics"]["success"] == info["success"]
        assert output["is_truncated"] == truncated
        said = [*output["prompt"], *output["completion"]]
        read = [m["content"] for m in said if m["role"] == "user"]
        assert [text.split("\nCommands: ")[0] for text in read] == seen


def test_ours_with_a_parser_and_what_cannot_be():
    load = verifiers_bridge.load_environment
    env = load("FrozenLake-v1", parser=vf.XMLParser(["think", "answer"]), episodes=1, seed=3)
    ours = gymnasium_bridge.single("FrozenLake-v1", words=True)
    _, info = ours.reset(seed=3)
    command = next(filter(None, info["commands"]))
    replies, over = [], False
    while not over and len(replies) < 400:
        replies.append(f"<think>why</think><answer>{command}</answer>")
        _, reward, terminated, truncated, _ = ours.step(command)
        over = terminated or truncated
    output = by_verifiers(env, 0, replies)
    assert output["metrics"]["valid_share"] == 1 and output["metrics"]["num_turns"] == len(replies)
    with pytest.raises(ValueError, match="has 2 agents"):
        load("TicTacToe-v1")
    with pytest.raises(ValueError, match="expected at least 1"):
        load("FrozenLake-v1", episodes=0)
