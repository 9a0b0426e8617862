"""Tiny random models of every family, made with transformers and torch.

    PYTHONPATH=WHERE-TORCH-IS python tests/policies/published.py tests/data/huggingface

writes them in bfloat16, with logits that transformers computes in float32, as the fixtures that
`test_huggingface` reads where torch is missing.
"""

import pathlib
import sys

import numpy as np

VOCAB = 41
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}


def rope(theta, **scaling):
    return {"rope_theta": theta, "rope_type": "default"} | scaling


LLAMA3 = rope(
    1000.0,
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
# Name: (class of transformers, what its config has beside the sizes).
CASES = {
    "llama2": ("Llama", {"rope_parameters": rope(10000.0), "rms_norm_eps": 1e-5}),
    "llama2_linear": (
        "Llama",
        {"rope_parameters": rope(10000.0, rope_type="linear", factor=2.0), "head_dim": 4},
    ),
    "llama3": ("Llama", {"rope_parameters": LLAMA3, "rms_norm_eps": 1e-5}),
    # SmolLM has Llama's architecture, three heads to a key-value head, and a tied embedding.
    "smollm": (
        "Llama",
        {
            "rope_parameters": rope(100000.0),
            "tie_word_embeddings": True,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "hidden_size": 24,
        },
    ),
    "mistral": ("Mistral", {"sliding_window": 7, "rope_parameters": rope(10000.0)}),
    "mistral_whole": ("Mistral", {"sliding_window": None, "rope_parameters": rope(1e6)}),
    "qwen2": (
        "Qwen2",
        {"head_dim": None, "rope_parameters": rope(1e6), "tie_word_embeddings": True},
    ),
    "qwen2_sliding": (
        "Qwen2",
        {
            "head_dim": None,
            "rope_parameters": rope(1e6),
            "use_sliding_window": True,
            "sliding_window": 5,
            "max_window_layers": 1,
        },
    ),
    "qwen3": ("Qwen3", {"rope_parameters": rope(1e6)}),
    "gemma": ("Gemma", {"rope_parameters": rope(10000.0)}),
    "gemma2": (
        "Gemma2",
        {
            "rope_parameters": rope(10000.0),
            "sliding_window": 5,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": (
        "Gemma3Text",
        {
            "rope_parameters": {
                "full_attention": rope(1e6, rope_type="linear", factor=8.0),
                "sliding_attention": rope(100.0),
            },
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention"],
            "query_pre_attn_scalar": 16,
        },
    ),
}


def tokens(seed=0, rows=3, length=40):
    return np.random.default_rng(seed).integers(0, VOCAB, (rows, length))


def make(name):
    """The torch model of a case, with random weights; norms and biases are random, too."""
    import torch
    import transformers

    family, changes = CASES[name]
    arguments = {k: v for k, v in (SIZES | changes).items() if v is not None or k != "head_dim"}
    config = getattr(transformers, f"{family}Config")(**arguments, attn_implementation="eager")
    torch.manual_seed(0)
    model = getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def logits(model, tokens):
    import torch

    with torch.no_grad():
        return model(torch.tensor(tokens)).logits.numpy()


def main(directory):
    import torch
    import transformers

    expected = {}
    for name in CASES:
        make(name).to(torch.bfloat16).save_pretrained(directory / name)
        # Read back, for the rotary frequencies were rounded, too.
        model = transformers.AutoModelForCausalLM.from_pretrained(
            directory / name, dtype=torch.float32, attn_implementation="eager"
        )
        (directory / name / "generation_config.json").unlink(missing_ok=True)
        expected[name] = logits(model, tokens(rows=1, length=24)).astype(np.float32)
    np.savez_compressed(directory / "logits.npz", **expected)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
