"""Programs that call the model: what is recorded is what was sampled, and what goes wrong."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

pytest.importorskip("aiohttp")

from agentrl.config.build import build  # noqa: E402
from agentrl.run import loop, metrics, restored  # noqa: E402
from agentrl.serving import served  # noqa: E402
from agentrl.serving.engine import Engine  # noqa: E402
from agentrl.serving.programs import programs  # noqa: E402
from agentrl.trained import contestants  # noqa: E402
from envs.hosted import HostError  # noqa: E402

SOURCE = str(pathlib.Path(tiny.__file__).parent / "calling_programs.py")
WORDS = ("x", "y", "z", "a")


def config_of(name="twice", changes=None, **options):
    config = tiny.host_config(updates=2, **(changes or {}))
    config.env = tiny.env_section(f"program:{SOURCE}:{name}", **options)
    config.policy.update(codec="word", words=WORDS)
    config.context = tiny.section(tiny.rollout.contexts.whole, max_new_tokens=3, context_tokens=24)
    config.rollout = tiny.section(programs, num_groups=2, group_size=3, max_turns=3)
    config.host.update(observation_tokens=1024, workers=2, timeout_s=60.0)
    config.advantage = tiny.section(tiny.advantages.grpo)
    return config


@pytest.fixture
def collected():
    """(a collection of a config with a seed, its parameters, its policy); ended with the test."""
    opened = []

    def collect(config, number=0, scale=1.0):
        experiment = opened[0] if opened else build(config)
        opened[:] = [experiment]
        params = jax.tree.map(lambda x: scale * x, experiment.policy.init(jax.random.key(0)))
        state, streams, rows, told = experiment.rollout.collect(
            params, None, jax.random.key(number)
        )
        return streams, rows, told, params, experiment.policy

    yield collect
    for experiment in opened:
        experiment.rollout.close()


def test_what_is_recorded_is_what_was_sampled(collected, monkeypatch):
    """Of two sets of parameters, with programs that are compiled once."""
    found, reads, read = [], [], Engine._read

    def noted(engine, slot, prompt, sampling, key, kept):
        reads.append((len(prompt), kept))
        read(engine, slot, prompt, sampling, key, kept)

    monkeypatch.setattr(Engine, "_read", noted)
    for number, scale in ((0, 1.0), (0, 3.0), (0, 1.0)):
        streams, rows, told, params, policy = collected(config_of(), number, scale)
        logp = jnp.where(rows.loss_mask, policy.score(params, rows, rows.loss_mask).logp, 0)
        np.testing.assert_allclose(logp, rows.behaviour_logp, atol=1e-4)
        found.append((streams, rows))
        assert tiny.mean(told, "episode_length") == 2 and tiny.mean(told, "failed_episodes") == 0
    jax.tree.map(np.testing.assert_array_equal, found[0], found[2])
    streams, rows = found[0]
    assert (np.asarray(rows.tokens) != np.asarray(found[1][1].tokens)).any()
    np.testing.assert_array_equal(streams.group, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(streams.mask, [[True, True, False]] * 6)
    np.testing.assert_array_equal(streams.terminated, [[False, True, False]] * 6)
    # Replies differ within a group, though the program asks for the likeliest.
    assert len({*map(tuple, np.asarray(rows.tokens)[:6].tolist())}) > 2
    # A row begins where the text of a reply becomes other tokens in the next prompt.
    used = np.asarray(rows.loss_mask).any(axis=1)
    assert 6 <= used.sum() < 12 and used.sum() / 6 == tiny.mean(told, "rows_per_episode")
    # A call that continues the one before reads what is new alone.
    merged = sum(12 - np.asarray(rows.loss_mask).any(axis=1).sum() for _, rows in found)
    assert sum(kept > 0 for _, kept in reads) == merged > 0
    text = "".join(bytes(policy.codec.token_bytes[t]).decode().strip("\0") for t in rows.tokens[0])
    assert text[0] in "xyz"


@pytest.mark.parametrize("trouble", ["raises", "hangs", "ends", "talks"])
def test_a_run_that_fails_costs_itself_alone(collected, trouble, tmp_path):
    config = config_of(trouble=trouble, marks=str(tmp_path))
    config.host.timeout_s = 2.0 if trouble == "hangs" else 60.0
    config.rollout.update(num_groups=4, group_size=1)
    streams, rows, told, *_ = collected(config)
    tasks = [int(path.name.partition("-")[0]) for path in tmp_path.iterdir()]
    wrong = {task for task in tasks if task % 2 == 0}
    assert 0 < len(wrong) < 4, "of four tasks"
    if trouble == "talks":
        # It has used its calls up: cut, without a reward, and learnt from.
        assert len(tasks) == 4 and told["truncation_rate"].tolist() == [len(wrong), 4]
        cut = np.asarray(streams.truncated).any(axis=1)
        assert cut.sum() == len(wrong) and np.asarray(streams.mask)[cut].all()
        assert not np.asarray(streams.reward)[cut].any()
    else:
        assert len(tasks) == 4 + len(wrong)
        assert told["failed_episodes"].tolist() == [len(wrong), 1]
        lost = ~np.asarray(streams.mask).any(axis=1)
        assert lost.sum() == len(wrong)
        assert not np.isin(np.asarray(rows.stream)[np.asarray(rows.loss_mask).any(axis=1)],
                           np.flatnonzero(lost)).any()  # fmt: skip


def test_an_awaited_program_is_trained_and_evaluated(tmp_path):
    changes = {"evaluation__every": 2, "evaluation__episodes": 2}
    assert loop.run(config_of("later", changes), tmp_path, command="test")
    (told,) = metrics.read(tmp_path / "metrics.jsonl")
    assert told["env_steps"] == 24 and 0 <= told["evaluation/success_rate"] <= 1
    run = restored.load(tmp_path)
    model = served.of_run(run, "run")
    assert (model.row_tokens, model.reply_tokens) == (24, 3)
    prompt = model.prompt([{"role": "user", "content": "x"}])
    assert prompt == [model.encode("x")[0], *run.experiment.policy.codec.after]
    with pytest.raises(ValueError, match="calls the model itself.*launchers.serve"):
        contestants.conversation_of(run, next(iter(run.experiment.tasks.values())), 0, False)


def changed(path, value):
    config = config_of()
    *parents, last = path.split(".")
    node = config
    for parent in parents:
        node = node[parent]
    node[last] = value
    return config


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("env.name", f"program:{SOURCE}:nothing", "has no nothing"),
        ("policy.critic", "shared", "critic='none'"),
        ("policy.top_k", 3, "top_k=0"),
        ("context.context_tokens", None, "set config.context.max_new_tokens"),
        ("host.observation_tokens", 6, "used by nothing"),
        ("rollout.rows_per_episode", 4, "rows_per_episode=4"),
        ("rollout", tiny.section(tiny.rollout.episodes), "use rollout agentrl.serving.programs"),
    ],
)
def test_what_cannot_be_recorded_is_refused(path, value, message):
    with pytest.raises(ValueError, match=message):
        build(changed(path, value))


def test_another_environment_and_runs_that_are_all_lost(collected):
    config = config_of()
    config.env = tiny.env_section(f"{tiny.TOYS}:Race")
    with pytest.raises(ValueError, match="expected a program that calls the model"):
        build(config)
    config = config_of(trouble="raises")
    config.rollout.update(num_groups=1, group_size=1, max_turns=2)
    config.host.retries = 0
    with pytest.raises(HostError, match="the last: KeyError: 'no such thing'"):
        for number in range(20):
            collected(config, number)
