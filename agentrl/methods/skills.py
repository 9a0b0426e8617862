"""Skills of a policy's own episodes: summaries, a bank of them per task, and a rule of choice.

Letters: N streams, C tasks, K skills of each, F fragments of a skill, W of a command.
"""

import functools
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice
from agentrl.methods.by_turn import put_if, solved
from agentrl.methods.paprika import Arms, upper_bounds
from agentrl.methods.success_replay import found
from agentrl.streams import Streams
from envs.text import pack

Rule = Literal["ucb", "latest"]


class Skills(struct.PyTreeNode):
    """Up to K skills of one task.

    skill: i32[K, F], fragments of the environment's lexicon, 0 behind the end. steps: i32[K],
    commands in it, 0 for an empty place. written: i32[K], number of the write that it came in with.
    use: f32[K] each, sum of its measured usefulness, and how often it was measured. mistake:
    i32[W], the last command of the latest episode that failed; zeros for none.
    """

    skill: jax.Array
    steps: jax.Array
    written: jax.Array
    use: Arms
    mistake: jax.Array


class Bank(struct.PyTreeNode):
    """Skills of C tasks.

    task: u32[C, 2], fingerprint of what the first turn of the task is acted from. since: i32[C],
    number of the write that the task came in with, 0 for an empty place. writes: i32[]. skills:
    leaves [C, ...].
    """

    task: jax.Array
    since: jax.Array
    writes: jax.Array
    skills: Skills


class Summary(NamedTuple):
    """Summaries of episodes.

    skill: i32[N, F], the commands. steps: i32[N], their number; 0: none, or more than fit. last:
    i32[N, W], the last command. worked, failed: bool[N], the task was solved; the episode ended,
    and not by a limit of turns, without.
    """

    skill: jax.Array
    steps: jax.Array
    last: jax.Array
    worked: jax.Array
    failed: jax.Array


def empty(tasks: int, per_task: int, fragments: int, width: int) -> Bank:
    """A bank without skills, of C = `tasks`, K = `per_task`, F = `fragments` and W = `width`."""
    whole = tasks, per_task
    return Bank(
        task=jnp.zeros((tasks, 2), jnp.uint32),
        since=jnp.zeros(tasks, jnp.int32),
        writes=jnp.zeros((), jnp.int32),
        skills=Skills(
            skill=jnp.zeros((*whole, fragments), jnp.int32),
            steps=jnp.zeros(whole, jnp.int32),
            written=jnp.zeros(whole, jnp.int32),
            use=Arms(jnp.zeros(whole), jnp.zeros(whole)),
            mistake=jnp.zeros((tasks, width), jnp.int32),
        ),
    )


def summarised(commands: jax.Array, action: jax.Array, streams: Streams, longest: int) -> Summary:
    """The summaries of whole episodes.

    Args:
      commands: i32[N, A, W], the fragments of each action's command.
      action: i32[N, S], the actions taken in their order; -1: none.
      longest: commands that fit into a skill, F = longest W.
    """
    taken, width = action >= 0, commands.shape[-1]
    each = jnp.take_along_axis(commands, jnp.maximum(action, 0)[..., None], axis=1)
    steps = jnp.sum(taken, axis=1, dtype=jnp.int32)
    # Commands of which all fragments are 0 are said by nobody, so that packing keeps the order.
    each = jnp.where(taken[..., None], each, 0)
    skill = jax.vmap(lambda x: pack(x, longest * width).fragments)(each.reshape(len(each), -1))
    behind = jnp.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
    last = jnp.sum(jnp.where((taken & (behind == 1))[..., None], each, 0), axis=1)
    worked, ended = solved(streams), jnp.any(streams.terminated & streams.mask, axis=1)
    return Summary(skill, jnp.where(steps <= longest, steps, 0), last, worked, ended & ~worked)


def with_summary(bank: Bank, task: jax.Array, one: Summary) -> Bank:
    """The bank after one more episode of a task u32[2], whose fields have no axis N.

    The commands of a solved one are a skill, if none of the task's skills is the same and a place
    is empty or the longest skill is longer, which goes then. A new task takes the place of the one
    that came in first. Of a failed one the last command is kept, if the task has skills.
    """
    at, known = found(bank.task, bank.since, task)
    at = jnp.where(known, at, jnp.argmin(bank.since))
    own = jax.tree.map(lambda x: jnp.where(known, x[at], jnp.zeros_like(x[at])), bank.skills)
    same = jnp.any((own.steps > 0) & jnp.all(own.skill == one.skill, axis=1))
    slot = jnp.argmax(jnp.where(own.steps > 0, own.steps, jnp.iinfo(jnp.int32).max))
    better = (own.steps[slot] == 0) | (one.steps < own.steps[slot])
    writes = one.worked & (one.steps > 0) & ~same & better
    number = bank.writes + writes
    own = own.replace(
        skill=own.skill.at[slot].set(one.skill),
        steps=own.steps.at[slot].set(one.steps),
        written=own.written.at[slot].set(number),
        use=jax.tree.map(lambda x: x.at[slot].set(0.0), own.use),
    )
    since = jnp.where(known, bank.since[at], number)
    new = put_if((bank.task, bank.since, bank.skills), at, (task, since, own), writes)
    skills = new[2].replace(mistake=put_if(new[2].mistake, at, one.last, known & one.failed))
    return Bank(new[0], new[1], number, skills)


def with_summaries(bank: Bank, task: jax.Array, told: Summary) -> Bank:
    """The bank after N episodes of the tasks u32[N, 2], one after the other; see `with_summary`."""

    def add(bank, episode):
        task, one = episode
        return with_summary(bank, task, one), None

    return jax.lax.scan(add, bank, (task, told))[0]


def with_use(bank: Bank, choice: jax.Array, use: jax.Array, measured: jax.Array) -> Bank:
    """The bank after the skills `choice` i32[C] were as useful as `use` f32[C], if `measured`."""
    at, there = (jnp.arange(choice.shape[0]), choice), measured * 1.0
    total, count = bank.skills.use.total, bank.skills.use.count
    arms = Arms(total.at[at].add(use * there), count.at[at].add(there))
    return bank.replace(skills=bank.skills.replace(use=arms))


def chosen(skills: Skills, *, rule: Rule = "ucb", exploration: float = 0.1) -> jax.Array:
    """The skill of each task that a teacher reads, i32[C]; the first of equals.

    "ucb": one that was never measured, else of the largest  mean + exploration sqrt(ln n / n_k),
    n_k measurements of its usefulness and n of all skills of the task; "latest": written last.

    Args:
      skills: leaves [C, ...]. exploration: at least 0.

    Raises:
      ValueError: another rule.
    """
    check_choice("rule", rule, get_args(Rule))
    if rule == "ucb":
        score = jax.vmap(functools.partial(upper_bounds, exploration=exploration))(skills.use)
    else:
        score = skills.written * 1.0
    return jnp.argmax(jnp.where(skills.steps > 0, score, -jnp.inf), axis=1).astype(jnp.int32)


def usefulness(
    gain: jax.Array, worked: jax.Array, place: jax.Array, tasks: int
) -> tuple[jax.Array, jax.Array]:
    """(usefulness f32[C] of the skills that were read, bool[C] whether it could be measured).

    u = mean gain of the task's solved streams - mean gain of the others, within +-1

    Args:
      gain: f32[N], mean over a stream's tokens of log pi(token | skill) - log pi(token).
      worked: bool[N], the task was solved.
      place: i32[N], the stream's task; C, or more, for none. tasks: C.
    """

    def means(which):
        where = jnp.where(which, place, tasks)  # dropped
        total = jnp.zeros(tasks).at[where].add(gain, mode="drop")
        count = jnp.zeros(tasks).at[where].add(1.0, mode="drop")
        return total / jnp.maximum(count, 1.0), count > 0

    (good, some), (bad, others) = means(worked), means(~worked)
    return jnp.clip(good - bad, -1.0, 1.0), some & others
