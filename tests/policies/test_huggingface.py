"""Weights of published models: read as transformers reads them, written back, and refused.

`tests/data/huggingface` was made by `tests/policies/published.py` with transformers 5.23 and torch
2.13: a tiny random model of each family as `save_pretrained` writes it, and its logits.
"""

import json
import pathlib
import re
import shutil
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding, PartitionSpec
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from agentrl.policies import decoder, families, huggingface
from agentrl.policies.attention import RopeScaling
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.tensor_files import Tensors, WeightsError

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import published  # noqa: E402

DATA = pathlib.Path(__file__).parents[1] / "data" / "huggingface"
SMALL = DecoderConfig(vocab_size=11, width=8, layers=2, heads=2, kv_heads=1, head_dim=4, hidden=6)


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x, np.float32), np.asarray(y, np.float32))


@pytest.fixture(scope="module")
def small():
    return jax.device_get(decoder.init(jax.random.key(0), SMALL))


@pytest.fixture
def saved(tmp_path, small):
    huggingface.save(tmp_path / "model", SMALL, small)
    return tmp_path / "model"


@pytest.mark.parametrize("name", published.CASES)
def test_logits_are_those_of_transformers_and_survive_a_round_trip(name, tmp_path):
    expected = np.load(DATA / "logits.npz")[name]
    config, params = huggingface.load(DATA / name)
    assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    tokens = np.asarray(published.tokens(rows=1, length=24), np.int32)
    logits = jax.jit(decoder.logits, static_argnums=1)(params, config, tokens)
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    # By our own config.json, by the source's, and in several files.
    source = {"source": DATA / name, "dtype": "bfloat16"}
    ways = ({}, source, {"shard_bytes": 4000}, {"shard_bytes": 1})
    for i, options in enumerate(ways):
        huggingface.save(tmp_path / str(i), config, params, **options)
        again, read = huggingface.load(tmp_path / str(i))
        assert not families.differences(config, again)
        same(params, read)
    sizes = [len(list((tmp_path / str(i)).glob("*.safetensors"))) for i in range(4)]
    assert sizes[0] == sizes[1] == 1 < sizes[2] < sizes[3]
    assert sizes[3] == len(load_file(tmp_path / "0" / "model.safetensors"))
    kept = json.loads((tmp_path / "1" / "config.json").read_text())
    theirs = json.loads((DATA / name / "config.json").read_text())
    assert kept.pop("torch_dtype") == theirs.pop("dtype") and kept == theirs
    original = load_file(DATA / name / "model.safetensors")
    ours = load_file(tmp_path / "1" / "model.safetensors")
    assert original.keys() == ours.keys()
    assert all(original[n].tobytes() == ours[n].tobytes() for n in ours)


# What the config.json of published models says, shortened to what matters here.
PUBLISHED = {
    "Qwen2.5-0.5B": (
        {
            "model_type": "qwen2",
            "hidden_act": "silu",
            "hidden_size": 896,
            "intermediate_size": 4864,
            "max_window_layers": 24,
            "num_attention_heads": 14,
            "num_hidden_layers": 24,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "sliding_window": 32768,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
        {"head_dim": 64, "qkv_bias": True, "rope_theta": 1e6, "sliding_window": None},
    ),
    "Llama-3.2-1B": (
        {
            "model_type": "llama",
            "head_dim": 64,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_attention_heads": 32,
            "num_hidden_layers": 16,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {
                "factor": 32.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192,
                "rope_type": "llama3",
            },
            "rope_theta": 500000.0,
            "tie_word_embeddings": True,
            "vocab_size": 128256,
        },
        {"rope_scaling": RopeScaling(32.0, 1.0, 4.0, 8192), "tie_embeddings": True},
    ),
    "Mistral-7B-v0.1": (
        {
            "model_type": "mistral",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
            "tie_word_embeddings": False,
            "vocab_size": 32000,
        },
        {"head_dim": 128, "sliding_window": 4096, "tie_embeddings": False},
    ),
    "gemma-3-1b": (
        {
            "model_type": "gemma3_text",
            "final_logit_softcapping": None,
            "head_dim": 256,
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 1152,
            "intermediate_size": 6912,
            "num_attention_heads": 4,
            "num_hidden_layers": 26,
            "num_key_value_heads": 1,
            "query_pre_attn_scalar": 256,
            "rms_norm_eps": 1e-06,
            "rope_local_base_freq": 10000,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": 512,
            "sliding_window_pattern": 6,
            "vocab_size": 262144,
        },
        {
            "rope_theta": 1e6,
            "local_rope_theta": 1e4,
            "sliding_window": 512,
            "sliding_layers": tuple((i + 1) % 6 != 0 for i in range(26)),
            "tie_embeddings": True,
            "logit_soft_cap": None,
        },
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_fields_of_older_files(name):
    fields, expected = PUBLISHED[name]
    config = families.read(fields)
    assert {key: getattr(config, key) for key in expected} == expected
    assert not families.differences(config, families.read(families.write(config)))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_type": "gpt2"}, "model_type='gpt2': expected one of llama"),
        ({"model_type": "gemma3"}, "only the text models"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "is never run"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "rope scaling 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor is missing"),
        ({"rope_scaling": 3}, "expected an object"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "16"}, "hidden_size='16': expected a number"),
        ({"num_attention_heads": 0}, "num_attention_heads=0"),
        ({"head_dim": 3}, "head_dim=3"),
    ],
)
def test_what_the_decoder_is_not_is_refused(changes, message, saved):
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        huggingface.load(saved)
    assert "config.json" in str(error.value)


def test_a_mixture_of_families_cannot_be_written(small, tmp_path):
    mixed = DecoderConfig(**{**SMALL.__dict__, "attention_soft_cap": 3.0})
    with pytest.raises(ValueError, match="attention_soft_cap: 3.0, None"):
        huggingface.save(tmp_path / "out", mixed, small)
    assert not any(tmp_path.iterdir())


def tensors_of(directory):
    return load_file(directory / "model.safetensors")


def rewrite(directory, change):
    tensors = tensors_of(directory)
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


NORM, GATE = "model.norm.weight", "model.layers.1.mlp.gate_proj.weight"
DAMAGES = {
    "missing": (lambda t: t.pop(GATE), f"{GATE}' is missing"),
    "extra": (lambda t: t.update(more=t[NORM]), "'more' does not belong to a model"),
    "shape": (lambda t: t.update({GATE: t[GATE].T.copy()}), f"{GATE}' has shape (8, 6)"),
    "integers": (lambda t: t.update({NORM: t[NORM].astype(np.int8)}), f"{NORM}' is of type I8"),
    "doubles": (lambda t: t.update({NORM: t[NORM].astype(np.float64)}), "is of type F64"),
    "another head": (
        lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] + 1}),
        "lm_head.weight is not model.embed_tokens.weight",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_tensors_are_named(damage, saved):
    change, message = DAMAGES[damage]
    rewrite(saved, change)
    with pytest.raises(WeightsError, match=re.escape(message)) as error:
        huggingface.load(saved)
    assert str(saved) in str(error.value)


def test_what_old_files_hold_besides_is_left_aside(saved, small):
    def add(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float32)

    rewrite(saved, add)
    same(huggingface.load(saved)[1], small)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_damage_of_a_file_goes_further_than_an_error(data):
    good = (DATA / "qwen3" / "model.safetensors").read_bytes()
    directory = _scratch()
    cut = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = good[:cut]
    else:
        # In the header: bytes further on are numbers, of which any are as good.
        cut = cut % (8 + int.from_bytes(good[:8], "little"))
        bad = good[:cut] + bytes([good[cut] ^ data.draw(st.integers(1, 255))]) + good[cut + 1 :]
    (directory / "model.safetensors").write_bytes(bad)
    try:
        huggingface.load(directory)
    except WeightsError:
        pass  # A flipped bit in the free text of the header is none of our affair.


_SCRATCH = []


def _scratch():
    if not _SCRATCH:
        import tempfile

        directory = pathlib.Path(tempfile.mkdtemp())
        shutil.copy(DATA / "qwen3" / "config.json", directory)
        _SCRATCH.append(directory)
    return _SCRATCH[0]


@pytest.fixture
def sharded(tmp_path, small):
    huggingface.save(tmp_path / "model", SMALL, small, shard_bytes=1000)
    return tmp_path / "model"


def reindex(directory, change):
    path = directory / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"], directory)
    path.write_text(json.dumps(index))


def _point(name):
    return lambda table, directory: table.update({NORM: name})


def _link_out(table, directory):
    outside = directory.parent / "outside.safetensors"
    (directory / table[NORM]).rename(outside)
    (directory / table[NORM]).symlink_to(outside)


INDEXES = {
    "parent": (_point("../model.safetensors"), "expected a plain name"),
    "absolute": (_point("/etc/passwd"), "expected a plain name"),
    "number": (_point(3), "expected a plain name"),
    "dots": (_point(".."), "expected a plain name"),
    "link": (_link_out, "outside of the directory"),
    "no such file": (_point("model-9.safetensors"), "model-9.safetensors is missing"),
    "another file": (
        lambda table, _: table.update({NORM: table["model.embed_tokens.weight"]}),
        f"holds tensor '{NORM}', which",
    ),
    "not listed": (lambda table, _: table.pop(NORM), "is in 'no file'"),
    "not there": (lambda table, _: table.update(more=table[NORM]), "'more' is not in"),
}


@pytest.mark.parametrize(
    "change", [{NORM: np.ones(9, np.float32)}, {NORM: np.ones(8, np.float16)}, {}, None]
)
def test_a_file_that_changes_while_it_is_read_is_noticed(change, saved):
    path, norm = saved / "model.safetensors", (slice(None),)
    with Tensors(saved) as tensors:
        assert tensors.read(NORM, norm).shape == (8,)
        path.unlink()
        if change is not None:
            save_file(change | {"other": np.ones(1, np.float32)}, path)
        with pytest.raises(WeightsError, match="model.safetensors changed while it was read"):
            tensors.read(NORM, norm)


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_stays_in_its_directory_and_tells_the_truth(name, sharded):
    change, message = INDEXES[name]
    reindex(sharded, change)
    with pytest.raises(WeightsError, match=re.escape(message)):
        huggingface.load(sharded)


def test_links_within_the_cache_of_the_hub_are_followed(saved, tmp_path, small):
    snapshot, blobs = tmp_path / "cache" / "snapshots" / "1f", tmp_path / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for i, name in enumerate(("config.json", "model.safetensors")):
        shutil.copy(saved / name, blobs / str(i))
        (snapshot / name).symlink_to(f"../../blobs/{i}")
    same(huggingface.load(snapshot)[1], small)


def test_only_safetensors_are_read(saved, tmp_path):
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="safetensors are needed"):
        huggingface.load(saved)
    (saved / "pytorch_model.bin").unlink()
    with pytest.raises(WeightsError, match="neither"):
        huggingface.load(saved)
    with pytest.raises(WeightsError, match="config.json is missing"):
        huggingface.load(tmp_path)
    (saved / "config.json").write_text("[")
    with pytest.raises(WeightsError, match="not readable JSON"):
        huggingface.load(saved)


def test_two_sets_of_weights_are_ambiguous(sharded, small):
    huggingface.save(sharded.parent / "single", SMALL, small)
    shutil.copy(sharded.parent / "single" / "model.safetensors", sharded)
    with pytest.raises(WeightsError, match="remove one"):
        huggingface.load(sharded)


def test_nothing_is_overwritten_unasked(saved, small, monkeypatch):
    other = jax.tree.map(lambda x: x + 1, small)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        huggingface.save(saved, SMALL, other)
    same(huggingface.load(saved)[1], small)
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="notes.txt"):
        huggingface.save(saved, SMALL, other, overwrite=True)
    (saved / "notes.txt").unlink()

    def fails(*args, **options):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(huggingface.tensor_files, "_write_file", fails)
        with pytest.raises(OSError, match="disk full"):
            huggingface.save(saved, SMALL, other, overwrite=True)
    assert [p.name for p in saved.parent.iterdir()] == ["model"]
    same(huggingface.load(saved)[1], small)
    huggingface.save(saved, SMALL, other, overwrite=True)
    same(huggingface.load(saved)[1], other)
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_what_stands_beside_the_weights_is_kept(saved, small, tmp_path):
    (saved / "tokenizer.json").write_text("{}")
    (saved / "modeling.py").write_text("raise SystemExit")
    huggingface.save(tmp_path / "out", SMALL, small, source=saved, fields={"eos_token_id": 7})
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert json.loads((tmp_path / "out" / "config.json").read_text())["eos_token_id"] == 7
    with pytest.raises(ValueError, match="is a different model"):
        huggingface.save(tmp_path / "no", SMALL, small, source=DATA / "qwen3")


def test_parameters_that_are_not_the_configs_are_refused(small, tmp_path):
    wrong = {**small, "norm": {"weight": np.ones(9, np.float32)}}
    with pytest.raises(ValueError, match="norm/weight has shape"):
        huggingface.save(tmp_path / "a", SMALL, wrong)
    with pytest.raises(ValueError, match="besides value heads"):
        huggingface.save(tmp_path / "b", SMALL, {**small, "more": np.ones(1)})
    with_critic = DecoderConfig(**{**SMALL.__dict__, "value_heads": 1})
    params = decoder.init(jax.random.key(0), with_critic)
    huggingface.save(tmp_path / "c", with_critic, params)
    assert "value_head" not in huggingface.load(tmp_path / "c")[1]


@pytest.mark.parametrize("dtype", huggingface.PARAM_DTYPES)
def test_dtypes_of_files_and_of_parameters(dtype, small, tmp_path):
    huggingface.save(tmp_path / "model", SMALL, small, dtype=dtype)
    with safe_open(tmp_path / "model" / "model.safetensors", "np") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert kinds == {{"float32": "F32", "bfloat16": "BF16", "float16": "F16"}[dtype]}
    rounded = jax.tree.map(lambda x: np.asarray(x).astype(jnp.dtype(dtype)), small)
    same(huggingface.load(tmp_path / "model")[1], rounded)
    config, half = huggingface.load(tmp_path / "model", dtype="bfloat16", param_dtype="bfloat16")
    assert config.dtype == "bfloat16"
    assert {x.dtype for x in jax.tree.leaves(half)} == {jnp.dtype(ml_dtypes.bfloat16)}


def test_parameters_go_straight_to_their_devices(saved, small, monkeypatch):
    mesh = jax.make_mesh((2,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))
    asked = []
    read = huggingface.tensor_files.Tensors.read

    def spy(self, tensor, index):
        part = read(self, tensor, index)
        asked.append((tensor, part.shape))
        return part

    monkeypatch.setattr(huggingface.tensor_files.Tensors, "read", spy)

    def sharding(path, shape):
        # A kernel [layers, in, out] is split by what goes in: columns of the file's tensors.
        spec = PartitionSpec(None, "fsdp") if path.endswith("kernel") else PartitionSpec()
        return NamedSharding(mesh, spec)

    _, params = huggingface.load(saved, sharding=sharding)
    same(params, small)
    kernel = params["layers"]["mlp"]["gate_proj"]["kernel"]
    assert {s.data.shape for s in kernel.addressable_shards} == {(2, 4, 6)}
    assert asked.count(("model.layers.0.mlp.gate_proj.weight", (6, 4))) == 2
