"""Minari's data sets: round trips of ours, sets of its own collector, and what cannot be."""

import types

import gymnasium
import numpy as np
import pytest

from agentrl.trajectories import minari as ours
from agentrl.trajectories import schema, source

minari = pytest.importorskip("minari", reason="pip install 'minari[hdf5]'")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def episode(name, dtype, actions, **more):
    """Of numbers that have to come back bit for bit."""
    rng, turns = np.random.default_rng(0), []
    for t, action in enumerate(actions):
        numbers = (
            rng.normal(size=6).astype(np.float32) if dtype == "float32" else rng.integers(2, size=6)
        )
        values = [schema.number(x) if dtype == "float32" else int(x) for x in numbers]
        last = t == len(actions) - 1
        turns.append(
            schema.Turn(
                number=2 * t,
                reward=schema.number(rng.normal()),
                terminated=last and not more.get("cut"),
                truncated=last and bool(more.get("cut")),
                success=last,
                anchor=(7, t),
                action=action,
                logp=schema.number(-rng.random()),
                observation=schema.Array(dtype, (2, 3), tuple(values)),
                legal=None if isinstance(action, tuple) else (True, True, False, True),
            )
        )
    task = schema.Task("Coin-v1", {"size": 3}, 40, start=(1, 2), anchor="state")
    seeds = schema.Seeds((1, 2), (3, 4), 5)
    return schema.Episode(name, task, (schema.Agent(turns=tuple(turns)),), group=3, seeds=seeds)


@pytest.mark.parametrize(
    "dtype, actions",
    [
        ("float32", (1, 0, 3)),
        ("uint8", (0,)),
        ("int32", (2, 2)),
        ("float32", ((0.1, -1.0), (0.3, 1.0))),
    ],
)
def test_ours_come_back_equal_and_are_minaris(dtype, actions):
    written = [episode("0/1/0", dtype, actions), episode("0/1/1", dtype, actions[:1], cut=True)]
    assert ours.to_minari("agentrl/some-v0", written) == 2
    assert list(ours.from_minari("agentrl/some-v0")) == written
    data = minari.load_dataset("agentrl/some-v0")
    for one, other in zip(data, written, strict=True):
        turns = other.agents[0].turns
        assert (
            len(one.observations) == len(turns) + 1 and one.truncations[-1] == turns[-1].truncated
        )
        np.testing.assert_array_equal(one.rewards, [turn.reward for turn in turns])
        assert data.observation_space.contains(one.observations[0])
        assert data.action_space.contains(one.actions[0])
    with pytest.raises(ValueError, match="already exists"):
        ours.to_minari("agentrl/some-v0", written)


def collected(name, env, steps, **options):
    """A data set of Minari's own collector, and what was seen while it was made."""
    env = minari.DataCollector(gymnasium.make(env, **options), record_infos=True)
    env.action_space.seed(0)
    seen, done = [], True
    for _ in range(steps):
        if done:
            env.reset(seed=len(seen))
        action = env.action_space.sample()
        _, reward, terminated, truncated, _ = env.step(action)
        seen.append((action, reward, terminated, truncated and not terminated))
        done = terminated or truncated
    env.create_dataset(dataset_id=name)
    env.close()
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "env, shape", [("FrozenLake-v1", (16,)), ("CartPole-v1", (4,)), ("Pendulum-v1", (3,))]
)
def test_sets_of_minaris_collector_are_episodes_and_rows(env, shape, tmp_path):
    seen = collected("lake/random-v3", env, 60)
    episodes = list(ours.from_minari("lake/random-v3"))
    turns = [turn for one in episodes for turn in one.agents[0].turns]
    assert len(turns) == len(seen) and episodes[0].task.environment == f"gymnasium:{env}"
    for turn, (action, reward, terminated, _) in zip(turns, seen, strict=True):
        expected = (action / 2).tolist() if env == "Pendulum-v1" else action
        np.testing.assert_allclose(turn.action, expected, atol=1e-6)
        assert turn.reward == reward and turn.terminated == terminated
    assert turns[-1].truncated != turns[-1].terminated
    for one in episodes:
        assert schema.from_line(schema.to_line(one)) == one
    found = source.streams_of(episodes)
    rows = source.array_rows(found, types.SimpleNamespace(memory=lambda n: None), lambda turn: True)
    assert rows.observation.shape == (len(seen), 1, *shape) and rows.loss_mask.all()
    if env == "FrozenLake-v1":
        assert (rows.observation.sum(-1) == 1).all() and rows.legal.shape[-1] == 4
    # As a set of ours it comes back equal, too.
    ours.to_minari("lake/again-v0", episodes)
    assert list(ours.from_minari("lake/again-v0")) == episodes


def test_wrong_data_sets_are_one_clear_line():
    one = episode("0/1/0", "float32", (1,))
    words = schema.Episode(
        "w", one.task, (schema.Agent(turns=(schema.Turn(0, 0.0, True, False),)),)
    )
    two = schema.Episode("t", one.task, one.agents * 2)
    for wrong, why in (
        ([], "no episodes"),
        ([words], "w: turns without observation and action"),
        ([two], "t: 2 agents, expected one"),
        ([one, episode("0/1/1", "uint8", (1,))], "float32.* and .*uint8|uint8.* and .*float32"),
    ):
        with pytest.raises(schema.SchemaError, match=why):
            ours.to_minari("aa/wrong-v0", wrong)
    for name in ("aa/no", "a/b-v0", "a b-v0", "../a-v0"):
        with pytest.raises(ValueError, match="is no id of a data set"):
            ours.to_minari(name, [one])
    ours.to_minari("aa/right-v0", [one])
    with pytest.raises(ValueError, match="no data set .aa/other-v0..*there: aa/right-v0"):
        list(ours.from_minari("aa/other-v0"))


@pytest.mark.filterwarnings("ignore")
def test_spaces_without_numbers_are_refused():
    collected("bb/cards-v0", "Blackjack-v1", 3)
    with pytest.raises(ValueError, match="observation space Tuple"):
        list(ours.from_minari("bb/cards-v0"))
