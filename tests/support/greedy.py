"""Greedy replies of one model by our decoder and by transformers, which ignore EOS."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import decoder
from agentrl.policies.generation import generate
from agentrl.policies.sampling import Sampling


def by_ours(params, config, prompts, count):
    """`count` tokens after each of the prompts (lists of tokens), all together, with a cache."""
    lengths = jnp.asarray([len(prompt) for prompt in prompts])
    width = max(map(len, prompts))
    padded = [list(prompt) + [0] * (width - len(prompt)) for prompt in prompts]

    @jax.jit
    def write(params, tokens):
        cache = decoder.empty_cache(config, len(prompts), width + count, segment=32)
        hidden, cache = decoder.extend(params, config, cache, tokens, lengths)
        last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
        return generate(
            params,
            config,
            cache,
            last,
            jax.random.key(0),
            sampling=Sampling(greedy=True),
            max_new_tokens=count,
            end_token=config.vocab_size,
            active=jnp.ones(len(prompts), bool),
        ).tokens

    return np.asarray(write(params, jnp.asarray(padded, jnp.int32))).tolist()


def by_transformers(model, prompt, count):
    """`count` tokens after one prompt."""
    import torch

    model.generation_config.eos_token_id = None
    tokens = torch.tensor([list(prompt)])
    written = model.generate(
        tokens,
        attention_mask=torch.ones_like(tokens),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
    )
    return written[0, len(prompt) :].tolist()
