"""A judge that errs: the outcome of some episodes is told wrong."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup


def noisy_judge(
    setup: Setup, *, missed: float = 0.0, invented: float = 0.0, pays: float = 1.0
) -> Component:
    """Turns the outcome of some episodes round before anything is credited.

    An episode that succeeded is judged a failure with probability `missed`: the rewards of all its
    turns become 0. One that failed is judged a success with probability `invented`: its last turn
    is rewarded by `pays`. Success itself, and so its metrics, stays true.

    Metrics (Credit):
      judge_error: Judged wrong [share]; episodes whose judgement is not their success.

    Args:
      missed, invented: probabilities in [0, 1]. pays: the reward of a success.

    Raises:
      ValueError: a probability outside [0, 1], or a rollout without whole episodes.
    """
    check_range("config.components.noisy_judge.missed", missed, 0.0, 1.0)
    check_range("config.components.noisy_judge.invented", invented, 0.0, 1.0)
    if "group" not in setup.rollout.provides:
        raise ValueError(
            "component 'noisy_judge' judges whole episodes: use config.rollout.name='episodes'"
        )

    def amend(context, streams, rows):
        mask = streams.mask
        solved = jnp.any(streams.success & mask, axis=1)
        draw = jax.random.uniform(context.key, solved.shape)
        wrong = jnp.any(mask, axis=1) & (draw < jnp.where(solved, missed, invented))
        last = mask & (jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
        told = jnp.where(solved[:, None], 0.0, streams.reward + jnp.where(last, pays, 0.0))
        reward = jnp.where(wrong[:, None] & mask, told, streams.reward)
        count = jnp.sum(jnp.any(mask, axis=1))
        share = jnp.stack([jnp.sum(wrong), count]).astype(jnp.float32)
        return streams.replace(reward=reward), rows, {"judge_error": share}

    return Component(amend=amend)
