"""RISE: at each attempt that the policy makes, a better answer is imitated, weighted by its
reward."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import bare
from agentrl.methods.teaching import BestOf, Chances, classroom, expert_teacher
from agentrl.streams import PerTurn

Improved = Literal["self", "expert"]


def attempt_weight(score: jax.Array, mask: jax.Array, temperature: float) -> jax.Array:
    """exp((r - mean of r over the stream) / temperature) of each turn, f32[N, T]; 0 outside mask.

    score: f32[N, T], the rewards r of the improved answers. With rewards 0, 0, 1, 0, 1 and a
    temperature of 1 the weights are .670, .670, 1.822, .670, 1.822; where all are equal, 1, so
    problems that are always solved do not outweigh the others.
    """
    score = jnp.where(mask, score, 0.0)
    count = jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
    centred = score - jnp.sum(score, axis=1, keepdims=True) / count
    return jnp.where(mask, jnp.exp(jnp.where(mask, centred, 0.0) / temperature), 0.0)


def rise(
    setup: Setup,
    *,
    episodes: int = 32,
    improved: Improved = "self",
    samples: int = 16,
    temperature: float = 1.0,
) -> Component:
    """Source "rise": improved answers in the states of the policy's own attempts.

    A turn is an attempt: what the policy said before, and that it was wrong, stands in what it
    reads. In each update it plays new episodes; at each state the answer is replaced by a better
    one, which is not played. Supplies `imitation_weight` f32[N, T], see `attempt_weight`, for
    `losses.weighted_imitation` with source="rise"; the source's rewards are those of the improved
    answers.

    Args:
      episodes: per update.
      improved: "self": the best of `samples` answers of the policy, by the reward of a step of the
        environment from that state; "expert": the environment's expert's ("distil").
      samples: N; 1: the policy's own answers, reward-weighted.
      temperature: > 0.

    Raises:
      ValueError: several environments or agents, one in Python, no expert where it is asked,
        segments, or an option outside its range.

    References:
      Qu et al. (2024), Recursive introspection, https://arxiv.org/abs/2407.18219 (from notes; no
      code was read). There each iteration starts from the base model, on the data of all; here
      updates follow each other, each on episodes of its own. The mean is over the problem's
      answers; that it is subtracted is recalled, not read.
    """
    path = "config.components.rise"
    check_range(f"{path}.episodes", episodes, 1)
    check_range(f"{path}.samples", samples, 1)
    check_range(f"{path}.temperature", temperature, 0, above=True)
    check_choice(f"{path}.improved", improved, get_args(Improved))
    teacher = BestOf(samples) if improved == "self" else expert_teacher()
    room = classroom(setup, "rise", teacher, labels=True, scored=True)

    def make(context, sources):
        task_key, key = jax.random.split(context.key)
        tasks = jax.random.split(task_key, episodes)
        lesson = room.play(context.params, tasks, key, Chances())
        return bare(lesson.streams).replace(reward=lesson.score), lesson.rows

    def annotate(context, streams, rows):
        return {
            "imitation_weight": PerTurn(attempt_weight(streams.reward, streams.mask, temperature))
        }

    return Component(source=Source(make), annotate=annotate, fills=("imitation_weight",))
