"""Heads: distributions over actions given the outputs of a policy over arrays."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import losses


class Normal(NamedTuple):
    """A Gaussian of K independent components, both fields [..., K]."""

    mean: jax.Array
    log_std: jax.Array


class Head(NamedTuple):
    """A family of distributions over actions, parametrised by `outputs` [..., ...].

    discrete: whether actions are discrete, i32[...], or continuous, f32[..., K].
    draw: (outputs, legal, key) -> actions. best: (outputs, legal) -> the mode.
    log_prob: (outputs, legal, action) -> f32[...]. entropy: (outputs, legal) -> f32[...], nats.
    kl: (outputs, those of a reference, legal) -> KL(pi || reference), f32[...], without a gradient
      to the reference.
    legal: bool[..., A] if some discrete actions are illegal, else None.
    """

    discrete: bool
    draw: Callable[..., jax.Array]
    best: Callable[..., jax.Array]
    log_prob: Callable[..., jax.Array]
    entropy: Callable[..., jax.Array]
    kl: Callable[..., jax.Array]


def mask_logits(logits: jax.Array, legal: jax.Array | None) -> jax.Array:
    """Logits with minus infinity at illegal actions; unchanged if `legal` is None."""
    return logits if legal is None else jnp.where(legal, logits, -jnp.inf)


def _draw_category(logits: jax.Array, legal: jax.Array | None, key: jax.Array) -> jax.Array:
    return jax.random.categorical(key, mask_logits(logits, legal)).astype(jnp.int32)


def _best_category(logits: jax.Array, legal: jax.Array | None) -> jax.Array:
    return jnp.argmax(mask_logits(logits, legal), axis=-1).astype(jnp.int32)


CATEGORICAL = Head(
    discrete=True,
    draw=_draw_category,
    best=_best_category,
    log_prob=lambda logits, legal, action: losses.categorical_log_prob(
        mask_logits(logits, legal), action
    ),
    entropy=lambda logits, legal: losses.categorical_entropy(mask_logits(logits, legal)),
    kl=lambda logits, reference, legal: losses.categorical_kl(
        mask_logits(logits, legal), mask_logits(reference, legal)
    ),
)


def _draw_vector(normal: Normal, legal: jax.Array | None, key: jax.Array) -> jax.Array:
    noise = jax.random.normal(key, normal.mean.shape)
    return normal.mean + jnp.exp(normal.log_std) * noise


# Neither squashed nor clipped: see `losses.gaussian_log_prob` for the reason.
GAUSSIAN = Head(
    discrete=False,
    draw=_draw_vector,
    best=lambda normal, legal: normal.mean,
    log_prob=lambda normal, legal, action: losses.gaussian_log_prob(*normal, action),
    entropy=lambda normal, legal: losses.gaussian_entropy(normal.log_std),
    kl=lambda normal, reference, legal: losses.gaussian_kl(*normal, *reference),
)
