"""Adversarial imitation: what tells an expert's transitions from a policy's."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import masked


def airl_logit(
    reward: jax.Array,
    potential: jax.Array,
    following: jax.Array,
    over: jax.Array,
    logp: jax.Array,
    mask: jax.Array | None = None,
    *,
    gamma: float,
    temperature: float = 1.0,
) -> jax.Array:
    """AIRL's logit of "the expert's": (r + gamma h(s') - h(s)) / temperature - log pi(a | s).

    D = exp(f) / (exp(f) + pi) with f = (r + gamma h(s') - h(s)) / temperature. The reward r is what
    is learnt and transferred; h takes up what depends on the states alone. Of a transition to an
    end h(s') is 0.

    Args:
      reward: r, a learnt reward, and known ones beside it. potential: h(s). following: h(s').
      over: bool, the rules ended the episode. logp: log pi(a | s), no gradient goes to it. All of
        one shape.
      mask: bool of that shape, transitions to read; None for all.
      gamma: in [0, 1]. temperature: above 0, of an expert whose choices are softmax(Q /
        temperature); AIRL has 1.

    Returns:
      f32 of that shape, 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes.

    References:
      Fu et al. (2018), https://arxiv.org/abs/1710.11248 (recalled).
    """
    check_range("airl_logit gamma", gamma, 0.0, 1.0)
    check_range("airl_logit temperature", temperature, 0.0, above=True)
    reward, potential, following, logp = masked(mask, reward, potential, following, logp)
    following = jnp.where(over, 0.0, following)
    f = (reward + gamma * following - potential) / temperature
    logit = f - jax.lax.stop_gradient(logp)
    return logit if mask is None else jnp.where(mask, logit, 0.0)


def discriminator_loss(
    logit: jax.Array,
    of_expert: jax.Array,
    mask: jax.Array | None = None,
    *,
    smoothing: float = 0.0,
) -> jax.Array:
    """Cross-entropy of a discriminator, D = sigmoid(logit) the probability of "the expert's".

    Labels are 1 - smoothing and smoothing instead of 1 and 0. The reward of an imitating policy is
    the logit, log D - log(1 - D).

    Args:
      logit: of transitions. of_expert: bool, the transition is the expert's. Of one shape.
      mask: bool of that shape, transitions to read; None for all.
      smoothing: in [0, 0.5).

    Returns:
      f32 of that shape, 0 where mask is False.

    Raises:
      ValueError: another smoothing, or arrays of other shapes.

    References:
      Ho and Ermon (2016), GAIL, https://arxiv.org/abs/1606.03476 (recalled; there the reward is
      -log(1 - D)).
    """
    check_range("discriminator_loss smoothing", smoothing, 0.0, 0.5, below=True)
    (logit,) = masked(mask, logit)
    label = jnp.where(of_expert, 1.0 - smoothing, smoothing)
    loss = jax.nn.softplus(logit) - label * logit
    return loss if mask is None else jnp.where(mask, loss, 0.0)
