"""Adapters of PettingZoo and dm_env as numbers, in this process: turns, ends, seeds, errors."""

import sys
import types

import numpy as np
import pytest

from envs.hosted import worker


def serve(source, **options):
    server = worker.Server()
    about = server.answer({"op": "make", "source": source, "options": options})
    return server, about


def play(server, seed, actions):
    """Answers of an episode: the first observation, then one for each action."""
    out = [server.answer({"op": "reset", "seed": seed})]
    return out + [server.answer({"op": "step", "action": action}) for action in actions]


def test_catch_of_dm_env_is_seeded_and_its_actions_are_counted_from_0():
    pytest.importorskip("dm_env")
    server, about = serve("dm_env:dm_catch.Catch", seed="seed")
    assert about == {
        "seats": 1, "has_success": False,
        "observation_shape": [16], "num_actions": 3, "continuous": False,
    }  # fmt: skip
    first = {tuple(play(server, seed, [])[0]["observation"]) for seed in range(8)}
    assert len(first) == 3 and play(server, 5, [0, 1]) == play(server, 5, [0, 1])
    for seed in range(4):
        start = np.array(play(server, seed, [])[0]["observation"][:15]).reshape(5, 3)
        ball = int(start[0].argmax())
        # To the ball, then stay: 0, 1, 2 are the environment's -1, 0, 1.
        *middle, last = play(server, seed, [ball, 1, 1, 1])[1:]
        assert [a["terminated"] for a in middle] == [False] * 3 and last["terminated"]
        assert last["reward"] == [1.0] and not last["truncated"]
        away = play(server, seed, [(ball + 1) % 3, 1, 1, 1])[-1]
        assert away["terminated"] and away["reward"] == [-1.0]


def test_a_discount_of_one_at_the_end_truncates():
    pytest.importorskip("dm_env")
    server, _ = serve("dm_env:dm_catch.Catch", limit=2)
    *_, last = play(server, 0, [1, 1])
    assert last["truncated"] and not last["terminated"]


def test_continuous_actions_of_dm_env_are_scaled_to_their_bounds():
    pytest.importorskip("dm_env")
    server, about = serve("dm_env:dm_catch.Push", seed="seed")
    assert about["continuous"] and about["num_actions"] == 1
    paddles = []
    # -3, -1, 0.9 of -3 to 1; only the ends move the paddle from the middle.
    for push in (-1.0, 0.0, 0.95):
        board = np.array(play(server, 0, [[push]])[-1]["observation"][:15]).reshape(5, 3)
        paddles.append(int(board[-1].argmax()))
    assert paddles == [0, 1, 2]


def test_ours_as_dm_envs_come_back_as_they_went():
    """Through both adapters: the same first observations, rewards, ends and cuts."""
    pytest.importorskip("dm_env")
    import jax

    import envs

    options = {"size": 4, "max_steps_in_episode": 5}
    server, about = serve(
        "dm_env:envs.dm_env_bridge.single", seed="seed", name="FrozenLake-v1", **options
    )
    env, params = envs.make("FrozenLake-v1", **options)
    assert tuple(about["observation_shape"]) == env.observation_shape
    step, ends = jax.jit(env.step_env), set()
    for seed in range(6):
        key, chance = jax.random.split(jax.random.key(seed))
        seen, state = env.reset(chance, params)
        first = server.answer({"op": "reset", "seed": seed})
        np.testing.assert_array_equal(first["observation"], seen)
        for action in (1, 2, 1, 2, 1):
            key, chance = jax.random.split(key)
            _, state, reward, terminated, _ = step(chance, state, np.int32(action), params)
            answer = server.answer({"op": "step", "action": action})
            truncated = bool(env.is_truncated(state, params)) and not bool(terminated)
            assert answer["reward"] == [float(reward)]
            assert (answer["terminated"], answer["truncated"]) == (bool(terminated), truncated)
            if terminated or truncated:
                ends.add(truncated)
                break
    assert ends == {True, False}


@pytest.fixture
def zoo(monkeypatch):
    """Ours as PettingZoo's, in a module that the adapter finds by name."""
    bridge = pytest.importorskip("envs.pettingzoo_bridge")
    both = {
        "zoo_field": {"parallel_env": lambda **o: bridge.parallel("Foraging-v1", size=5, **o)},
        "zoo_poker": {"env": lambda **o: bridge.aec("KuhnPoker-v1", **o)},
    }
    for name, members in both.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def test_games_at_once_of_pettingzoo_are_played_at_once(zoo):
    """Ours through both adapters: all act, none is asked twice, a limit truncates."""
    server, about = serve("pettingzoo:zoo_field", players=3, max_steps_in_episode=2)
    assert about["seats"] == 3 and about["simultaneous"] and about["num_actions"] == 6
    first, middle, last = play(server, 4, [[0, 0, 0]] * 2)
    assert first["acting"] == middle["acting"] == [True] * 3
    assert np.shape(first["observation"]) == (3, *about["observation_shape"])
    assert first["observation"] == middle["observation"] and middle["reward"] == [0.0] * 3
    assert last["truncated"] and not last["terminated"]
    assert play(server, 4, []) == [first] and play(server, 5, []) != [first]


def test_games_in_turns_of_ones_own_module(zoo):
    server, about = serve("pettingzoo:zoo_poker")
    assert about["seats"] == 2 and "simultaneous" not in about
    answer, seats = server.answer({"op": "reset", "seed": 0}), []
    while not answer.get("terminated"):
        seats.append(answer["seat"])
        answer = server.answer({"op": "step", "action": 0})
    assert seats[:2] == [0, 1] and sum(answer["reward"]) == 0


def test_rock_paper_scissors_of_pettingzoo():
    """Against the same actions through PettingZoo itself."""
    pytest.importorskip("pettingzoo")
    pytest.importorskip("pygame")
    from pettingzoo.classic import rps_v2

    server, about = serve("pettingzoo:classic.rps_v2", max_cycles=4)
    assert about["simultaneous"] and about["num_actions"] == 3
    theirs, rounds = rps_v2.parallel_env(max_cycles=4), [[0, 1], [2, 1], [0, 0], [1, 2]]
    theirs.reset(seed=0)
    for answer, actions in zip(play(server, 0, rounds)[1:], rounds, strict=True):
        _, reward, _, cut, _ = theirs.step(dict(zip(theirs.agents, actions, strict=True)))
        assert answer["reward"] == list(reward.values())
        assert answer["truncated"] == all(cut.values()) and not answer["terminated"]
    assert answer["truncated"]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("dm_env:catch", {}, "expected a dotted path"),
        ("dm_env:dm_catch.Nothing", {}, "no attribute 'Nothing'"),
        ("dm_env:dm_catch.Catch", {"width": 3}, "unexpected keyword argument 'width'"),
        ("pettingzoo:classic.nothing_v1", {}, "No module named"),
    ],
)
def test_what_is_not_there_is_an_error(source, options, message):
    pytest.importorskip(source.partition(":")[0])
    with pytest.raises((ValueError, AttributeError, TypeError, ImportError), match=message):
        serve(source, **options)
