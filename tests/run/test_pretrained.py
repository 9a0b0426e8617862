"""From a directory of weights and a tokenizer to updates, and back into a directory."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizer_files
from commands import call
from in_process import launch

import envs
from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.policies import codec as codecs
from agentrl.policies import decoder, huggingface
from agentrl.policies.decoder import DecoderConfig
from agentrl.run import loop, mesh, restored, stages
from agentrl.streams import ACTION, OBSERVATION
from configs._shared import ezpoints_agent
from configs.published import pretrained as config_file
from configs.published import (
    qwen_household_gigpo,
    small_qwen,
    smollm2,
    smollm2_program,
    smollm2_stages,
)  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A tiny Qwen 2 in bfloat16, with a tokenizer of Household's words."""
    path = tmp_path_factory.mktemp("published") / "model"
    config = DecoderConfig(
        vocab_size=620,
        width=16,
        layers=2,
        heads=2,
        kv_heads=1,
        head_dim=8,
        hidden=32,
        qkv_bias=True,
    )
    params = decoder.init(jax.random.key(3), config)
    huggingface.save(path, config, params, dtype="bfloat16", fields={"eos_token_id": 1})
    views = [envs.make(name)[0].view for name in ("Household-v1", "FrozenLake-v1")]
    tokenizer_files.byte_level(path, views)
    return path


LAKE = {"size": 3, "slippery": True, "max_steps_in_episode": 4}


def config_of(directory, env, context="whole", **context_options):
    config = base_config()
    config.mesh.data = 1
    config.env = env
    config.policy = section(
        policies.pretrained, directory=str(directory), grammar="bare", dtype="float32"
    )
    config.rollout = section(rollout.episodes, num_groups=2, group_size=2, max_turns=3)
    make = getattr(rollout.contexts, context)
    config.context = section(make, **{"max_new_tokens": 8, **context_options})
    config.advantage = section(advantages.gigpo)
    config.evaluation.episodes = 2
    return config


@pytest.mark.parametrize("context", ["whole", "sliding"])
def test_rows_are_what_was_read_and_written(directory, context):
    """The cache's distributions are those of the rows, whose text is the conversation's."""
    options = {} if context == "whole" else {"history": 1}
    lake = env_section("FrozenLake-v1", **LAKE)
    experiment = build(config_of(directory, lake, context=context, **options))
    policy = experiment.policy
    params = policy.load()

    @jax.jit
    def collect(params, key):
        state = experiment.rollout.init(key)
        _, streams, rows, _ = experiment.rollout.collect(params, state, key)
        return streams, rows, policy.score(params, rows).logp

    streams, rows, logp = collect(params, jax.random.key(0))
    mask = np.asarray(rows.loss_mask)
    assert mask.any()
    np.testing.assert_allclose(
        np.asarray(logp)[mask], np.asarray(rows.behaviour_logp)[mask], atol=1e-4
    )
    codec = policy.codec
    opening, before, after = map(list, (codec.opening, codec.before, codec.after))
    for tokens, span, turn in zip(
        *map(np.asarray, (rows.tokens, rows.span, rows.turn)), strict=True
    ):
        tokens, span, turn = (x.tolist() for x in (tokens, span, turn))
        assert tokens[: len(opening)] == opening and set(span[: len(opening)]) == {-1}
        # The first observation has no beginning of its own; each other one has, and all end alike.
        ends = [i for i in range(len(span)) if span[i] == OBSERVATION and span[i + 1] == ACTION]
        assert ends and all(tokens[i + 1 - len(after) : i + 1] == after for i in ends)
        starts = [
            i for i in range(1, len(span)) if span[i] == OBSERVATION and span[i - 1] == ACTION
        ]
        assert all(tokens[i : i + len(before)] == before for i in starts)
        first = tokens[len(opening) : len(opening) + 12]
        assert first[: len(before)] != before
        assert codecs.decode(codec, first)
        assert [t for t in turn if t >= 0] == sorted(t for t in turn if t >= 0)


@pytest.mark.long
def test_training_begins_with_the_weights_and_gives_them_back(directory, tmp_path):
    lake = env_section("FrozenLake-v1", **LAKE)
    config = config_of(directory, lake, context="window", history=0)
    config.num_seeds, config.updates, config.log_every = 2, 2, 1
    config.warm_start.update(updates=1)
    config.expert.update(episodes=2, held_out=False)
    # Without a success there is no advantage: something to learn all the same.
    config.objective.entropy.weight = 0.01
    experiment = build(config)
    _, published = huggingface.load(directory)
    begun = restored.beginning(config, experiment)
    for x, y in zip(jax.tree.leaves(begun), jax.tree.leaves(published), strict=True):
        assert x.shape == (2, *y.shape) and (x == y).all()
    assert loop.run(config, tmp_path / "run", command="test")
    records = [json.loads(l) for l in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {r["update"] for r in records} == {1, 2} and all(
        r["rejected_updates"] == 0 for r in records
    )
    assert all(np.isfinite(r["grad_norm"]) and r["grad_norm"] > 0 for r in records)
    run = restored.load(tmp_path / "run")
    params = jax.tree.map(lambda x: x[0], run.state.params)
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()), published, {k: params[k] for k in published}
    )
    # Two steps of Adam away from what was published, no further.
    assert 0 < max(jax.tree.leaves(moved)) < 5e-3
    done = call("export", f"--workdir={tmp_path / 'run'}", f"--out={tmp_path / 'out'}")
    assert done.returncode == 0 and "update 2, seed 0" in done.stdout, done.stderr
    again = policies.pretrained(run.experiment.env.view, directory=str(tmp_path / "out"))
    assert again.codec.opening[:2] == run.experiment.policy.codec.opening[:2]
    np.testing.assert_array_equal(
        again.load()["norm"]["weight"], np.asarray(params["norm"]["weight"])
    )
    # Nothing is overwritten, and the other seed has weights of its own.
    command = ["launchers.export", f"--workdir={tmp_path / 'run'}", f"--out={tmp_path / 'out'}"]
    *_, error = launch([*command, "--seed=1"])
    assert "out is not empty" in error
    assert "or --overwrite if" in error and "overwrite=True" not in error
    *_, error = launch([*command, "--seed=1", "--overwrite", "--dtype=bfloat16"])
    assert not error
    _, second = huggingface.load(tmp_path / "out")
    expected = run.state.params["norm"]["weight"][1].astype(jnp.bfloat16)
    np.testing.assert_array_equal(second["norm"]["weight"], expected.astype(jnp.float32))
    *_, error = launch([*command, "--seed=2"])
    assert "--seed=2: the run has seeds 0 to 1" in error


@pytest.mark.long
def test_adapters_are_all_that_is_trained_and_all_that_has_a_state(directory, tmp_path):
    config = config_of(directory, env_section("FrozenLake-v1", **LAKE), context="whole")
    config.policy.update(lora_rank=2, lora_targets=("q_proj", "down_proj"))
    config.updates, config.log_every = 2, 1
    config.warm_start.update(updates=1)
    config.expert.update(episodes=4, held_out=False)
    config.objective.entropy.weight = 0.01
    experiment = build(config)
    state = jax.jit(experiment.init)(jnp.int32(0))
    weights = experiment.policy.load()
    state = experiment.restart(state.replace(params=state.params | weights))
    adapters = sum(x.size for x in jax.tree.leaves(state.params["lora"]))
    # Two moments of Adam, and its counter.
    assert sum(x.size for x in jax.tree.leaves(state.opt_state)) == 2 * adapters + 1
    for _, program in experiment.phases:
        after, metrics = jax.jit(program)(state)
        assert metrics["grad_norm"][0] > 0 and metrics["rejected_updates"][0] == 0
        for name in weights:
            same = jax.tree.map(
                lambda a, b: bool((a == b).all()), after.params[name], weights[name]
            )
            assert all(jax.tree.leaves(same))
        moved = jax.tree.map(lambda x: jnp.abs(x).max(axis=(1, 2)), after.params["lora"])
        assert (moved["self_attn"]["q_proj"]["b"] > 0).all() and "k_proj" not in moved["self_attn"]
    huggingface.save(tmp_path / "out", experiment.policy.config, after.params, source=directory)
    plain, merged = huggingface.load(tmp_path / "out")
    tokens = jnp.arange(20)[None]
    np.testing.assert_allclose(
        decoder.logits(merged, plain, tokens),
        decoder.logits(after.params, experiment.policy.config, tokens),
        atol=1e-5,
    )


def test_a_rehearsal_needs_no_weights(directory, tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    view = envs.make("Household-v1")[0].view
    policy = policies.pretrained(view, directory=str(tmp_path), rehearsal=True)
    assert policy.load is None and policy.config.qkv_bias
    assert policy.config.vocab_size == policy.codec.vocab_size == 620
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    assert shapes["layers"]["mlp"]["up_proj"]["kernel"].shape == (2, 64, 128)
    whole = policies.pretrained(
        view, directory=str(tmp_path), param_dtype="bfloat16", critic="shared"
    )
    shapes = jax.eval_shape(whole.init, jax.random.key(0))
    assert shapes["norm"]["weight"].dtype == jnp.bfloat16
    assert shapes["value_head"]["kernel"].dtype == jnp.float32
    with pytest.raises(ValueError, match="neither model.safetensors"):
        whole.load()


def test_the_configs_in_the_repository_build(directory):
    for file in (config_file, qwen_household_gigpo, small_qwen):
        assert "python -m launchers.train" in file.__doc__
    whole = build(qwen_household_gigpo.get_config(str(directory)))
    assert whole.policy.config.remat and whole.policy.frozen == ()
    assert whole.policy.config.dtype == "bfloat16" and whole.rollout.num_rows == 25 * 256
    small = build(qwen_household_gigpo.get_config(f"rehearsal,{directory}"))
    assert small.policy.config.layers == 2 and small.policy.load is None
    assert build(config_file.get_config(str(directory))).policy.frozen
    assert build(small_qwen.get_config(f"sft,{directory}")).policy.frozen == ()
    with pytest.raises(ValueError, match="variant 'gigpo': expected METHOD,DIRECTORY"):
        small_qwen.get_config("gigpo")
    with pytest.raises(ValueError, match="expected the directory of a model"):
        build(config_file.get_config())


SMOLLM2_METHODS = dict.fromkeys(smollm2.WORLDS, smollm2.METHODS[:-1])
SMOLLM2_METHODS |= dict.fromkeys(smollm2.GAMES, ("sft", "rae"))


@pytest.fixture(scope="module")
def smollm2_config(directory):
    def make(method, world, size):
        config = smollm2.get_config(f"{method},{world},{directory},{size}")
        if "thoughts" in world:
            # The tiny tokenizer needs more tokens for the expert's thoughts than SmolLM2's.
            config.context.max_new_tokens = 160
        if world == "lamp":
            # And more for a row of six turns.
            config.context.context_tokens = None
        return config

    return make


@pytest.mark.parametrize("world", SMOLLM2_METHODS)
def test_every_preset_of_smollm2_builds(world, smollm2_config):
    # Rows per episode in a small world and in a large one.
    rows = {
        "ezpoints": (1, 1),
        "household": (1, 50),
        "room": (1, 1),
        "lamp": (1, 1),
        "household_thoughts": (12, 50),
        "wordle25": (1, 1),
        "wordle": (1, 1),
    }
    episodes = {"cpu": 16, "h100": 128, "gpu": 128}
    of_world = {("lamp", "cpu"): 32, ("wordle25", "cpu"): 64, ("wordle25", "h100"): 64}
    for size in smollm2.SIZES:
        for lora in ("", "_lora"):
            for method in SMOLLM2_METHODS[world]:
                config = smollm2_config(method, world, size + lora)
                # What the expert writes is traced once: that does not depend on the size.
                config.expert.thoughts &= (size, lora) == ("cpu", "")
                made = build(config)
                assert bool(made.policy.frozen) == bool(lora)
                assert made.policy.has_critic == (method == "ppo")
                if world in rows:
                    each = rows[world][smollm2.WORLD_SIZE[size] == "large"]
                    played = of_world.get((world, size), episodes[size])
                    assert made.rollout.num_rows == each * played
                    assert made.policy.grammar.think == (
                        "required" if "thoughts" in world else "none"
                    )
                else:
                    assert made.policy.grammar.faithful
    # The GiGPO code base's settings for ALFWorld.
    config = smollm2_config("gigpo", "household_thoughts", "gpu")
    assert (config.rollout.num_groups, config.rollout.group_size) == (16, 8)
    assert config.env.max_steps_in_episode == 50 and config.context.history == 2
    assert config.optimizer.learning_rate == 1e-6 and config.objective.kl.weight == 0.01


@pytest.mark.long
@pytest.mark.parametrize(
    "method, world, size",
    [
        ("sft", "household_thoughts", "cpu"),
        ("rae", "kuhn", "cpu_lora"),
    ],
)
def test_presets_of_smollm2_train(method, world, size, smollm2_config):
    config = smollm2_config(method, world, size)
    config.mesh.data, config.updates = 1, 1
    config.rollout.update(num_groups=2, group_size=1 if method == "rae" else 2, max_turns=2)
    if "max_steps_in_episode" in config.env:
        config.env.max_steps_in_episode = 2
    config.learner.update(minibatches=1, microbatch=1, lengths=1, max_kl=None)
    if method == "sft":
        config.warm_start.updates = 1
        config.expert.update(episodes=2, held_out=False)
    # Without a success there is no advantage: something to learn all the same.
    config.objective.entropy.weight = 0.01
    experiment = build(config)
    state = jax.jit(experiment.init)(jnp.int32(0))
    state = experiment.restart(state.replace(params=state.params | experiment.policy.load()))
    for _, program in experiment.phases:
        after, metrics = jax.jit(program)(state)
        assert metrics["grad_norm"][0] > 0 and metrics["rejected_updates"][0] == 0
        moved = jax.tree.map(lambda a, b: bool((a != b).any()), after.params, state.params)
        assert any(jax.tree.leaves(moved))


def test_stages_of_smollm2_begin_from_one_sft(directory):
    config = smollm2_stages.get_config(f"ezpoints,{directory}")
    assert stages.check(config) == ["sft", "gigpo", "grpo"]
    assert {config.stages[name].init_from for name in ("gigpo", "grpo")} == {"stage:sft"}
    with pytest.raises(ValueError, match="variant 'chess': expected WORLD,DIRECTORY"):
        smollm2_stages.get_config("chess")


def test_a_program_of_smollm2_is_built(directory):
    config = smollm2_program.get_config(directory)
    config.mesh.data = 1
    experiment = build(config)
    try:
        assert experiment.env.in_python and experiment.rollout.num_streams == 16
        told = experiment.policy.codec.opening_with(ezpoints_agent.RULES)
        assert tuple(told[:2]) == experiment.policy.codec.opening[:2] != tuple(told)
    finally:
        experiment.rollout.close()


def test_an_argument_of_smollm2_that_does_not_fit_is_refused():
    for argument in (
        "gigpo",
        "gigpo,kuhn,d",
        "rae,household,d",
        "sft,wordle,d,tpu",
        "sft,wordle,d,cpu_x",
    ):
        with pytest.raises(ValueError, match=f"variant {argument!r}: expected METHOD,WORLD,DIR"):
            smollm2.get_config(argument)


def test_attention_of_a_gpu_is_refused_elsewhere(directory):
    config = qwen_household_gigpo.get_config(f"rehearsal,{directory}")
    config.policy.attention, config.mesh.data = "cudnn", 1
    with pytest.raises(ValueError, match="'cudnn' is for NVIDIA's GPUs.*CPUs; use 'blocks'"):
        mesh.make_mesh(config, build(config))
    config.policy.dtype = "float32"
    with pytest.raises(ValueError, match="attention='cudnn' with dtype='float32'"):
        build(config)


def test_options_that_do_not_fit(directory):
    view = envs.make("Household-v1")[0].view
    for options, message in (
        ({"directory": ""}, "expected the directory of a model"),
        ({"directory": str(directory), "critic": "own"}, "policy critic='own'"),
        ({"directory": str(directory), "constrained": True}, "policy constrained=True"),
        ({"directory": str(directory), "param_dtype": "int8"}, "param_dtype='int8'"),
        ({"directory": str(directory), "lora_alpha": 8.0}, "lora_rank=0, which has no adapters"),
        ({"directory": str(directory), "lora_roles": 2}, "lora_roles=2 with lora_rank=0"),
    ):
        with pytest.raises(ValueError, match=message):
            policies.pretrained(view, **options)
