"""Log-probabilities of whole batches, without gradients."""

from typing import Any

import chex
import jax

from agentrl.devices.placement import along_data
from agentrl.streams import Rows


def log_probs(policy: Any, params: chex.ArrayTree, rows: Rows, microbatch: int | None) -> jax.Array:
    """Log-probability of each position, f32[R, L], computed `microbatch` rows at a time.

    None, or a number that does not divide the rows: all at once.
    """
    count = rows.tokens.shape[0]
    if microbatch is None or count % microbatch:
        return policy.score(params, rows).logp
    parts = jax.tree.map(lambda x: x.reshape(-1, microbatch, *x.shape[1:]), rows)
    logp = jax.lax.map(lambda part: policy.score(params, part).logp, along_data(parts, 1))
    return logp.reshape(rows.tokens.shape)
