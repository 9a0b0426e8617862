"""What the learner reads: rows with the credit of their positions."""

from typing import NamedTuple

import jax

from agentrl.streams import Rows


class Example(NamedTuple):
    """What the learner reads for each row: everything has a leading axis R.

    old_logp: what the ratios of the loss are to. importance: weight of the learner before the
    update over the sampler. weight, value_weight: of each position in its minibatch's aggregated
    losses, asked_weight in the mean over its questions. tokens: f32[R], trained positions of the
    minibatch, the same in all rows.
    """

    rows: Rows
    advantage: jax.Array  # f32[R, L]
    target: jax.Array | None  # f32[R, L]
    old_value: jax.Array | None  # f32[R, L]
    reference_logp: jax.Array | None  # f32[R, L]
    old_logp: jax.Array  # f32[R, L]
    importance: jax.Array | None  # f32[R, L]
    weight: jax.Array | None = None  # f32[R, L]
    value_weight: jax.Array | None = None  # f32[R, L]
    asked_weight: jax.Array | None = None  # f32[R, L]
    tokens: jax.Array | None = None  # f32[R]

    def head(self, length: int) -> "Example":
        """The first `length` positions of each row."""
        whole = self._replace(rows=None, tokens=None)
        cut = jax.tree.map(lambda x: x[:, :length], whole)
        return cut._replace(rows=self.rows.head(length), tokens=self.tokens)
