"""From one value per position to a scalar."""

from typing import Literal

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.losses.arrays import masked

AGGREGATIONS = ("token_mean", "row_mean", "row_sum", "constant")
Aggregation = Literal["token_mean", "row_mean", "row_sum", "constant"]


def aggregate(
    values: jax.Array,
    mask: jax.Array,
    how: Aggregation,
    *,
    constant: float | jax.Array | None = None,
) -> jax.Array:
    """Sum of the values where mask is True, under one of four divisors.

      token_mean  sum m l / sum m: every position counts the same, long rows more.
      row_mean    mean over rows of the row's mean: every row counts the same, so that a position
                  of a long row counts less (the GRPO paper's).
      row_sum     mean over rows of the row's sum.
      constant    sum m l / constant: the divisor does not depend on the policy.

    A row without a True position is not a row. Example: rows (1, 1) and (0, 0, 0, 0, 0, 0, 0, 2)
    of up to 8 positions give 4/10 = 0.4, (1 + 0.25)/2 = 0.625, (2 + 2)/2 = 2, and 4/8 = 0.5 with
    constant=8.

    Dr. GRPO divides each row's sum by a fixed length L_max and takes the mean over R rows: constant
    is R * L_max. verl's seq-mean-token-sum-norm divided the whole sum by L_max alone at b178a3c
    (constant=L_max, R times as large), and by the number of rows too in later versions.

    With gradients accumulated over microbatches, a mean within each of them makes the weight of a
    position depend on its microbatch. A constant does not: with the whole batch's count of
    positions, the microbatches' losses add up to the token mean of the whole.

    Args:
      values: [R, L].
      mask: bool[R, L], positions that count.
      how: one of `AGGREGATIONS`.
      constant: the divisor of "constant", > 0; may be traced. Not taken by the other three.

    Returns:
      f32[]. A mask without a True position gives 0 and a zero gradient.

    Raises:
      ValueError: unknown `how`; `constant` missing, not positive, or given where it is not used.

    References:
      Liu et al. (2025), Understanding R1-Zero-like training (Dr. GRPO),
      https://arxiv.org/abs/2503.20783. Yu et al. (2025), DAPO, https://arxiv.org/abs/2503.14476
      (token_mean). verl b178a3c (read and executed).
    """
    chex.assert_rank(values, 2)
    (values,) = masked(mask, values)
    return jnp.sum(aggregation_weights(mask, how, constant=constant) * values)


def aggregation_weights(
    mask: jax.Array, how: Aggregation, *, constant: jax.Array | float | None = None
) -> jax.Array:
    """The weight of each position in `aggregate`, f32[R, L]: aggregate = sum(weights * values).

    With the weights of the whole batch, the losses of its parts add up to the whole's, however it
    is cut.

    Args:
      mask, how, constant: as for `aggregate`.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: as `aggregate`.
    """
    check_choice("aggregation", how, AGGREGATIONS)
    if how == "constant" and constant is None:
        raise ValueError(
            "aggregation 'constant' needs its divisor; give constant=, "
            "for example rows * maximal length"
        )
    if how != "constant" and constant is not None:
        raise ValueError(
            f"aggregation {how!r} takes no constant, given {constant!r}; "
            "leave it out or use 'constant'"
        )
    check_range("the divisor of aggregation 'constant'", constant, 0.0, above=True)
    length = jnp.sum(mask, axis=1, keepdims=True)
    rows = jnp.maximum(jnp.sum(length > 0), 1)
    divisor = {
        "constant": lambda: jnp.asarray(constant, jnp.float32),
        "token_mean": lambda: jnp.maximum(jnp.sum(length), 1),
        "row_mean": lambda: jnp.maximum(length, 1) * rows,
        "row_sum": lambda: rows,
    }[how]()
    return jnp.where(mask, 1.0, 0.0) / divisor.astype(jnp.float32)
