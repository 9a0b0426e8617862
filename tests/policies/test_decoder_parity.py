"""Random models of transformers, read into our parameters: the same logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.policies import decoder
from agentrl.policies.attention import RopeScaling
from agentrl.policies.decoder import DecoderConfig

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 41,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "attn_implementation": "eager",
}
OURS = {
    "vocab_size": 41,
    "width": 32,
    "layers": 4,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "hidden": 48,
}
GEMMA = {"activation": "gelu_tanh", "norm_plus_one": True, "post_norms": True}
# transformers multiplies by the root rounded to its weights' dtype, here float32.
GEMMA["embed_scale"] = float(np.float32(32**0.5))


def rope(theta, **scaling):
    return {"rope_theta": theta, "rope_type": "default"} | scaling


CASES = {
    "Llama": (
        {
            "rope_parameters": rope(
                1000.0,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
            "rms_norm_eps": 1e-5,
        },
        {
            "rope_theta": 1000.0,
            "rope_scaling": RopeScaling(8.0, 1.0, 4.0, 64),
            "norm_eps": 1e-5,
            "tie_embeddings": False,
        },
    ),
    "Mistral": (
        {"sliding_window": 7, "rope_parameters": rope(10000.0)},
        {"sliding_window": 7, "tie_embeddings": False},
    ),
    "Qwen2": (
        {"head_dim": None, "rope_parameters": rope(1e6), "tie_word_embeddings": True},
        {"head_dim": 8, "rope_theta": 1e6, "qkv_bias": True},
    ),
    "Qwen3": (
        {"rope_parameters": rope(1e6)},
        {"rope_theta": 1e6, "qk_norm": True, "tie_embeddings": False},
    ),
    "Gemma": (
        {"rope_parameters": rope(10000.0)},
        GEMMA | {"post_norms": False},
    ),
    "Gemma2": (
        {
            "rope_parameters": rope(10000.0),
            "sliding_window": 5,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
        GEMMA
        | {
            "sliding_window": 5,
            "sliding_layers": (True, False, True, False),
            "query_scale": 24**-0.5,
            "attention_soft_cap": 2.0,
            "logit_soft_cap": 3.0,
        },
    ),
    "Gemma3Text": (
        {
            "rope_parameters": {
                "full_attention": rope(1e6, rope_type="linear", factor=8.0),
                "sliding_attention": rope(100.0),
            },
            "sliding_window": 5,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "query_pre_attn_scalar": 16,
        },
        GEMMA
        | {
            "sliding_window": 5,
            "sliding_layers": (True, True, True, False),
            "rope_theta": 1e6,
            "rope_scaling": RopeScaling(8.0),
            "local_rope_theta": 100.0,
            "qk_norm": True,
        },
    ),
}


def converted(state):
    """Nested parameters from names such as model.layers.0.self_attn.q_proj.weight."""
    params, layers = {}, {}
    for name, tensor in state.items():
        *path, leaf = name.removeprefix("model.").split(".")
        value = tensor.detach().numpy()
        if leaf == "weight" and value.ndim == 2 and path != ["embed_tokens"]:
            leaf, value = "kernel", value.T
        number = path.pop(1) if path[0] == "layers" else None
        node = params if number is None else layers.setdefault(int(number), {})
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = jnp.asarray(value)
    in_order = [layers[i] for i in range(len(layers))]
    return params | jax.tree.map(lambda *x: jnp.stack(x), *in_order)


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_transformers(name):
    theirs, ours = CASES[name]
    torch.manual_seed(0)
    arguments = {k: v for k, v in (SIZES | theirs).items() if v is not None}
    model_class = f"{name.removesuffix('Text')}ForCausalLM"
    family = getattr(transformers, f"{name}Config")
    model = getattr(transformers, model_class)(family(**arguments)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    config = DecoderConfig(**(OURS | ours))
    tokens = np.random.default_rng(0).integers(0, 41, (3, 40))
    with torch.no_grad():
        expected = model(torch.tensor(tokens)).logits.numpy()
    params = converted(model.state_dict())
    read = jnp.asarray(tokens, jnp.int32)
    np.testing.assert_allclose(decoder.logits(params, config, read), expected, atol=2e-4)
    # And through the cache, in two parts.
    cache = decoder.empty_cache(config, 3, 40, segment=16)
    full = jnp.full(3, 20)
    first, cache = decoder.extend(params, config, cache, read[:, :20], full)
    second, _ = decoder.extend(params, config, cache, read[:, 20:], full)
    hidden = jnp.concatenate([first, second], axis=1)
    np.testing.assert_allclose(decoder.unembed(params, config, hidden), expected, atol=2e-4)
