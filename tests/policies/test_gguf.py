"""GGUF files: the same function as the weights that were converted; tokens; clear errors."""

import importlib.util
import json
import pathlib
import struct
import subprocess
import sys

import gguf_files
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

gguf = pytest.importorskip("gguf", reason="the package gguf is missing: pip install .[gguf]")

from agentrl.policies import (  # noqa: E402
    decoder,
    families,
    gguf_families,
    gguf_tokenizer,
    huggingface,
)
from agentrl.policies import gguf as importer  # noqa: E402

DATA = pathlib.Path(__file__).parents[1] / "data/huggingface"
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
# What a GGUF file cannot say: the scale of queries is a rule of the architecture there.
CHANGES = {
    "gemma2": {"query_pre_attn_scalar": 8},
    "gemma3": {"query_pre_attn_scalar": 8},
    "llama3": {"rope_parameters": LLAMA3},
}
CASES = sorted(path.name for path in DATA.iterdir() if path.is_dir() and "qwen2_s" not in path.name)


def source(name, tmp_path):
    """A fixture's fields and tensors, in a directory, with the changes of its case."""
    fields, tensors = gguf_files.original(DATA / name)
    fields |= CHANGES.get(name, {})
    directory = tmp_path / "original"
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(fields))
    (directory / "model.safetensors").write_bytes((DATA / name / "model.safetensors").read_bytes())
    return directory, fields, tensors


def converted(fields, tensors):
    content = gguf_files.metadata(fields) | gguf_files.LETTERS
    stored = gguf_files.stored(fields, tensors)
    if fields.get("rope_parameters", {}).get("rope_type") == "llama3":
        size, theta = fields["head_dim"], LLAMA3["rope_theta"]
        stored["rope_freqs.weight"] = gguf_families.llama3_factors(size, theta, LLAMA3)
    return content, stored


@pytest.fixture
def small(tmp_path):
    """(metadata, tensors) of a Llama with tied embeddings."""
    return converted(*gguf_files.original(DATA / "smollm"))


@pytest.mark.parametrize("name", CASES)
def test_an_architecture_computes_the_same(name, tmp_path):
    directory, fields, tensors = source(name, tmp_path)
    gguf_files.write(tmp_path / "model.gguf", *converted(fields, tensors))
    importer.write(tmp_path / "imported", tmp_path / "model.gguf")
    config, params = huggingface.load(tmp_path / "imported")
    expected_config, expected = huggingface.load(directory)
    assert not families.differences(config, expected_config)
    # Gemma's norms are stored as 1 + weight, in float32.
    close = {"atol": 2e-7} if name.startswith("gemma") else {"atol": 0, "rtol": 0}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **close), params, expected)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 41, (2, 24)), jnp.int32)
    logits = jax.jit(decoder.logits, static_argnums=1)
    np.testing.assert_allclose(
        logits(params, config, tokens), logits(expected, expected_config, tokens), atol=1e-5
    )


def test_llama3_factors_are_those_of_the_definition():
    """Worked by hand for three wavelengths: short, long, and at the middle of the turns."""
    theta = (2 * np.pi) ** -1 * 8192 / 2.5  # frequency 1 / theta turns 2.5 times in 8,192
    scaling = LLAMA3 | {"factor": 8.0}
    factors = gguf_families.llama3_factors(4, theta**2, scaling)
    # 8192 / (2 pi) turns of frequency 1: kept. 2.5 turns: (2.5 - 1) / (4 - 1) = 1/2 is kept.
    np.testing.assert_allclose(factors, [1, 1 / (0.5 / 8 + 0.5)], rtol=1e-6)
    assert gguf_families.llama3_factors(4, 1e12, scaling)[1] == 8


def test_the_largest_gemmas_scale_queries_by_width_over_heads():
    for name, layers, width in (("gemma2", 46, 4608), ("gemma3", 62, 5376)):
        fields = gguf_files.original(DATA / name)[0]
        for count, expected in ((layers, width // 32), (layers - 1, 128)):
            fields |= {"hidden_size": width, "num_attention_heads": 32, "head_dim": 128}
            fields |= {"num_hidden_layers": count}
            content = gguf_files.metadata(fields)
            content.pop("gemma3.attention.sliding_window_pattern", None)
            shapes = {"token_embd.weight": (41, width)}
            config = gguf_families.config(content, shapes, None, "file")
            assert config["query_pre_attn_scalar"] == expected
            slides = [kind == "sliding_attention" for kind in config["layer_types"]]
            every = 2 if name == "gemma2" else 6
            assert slides == [(i + 1) % every != 0 for i in range(count)]


KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


@pytest.mark.parametrize("kind", (*KINDS, "Q4_K", "Q6_K"))
def test_quantised_weights_are_those_of_the_package(kind, tmp_path, monkeypatch):
    """Whatever blocks of rows are read at a time, query and key rows in their places."""
    monkeypatch.setattr(importer, "_BLOCK", 3 * 256)
    content, stored = converted(*gguf_files.original(DATA / "llama2"))
    random, width = np.random.default_rng(1), 256
    content |= {"llama.embedding_length": width, "llama.attention.head_count": 8}
    content |= {"llama.attention.key_length": 32, "llama.attention.value_length": 32}
    content |= {"llama.rope.dimension_count": 32, "llama.feed_forward_length": 256}
    content |= {"llama.attention.head_count_kv": 2}
    number, kinds, plain = gguf.GGMLQuantizationType[kind], {}, {}
    for name in stored:
        rows = 41 if name in ("token_embd.weight", "output.weight") else 256
        rows = 64 if "attn_k" in name or "attn_v" in name else rows
        if "norm" in name:
            stored[name] = plain[name] = random.normal(size=width).astype(np.float32)
            continue
        kinds[name] = kind
        values = random.normal(size=(rows, width)).astype(np.float32)
        if kind.endswith("_K"):  # which the package reads and does not write
            shape = gguf.quant_shape_to_byte_shape(values.shape, number)
            stored[name] = random.integers(0, 64, shape, np.uint8)
            plain[name] = gguf.dequantize(stored[name], number)
        else:
            stored[name] = values
            plain[name] = gguf.dequantize(gguf.quantize(values, number), number)
    gguf_files.write(tmp_path / "model.gguf", content, stored, kinds)
    for dtype in ("float32", "bfloat16"):
        fields = importer.write(
            tmp_path / "out", tmp_path / "model.gguf", dtype=dtype, overwrite=True
        )
        _, tensors = gguf_files.original(tmp_path / "out")
        for name, source in gguf_families.sources(fields).items():
            expected = plain[source.name]
            if source.heads:
                assert source.heads == (8 if "q_proj" in name else 2)
                pairs = expected.reshape(source.heads, 16, 2, width)
                expected = np.concatenate([pairs[:, :, 0], pairs[:, :, 1]], 1).reshape(-1, width)
            expected = np.asarray(expected.astype(jnp.dtype(dtype)), np.float32)
            np.testing.assert_array_equal(tensors[name], expected, err_msg=name)


TEXTS = (
    "Hello world, it's 12345.67 o'clock; we'LL see  2 spaces   5 and 1,000,000!",
    "def f(x):\n    return x ** 2  # tabs\t\tand\r\n\r\n  lines \n",
    "naïve café, 東京へ行く, Привет мир, ½ + ٣ = ², 🙂🙂 e\u0301",
    " leading and trailing ",
    "<|im_start|>user\nWhat?<|im_end|>\n<think>well</think>",
    "...!!!??? --- <=> `code` $5 + ~3|4^2",
)


def corpus():
    return [(pathlib.Path(__file__).parents[2] / "README.md").read_text(), *TEXTS]


def byte_level(pre, size=500):
    """Metadata of byte-level BPE, trained here with the splits of `pre`."""
    pieces = [piece for text in corpus() for piece in _pieces(text, pre)]
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(pieces, trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    # A word that no merges lead to, control and user-defined tokens, and a filled row.
    tokens += ["Ġtrailing", "<|im_start|>", "<|im_end|>", "<think>", "[PAD9]"]
    return {
        "general.architecture": "llama",
        "llama.context_length": 64,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 4) + [3, 3, 4, 5],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]],
        "tokenizer.ggml.bos_token_id": len(tokens) - 4,
        "tokenizer.ggml.eos_token_id": len(tokens) - 3,
    }


def _pieces(text, pre):
    parts = [text]
    for pattern in gguf_files.PATTERNS[pre]:
        parts = [piece for part in parts for piece in gguf_files._split(part, pattern)]
    return parts


@pytest.mark.parametrize("pre", gguf_files.PATTERNS)
def test_byte_level_tokens_are_those_of_llama_cpp(pre):
    content = byte_level(pre)
    spec = gguf_tokenizer.tokenizer(content, "file")
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
    for text in TEXTS:
        if pre == "qwen2":  # published files of Qwen normalise, which llama.cpp leaves to callers
            text = text.replace("e\u0301", "\u00e9")
        expected = gguf_files.tokens(content, text)
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected
        assert tokenizer.decode(expected, skip_special_tokens=False) == text
        bos = [content["tokenizer.ggml.bos_token_id"]] if pre == "llama-bpe" else []
        assert tokenizer.encode(text).ids == bos + expected
    assert tokenizer.token_to_id("[PAD9]") is None
    assert ("Ġtrailing" in tokenizer.encode(TEXTS[3]).tokens) == (pre == "llama-bpe")


def sentencepiece(size=460):
    """Metadata of SentencePiece's BPE, scores by the order in which pieces were learnt."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size - 259, show_progress=False)
    trained.train_from_iterator(corpus()[:1], trainer)
    vocabulary = trained.get_vocab()
    learnt = sorted(vocabulary, key=vocabulary.get)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learnt]
    return {
        "general.architecture": "llama",
        "llama.context_length": 64,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(learnt),
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(learnt))],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


@pytest.mark.parametrize("prefix", (True, False))
def test_sentencepiece_tokens_are_those_of_llama_cpp(prefix):
    content = sentencepiece() | {"tokenizer.ggml.add_space_prefix": prefix}
    spec = gguf_tokenizer.tokenizer(content, "file")
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
    for text in TEXTS:
        expected = gguf_files.tokens(content, text)
        assert tokenizer.encode(text).ids == [1, *expected]
        assert tokenizer.decode(expected) == text


def test_sentencepiece_tokens_are_those_of_the_library(tmp_path):
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    (tmp_path / "corpus.txt").write_text("\n".join(corpus()))
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"),
        model_prefix=str(tmp_path / "model"),
        vocab_size=700,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    model = library.SentencePieceProcessor(model_file=str(tmp_path / "model.model"))
    numbers = range(model.vocab_size())
    kinds = [
        2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1
        for i in numbers
    ]
    content = sentencepiece() | {
        "tokenizer.ggml.tokens": [model.id_to_piece(i) for i in numbers],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": [model.get_score(i) for i in numbers],
        "tokenizer.ggml.add_bos_token": False,
    }
    spec = gguf_tokenizer.tokenizer(content, "file")
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
    for text in corpus():
        assert tokenizer.encode(text).ids == model.encode(text)
        assert tokenizer.encode(text).ids == gguf_files.tokens(content, text)


def test_the_tokenizer_of_a_directory_is_read_by_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    content, stored = converted(*gguf_files.original(DATA / "smollm"))
    content |= {
        "tokenizer.chat_template": "{% for m in messages %}{{ m.role + m.content }}{% endfor %}",
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eot_token_id": 5,
    }
    gguf_files.write(tmp_path / "model.gguf", content, stored)
    importer.write(tmp_path / "out", tmp_path / "model.gguf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("ab 12").input_ids == [0, 40, 27, 29, 30]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|end|>", "<|end|>")
    if importlib.util.find_spec("jinja2"):  # which transformers renders templates with
        said = [{"role": "user", "content": "hi"}]
        assert tokenizer.apply_chat_template(said, tokenize=False) == "userhi"
    generation = json.loads((tmp_path / "out/generation_config.json").read_text())
    assert generation == {"bos_token_id": 0, "eos_token_id": [0, 5]}


CONTENT_ERRORS = {
    "architecture": ({"general.architecture": "mamba"}, "architecture 'mamba': expected one of ll"),
    "experts": ({"llama.expert_count": 8}, "llama.expert_count=8 is not supported"),
    "yarn": ({"llama.rope.scaling.type": "yarn"}, "type='yarn': expected 'none' or 'linear'"),
    "rotation": ({"llama.rope.dimension_count": 4}, "dimension_count=4: expected 8, the size"),
    "sizes": ({"llama.attention.head_count_kv": 2}, "head"),
    "per layer": ({"llama.attention.head_count_kv": [1, 1]}, "expected one number"),
    "layers": ({"llama.block_count": None}, "metadata llama.block_count is missing"),
    "parts": ({"split.count": 3}, "one of 3 parts: expected one file"),
    "tokenizer": ({"tokenizer.ggml.model": "bert"}, "model='bert': expected 'gpt2'"),
    "no tokenizer": ({"tokenizer.ggml.model": None}, "model=None: expected 'gpt2'"),
    "split": ({"tokenizer.ggml.pre": "viking"}, "pre='viking', the way to split text: expected"),
    "merges": ({"tokenizer.ggml.merges": None}, "merges is missing"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "the file has no tokenizer"),
    "twice": ({"tokenizer.ggml.tokens": ["a"] * 41}, "tokens 0 and 1 are both 'a'"),
    "merge": ({"tokenizer.ggml.merges": ["a zz"]}, "the tokenizer in it is damaged"),
    "end": ({"tokenizer.ggml.eos_token_id": 77}, "eos_token_id=77: expected below 41"),
    "types": ({"tokenizer.ggml.token_type": [1]}, "41 tokens and 1 types"),
    "scores": ({"tokenizer.ggml.model": "llama"}, "scores is missing"),
}


def refused(tmp_path, message):
    """The file is refused with the message in one line, and nothing is left in the folder."""
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match=message) as caught:
        importer.write(tmp_path / "out", tmp_path / "model.gguf")
    assert "\n" not in str(caught.value) and str(tmp_path / "model.gguf") in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", CONTENT_ERRORS)
def test_metadata_that_is_not_supported(case, small, tmp_path):
    (changes, message), (content, stored) = CONTENT_ERRORS[case], small
    content = {k: v for k, v in (content | changes).items() if v is not None}
    gguf_files.write(tmp_path / "model.gguf", content, stored)
    refused(tmp_path, message)


def test_tensors_that_do_not_fit(small, tmp_path):
    content, stored = small
    path = tmp_path / "model.gguf"
    name = "blk.1.attn_q.weight"
    cases = (
        ({name: None, "blk.0.ffn_up.weight": None}, "'blk.0.ffn_up.weight' is missing, and 1 more"),
        ({"blk.0.attn_q.bias": np.zeros(24, np.float32)}, "attn_q.bias' does not belong"),
        ({name: np.zeros((8, 24), np.float32)}, r"shape \(8, 24\), expected by .*: \(24, 24\)"),
        ({name: np.zeros((24, 24), np.int8)}, "type I8, which .* cannot dequantise"),
        ({"token_embd.weight": None}, "'token_embd.weight' is missing"),
        ({"rope_freqs.weight": np.full(4, 2, np.float32)}, "scales RoPE in another way"),
    )
    for changes, message in cases:
        tensors = {k: v for k, v in (stored | changes).items() if v is not None}
        gguf_files.write(path, content, tensors)
        refused(tmp_path, message)


def test_files_that_are_damaged(small, tmp_path):
    path = tmp_path / "model.gguf"
    with pytest.raises(ValueError, match="no such file"):
        importer.read(path)
    gguf_files.write(path, *small)
    whole = path.read_bytes()
    for size in (12, 200, 1000, 2000, len(whole) - 4000, len(whole) - 40):
        path.write_bytes(whole[:size])
        refused(tmp_path, "is truncated or damaged")
    path.write_bytes(b"PK\x03\x04" + whole)
    refused(tmp_path, "is not a GGUF file: it begins with b'PK")
    path.write_bytes(whole[:4] + struct.pack("<I", 1) + whole[8:])
    refused(tmp_path, "version 1")
    # The type of a tensor follows its name, number of dimensions, and two sizes.
    name = b"blk.0.attn_q.weight"
    at = whole.index(name) + len(name) + 4 + 16
    path.write_bytes(whole[:at] + struct.pack("<I", 250) + whole[at + 4 :])
    refused(tmp_path, "type 250, which the installed package gguf does not know; upgrade gguf")


def test_nothing_is_left_half_written(small, tmp_path, monkeypatch):
    gguf_files.write(tmp_path / "model.gguf", *small)
    out = tmp_path / "out"
    calls = []

    def fails(*args, **options):
        calls.append(args)
        if len(calls) == 5:
            raise OSError("disk full")
        return dequantised(*args, **options)

    dequantised = importer.dequantised
    with monkeypatch.context() as patched:
        patched.setattr(importer, "dequantised", fails)
        with pytest.raises(OSError, match="disk full"):
            importer.write(out, tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    importer.write(out, tmp_path / "model.gguf")
    with pytest.raises(FileExistsError, match="not empty"):
        importer.write(out, tmp_path / "model.gguf")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="'notes.txt', not a file of a model"):
        importer.write(out, tmp_path / "model.gguf", overwrite=True)
    with pytest.raises(ValueError, match="dtype='int8': expected one of float32"):
        importer.write(tmp_path / "other", tmp_path / "model.gguf", dtype="int8")


def test_without_the_package(small, tmp_path, monkeypatch):
    gguf_files.write(tmp_path / "model.gguf", *small)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ValueError, match=r"needs the package gguf .*pip install .agentrl\[gguf\]"):
        importer.write(tmp_path / "out", tmp_path / "model.gguf")


@pytest.mark.long
def test_the_command(small, tmp_path):
    def call(*arguments):
        command = [sys.executable, "-m", "launchers.import_gguf", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    file, out = tmp_path / "model.gguf", tmp_path / "out"
    gguf_files.write(file, *small)
    done = call(f"--file={file}", f"--out={out}", "--dtype=bfloat16")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{out}: llama, 2 layers of 24, 41 tokens\n"
    assert huggingface.load(out)[0].width == 24
    again = call(f"--file={file}", f"--out={out}")
    assert again.returncode == 2 and again.stderr.startswith(f"error: {out} is not empty")
    assert "or --overwrite if" in again.stderr and "overwrite=True" not in again.stderr
    assert call().stderr.startswith("error: give --file=, a GGUF file")
    missing = call("--package=no-such-model", f"--out={out}")
    assert "pip install --no-deps no-such-model" in missing.stderr
    assert "has 0 GGUF files (none)" in call("--package=numpy", f"--out={out}").stderr
