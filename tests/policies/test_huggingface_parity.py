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


def test_a_policy_from_scratch_replies_in_transformers_as_here(tmp_path):
    """Config, weights, tokenizer, template and the token that ends a reply, all from the files."""
    import tiny

    from agentrl.config.build import build
    from agentrl.run import restored
    from agentrl.trained import exported

    config = tiny.talk_config(warm_start__updates=0)
    experiment = build(config)
    state = jax.tree.map(lambda x: x[None], jax.jit(experiment.init)(0))
    # Far from uniform, so that no two tokens are equally likely.
    scaled = jax.tree.map(lambda x: 3 * x, state.params)
    run = restored.Run(config, experiment, 0, state.replace(params=scaled))
    exported.export(run, tmp_path / "out")
    read = {"pretrained_model_name_or_path": tmp_path / "out"}
    model = transformers.AutoModelForCausalLM.from_pretrained(**read, attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(**read)
    assert type(model).__name__ == "LlamaForCausalLM"
    policy = experiment.policy
    params = jax.tree.map(lambda x: x[0], run.state.params)

    said = [{"role": "user", "content": "P__\n___\n__G"}]
    said += [{"role": "assistant", "content": "down"}, {"role": "user", "content": "___\nP__\n__G"}]
    prompt = tokenizer.apply_chat_template(said, add_generation_prompt=True)["input_ids"]
    tokens = np.asarray(prompt)[None]
    ours = decoder.logits(params, policy.config, jnp.asarray(tokens, jnp.int32))
    with torch.no_grad():
        theirs = model(torch.as_tensor(tokens)).logits.numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-4)

    reply = model.generate(
        torch.as_tensor(tokens),
        do_sample=False,
        max_new_tokens=20,
        temperature=None,
        top_k=None,
        top_p=None,
    )[0, len(prompt) :].tolist()
    (own,) = greedy.by_ours(params, policy.config, [prompt], 20)
    end = own.index(policy.codec.end) + 1 if policy.codec.end in own else 20
    assert reply == own[:end]
