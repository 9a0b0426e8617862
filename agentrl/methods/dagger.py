"""DAgger: a teacher labels the states that the policy visits, and the labels of all rounds are
imitated."""

from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.teaching import Chances, Classroom, Lesson, classroom, expert_teacher
from agentrl.streams import Rows, Streams, at_positions

Keep = Literal["all", "failures", "disagreements"]


class Labels(struct.PyTreeNode):
    """A ring of up to M rows that a teacher has labelled.

    rows: [M, L]. since: i32[M], the round in which a row came; -1 for an empty place. head: i32[],
    the place of the next one. round: i32[], rounds so far. asked: i32[], labels that the teacher
    has given.
    """

    rows: Rows
    since: jax.Array
    head: jax.Array
    round: jax.Array
    asked: jax.Array


def put(labels: Labels, rows: Rows) -> Labels:
    """The ring after a round, with the rows that have something to learn from in the places of the
    oldest; of more than M the first M."""
    size = labels.since.shape[0]
    good = jnp.any(rows.loss_mask, axis=1)
    number = jnp.cumsum(good, dtype=jnp.int32) - 1
    place = jnp.where(good & (number < size), (labels.head + number) % size, size)  # dropped

    def store(all_, new):
        return all_.at[place].set(new, mode="drop")

    more = jnp.minimum(jnp.sum(good, dtype=jnp.int32), size)
    return labels.replace(
        rows=jax.tree.map(store, labels.rows, rows),
        since=labels.since.at[place].set(labels.round, mode="drop"),
        head=(labels.head + more) % size,
        round=labels.round + 1,
    )


def usable(labels: Labels, rounds: int) -> jax.Array:
    """The rows of the last `rounds` rounds, or of all for 0, bool[M]."""
    there = labels.since >= 0
    return there & (labels.since >= labels.round - rounds) if rounds else there


def drawn(labels: Labels, there: jax.Array, count: int, key: jax.Array) -> Rows:
    """`count` of the rows bool[M], each drawn evenly from all; or all in their places for 0."""
    rows = labels.rows
    if count:
        order = jnp.argsort(~there, stable=True)
        number = jax.random.randint(key, (count,), 0, jnp.maximum(jnp.sum(there), 1))
        at = order[number]
        rows, there = jax.tree.map(lambda x: x[at], (rows, there))
    own = jnp.arange(there.shape[0], dtype=jnp.int32)
    return rows.replace(stream=own, loss_mask=rows.loss_mask & there[:, None])


def chosen(lesson: Lesson, keep: Keep, left: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """(turns whose labels are kept, turns at which the teacher is asked), bool[N, T] each.

    left: i32[], labels that may still be asked for; the first turns of the first episodes get
    them. None: any number.
    """
    asked = lesson.streams.mask
    if keep == "failures":
        failed = ~jnp.any(lesson.streams.success & asked, axis=1)
        asked = asked & failed[:, None]
    if left is not None:
        number = jnp.cumsum(asked.reshape(-1), dtype=jnp.int32).reshape(asked.shape)
        asked = asked & (number <= left)
    return asked & ~lesson.right if keep == "disagreements" else asked, asked


def lesson_metrics(lesson: Lesson) -> dict[str, jax.Array]:
    """dagger/success_rate of the episodes; dagger/agreement: share of the policy's own turns in
    which it does what the teacher would."""
    mask = lesson.streams.mask
    own = mask & ~lesson.led
    solved = jnp.any(lesson.streams.success & mask, axis=1)

    def share(x, of):
        return jnp.stack([jnp.sum(x & of), jnp.sum(of)]).astype(jnp.float32)

    return {
        "dagger/success_rate": share(solved, jnp.any(mask, axis=1)),
        "dagger/agreement": share(lesson.right, own),
    }


def dagger(
    setup: Setup,
    *,
    episodes: int = 16,
    size: int = 4096,
    rows: int = 256,
    keep: Keep = "all",
    rounds: int = 0,
    labels: int = 0,
    leads: float = 1.0,
    decay: float = 0.0,
    thoughts: bool = False,
) -> Component:
    """Source "dagger": the teacher's answers in states that the policy came to, of many rounds.

    After each update the policy plays a round of episodes; the environment's expert says in each
    state what it would do, and the answers join those of the rounds before. In the first update
    there is nothing to learn from yet. The policy's own replies stay in the prompts, the teacher's
    are what is learnt: rows are single turns for any context. For `losses.behaviour_cloning` with
    source="dagger".

    In round k a turn is the teacher's own with probability leads * decay^k: with the defaults the
    first round is of the teacher's episodes and all others of the policy's. With decay=1 it is
    behaviour cloning.

    Metrics: dagger/success_rate and dagger/agreement, see `lesson_metrics`; dagger/labels, asked
    for so far; dagger/rows, that can be drawn.

    Args:
      episodes: per round. size: M, places for rows, of which the oldest go first.
      rows: drawn per update; 0: all M places, of which empty ones count nothing.
      keep: "all" labels; those of "failures" (the teacher is asked in episodes that were not
        solved only); or of "disagreements" (turns in which the policy did something else).
      rounds: only labels of the last so many rounds are drawn; 0: of all.
      labels: that the teacher gives in all; 0: any number.
      leads, decay: see above.
      thoughts: the expert's replies name the command in their thoughts, too.

    Raises:
      ValueError: several environments or agents, one in Python, no expert, segments, or an option
        outside its range.

    References:
      Ross, Gordon and Bagnell (2011), A reduction of imitation learning and structured prediction
      to no-regret online learning, https://arxiv.org/abs/1011.0686 (recalled, not read). There
      each round's policy is trained to convergence and the best of all is returned; here a round is
      played per update of the optimiser, from where the last one left.
    """
    path = "config.components.dagger"
    for name, value, least in (
        ("episodes", episodes, 1), ("size", size, 1), ("rows", rows, 0), ("rounds", rounds, 0),
        ("labels", labels, 0),
    ):  # fmt: skip
        check_range(f"{path}.{name}", value, least)
    check_range(f"{path}.leads", leads, 0, 1)
    check_range(f"{path}.decay", decay, 0, 1)
    check_choice(f"{path}.keep", keep, get_args(Keep))
    room = classroom(setup, "dagger", expert_teacher(thoughts), labels=True)

    def init(start):
        return start.key, empty(room, setup, episodes, size)

    def make(context, sources):
        _, held = context.value
        return None, drawn(held, usable(held, rounds), rows, context.key)

    def after(value, outcome):
        key, held = value
        key, task_key, play_key = jax.random.split(key, 3)
        lead = leads * jnp.float32(decay) ** held.round
        tasks = jax.random.split(task_key, episodes)
        lesson = room.play(outcome.params, tasks, play_key, Chances(leads=lead))
        kept, asked = chosen(lesson, keep, labels - held.asked if labels else None)
        kept = at_positions(kept, lesson.rows).astype(bool)
        played = lesson.rows.replace(loss_mask=lesson.rows.loss_mask & kept)
        held = put(held, played)
        held = held.replace(asked=held.asked + jnp.sum(asked, dtype=jnp.int32))
        counts = {"dagger/labels": held.asked, "dagger/rows": jnp.sum(usable(held, rounds))}
        one = jnp.ones(())
        counts = {k: jnp.stack([x.astype(jnp.float32), one]) for k, x in counts.items()}
        return (key, held), lesson_metrics(lesson) | counts

    return Component(init=init, source=Source(make), after=after)


def empty(room: Classroom, setup: Setup, episodes: int, size: int) -> Labels:
    """A ring of M = `size` places for rows of the classroom's, without any."""

    def play(key) -> tuple[Streams, Rows]:
        lesson = room.play(setup.policy.init(key), jax.random.split(key, episodes), key, Chances())
        return lesson.rows

    like = jax.eval_shape(play, jax.random.key(0))

    def places(x: Any) -> jax.Array:
        return jnp.zeros((size, *x.shape[1:]), x.dtype)

    zero = jnp.zeros((), jnp.int32)
    return Labels(jax.tree.map(places, like), jnp.full(size, -1, jnp.int32), zero, zero, zero)
