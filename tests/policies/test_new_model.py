"""A new model has the files of a published one: every text, no control token, the same sizes."""

import json

import numpy as np
import pytest
import tokenizers

import envs
from agentrl import policies
from agentrl.policies import codec as codecs
from agentrl.policies import huggingface, new_model


@pytest.fixture(scope="module")
def views():
    return [envs.make(name)[0].view for name in ("Household-v1", "TicTacToe-v1")]


@pytest.fixture(scope="module")
def directory(tmp_path_factory, views):
    path = tmp_path_factory.mktemp("new") / "model"
    new_model.write(path, views, vocab_size=400, width=16, heads=2, kv_heads=1, hidden=24)
    return path


def test_it_is_read_as_a_published_one(directory, views):
    config, params = huggingface.load(directory)
    fields = json.loads((directory / "config.json").read_text())
    assert fields["model_type"] == "qwen2" and fields["vocab_size"] == config.vocab_size <= 400
    assert params["layers"]["mlp"]["up_proj"]["kernel"].shape == (2, 16, 24)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    assert fields["eos_token_id"] == tokenizer.token_to_id("<|im_end|>")
    text = "put the apple 1 in the fridge 1; \N{SNOWMAN} <|im_end|"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    for view in views:
        policy = policies.pretrained(view, directory=str(directory), grammar="bare")
        ids = np.random.default_rng(0).integers(0, len(view.lexicon), 40)
        codec, plain = policy.codec, codecs.byte(view)
        read = [t for i in ids for t in codec.fragments[i, : codec.lengths[i]].tolist()]
        bytes_ = [t for i in ids for t in plain.fragments[i, : plain.lengths[i]].tolist()]
        assert codecs.decode(codec, read) == codecs.decode(plain, bytes_)
        # It has learnt words; a game's board has none.
        assert len(read) < (0.7 if view is views[0] else 1.01) * len(bytes_)


def test_the_same_seed_gives_the_same_files(directory, views, tmp_path):
    again = tmp_path / "again"
    new_model.write(again, views, vocab_size=400, width=16, heads=2, kv_heads=1, hidden=24)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        assert (again / name).read_bytes() == (directory / name).read_bytes()


def test_what_does_not_fit(directory, views):
    with pytest.raises(ValueError, match="vocab_size=100: expected at least 259"):
        new_model.byte_level_bpe(views, vocab_size=100)
    with pytest.raises(ValueError, match="width=20, heads=4"):
        new_model.write(directory, views, width=20, heads=4)
    with pytest.raises(FileExistsError, match="is not empty; name another directory$"):
        new_model.write(directory, views, width=16)
