"""Against transformers with torch, family by family: logits, greedy replies, files both ways."""

import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder, huggingface
from agentrl.policies.generation import generate
from agentrl.policies.sampling import Sampling

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
    lengths = jnp.asarray(PROMPTS)

    @jax.jit
    def write(params, tokens):
        size = max(PROMPTS) + WRITTEN
        cache = decoder.empty_cache(config, len(PROMPTS), size, segment=32)
        hidden, cache = decoder.extend(params, config, cache, tokens, lengths)
        last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
        return generate(
            params,
            config,
            cache,
            last,
            jax.random.key(0),
            sampling=Sampling(greedy=True),
            max_new_tokens=WRITTEN,
            end_token=published.VOCAB,
            active=jnp.ones(len(PROMPTS), bool),
        ).tokens

    written = np.asarray(write(params, jnp.asarray(tokens[:, : max(PROMPTS)], jnp.int32)))
    model.generation_config.eos_token_id = None
    for row, length in enumerate(PROMPTS):
        prompt = torch.tensor(tokens[row : row + 1, :length])
        theirs = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=WRITTEN,
            do_sample=False,
            pad_token_id=0,
        )
        assert written[row].tolist() == theirs[0, length:].tolist()

    # And back: by the source's config.json, and by our own.
    read = transformers.AutoModelForCausalLM.from_pretrained
    for directory, options in (("source", {"source": tmp_path / "theirs"}), ("own", {})):
        huggingface.save(tmp_path / directory, config, params, shard_bytes=8000, **options)
        again = read(tmp_path / directory, attn_implementation="eager")
        assert again.dtype == torch.float32
        equal_weights(model, again)
        np.testing.assert_allclose(published.logits(again, tokens), expected, atol=1e-6)
