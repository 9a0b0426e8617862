"""What an ensemble of models that disagree says of a transition: where to look, what to believe.

Letters: E members, n transitions, D predicted numbers of each.
"""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import check_one_shape


def ensemble_deviation(predictions: jax.Array) -> jax.Array:
    """How far the members of an ensemble are apart: d = mean over outputs of the deviation of the
    members' predictions.

    The deviation is that of a population (ddof 0), so one member gives exactly 0. It has the units
    of the outputs, which should be comparable.

    Args:
      predictions: f32[E, n, D], each member's predicted means.

    Returns:
      f32[n], without gradient.

    References:
      Yao et al. (2021), MEEE, https://arxiv.org/abs/2107.01825; code YaoYao1995/MEEE c4d6612 (read
      for its arithmetic), whose outputs are the reward and the next observation.
    """
    predictions = jax.lax.stop_gradient(jnp.asarray(predictions, jnp.float32))
    return jnp.mean(jnp.std(predictions, axis=0), axis=-1)


def confidence_weight(deviation: jax.Array, *, temperature: float = 20.0) -> jax.Array:
    """The weight of an imagined transition: w = 2 sigmoid(-T d), 1 where the ensemble agrees.

    Real transitions have d = 0, and so the weight 1.

    Args:
      deviation: d >= 0, of `ensemble_deviation`. temperature: T >= 0; with 0 all weights are 1.

    Returns:
      f32 of the shape of d, in (0, 1], without gradient.

    Raises:
      ValueError: a negative temperature.

    References:
      MEEE, as `ensemble_deviation`; T = 20 there.
    """
    check_range("confidence_weight temperature", temperature, 0.0)
    return jax.lax.stop_gradient(2.0 * jax.nn.sigmoid(-temperature * deviation))


def upper_confidence(
    action_values: jax.Array, deviation: jax.Array, *, coefficient: float = 1.0
) -> jax.Array:
    """The score by which an action is chosen: Q(s, a) + coefficient d(s, a), of one shape.

    Args:
      action_values: the smaller of twin critics' Q. deviation: of `ensemble_deviation`.
      coefficient: lambda >= 0; 0: the model is not asked.

    Returns:
      The score, of their shape; gradient stopped.

    Raises:
      ValueError: a negative coefficient, or arrays of two shapes.

    References:
      MEEE, as `ensemble_deviation`; lambda = 1 there, and the choice is off by default.
    """
    check_range("upper_confidence coefficient", coefficient, 0.0)
    check_one_shape(None, action_values, deviation)
    return jax.lax.stop_gradient(action_values + coefficient * deviation)


def chosen_logits(logits: jax.Array, score: jax.Array, candidates: int) -> jax.Array:
    """Log-probabilities of the best-scored of several actions drawn from softmax(logits).

    Of K independent draws the best is an action of score u where all are of score u or less, and
    not all of less. With F(u) the probability of a score of u or less, and those of equal scores
    chosen like draws of the policy:

        log p(a) = log (F(u_a)^K - F(<u_a)^K) + log pi(a) - log pi(score = u_a)

    Args:
      logits: f32[..., A], -inf for illegal actions. score: f32[..., A].
      candidates: K >= 1; 1 leaves the policy as it is.

    Returns:
      f32[..., A], normalised; -inf for actions that cannot be drawn.

    Raises:
      ValueError: less than one candidate, or arrays of two shapes.

    References:
      In MEEE (code c4d6612) the candidates are the policy's action and 19 others around it, which
      is for continuous actions; here all are draws of the policy, and the best of them has a
      probability in closed form.
    """
    check_range("chosen_logits candidates", candidates, 1)
    check_one_shape(None, logits, score)
    p = jax.nn.softmax(jnp.asarray(logits, jnp.float32))
    other, own = score[..., None, :], score[..., :, None]
    below = jnp.sum(jnp.where(other < own, p[..., None, :], 0.0), axis=-1)
    equal = jnp.sum(jnp.where(other == own, p[..., None, :], 0.0), axis=-1)
    up_to = jnp.minimum(below + equal, 1.0)
    best = jnp.maximum(up_to**candidates - below**candidates, 0.0)
    chosen = jnp.where(p > 0, best * p / jnp.where(p > 0, equal, 1.0), 0.0)
    return jnp.log(chosen / jnp.sum(chosen, axis=-1, keepdims=True))
