"""A small random model in published files' formats, with a tokenizer of environments' text."""

import json
import os
import pathlib
from collections.abc import Iterable

import jax
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from agentrl.policies import decoder, huggingface, tokenizer_files
from agentrl.policies.decoder_config import DecoderConfig
from envs.text import View

# Qwen's tokens for the end of a text and of a turn.
END, START_TURN, END_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# ChatML as a Jinja template: the text of `agentrl.policies.chat.chatml`.
CHATML = (
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}\n"
)
# Positions that programs reserve; RoPE itself has no bound.
MAX_LENGTH = 4096


def byte_level_bpe(views: Iterable[View], *, vocab_size: int) -> tokenizers.Tokenizer:
    """Byte-level BPE like Qwen's, trained on the views, with ChatML's control tokens at the end.

    It is trained on the fragments of the lexicons and the rules, since fragments are encoded
    separately (`agentrl.policies.subwords`). It contains all 256 bytes, so any text can be written.

    Args:
      vocab_size: of the tokenizer with its three control tokens; smaller if there are no more
        merges.

    Raises:
      ValueError: vocab_size is too small for bytes and control tokens.
    """
    control = [END, START_TURN, END_TURN]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if vocab_size < len(alphabet) + len(control):
        raise ValueError(
            f"vocab_size={vocab_size}: expected at least {len(alphabet) + len(control)}, all bytes "
            "and ChatML's control tokens"
        )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(control), initial_alphabet=alphabet, show_progress=False
    )
    texts = [text for view in views for text in (*view.lexicon, view.rules)]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(control)
    return tokenizer


def write(
    directory: str | os.PathLike,
    views: Iterable[View],
    *,
    vocab_size: int = 600,
    width: int = 64,
    layers: int = 2,
    heads: int = 2,
    kv_heads: int = 2,
    hidden: int = 128,
    seed: int = 0,
) -> DecoderConfig:
    """A Qwen 2 of random float32 weights and a tokenizer of the views' text, in a new directory.

    transformers and policy `pretrained` read it as any other model. Args: those of
    `byte_level_bpe`, and the model's sizes as in `DecoderConfig`, with a head dimension of width /
    heads.

    Raises:
      ValueError: inconsistent sizes.
      FileExistsError: the directory is not empty.
    """
    if width % (2 * heads) or heads % kv_heads:
        raise ValueError(
            f"width={width}, heads={heads}, kv_heads={kv_heads}: expected heads of an even width, "
            "and a multiple of kv_heads of them"
        )
    place = pathlib.Path(directory)
    if place.is_dir() and any(place.iterdir()):
        raise FileExistsError(f"{place} is not empty; name another directory")
    tokenizer = byte_level_bpe(views, vocab_size=vocab_size)
    config = DecoderConfig(
        vocab_size=tokenizer.get_vocab_size(),
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        hidden=hidden,
        qkv_bias=True,
    )
    params = decoder.init(jax.random.key(seed), config)
    ends = {"end": tokenizer.token_to_id(END_TURN), "pad": tokenizer.token_to_id(END)}
    companions = {
        "tokenizer.json": json.loads(tokenizer.to_str()),
        "tokenizer_config.json": tokenizer_files.tokenizer_config(
            end=END_TURN, pad=END, template=CHATML, length=MAX_LENGTH
        ),
        "generation_config.json": tokenizer_files.generation_config(**ends),
    }
    fields = {
        "bos_token_id": None,
        "eos_token_id": ends["end"],
        "pad_token_id": ends["pad"],
        "max_position_embeddings": MAX_LENGTH,
    }
    huggingface.save(directory, config, params, fields=fields, companions=companions)
    return config
