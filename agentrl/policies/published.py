"""Language policies from published models: weights, tokenizer and chat format of a directory."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable

import jax

from agentrl.policies import decoder, huggingface, lora
from agentrl.policies.chat import instructions
from agentrl.policies.codec import Codec
from agentrl.policies.decoder_config import PROJECTIONS, DecoderConfig
from agentrl.policies.language import (
    ALPHA,
    LanguagePolicy,
    check_adapters,
    check_speech,
    frozen_entries,
    specified,
)
from agentrl.policies.output_heads import ENTRY as HEADS
from agentrl.policies.sampling import Sampling
from agentrl.policies.subwords import huggingface as bind_tokenizer
from envs.text import Grammar, View, make_grammar


def pretrained(
    view: View,
    *others: View,
    directory: str,
    chat: str = "auto",
    grammar: str = "action",
    think: str = "default",
    max_actions: int = 0,
    critic: str = "none",
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    constrained: bool = False,
    behaviour: str = "",
    enforce: bool = True,
    dtype: str = "bfloat16",
    param_dtype: str = "float32",
    attention: str = "blocks",
    remat: bool | None = None,
    unroll: int | None = None,
    decode_unroll: int | None = None,
    output_heads: int = 0,
    head_weights: tuple[float, ...] = (),
    lora_rank: int = 0,
    lora_alpha: float = ALPHA,
    lora_targets: tuple[str, ...] = PROJECTIONS,
    lora_roles: int = 1,
    lora_blocks: int = 0,
    lora_profiles: tuple[str, ...] = (),
    lora_added: int = 0,
    lora_added_for: tuple[int, ...] = (),
    lora_train: tuple[str, ...] = (),
    rehearsal: bool = False,
) -> LanguagePolicy:
    """A published model: config.json, safetensors and tokenizer.json in a directory.

    The environment's rules and the reply format come once at the start of a row; observations are
    the user's turns, replies the assistant's.

    Args:
      others: further environments; their text is encoded on demand (`LanguagePolicy.on`).
      directory: local path; see `agentrl.policies.huggingface.load`.
      chat: chat format, see `agentrl.policies.subwords.huggingface`.
      grammar, ..., enforce: as in `agentrl.policies.transformer`.
      dtype, param_dtype: of activations and of parameters, "float32" or "bfloat16". By default
        products are in bfloat16, and trained parameters, gradients and optimizer state in float32:
        a step of 1e-6 on a weight of 0.02 is lost in 8 bits. With lora_rank the weights are frozen,
        and bfloat16 suffices for them.
      attention, remat, unroll, decode_unroll: see `agentrl.policies.decoder_config.DecoderConfig`.
      output_heads, head_weights: heads that differ from the model's own, which is frozen, and their
        weights in the mixture that is sampled from, see `agentrl.policies.output_heads`; (): equal.
      lora_rank, lora_alpha, lora_targets: train only adapters (and a critic), see
        `agentrl.policies.lora`; rank 0: train all parameters.
      lora_roles: roles (seats, planner and executor) with an adapter each; 1: one for all.
      lora_blocks, lora_profiles, lora_added, lora_added_for: blocks of one adapter, weighted
        by gates of the role, a text per role, blocks added later and the roles that read them, see
        `agentrl.policies.gated`; 0: no gates.
      lora_train: the entries of parameters that are trained, some of "lora", "lora_gate",
        "lora_added"; (): all that there are. A critic is trained always.
      rehearsal: a random model of the same family with two layers of width 64, to try a config.

    Raises:
      ValueError: an unusable directory, or invalid options.
    """
    _check_files(directory, param_dtype)
    rules = make_grammar(grammar, think=think, max_actions=max_actions, view=view)
    formula = specified(behaviour, enforce, rules)
    check_speech(rules, critic, constrained and not (formula and enforce))
    check_adapters(lora_rank, lora_alpha, lora_targets)
    config = dataclasses.replace(
        huggingface.read_config(directory, dtype=dtype),
        value_heads=0 if critic == "none" else 1,
        output_heads=output_heads,
        head_weights=tuple(head_weights),
        lora_rank=lora_rank,
        lora_alpha=lora_alpha,
        lora_targets=tuple(lora_targets),
        lora_roles=lora_roles,
        lora_blocks=lora_blocks,
        lora_profiles=tuple(lora_profiles),
        lora_added=lora_added,
        lora_added_for=tuple(lora_added_for),
        attention=attention,
        remat=remat,
        unroll=unroll,
        decode_unroll=decode_unroll,
    )
    bind = _tokenizer_binding(directory, chat, rules, config.vocab_size)
    config = _small(config) if rehearsal else config
    init, load = _parameters(config, directory, dtype, param_dtype)
    return LanguagePolicy(
        init=init,
        config=config,
        codec=bind(view),
        grammar=rules,
        sampling=Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        constrained=constrained,
        has_critic=critic != "none",
        bind=bind,
        load=None if rehearsal else load,
        frozen=frozen_entries(config, tuple(lora_train)),
        behaviour=formula,
        enforce=enforce,
    )


def _check_files(directory: str, param_dtype: str) -> None:
    """ValueError if there is no such directory, or for another type of parameters."""
    if param_dtype not in ("float32", "bfloat16"):
        raise ValueError(f"policy param_dtype={param_dtype!r}: expected 'float32' or 'bfloat16'")
    if not directory or not os.path.isdir(directory):
        raise ValueError(
            f"policy directory={directory!r}: expected the directory of a model, with config.json, "
            "tokenizer.json and .safetensors files"
        )


def _tokenizer_binding(
    directory: str, chat: str, rules: Grammar, vocab_size: int
) -> Callable[[View], Codec]:
    """(view) -> codec of the directory's tokenizer, with the reply format in its instructions."""
    return functools.partial(
        bind_tokenizer,
        directory=directory,
        chat=chat,
        instructions=instructions(rules),
        vocab_size=vocab_size,
    )


def _parameters(
    config: DecoderConfig, directory: str, dtype: str, param_dtype: str
) -> tuple[Callable[[jax.Array], decoder.Params], Callable[..., decoder.Params]]:
    """init: (key) -> random parameters; load: (sharding=None) -> those of the directory."""

    def init(key: jax.Array) -> decoder.Params:
        params = decoder.init(key, config)
        own = {
            name: params.pop(name)
            for name in (*lora.ENTRIES, HEADS, "value_head")
            if name in params
        }
        return jax.tree.map(lambda x: x.astype(param_dtype), params) | own

    def load(sharding: huggingface.Sharding | None = None) -> decoder.Params:
        options = {"dtype": dtype, "param_dtype": param_dtype, "sharding": sharding}
        return huggingface.load(directory, **options)[1]

    return init, load


def _small(config: DecoderConfig) -> DecoderConfig:
    """The same variants with two layers of width 64, one of them sliding if only some layers
    are."""
    width, sliding = 64, config.sliding_layers
    if sliding is not None:
        sliding = (any(sliding), all(sliding))
    return dataclasses.replace(
        config,
        width=width,
        layers=2,
        heads=2,
        kv_heads=1 if config.kv_heads < config.heads else 2,
        head_dim=32,
        hidden=128,
        sliding_layers=sliding,
        query_scale=None,
        unroll=None,
        decode_unroll=None,
        embed_scale=1.0 if config.embed_scale == 1 else math.sqrt(width),
    )
