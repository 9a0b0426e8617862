"""Soft policy iteration over discrete actions: the policy's step, and the value of a state.

With few actions expectations over the policy are sums over all of them; nothing is drawn.
"""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import check_one_shape

# In the place of minus infinity, the logit of an illegal action: 0 times it is 0, and not NaN.
_LOWEST = -1e30


def _sums(logits: jax.Array, values: jax.Array, temperature: float) -> jax.Array:
    """sum_a pi_a (values_a - temperature log pi_a) over the last axis."""
    check_range("soft values' temperature", temperature, 0.0)
    log_p = jax.nn.log_softmax(jnp.maximum(logits, _LOWEST))
    return jnp.sum(jnp.exp(log_p) * (values - temperature * log_p), axis=-1)


def soft_value(logits: jax.Array, action_values: jax.Array, *, temperature: float) -> jax.Array:
    """The value of states with the policy's entropy, V(s) = sum_a pi(a | s) (Q(s, a) - alpha log
    pi(a | s)).

    Args:
      logits: f32[..., A], of the policy; -inf for illegal actions.
      action_values: f32[..., A], Q(s, a).
      temperature: alpha >= 0; with 0 it is the mean of Q under the policy.

    Returns:
      f32[...]. With the policy that `soft_policy_loss` leads to, softmax(Q / alpha), it is alpha
      log sum_a exp(Q(s, a) / alpha).

    Raises:
      ValueError: a negative temperature, or arrays of two shapes.
    """
    check_one_shape(None, logits, action_values)
    return _sums(jnp.asarray(logits, jnp.float32), action_values, temperature)


def soft_policy_loss(
    logits: jax.Array,
    action_values: jax.Array,
    mask: jax.Array | None = None,
    *,
    temperature: float = 0.1,
) -> jax.Array:
    """The policy's step of a soft actor-critic, exact over discrete actions.

    l = sum_a pi(a | s) (alpha log pi(a | s) - Q(s, a)).

    It is alpha times KL(pi || softmax(Q / alpha)), but for a constant: the policy goes to
    softmax(Q / alpha), whatever the actions were that the data hold.

    Args:
      logits: f32[R, L, A], of the policy; -inf for illegal actions.
      action_values: f32[R, L, A], Q(s, a) of a component; no gradient.
      mask: bool[R, L], positions to read; None for all.
      temperature: alpha >= 0, in the units of Q; with 0 the policy goes to the best action.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: a negative temperature, or arrays of several shapes.

    References:
      Haarnoja et al. (2018), Soft actor-critic, https://arxiv.org/abs/1801.01290; Christodoulou
      (2019), for discrete action settings, https://arxiv.org/abs/1910.07207 (both recalled, not
      read). There alpha is tuned to an entropy; here it is fixed.
    """
    check_one_shape(None, logits, action_values)
    if mask is not None:
        check_one_shape(mask, logits[..., 0])
        logits, action_values = (
            jnp.where(mask[..., None], x, 0.0) for x in (logits, action_values)
        )
    values = jax.lax.stop_gradient(jnp.asarray(action_values, jnp.float32))
    loss = -_sums(jnp.asarray(logits, jnp.float32), values, temperature)
    return loss if mask is None else jnp.where(mask, loss, 0.0)


def boltzmann_imitation(
    logits: jax.Array,
    action_values: jax.Array,
    mask: jax.Array | None = None,
    *,
    temperature: float = 0.1,
) -> jax.Array:
    """The policy is taught what a Q learner with Boltzmann exploration would do.

    l = - sum_a q_a log pi(a | s), q = softmax(Q(s, .) / alpha).

    It has the same optimum as `soft_policy_loss`, softmax(Q / alpha), and the KL divergence the
    other way round: the gradient to the logits, pi - q, does not vanish where the policy gives a
    good action no chance. It is for Q learners without an actor of their own, whose policy is a
    network beside Q here.

    Args:
      logits: f32[R, L, A], of the policy; -inf for illegal actions, which get no part of q.
      action_values: f32[R, L, A], Q(s, a) of a component; no gradient.
      mask: bool[R, L], positions to read; None for all.
      temperature: alpha > 0, in the units of Q.

    Returns:
      f32[R, L], 0 where mask is False.

    Raises:
      ValueError: a temperature not above 0, or arrays of several shapes.

    References:
      Rusu et al. (2015), Policy distillation, https://arxiv.org/abs/1511.06295 (recalled, not
      read), where alpha is 0.01.
    """
    check_range("boltzmann_imitation temperature", temperature, 0.0, above=True)
    check_one_shape(None, logits, action_values)
    if mask is not None:
        check_one_shape(mask, logits[..., 0])
        logits, action_values = (
            jnp.where(mask[..., None], x, 0.0) for x in (logits, action_values)
        )
    logits = jnp.maximum(jnp.asarray(logits, jnp.float32), _LOWEST)
    values = jnp.where(logits > _LOWEST, action_values / temperature, _LOWEST)
    target = jax.lax.stop_gradient(jax.nn.softmax(values))
    loss = -jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)
    return loss if mask is None else jnp.where(mask, loss, 0.0)
