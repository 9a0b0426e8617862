"""The listening loss: learning to name the imposter from the messages of others."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.declarations import averaged
from agentrl.losses.arrays import WithMetrics, check_one_shape
from agentrl.losses.categorical import categorical_log_prob


@averaged(over="asked")
def listening_loss(
    answer_logits: jax.Array,
    answer: jax.Array,
    mask: jax.Array | None = None,
    *,
    focus: float = 0.0,
) -> WithMetrics:
    """Cross-entropy of the true answer at questions about beliefs, one value per position.

    l = -(1 - p)^focus log p,  p = softmax(answer_logits)[answer].

    The game supplies the labels: after the episode the imposter is known, so every question is
    labelled, whatever the agent answered. `aggregate(l, mask, "token_mean")` is the mean
    over questions.

    Metrics (Policy):
      belief_accuracy: Right beliefs [share]; of listeners in social deduction.

    Args:
      answer_logits: f32[R, L, V], of the position where the answer is given.
      answer: i32[R, L], the true answer's token.
      mask: bool[R, L], questions; None for all. Neither logits nor answers are read elsewhere.
      focus: exponent of the focal weight, >= 0; the gradient goes through the weight too.

    Returns:
      f32[R, L], 0 where mask is False. The metric `belief_accuracy` is the share of questions whose
      most likely answer is the true one.

    Raises:
      ValueError: focus < 0, or arrays of other shapes.

    References:
      Sarkar et al. (2025), https://arxiv.org/abs/2502.06060. Read: SocialDeductionLLM 0cac8fa,
      whose scripts run focus 0 and weigh the mean by 3.0. Lin et al. (2017), Focal loss,
      https://arxiv.org/abs/1708.02002.
    """
    check_range("listening_loss focus", focus, 0.0)
    logits = answer_logits
    check_one_shape(mask, answer, logits[..., 0])
    if mask is not None:
        logits = jnp.where(mask[..., None], logits, 0.0)
        answer = jnp.where(mask, answer, 0)
    logp, right = categorical_log_prob(logits, answer), jnp.argmax(logits, axis=-1) == answer
    loss = _focal(logp, focus)
    if mask is not None:
        loss, right = jnp.where(mask, loss, 0.0), right & mask
    return loss, {"belief_accuracy": right}


@averaged(over="asked")
def listening_loss_in_words(
    logp: jax.Array, mask: jax.Array | None = None, *, focus: float = 0.0
) -> WithMetrics:
    """`listening_loss` of a language policy: of the true answer's tokens after the question.

    l = -(1 - p)^focus log p,  p = pi(answer's token | what the agent has read, the question),

    over the whole vocabulary, as in the reference, not over the answers alone.

    Args:
      logp: f32[R, L], of the tokens of the answer; `config.rollout.question` makes their rows.
      mask: bool[R, L], those tokens; None for all.
      focus: exponent of the focal weight, >= 0.

    Returns:
      f32[R, L], 0 where mask is False. The metric `belief` is the mean probability of the answer's
      tokens.

    Raises:
      ValueError: focus < 0, or arrays of other shapes.

    References:
      As `listening_loss`.
    """
    check_range("listening_loss_in_words focus", focus, 0.0)
    check_one_shape(mask, logp)
    logp = logp if mask is None else jnp.where(mask, logp, 0.0)
    belief = jnp.exp(logp) if mask is None else jnp.where(mask, jnp.exp(logp), 0.0)
    return _focal(logp, focus), {"belief": belief}


def _focal(logp: jax.Array, focus: float) -> jax.Array:
    """-(1 - p)^focus log p."""
    if not focus:
        return -logp
    missing = -jnp.expm1(logp)
    # A power below 1 has no finite gradient at 0, where the loss is 0 anyway.
    some = missing > 0
    return jnp.where(some, jnp.where(some, missing, 1.0) ** focus * -logp, 0.0)
