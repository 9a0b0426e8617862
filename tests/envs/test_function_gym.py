"""FunctionGym against UserRL's recorded episodes, its tables against Python, and its words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
import recorded
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.function_gym import env as gym
from envs.function_gym import rules

EPISODES = recorded.episodes("functiongym")
# UserRL's game as it was recorded: its functions, its messages and nothing besides.
RECORDED = {
    "modulus": 0,
    "functions": tuple(episode["rule"] for episode in EPISODES),
    "memory": 0,
    "largest": 3200,
    "wording": "faithful",
}
functions = functools.partial(playing.functions, "FunctionGym-v1")
reader = functools.partial(playing.reader, "FunctionGym-v1")
teller = functools.partial(playing.teller, "FunctionGym-v1")


def task(expression, *numbers, **options):
    """First state with this function and test case."""
    env, _, reset, _ = functions(**options)
    known = env.functions or (rules.SMALL if env.modulus else rules.FOUR)
    return reset(jax.random.key(0)).replace(
        function=jnp.int32(known.index(expression)),
        case=jnp.int32(
            env.probe_action(*numbers) - env.probe_action(*[env.modulus == 0] * len(numbers))
        ),
    )


@pytest.mark.parametrize("episode", EPISODES, ids=lambda e: str(e["seed"]))
def test_recorded_episode(episode):
    env, params, _, step = functions(**RECORDED)
    state = task(episode["rule"], *episode["test_case"], **RECORDED)
    assert teller(**RECORDED)(state) == episode["obs0"]
    assert int(env.tables.answer[int(state.function), int(state.case)]) == episode["expected"]
    for told in episode["steps"]:
        action = reader(**RECORDED)(told["action"])
        _, state, reward, terminated, info = step(state, action)
        assert teller(**RECORDED)(state) == told["obs"]
        assert float(reward) == told["reward"]
        assert bool(terminated) == told["terminated"]
        assert bool(env.is_truncated(state, params)) == told["truncated"]
        assert bool(info["valid"]) == (told["action"] != "hello")
    assert bool(info["success"]) == (told["reward"] == 1)


def test_answers_are_right_to_within_a_millionth():
    env, _, _, step = functions(**RECORDED)
    # 7 / (2 - 7) * 10 is -14.0 but for rounding: -14.000000000000002 would do as well.
    state = task("a / (c - b) * d", 7, 7, 2, 10, **RECORDED)
    read = reader(**RECORDED)
    for text, reward in (("-14.0", 1.0), ("-14", 1.0), ("14", 0.0), ("-14.5", 0.0), ("x", 0.0)):
        assert float(step(state, read(f"[answer] {text}"))[2]) == reward
    assert read("[answer] -14.0") == env.answer_action(-14.0) == env.answer_action(-14.0 + 1e-7)
    assert env.answer_action(0.5) == env.answer_action(99999) == read("[answer] 0.123456")
    assert read("[action] 7 1 5 9") == env.probe_action(7, 1, 5, 9)
    assert read("[Action]  7 1.0 5 9") == env.probe_action(7, 1, 5, 9)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("[action] 1 2 3 4 5", "count"),
        ("[action]", "count"),
        ("[action] 1 2 3 11", "malformed"),
        ("[action] 1 2 3 0", "malformed"),
        ("[search]", "search"),
        ("[search] anything", "search"),
        ("[finish]", "finish"),
        ("[answer]", "wrong"),
        ("[try] 1 2 3 4", "malformed"),
        ("action 1 2 3 4", "malformed"),
        ("", "malformed"),
    ],
)
def test_free_text(text, event):
    state = task("a / (c - b) * d", 7, 7, 2, 10, **RECORDED)
    *_, step = functions(**RECORDED)
    after = step(state, reader(**RECORDED)(text))[1]
    assert gym.EVENTS[int(after.event)] == event


def test_scripted_small_game():
    env, params, _, step = functions()
    state, tell, read = task("a*b + 1", 3, 7), teller(), reader()
    said = [tell(state)]
    for text in ("3 7", "2 4", "what?", "test", "0 5", "=1"):
        observation, state, reward, done, info = step(state, read(text))
        said.append(tell(state))
        assert (float(reward), bool(done)) == (0.0, False) or text == "=1"
    # 2 * 4 + 1 = 9, 0 * 5 + 1 = 1; 3 * 7 + 1 = 22 is 2 modulo 10, so =1 is wrong and ends it.
    assert said == [
        "new",
        "refused",
        "2 4=9",
        "2 4=9; unclear",
        "test 3 7; 2 4=9",
        "test 3 7; 2 4=9; 0 5=1",
        "test 3 7; 2 4=9; 0 5=1; wrong",
    ]
    assert (float(reward), bool(done), bool(info["success"])) == (0.0, True, False)
    # Event 5, then the case 3 7, six empty probes, then 2 4 and 0 5; then their results.
    probes = 10 + 20 + 8 * 20
    expected = [5, 10 + 3, 20 + 7, 30 + 120 + 2, 30 + 130 + 4, 30 + 140, 30 + 150 + 5]
    expected += [probes + 60 + 9, probes + 70 + 1]
    np.testing.assert_array_equal(np.flatnonzero(observation), expected)
    assert env.render(state, params) == "a*b + 1 at 3 7 | 2 4 -> 9 | 0 5 -> 1"


def test_text_and_array_are_silent_on_what_came_last():
    *_, step = functions()
    state, tell, read = task("a*b + 1", 3, 7), teller(), reader()
    seen = []
    for text in ("test", "2 4", "test"):
        observation, state, *_ = step(state, read(text))
        seen.append((tell(state), np.asarray(observation)))
    assert seen[1][0] == seen[2][0] == "test 3 7; 2 4=9"
    np.testing.assert_array_equal(seen[1][1], seen[2][1])


def test_scripted_game_of_four_numbers():
    options = {"modulus": 0, "functions": RECORDED["functions"]}
    state, tell, read = (
        task("c * b ** d ** a", 2, 4, 7, 1, **options),
        teller(**options),
        reader(**options),
    )
    *_, step = functions(**options)
    said = []
    for text in ("try 5 9 6 3", "try 5 8 4 9", "test", "try 2 4 7 1", "try 1 2", "answer 28"):
        state = step(state, read(text))[1]
        said.append(tell(state))
    # 6 * 9 ** 3 ** 5 is written in 22 characters, 4 * 8 ** 9 ** 5 is too large for a float.
    row = "5 9 6 3=4.5612202540978126e+232"
    assert said == [
        row,
        f"{row}; no result",
        f"test 2 4 7 1; {row}",
        f"test 2 4 7 1; {row}; refused",
        f"test 2 4 7 1; {row}; four numbers",
        f"test 2 4 7 1; {row}; right",
    ]


def test_several_attempts():
    env, _, _, step = functions(attempts=3)
    state = task("a*b + 1", 3, 7)
    for answer, reward, done in ((0, 0, False), (1, 0, False), (2, 1, True)):
        _, after, earned, ended, _ = step(state, env.answer_action(answer))
        assert (float(earned), bool(ended)) == (reward, done)
        state = after
    state = task("a*b + 1", 3, 7)
    for _ in range(3):
        _, state, _, ended, info = step(state, env.answer_action(0))
    assert bool(ended) and not bool(info["success"])


def test_memory_forgets_the_oldest():
    options = {"memory": 2}
    state, tell, read = task("a + b", 9, 9, **options), teller(**options), reader(**options)
    *_, step = functions(**options)
    for text in ("1 1", "1 2", "1 3", "finish"):
        state = step(state, read(text))[1]
    assert tell(state) == "1 2=3; 1 3=4; over, it was 8"


@pytest.mark.parametrize(
    ("functions_", "modulus"), [(rules.SMALL, 10), (rules.FOUR[::7], 0), (RECORDED["functions"], 0)]
)
def test_tables_against_python(functions_, modulus):
    variables = 2 if modulus else 4
    tables = rules.tabulate(functions_, variables, modulus, 9 if modulus else 999)
    numbers = rules.inputs(variables, modulus)
    rng = np.random.default_rng(0)
    for f, p in zip(
        rng.integers(len(functions_), size=300), rng.integers(len(numbers), size=300), strict=True
    ):
        values = {
            n: (int if modulus else float)(v) for n, v in zip("abcd", numbers[p], strict=False)
        }
        codes = np.asarray(rules.characters(tables.written[f, p], rules.WIDTH))
        written = "".join(rules.CHARACTERS[code - 1] for code in codes if code)
        try:
            result = eval(functions_[f], {}, values)
        except (ZeroDivisionError, OverflowError):
            assert written == "" and tables.answer[f, p] == rules.NO_ANSWER
            continue
        if modulus:
            assert written == str(result % modulus) and tables.answer[f, p] == result % modulus
        else:
            assert written == str(round(result, 4))
            whole = abs(result) <= 999 and abs(result - round(result)) < 1e-6
            assert (
                (tables.answer[f, p] == round(result))
                if whole
                else (tables.answer[f, p] == rules.NO_ANSWER)
            )
    rows = np.arange(len(functions_))[:, None]
    assert np.all(tables.answer[rows, tables.cases] != rules.NO_ANSWER)


@pytest.mark.parametrize(("functions_", "modulus"), [(rules.SMALL, 10), (rules.FOUR, 0)])
def test_functions_differ(functions_, modulus):
    tables = rules.tabulate(functions_, 2 if modulus else 4, modulus, 9 if modulus else 999)
    assert len(np.unique(tables.value, axis=0)) == len(functions_) == 48


@pytest.mark.parametrize("options", [{}, {"split": "unseen"}, {"modulus": 0}], ids=str)
def test_expert(options):
    env, params, *_ = functions(**options)
    history = playing.episodes(env, params, 128, 8)
    assert history.last.won.all() and history.info["valid"].all()
    np.testing.assert_array_equal(history.reward.sum(axis=1), 1.0)
    # Search and answer, and one to three probes.
    assert 3 <= float(history.last.time.mean()) <= 5


def test_splits():
    numbers = {}
    for split in ("seen", "unseen"):
        states = playing.starts(*functions(split=split)[:2], 512)
        numbers[split] = set(np.asarray(states.function).tolist())
    assert not numbers["seen"] & numbers["unseen"]
    assert (len(numbers["seen"]), len(numbers["unseen"])) == (36, 12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 10), min_size=4, max_size=4), st.integers(-999, 999))
def test_free_text_gives_the_action(numbers, answer):
    env, *_ = functions(modulus=0)
    read = reader(modulus=0)
    assert read("try " + " ".join(map(str, numbers))) == env.probe_action(*numbers)
    assert read(f"answer {answer}") == read(f"ANSWER {answer}.0 ") == env.answer_action(answer)
    assert (read("test"), read("finish")) == (0, 1)


@pytest.mark.parametrize("wording", ["compact", "faithful"])
@pytest.mark.parametrize("modulus", [10, 0])
def test_bounds_of_the_text_under_random_play(wording, modulus):
    options = {"wording": wording, "modulus": modulus}
    env, _, reset, step = functions(**options)
    tell, rng = teller(**options), np.random.default_rng(0)
    for seed in range(2):
        state = reset(jax.random.key(seed))
        for probe in rng.integers(env.num_probes, size=9):
            state = step(state, 2 + env.num_answers + probe)[1]
            tell(state)
        state = step(state, 0)[1]
        tell(state)
        for action in (1, 2, -1):
            tell(step(state, action)[1])


def test_answers_that_have_no_action_are_refused():
    with pytest.raises(ValueError, match="answer 10: expected a whole number 0 to 9"):
        functions()[0].answer_action(10)


def test_functions_without_an_answer_are_refused():
    with pytest.raises(ValueError, match="never gives a whole number up to 9"):
        rules.tabulate(("a + b + c + d + 1000",), 4, 0, 9)
