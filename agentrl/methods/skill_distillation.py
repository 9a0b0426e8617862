"""Skill-SD: the same weights, with a skill in their prompt, teach the policy that acts without."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.methods.prompted import first_command, make_prompted
from agentrl.streams import PerPosition


def skill_teacher(
    setup: Setup, *, skill: str | Callable[..., Any] = "", every: int = 1
) -> Component:
    """Supplies `teacher_logp` f32[R, L] for `losses.skill_distillation`.

    The teacher is the policy itself, which reads a skill in front of the first observation of each
    row; it scores the tokens that were sampled without it.

    Args:
      skill: text, or a function (state, agent, params) -> fragments i32[K] of the environment's
        lexicon, of the state that the episode started from. Empty: `first_command`, what the
        environment's expert does first.
      every: the teacher's weights are those of the policy, copied every so many updates; 1: those
        that the update starts from, without a copy.

    Raises:
      ValueError: a policy that does not read text, several environments or agents, or `every` below
        1.

    References:
      Skill-SD (2026), https://arxiv.org/abs/2604.10674, from notes on the paper; no code was
      published. There a bank per task holds skills that the policy summarised from its own
      episodes, and a UCB rule picks one; here the skill is what the config gives, and the period
      of copying is not known.
    """
    check_range("config.components.skill_teacher.every", every, 1)
    (env, _), *_ = setup.envs.values()
    chosen = skill or functools.partial(first_command, env)
    prompted = make_prompted(setup, "skill_teacher", chosen)

    def init(start):
        return (start.update, start.params) if every > 1 else ()

    def annotate(context, streams, rows):
        teacher = context.value[1] if every > 1 else context.params
        return {"teacher_logp": PerPosition(prompted(teacher, streams, rows))}

    def after(value, outcome):
        if every == 1:
            return value, {}
        number, params = value
        due = (number + 1) % every == 0
        copied = jax.tree.map(lambda new, old: jnp.where(due, new, old), outcome.params, params)
        return (number + 1, copied), {}

    return Component(init=init, annotate=annotate, after=after, fills=("teacher_logp",))
