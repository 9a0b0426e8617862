"""Episodes with errors that a teacher corrects, of which the erroneous turns are read and not
trained (STeP, AgentRefine)."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup, Source
from agentrl.methods.by_turn import bare
from agentrl.methods.teaching import Chances, Lesson, classroom, expert_teacher
from agentrl.streams import at_positions

Pupil = Literal["policy", "expert"]
Trained = Literal["right", "corrections", "all"]


def trained_turns(lesson: Lesson, turns: Trained, solved: bool, least: int) -> jax.Array:
    """The turns of watched episodes that are trained, bool[N, T].

    turns: those in which the teacher would have done the same ("right"), those of them that come
    after a wrong one ("corrections"), or "all". solved: only of episodes that were. least: only of
    episodes with as many wrong turns that another one follows.
    """
    mask = lesson.streams.mask
    wrong = mask & ~lesson.right
    later = jnp.pad(mask[:, 1:], ((0, 0), (0, 1)))
    good = jnp.sum(wrong & later, axis=1) >= least
    if solved:
        good &= jnp.any(lesson.streams.success & mask, axis=1)
    chosen = mask if turns == "all" else mask & lesson.right
    if turns == "corrections":
        chosen &= jnp.pad(wrong[:, :-1], ((0, 0), (1, 0)))
    return chosen & good[:, None]


def corrections(
    setup: Setup,
    *,
    episodes: int = 32,
    pupil: Pupil = "expert",
    errors: float = 0.2,
    turns: Trained = "right",
    solved: bool = True,
    least: int = 0,
    thoughts: bool = False,
) -> Component:
    """Source "corrections": in each update new episodes in which wrong turns are corrected.

    A wrong turn is one in which the environment's expert would have done something else. It is
    played, so that its observation is the one that it has; the next turn is the expert's, in the
    state that the error has led to. Of an expert with several best actions all but its own count
    as wrong. For `losses.behaviour_cloning` with source="corrections", which is averaged over the
    positions that are trained.

    Args:
      episodes: per update.
      pupil: who acts in turns that follow no wrong one: the "policy", as it is (STeP), or the
        "expert" (AgentRefine).
      errors: probability that a random legal action is taken in such a turn instead, and in words
        its command is written.
      turns: trained ones; the others are read. "right": in which the expert would do the same;
        "corrections": of these, those after a wrong turn; "all": errors, too.
      solved: only episodes that were solved are trained.
      least: and only those with so many wrong turns that another turn follows.
      thoughts: the expert's replies name the command in their thoughts, too.

    Raises:
      ValueError: several environments or agents, one in Python, no expert, segments, or an option
        outside its range.

    References:
      STeP (2025), https://arxiv.org/abs/2505.20023, and AgentRefine (2025),
      https://arxiv.org/abs/2501.01702, from notes; neither text nor code was read. There the
      teacher is a language model, STeP's writes a reflection before the action that it corrects,
      and AgentRefine's episodes are invented by one model and verified by a program.
    """
    path = "config.components.corrections"
    check_range(f"{path}.episodes", episodes, 1)
    check_range(f"{path}.errors", errors, 0, 1, below=True)
    check_range(f"{path}.least", least, 0)
    check_choice(f"{path}.pupil", pupil, get_args(Pupil))
    check_choice(f"{path}.turns", turns, get_args(Trained))
    room = classroom(setup, "corrections", expert_teacher(thoughts), labels=False)
    chances = Chances(errs=errors, corrects=1.0)
    if pupil == "expert":
        # Where it does not lead, there is an error.
        chances = Chances(leads=1.0 - errors, errs=1.0, corrects=1.0)

    def make(context, sources):
        task_key, key = jax.random.split(context.key)
        lesson = room.play(context.params, jax.random.split(task_key, episodes), key, chances)
        chosen = trained_turns(lesson, turns, solved, least)
        rows = lesson.rows
        kept = at_positions(chosen, rows).astype(bool)
        return bare(lesson.streams), rows.replace(loss_mask=rows.loss_mask & kept)

    return Component(source=Source(make), in_warm_start=True)
