"""The peer of our decoder: a Llama of the same sizes in transformers and PyTorch."""

import importlib
from typing import Any

from agentrl.policies.decoder_config import DecoderConfig
from launchers.benchmarks.peers import MissingError


def llama(config: DecoderConfig, *, pad: int, end: int | None) -> tuple[Any, Any]:
    """(torch, a LlamaForCausalLM with random parameters and EOS token `end`).

    Raises:
      MissingError: PyTorch is missing, which transformers needs only to make a model.
    """
    try:
        torch, library = importlib.import_module("torch"), importlib.import_module("transformers")
        model_class, config_class = library.LlamaForCausalLM, library.LlamaConfig
    except (ImportError, AttributeError) as error:
        raise MissingError(f"transformers skipped ({error}): pip install torch") from error
    torch.manual_seed(0)
    model = model_class(
        config_class(
            vocab_size=config.vocab_size,
            hidden_size=config.width,
            intermediate_size=config.hidden,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            eos_token_id=end,
            pad_token_id=pad,
        )
    )
    return torch, model
