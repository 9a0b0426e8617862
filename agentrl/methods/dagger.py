"""DAgger: a teacher labels the states that the policy visits, and the labels of all rounds are
imitated."""

from typing import Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.methods.by_turn import done_if
from agentrl.methods.ring import Ring, drawn, empty, put, usable
from agentrl.methods.teaching import Chances, Classroom, Lesson, classroom, teacher_named
from agentrl.players.scripted import is_outside
from agentrl.policies.protocol import AnyPolicy
from agentrl.rollout.metrics import mean
from agentrl.streams import Rows, at_positions

Keep = Literal["all", "failures", "disagreements"]


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
    return {
        "dagger/success_rate": mean(solved, jnp.any(mask, axis=1)),
        "dagger/agreement": mean(lesson.right, own),
    }


class Hooks(NamedTuple):
    """The hooks of `dagger`, with what they are made of."""

    room: Classroom
    policy: AnyPolicy
    keep: Keep
    episodes: int
    size: int
    rows: int
    every: int
    rounds: int
    labels: int
    leads: float
    decay: float

    def lesson(self, params: chex.ArrayTree, key: jax.Array, chances: Chances) -> Lesson:
        """A round: episodes that policy and teacher share by `chances`, labelled by the teacher."""
        task_key, key = jax.random.split(key)
        return self.room.play(params, jax.random.split(task_key, self.episodes), key, chances)

    def init(self, start: InitInputs) -> dict[str, Any]:
        """A ring with room for `size` labelled rows, none of which is there yet."""
        like = jax.eval_shape(self.lesson, self.policy.init(start.key), start.key, Chances())
        ring = empty(like.rows, self.size)
        zero = jnp.zeros((), jnp.int32)
        return {"key": start.key, "updates": zero, "asked": zero, "ring": ring}

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of the rounds so far."""
        del sources
        ring = context.value["ring"]
        return None, drawn(ring, usable(ring, self.rounds), self.rows, context.key)

    def play(
        self, params: chex.ArrayTree, ring: Ring, asked: jax.Array, key: jax.Array
    ) -> tuple[tuple[Ring, jax.Array], dict[str, jax.Array]]:
        """((the ring after another round, labels asked for so far), metrics)."""
        chances = Chances(leads=self.leads * jnp.float32(self.decay) ** ring.round)
        lesson = self.lesson(params, key, chances)
        kept, now = chosen(lesson, self.keep, self.labels - asked if self.labels else None)
        kept = at_positions(kept, lesson.rows).astype(bool)
        ring = put(ring, lesson.rows.replace(loss_mask=lesson.rows.loss_mask & kept))
        return (ring, asked + jnp.sum(now, dtype=jnp.int32)), lesson_metrics(lesson)

    def after(
        self, value: dict[str, Any], outcome: UpdateResult
    ) -> tuple[dict[str, Any], dict[str, jax.Array]]:
        """The value after another round, if it is due."""
        key, play_key = jax.random.split(value["key"])
        kept, due = (value["ring"], value["asked"]), value["updates"] % self.every == 0
        (ring, asked), metrics = done_if(due, self.play, kept, outcome.params, *kept, play_key)
        counts = {"dagger/labels": asked, "dagger/rows": jnp.sum(usable(ring, self.rounds))}
        for name, count in counts.items():
            metrics[name] = jnp.stack([count.astype(jnp.float32), jnp.ones(())])
        return {"key": key, "updates": value["updates"] + 1, "asked": asked, "ring": ring}, metrics


def dagger(
    setup: Setup,
    *,
    episodes: int = 16,
    size: int = 4096,
    rows: int = 256,
    every: int = 1,
    keep: Keep = "all",
    rounds: int = 0,
    labels: int = 0,
    leads: float = 1.0,
    decay: float = 0.0,
    thoughts: bool = False,
    teacher: str = "expert",
) -> Component:
    """Source "dagger": the teacher's answers in states that the policy came to, of many rounds.

    After the first update, in which there is nothing to learn from yet, and after each `every`-th
    one the policy plays a round of episodes; the environment's expert, or another teacher, says in
    each state what it would do, and the answers join those of the rounds before. The policy's own
    replies stay in the prompts, the teacher's are what is learnt: rows are single turns for any
    context. For `losses.behaviour_cloning` with source="dagger".

    In round k a turn is the teacher's own with probability leads * decay^k: with the defaults the
    first round is of the teacher's episodes and all others of the policy's. With decay=1 it is
    behaviour cloning.

    Metrics (Opponents, buffers, tasks):
      dagger/success_rate: Success of labelled episodes [share].
      dagger/agreement: Agreement with the teacher [share]; of the policy's own turns in which it
        does what the teacher would.
      dagger/labels: Labels [turns]; that the teacher has been asked for so far.
      dagger/rows: Labelled rows [rows]; that can be drawn.

    Args:
      episodes: per round. size: M, places for rows, of which the oldest go first.
      rows: drawn per update; 0: all M places, of which empty ones count nothing.
      every: updates from round to round. Labels that a policy gets before it has learnt from the
        last ones are of states that it will not come to.
      keep: "all" labels; those of "failures" (the teacher is asked in episodes that were not
        solved only); or of "disagreements" (turns in which the policy did something else).
      rounds: only labels of the last so many rounds are drawn; 0: of all.
      labels: that the teacher gives in all; 0: any number.
      leads, decay: see above.
      thoughts: the expert's replies name the command in their thoughts, too.
      teacher: "expert", or one outside this process, "served:URL#MODEL" or "program:COMMAND", which
        is told what the agent reads in a state and nothing from before; where it abstains, the
        label is the policy's own reply.

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
        ("episodes", episodes, 1), ("size", size, 1), ("rows", rows, 0), ("every", every, 1),
        ("rounds", rounds, 0), ("labels", labels, 0),
    ):  # fmt: skip
        check_range(f"{path}.{name}", value, least)
    check_range(f"{path}.leads", leads, 0, 1)
    check_range(f"{path}.decay", decay, 0, 1)
    check_choice(f"{path}.keep", keep, get_args(Keep))
    room = classroom(setup, "dagger", teacher_named(setup, teacher, thoughts), labels=True)

    hooks = Hooks(
        room, setup.policy, keep, episodes=episodes, size=size, rows=rows, every=every,
        rounds=rounds, labels=labels, leads=leads, decay=decay,
    )  # fmt: skip
    return Component(
        init=hooks.init, source=Source(hooks.make), after=hooks.after, asks=is_outside(teacher)
    )
