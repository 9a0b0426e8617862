"""Skill-SD: the same weights, with a skill in their prompt, teach the policy that acts without.

Letters: N streams, C tasks, W fragments of a command.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.injection import written
from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.by_turn import solved, stream_sums
from agentrl.methods.prompted import first_command, log_probs_after, make_prompted
from agentrl.methods.skills import (
    Bank,
    Rule,
    chosen,
    empty,
    summarised,
    usefulness,
    with_summaries,
    with_use,
)
from agentrl.methods.success_replay import found
from agentrl.methods.turn_actions import turn_actions
from agentrl.rollout.metrics import mean
from agentrl.streams import PerPosition, Rows, Streams
from envs.environment import Environment, EnvParams


class Copies(NamedTuple):
    """A teacher's weights: those of the policy, copied every so many updates; 1: those that an
    update starts from, without a copy.

    Its value is () or (number of updates done i32[], the copied parameters).
    """

    every: int

    def init(self, start: InitInputs) -> tuple[Any, ...]:
        """A copy of the parameters that the run's updates begin with; () without copies."""
        return (start.update, start.params) if self.every > 1 else ()

    def params(self, value: tuple[Any, ...], params: chex.ArrayTree) -> chex.ArrayTree:
        """The teacher's parameters, in an update that starts from `params`."""
        return value[1] if self.every > 1 else params

    def after(self, value: tuple[Any, ...], outcome: UpdateResult) -> tuple[Any, ...]:
        """The value after an update."""
        if self.every == 1:
            return value
        number, params = value
        due = (number + 1) % self.every == 0
        copied = jax.tree.map(lambda new, old: jnp.where(due, new, old), outcome.params, params)
        return number + 1, copied


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
      episodes, and a UCB rule picks one (`skill_bank`); here the skill is what the config gives,
      and the period of copying is not known.
    """
    check_range("config.components.skill_teacher.every", every, 1)
    (env, _), *_ = setup.envs.values()
    text = skill or functools.partial(first_command, env)
    prompted, copies = make_prompted(setup, "skill_teacher", text), Copies(every)

    def annotate(context, streams, rows):
        teacher = copies.params(context.value, context.params)
        return {"teacher_logp": PerPosition(prompted(teacher, streams, rows))}

    def after(value, outcome):
        return copies.after(value, outcome), {}

    return Component(init=copies.init, annotate=annotate, after=after, fills=("teacher_logp",))


class BankHooks(NamedTuple):
    """The hooks of `skill_bank`, with what they are made of.

    actions_of: (streams, rows) -> actions i32[N, T, M]. width: W. warning: the fragment in front of
    a mistake, 0: mistakes are not read.
    """

    setup: Setup
    env: Environment
    env_params: EnvParams
    actions_of: Callable[[Streams, Rows], jax.Array]
    copies: Copies
    width: int
    tasks: int
    per_task: int
    longest: int
    rule: Rule
    exploration: float
    warning: int

    def init(self, start: InitInputs) -> tuple[Bank, tuple[Any, ...]]:
        """An empty bank, and the teacher's weights."""
        bank = empty(self.tasks, self.per_task, self.longest * self.width, self.width)
        return bank, self.copies.init(start)

    def chosen(self, bank: Bank) -> jax.Array:
        """The skill of each task that the teacher reads, i32[C]."""
        return chosen(bank.skills, rule=self.rule, exploration=self.exploration)

    def places(self, bank: Bank, streams: Streams) -> tuple[jax.Array, jax.Array]:
        """(place i32[N] of each stream's task, whether it is in the bank bool[N])."""
        at, known = jax.vmap(found, (None, None, 0))(bank.task, bank.since, streams.anchor[:, 0])
        return at, known & jnp.any(streams.mask, axis=1)

    def annotate(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[dict[str, PerPosition], dict[str, jax.Array]]:
        """The teacher's log-probabilities, and where it has read a skill."""
        bank, copied = context.value
        at, known = self.places(bank, streams)
        text = bank.skills.skill[at, self.chosen(bank)[at]]
        if self.warning:
            mistake = bank.skills.mistake[at]
            title = jnp.where(jnp.any(mistake > 0, axis=1), self.warning, 0)
            text = jnp.concatenate([text, title[:, None], mistake], axis=1)
        text = jnp.where(known[:, None], text, 0)
        codec = self.setup.policy.codec
        tokens, count = jax.vmap(functools.partial(written, codec))(text)
        teacher = self.copies.params(copied, context.params)
        logp = log_probs_after(self.setup, teacher, rows, tokens, count)
        read = known[rows.stream][:, None] & rows.loss_mask
        there = jnp.any(streams.mask, axis=1)
        metrics = {"skill_bank/read": mean(known * 1.0, there)}
        return {"teacher_logp": PerPosition(logp), "skill_read": PerPosition(read * 1.0)}, metrics

    def after(
        self, value: tuple[Bank, tuple[Any, ...]], outcome: UpdateResult
    ) -> tuple[tuple[Bank, tuple[Any, ...]], dict[str, jax.Array]]:
        """The bank with what these episodes tell of the skills that were read, then with theirs."""
        bank, copied = value
        streams, rows = outcome.streams, outcome.rows
        at, known = self.places(bank, streams)
        teacher = outcome.notes["teacher_logp"].values
        gain = stream_sums(PerPosition(teacher - rows.behaviour_logp), streams, rows)
        tokens = stream_sums(PerPosition(jnp.ones(teacher.shape)), streams, rows)
        gain, place = gain / jnp.maximum(tokens, 1.0), jnp.where(known, at, self.tasks)
        use, measured = usefulness(gain, solved(streams), place, self.tasks)
        bank = with_use(bank, self.chosen(bank), use, measured)
        commands = jax.vmap(lambda state: self.env.commands_as(state, 0, self.env_params))
        action = self.actions_of(streams, rows)
        action = action.reshape(action.shape[0], -1)
        told = summarised(commands(streams.first_state), action, streams, self.longest)
        bank = with_summaries(bank, streams.anchor[:, 0], told)
        steps, one = bank.skills.steps, jnp.ones(())
        metrics = {
            "skill_bank/tasks": jnp.stack([jnp.sum(bank.since > 0) * 1.0, one]),
            "skill_bank/steps": mean(steps * 1.0, steps > 0),
            "skill_bank/usefulness": mean(use, measured),
        }
        return (bank, self.copies.after(copied, outcome)), metrics


def skill_bank(
    setup: Setup,
    *,
    tasks: int = 256,
    per_task: int = 4,
    longest: int = 8,
    rule: Rule = "ucb",
    exploration: float = 0.1,
    warning: str = "",
    every: int = 1,
) -> Component:
    """Supplies `teacher_logp` f32[R, L] for `losses.skill_distillation`, by skills of own episodes.

    The teacher is the policy itself, which reads a skill of the task in front of the first
    observation of each row; it scores the tokens that were sampled without it. Skills are summaries
    of the policy's own episodes, by rule: the commands of a solved episode, of which the shortest
    of each task are kept. A task is known by the anchor of its first turn, as in
    `agentrl.methods.success_replay`, and has to come again for anything to happen.

    Supplies `skill_read` f32[R, L], too, 1 where the task has a skill: the scale of the loss, by
    term(losses.skill_distillation, weight=0.1, scale="skill_read"), so that a task without one
    adds nothing.

    The skill of a task is that of the largest upper confidence bound of its usefulness,

      mean u + exploration sqrt(ln n / n_k),  u = mean gain of solved episodes - that of the others,

    the gain being log pi(token | skill) - log pi(token), a mean per token; it is measured in
    updates in which the task has both kinds.

    Metrics (Opponents, buffers, tasks):
      skill_bank/read: Streams with a skill [share].
      skill_bank/tasks: Tasks with a skill [tasks].
      skill_bank/steps: Commands of a skill [commands]; mean over the bank.
      skill_bank/usefulness: Usefulness of skills [nats]; mean over those measured, per token.

    Args:
      tasks: places for tasks. per_task: skills per task. longest: commands of a skill.
      rule, exploration: see `agentrl.methods.skills.chosen`.
      warning: a fragment of the environment's lexicon, such as "O" of FrozenLake-v1; then a skill
        ends in it and the command that the task's latest failed episode ended with. Empty: what
        failed is not read.
      every: as for `skill_teacher`; from the run's updates on, the teacher is what began it.

    Raises:
      ValueError: a policy that does not read text, several environments or agents, one in Python,
        commands that depend on the state, segments, a fragment that the lexicon lacks, or an option
        outside its range.

    References:
      Skill-SD (2026), https://arxiv.org/abs/2604.10674, from notes on the paper; no code was
      published. There a language model writes three fields (what worked, mistakes, workflow), of
      which the first and the last are one here; the UCB rule's constant, the usefulness that it
      goes by, the bank's size and what leaves it are ours, since the notes do not have them.
    """
    path = "config.components.skill_bank"
    env, env_params = required(
        setup, "skill_bank", "language", one_agent=True, one_environment=True, in_graph=True,
        whole_episodes=True,
    )  # fmt: skip
    counts = {"tasks": tasks, "per_task": per_task, "longest": longest, "every": every}
    for name, count in counts.items():
        check_range(f"{path}.{name}", count, 1)
    check_choice(f"{path}.rule", rule, get_args(Rule))
    check_range(f"{path}.exploration", exploration, 0.0)
    if warning not in env.view.lexicon:
        known = ", ".join(map(repr, env.view.lexicon[1:]))
        raise ValueError(f"{path}.warning={warning!r}: the lexicon of {env.name} has {known}")
    state = jax.eval_shape(env.initial, jax.random.key(0), env_params)
    said = jax.eval_shape(lambda state: env.commands_as(state, 0, env_params), state)
    hooks = BankHooks(
        setup, env, env_params, turn_actions(setup, "skill_bank"), Copies(every), said.shape[-1],
        tasks, per_task, longest, rule, exploration, env.view.lexicon.index(warning),
    )  # fmt: skip
    fills = ("teacher_logp", "skill_read")
    return Component(init=hooks.init, annotate=hooks.annotate, after=hooks.after, fills=fills)
