"""Tokenizer files of our own codecs and formats, as transformers and compatible servers read them.

A policy that was trained from scratch has a vocabulary of its own: the fragments of its
environments (codec `word`) or the bytes (codec `byte`). Its chat template is
`agentrl.actors.chat_template`.
"""

from collections.abc import Iterable
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from agentrl.policies.codec import ACT, END, PAD, Codec, decode
from agentrl.policies.sampling import Sampling
from agentrl.policies.subwords import letters_of_bytes

# Names of the control tokens of codecs `word` and `byte`, by their ids.
CONTROL = {PAD: "<|pad|>", END: "<|end|>", ACT: "<|reply|>"}


def tokenizer_of(codec: Codec) -> tokenizers.Tokenizer:
    """The tokenizer of codec `word` or `byte`: a token's id and text are the codec's.

    Codec `word` is Unigram with equal scores, which cuts a text into as few fragments as possible.
    A text that an environment puts together from more fragments gets other tokens here; `cut_apart`
    counts such texts. A letter that is in no fragment is read as padding: there is no token for it.

    Raises:
      ValueError: another codec, or a fragment that spells a control token.
    """
    pieces = [decode(codec, [token]) for token in range(codec.vocab_size)]
    names = [CONTROL.get(token, piece) for token, piece in enumerate(pieces)]
    if codec.name == "byte":
        names[len(CONTROL) :] = letters_of_bytes()
        vocabulary = {name: token for token, name in enumerate(names)}
        tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
    elif codec.name == "word":
        spelled = [piece for piece in pieces for name in CONTROL.values() if name in piece]
        if spelled:
            raise ValueError(f"the fragment {spelled[0]!r} spells a control token of the export")
        tokenizer = tokenizers.Tokenizer(models.Unigram([(name, -1.0) for name in names], PAD))
        tokenizer.decoder = decoders.Fuse()
    else:
        raise ValueError(f"codec {codec.name!r}: expected 'word' or 'byte'")
    tokenizer.add_special_tokens(list(CONTROL.values()))
    return tokenizer


def cut_apart(codec: Codec, tokenizer: tokenizers.Tokenizer, texts: Iterable[list[int]]) -> int:
    """How many texts, given as the codec's tokens without control tokens, the tokenizer cuts into
    other tokens."""
    return sum(tokenizer.encode(decode(codec, tokens)).ids != tokens for tokens in texts)


def tokenizer_config(*, end: str, pad: str, template: str, length: int) -> dict[str, Any]:
    """The content of tokenizer_config.json; length: tokens of the longest row of training."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": length,
        "bos_token": None,
        "eos_token": end,
        "pad_token": pad,
        "unk_token": None,
        "chat_template": template,
    }


def generation_config(
    *, end: int, pad: int, sampling: Sampling | None = None, new_tokens: int | None = None
) -> dict[str, Any]:
    """The content of generation_config.json: how the policy was sampled from in training.

    new_tokens: the longest reply, EOS included.
    """
    content: dict[str, Any] = {"bos_token_id": None, "eos_token_id": end, "pad_token_id": pad}
    if sampling is not None:
        content |= {"do_sample": True, "temperature": sampling.temperature, "top_k": sampling.top_k}
        content["top_p"] = sampling.top_p
        if sampling.min_p > 0:
            content["min_p"] = sampling.min_p
    if new_tokens is not None:
        content["max_new_tokens"] = new_tokens
    return content
