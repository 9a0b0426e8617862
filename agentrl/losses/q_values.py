"""Losses of networks of actions' values, Q(s, a), one value per transition.

Targets are data: no gradient goes through them. Arrays are of one shape, usually f32[n]; where a
mask is given nothing behind it is read.
"""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.losses.arrays import check_one_shape, masked
from agentrl.losses.categorical import categorical_log_prob


def q_loss(
    q: jax.Array, target: jax.Array, mask: jax.Array | None = None, *, huber: float = 20.0
) -> jax.Array:
    """Regression of Q(s, a) to its target: half the squared error, linear beyond `huber`.

    With y = `bootstrap_target` and V of an implicit loss it is ILQL's and f-DVL's; with y the
    discounted return to go of the data, `rewards.discounted_return`, the regression of Monte Carlo
    returns (LMRL-Gym's MC).

    Args:
      q: Q(s, a) of the data's action. target: y, of the same shape.
      mask: bool of that shape, transitions to read; None for all.
      huber: error from which the loss is linear, above 0 and finite.

    Returns:
      f32 of that shape, 0 where mask is False.

    Raises:
      ValueError: a `huber` not above 0, or infinite.

    References:
      hari-sikchi/DVL 4b7cf11 (read), of which `huber` is 20; abdulhaim/LMRL-Gym 911d726, whose loss
      is the square alone.
    """
    check_range("q_loss huber", huber, 0.0, above=True, below=True)
    q, target = masked(mask, q, target)
    error = jnp.abs(q - jax.lax.stop_gradient(target))
    inside = jnp.minimum(error, huber)
    return 0.5 * jnp.square(inside) + huber * (error - inside)


def bootstrap_target(
    reward: jax.Array, over: jax.Array, next_value: jax.Array, *, gamma: float
) -> jax.Array:
    """y = r + gamma V(s'), and r where the episode terminated there.

    What is cut by a limit bootstraps like any other transition.

    Args:
      reward: of a transition. over: bool, the rules ended the episode at it; next_value is not read
        there. next_value: V(s'). All of one shape.
      gamma: discount in [0, 1].

    Returns:
      f32 of that shape, without gradient.

    Raises:
      ValueError: gamma outside [0, 1], or arrays of several shapes.
    """
    check_range("bootstrap_target gamma", gamma, 0.0, 1.0)
    (following,) = masked(~over, next_value)
    (reward,) = masked(None, reward)
    return jax.lax.stop_gradient(reward + gamma * following)


def conservative_loss(
    q_values: jax.Array, action: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """The conservative term: Q of the data's action is raised, those of all others are lowered.

    l = log sum_a' exp Q(s, a') - Q(s, a), the cross-entropy of the data's action under softmax(Q).

    Args:
      q_values: f32[n, A]. action: i32[n]. mask: bool[n], transitions to read; None for all.

    Returns:
      f32[n], 0 where mask is False.

    References:
      Kumar et al. (2020), CQL(H), https://arxiv.org/abs/2006.04779 (recalled), whose loss has this
      with a weight beside the regression; as in ILQL and LMRL-Gym 911d726 (weight 0.01).
    """
    q_values = jnp.asarray(q_values, jnp.float32)
    if mask is not None:
        q_values, action = jnp.where(mask[:, None], q_values, 0.0), jnp.where(mask, action, 0)
    (loss,) = masked(mask, -categorical_log_prob(q_values, action))
    return loss


def recoil_loss(
    q: jax.Array,
    policy_q: jax.Array,
    target: jax.Array,
    of_expert: jax.Array,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Q from an expert's transitions among arbitrary ones, without rewards (ReCOIL, chi-square).

    For transitions drawn from the mixture of the expert's with share beta and others with 1 - beta:

        l = 1[expert] (E_{a ~ pi} Q(s, a) - Q(s, a)) + (y - Q(s, a))^2 / 4, y = gamma V(s')

    whose mean is beta (E_E E_pi Q - E_E Q) + E_mix (gamma V(s') - Q)^2 / 4: the expert's actions
    are raised above the policy's, and everything else only has to be consistent. There is no
    discriminator. With gamma 0, one state, an expert that takes a1, others that take a2, and a
    uniform policy, Q is 1 and -beta / (1 - beta); with the expert's policy it is 0 and 0.

    Args:
      q: Q(s, a) of the data's action. policy_q: the mean of Q(s, .) under the policy, to which a
        gradient goes, too; read at the expert's transitions alone. target: y, `bootstrap_target` of
        a reward of 0. of_expert: bool. All of one shape.
      mask: bool of that shape, transitions to read; None for all.

    Returns:
      f32 of that shape, 0 where mask is False.

    References:
      Sikchi et al. (2024), Dual RL, https://arxiv.org/abs/2302.08560. The offline objective was
      derived from the paper's dual and compared with a third party's online code; the authors'
      was not read. The expert's states stand for the initial ones. Q is not clipped and there is
      no gradient penalty, which that code has.
    """
    q, target = masked(mask, q, target)
    where = of_expert if mask is None else mask & of_expert
    own, policy_q = masked(where, q, policy_q)
    return policy_q - own + jnp.square(jax.lax.stop_gradient(target) - q) / 4.0


def proxy_value_loss(
    behaviour_q: jax.Array,
    novice_q: jax.Array,
    takeover: jax.Array,
    differs: jax.Array,
    mask: jax.Array | None = None,
    *,
    bound: float = 1.0,
) -> jax.Array:
    """What interventions stand for: what the overseer did is good, what it prevented is bad.

    l = I (Q(s, a_b) - B)^2 + I 1[a_b != a_n] (Q(s, a_n) + B)^2

    with I where the overseer acted, a_b what was done and a_n what the novice would have done. The
    values spread to other turns by `q_loss` with `bootstrap_target` of a reward of 0.

    Args:
      behaviour_q, novice_q: Q(s, a_b) and Q(s, a_n); the second is not read where the two agree.
      takeover: bool, I. differs: bool, a_b is not a_n. All of one shape.
      mask: bool of that shape, turns to read; None for all.
      bound: B > 0.

    Returns:
      f32 of that shape, 0 where mask is False and where nobody intervened.

    Raises:
      ValueError: a bound not above 0, or arrays of several shapes.

    References:
      Peng et al. (2023), Learning from active human involvement through proxy value propagation,
      https://arxiv.org/abs/2502.03369; code metadriverse/pvp cace7d1 (read). In its grid worlds the
      first turn of an intervention has no label; here it has.
    """
    check_range("proxy_value_loss bound", bound, 0.0, above=True, below=True)
    check_one_shape(mask, takeover, differs)
    labelled = takeover if mask is None else mask & takeover
    (good,) = masked(labelled, behaviour_q)
    (bad,) = masked(labelled & differs, novice_q)
    return jnp.where(labelled, jnp.square(good - bound), 0.0) + jnp.where(
        labelled & differs, jnp.square(bad + bound), 0.0
    )
