"""Against transformers with torch, family by family: logits, greedy replies, files both ways."""

import pathlib
import sys

import greedy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, huggingface

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import published  # noqa: E402

PROMPTS = (5, 17, 11)
WRITTEN = 64


def equal_weights(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("name", published.CASES)
def test_family(name, tmp_path, record_property):
    model = published.make(name)
    # In several files, as large models come.
    model.save_pretrained(tmp_path / "theirs", max_shard_size="8KB")
    assert (tmp_path / "theirs" / "model.safetensors.index.json").exists()
    config, params = huggingface.load(tmp_path / "theirs")

    tokens = published.tokens()
    expected = published.logits(model, tokens)
    ours = jax.jit(decoder.logits, static_argnums=1)(params, config, jnp.asarray(tokens, jnp.int32))
    difference = float(np.abs(np.asarray(ours) - expected).max())
    print(f"{name}: logits differ by at most {difference:.1e}")
    assert difference < 1e-4

    # Greedily from prompts of three lengths: ours together, with a cache; theirs one by one.
    prompts = [tokens[row, :length].tolist() for row, length in enumerate(PROMPTS)]
    written = greedy.by_ours(params, config, prompts, WRITTEN)
    for prompt, reply in zip(prompts, written, strict=True):
        assert reply == greedy.by_transformers(model, prompt, WRITTEN)

    # And back: by the source's config.json, and by our own.
    read = transformers.AutoModelForCausalLM.from_pretrained
    for directory, options in (("source", {"source": tmp_path / "theirs"}), ("own", {})):
        huggingface.save(tmp_path / directory, config, params, shard_bytes=8000, **options)
        again = read(tmp_path / directory, attn_implementation="eager")
        assert again.dtype == torch.float32
        equal_weights(model, again)
        np.testing.assert_allclose(published.logits(again, tokens), expected, atol=1e-6)
