"""Small tokenizers, trained here with the tokenizers library, in the forms of published ones."""

import json

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

import envs
from agentrl.policies import new_model
from envs import registered


def views():
    """The text view of every environment that has one, by name."""
    out = {}
    for name in registered():
        env = envs.make(name)[0]
        if env.wordings is not None:
            out[name] = env.view
    return out


def _fragments(texts):
    return [fragment for view in texts for fragment in (*view.lexicon, view.rules)]


def byte_level(directory, texts, size=600):
    """As Qwen's: byte-level BPE with words that begin with a space, ChatML's control tokens."""
    tokenizer = new_model.byte_level_bpe(texts, vocab_size=size)
    # What a published file may say, and what is encoded must not follow.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    # Added, but not special, as Qwen 3 has them.
    tokenizer.add_tokens(["<tool_call>", "<think>", "</think>"])
    tokenizer.save(str(directory / "tokenizer.json"))
    return tokenizer


def metaspace(directory, texts, size=500):
    """As Llama 2's and Gemma's: SentencePiece's BPE, unknown characters as bytes."""
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.train_from_iterator(_fragments(texts), trainer)
    # The trainer knows of no bytes; they go into the file by hand, behind the rest.
    spec = json.loads(tokenizer.to_str())
    vocabulary = spec["model"]["vocab"]
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    spec["model"] |= {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    spec["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    spec["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    (directory / "tokenizer.json").write_text(json.dumps(spec))
    return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))


def word_pieces(directory, texts):
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=["[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(_fragments(texts), trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
