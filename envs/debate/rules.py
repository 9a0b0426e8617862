"""Debate about a picture before a judge that sees few of its pixels.

The judge is naive Bayes with the model that the pictures are drawn from: labels are equally likely,
and pixel i of a picture of label c is on with probability sigmoid(logits[c, i]), independently.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np


@functools.cache
def logits(seed: int, labels: int, pixels: int, contrast: float) -> np.ndarray:
    """The model, f32[labels, pixels]: independent normal numbers of scale `contrast`."""
    drawn = np.random.RandomState(seed).normal(0.0, contrast, (labels, pixels))
    return drawn.astype(np.float32)


def draw(key: jax.Array, model: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """A label i32[] and a picture of it, bool[pixels]."""
    label_key, pixel_key = jax.random.split(key)
    label = jax.random.randint(label_key, (), 0, model.shape[0])
    on = jax.nn.sigmoid(jnp.asarray(model)[label])
    return label, jax.random.uniform(pixel_key, on.shape) < on


def evidence(model: np.ndarray, picture: jax.Array) -> jax.Array:
    """Evidence of each pixel for each label, log p(pixel | label): f32[labels, pixels]."""
    on, off = -np.logaddexp(0, -model), -np.logaddexp(0, model)
    return jnp.where(picture, on, off)


def scores(model: np.ndarray, picture: jax.Array, shown: jax.Array) -> jax.Array:
    """The judge's log-likelihoods of the shown pixels, f32[labels]; other pixels are ignored."""
    return jnp.sum(jnp.where(shown, evidence(model, picture), 0.0), axis=-1)


def margin(score: jax.Array, label: jax.Array, claim: jax.Array) -> jax.Array:
    """Lead of the true label over the claimed one, or over the best other one, f32[...].

    score: f32[..., labels]. label, claim: i32[]; a claim of -1 stands for no claim.
    """
    number = jnp.arange(score.shape[-1])
    rival = (number == claim) | ((claim < 0) & (number != label))
    true = jnp.sum(jnp.where(number == label, score, 0.0), axis=-1)
    return true - jnp.max(jnp.where(rival, score, -jnp.inf), axis=-1)


def best_lie(
    model: np.ndarray, picture: jax.Array, label: jax.Array, honest: jax.Array, lying: jax.Array
) -> jax.Array:
    """The best claim if both debaters reveal optimally, i32[].

    honest, lying: i32[], number of pixels that each reveals. Evidence adds up: the honest debater
    reveals the pixels with the most evidence for the label against the claim, the liar those with
    the least; their order does not matter.
    """
    said = evidence(model, picture)
    number = jnp.arange(model.shape[0])
    for_label = jnp.sum(jnp.where((number == label)[:, None], said, 0.0), axis=0)
    ranked = jnp.sort(for_label - said, axis=-1)
    place = jnp.arange(model.shape[1])
    used = (place < lying) | (place >= model.shape[1] - honest)
    value = jnp.sum(jnp.where(used, ranked, 0.0), axis=-1)
    return jnp.argmin(jnp.where(number == label, jnp.inf, value)).astype(jnp.int32)


def best_reveal(
    model: np.ndarray,
    picture: jax.Array,
    shown: jax.Array,
    label: jax.Array,
    claim: jax.Array,
    honest: jax.Array,
) -> jax.Array:
    """The pixel that gives the best margin for the honest debater, or for the liar: i32[].

    With a fixed claim this is optimal play; without one it looks one step ahead.
    """
    after = scores(model, picture, shown)[:, None] + evidence(model, picture)
    lead = margin(after.T, label, claim)
    return jnp.argmax(jnp.where(shown, -jnp.inf, jnp.where(honest, lead, -lead))).astype(jnp.int32)
