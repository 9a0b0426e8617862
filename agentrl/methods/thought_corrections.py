"""GTR: a corrector of the thoughts that the policy writes in its own episodes.

Letters: B episodes, N streams, T turns, G tokens of a reply, R rows of L positions.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.types import View
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
from agentrl.learner.required import required
from agentrl.methods.ring import Ring, drawn, empty, put, usable
from agentrl.methods.teaching import (
    Chances,
    Classroom,
    Correction,
    Lesson,
    classroom,
    expert_teacher,
)
from agentrl.policies import codec as codecs
from agentrl.rollout.metrics import mean
from agentrl.streams import THOUGHT, Rows, at_positions, length_up_to
from envs.text import lower
from envs.vector import World

if TYPE_CHECKING:
    from agentrl.actors.records import TextRecord
    from agentrl.policies.language import LanguagePolicy

Actions = Literal["own", "teacher"]


class Reply(NamedTuple):
    """Replies of G tokens: tokens, span i32[B, G]; count i32[B], how many were written."""

    tokens: jax.Array
    span: jax.Array
    count: jax.Array

    @property
    def thought(self) -> jax.Array:
        """The positions of the thought, its tags included, bool[B, G]."""
        written = jnp.arange(self.tokens.shape[1]) < self.count[:, None]
        return written & (self.span == THOUGHT)


def same_thoughts(codec: codecs.Codec, one: Reply, other: Reply) -> jax.Array:
    """Whether both replies have a thought, and the same one in lower case, bool[B]."""

    def text_of(reply: Reply) -> tuple[jax.Array, jax.Array]:
        order = jnp.argsort(~reply.thought, axis=1, stable=True)
        tokens = jnp.take_along_axis(reply.tokens, order, axis=1)
        count = jnp.sum(reply.thought, axis=1, dtype=jnp.int32)
        text, length = jax.vmap(lambda x, n: codecs.to_bytes(codec, x, n))(tokens, count)
        return lower(text), length

    (text, length), (others, others_length) = text_of(one), text_of(other)
    behind = jnp.arange(text.shape[1]) >= length[:, None]
    same = jnp.all((text == others) | behind, axis=1)
    return same & (length == others_length) & (length > 0)


def with_thought(own: Reply, taught: Reply) -> Reply:
    """The teacher's thought, and then what stands behind the policy's own thought.

    A reply without a thought stands behind it as a whole; of one whose thought is not closed
    nothing does. What does not fit into G tokens is cut at the end.
    """
    size = own.tokens.shape[1]
    begins, goes_on = length_up_to(taught.thought), length_up_to(own.thought)
    position = jnp.arange(size, dtype=jnp.int32)
    behind = position >= begins[:, None]
    index = position - (begins - goes_on)[:, None]
    index = jnp.clip(index, 0, size - 1)

    def spliced(mine: jax.Array, others: jax.Array) -> jax.Array:
        return jnp.where(behind, jnp.take_along_axis(mine, index, axis=1), others)

    count = begins + jnp.maximum(own.count - goes_on, 0)
    return Reply(
        tokens=spliced(own.tokens, taught.tokens),
        span=spliced(own.span, taught.span),
        count=jnp.minimum(count, size),
    )


def target_turns(lesson: Lesson) -> jax.Array:
    """The turns whose thoughts are wrong and can be corrected, bool[N, T]."""
    assert lesson.hopeless is not None  # there is a corrector
    return lesson.streams.mask & ~lesson.right & ~lesson.hopeless


def target_rows(lesson: Lesson, actions: Actions) -> Rows:
    """The rows of a lesson, of which corrected thoughts alone are trained; with the teacher's
    actions the whole replies of these turns."""
    rows = lesson.rows
    trained = rows.loss_mask & at_positions(target_turns(lesson), rows).astype(bool)
    return rows.replace(loss_mask=trained & (rows.span == THOUGHT) if actions == "own" else trained)


def lesson_metrics(lesson: Lesson) -> dict[str, jax.Array]:
    """thoughts/accepted: share of the turns whose thought is right; thoughts/hopeless: of those
    whose thought is wrong and stays so."""
    assert lesson.hopeless is not None  # there is a corrector
    mask = lesson.streams.mask
    return {
        "thoughts/accepted": mean(lesson.right, mask),
        "thoughts/hopeless": mean(lesson.hopeless & ~lesson.right, mask),
    }


class ThoughtCorrector(NamedTuple):
    """A `agentrl.methods.teaching.Corrector` of thoughts, see `thought_corrections`."""

    policy: "LanguagePolicy"
    actions: Actions
    hopeless: str | Callable[..., Any]

    def __call__(
        self, world: World, view: View, own: "TextRecord", taught: "TextRecord"
    ) -> Correction:
        """Accepts a thought, or has the teacher's in its place."""
        said, better = (
            Reply(x.reply.tokens[:, 0], x.reply.spans[:, 0].astype(jnp.int32), x.reply.count[:, 0])
            for x in (own, taught)
        )
        right = same_thoughts(self.policy.codec, said, better)
        if self.actions == "own":
            better = with_thought(said, better)
        reply = taught.reply.replace(
            tokens=better.tokens[:, None],
            spans=better.span.astype(taught.reply.spans.dtype)[:, None],
            count=better.count[:, None],
        )
        return Correction(taught._replace(reply=reply), right[:, None], self.lost(world, view))

    def lost(self, world: World, view: View) -> jax.Array:
        """Whether each state is hopeless, bool[B, 1]."""
        hopeless = self.hopeless
        if not callable(hopeless):
            return jnp.zeros(view.agent.shape, bool)
        first = jnp.int32(0)
        return world.vmap(lambda state, params: hopeless(state, first, params))(view.state)[:, None]


class Hooks(NamedTuple):
    """The hooks of `thought_corrections`, with what they are made of."""

    room: Classroom
    policy: "LanguagePolicy"
    actions: Actions
    episodes: int
    size: int
    rows: int
    rounds: int

    def lesson(self, params: chex.ArrayTree, key: jax.Array) -> Lesson:
        """A round: episodes that the policy plays alone, with corrected replies as labels."""
        task_key, key = jax.random.split(key)
        return self.room.play(params, jax.random.split(task_key, self.episodes), key, Chances())

    def init(self, start: InitInputs) -> tuple[jax.Array, Ring]:
        """A key, and a ring with room for `size` targets, none of which is there yet."""
        like = jax.eval_shape(self.lesson, self.policy.init(start.key), start.key)
        return start.key, empty(like.rows, self.size)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Targets of the rounds so far."""
        del sources
        _, ring = context.value
        return None, drawn(ring, usable(ring, self.rounds), self.rows, context.key)

    def after(
        self, value: tuple[jax.Array, Ring], outcome: UpdateResult
    ) -> tuple[tuple[jax.Array, Ring], dict[str, jax.Array]]:
        """The value after another round."""
        key, play_key = jax.random.split(value[0])
        lesson = self.lesson(outcome.params, play_key)
        ring = put(value[1], target_rows(lesson, self.actions))
        count = jnp.sum(usable(ring, self.rounds), dtype=jnp.float32)
        metrics = lesson_metrics(lesson) | {"thoughts/rows": jnp.stack([count, jnp.ones(())])}
        return (key, ring), metrics


def thought_corrections(
    setup: Setup,
    *,
    episodes: int = 16,
    size: int = 4096,
    rows: int = 256,
    rounds: int = 0,
    actions: Actions = "own",
    hopeless: str | Callable[..., Any] = "",
) -> Component:
    """Source "thought_corrections": corrected thoughts of the policy's own episodes, of all rounds.

    After each update the policy plays a round of episodes. A corrector sees each state and the
    thought that the policy wrote in it, and

      accepts the thought, if it is the one that the environment's expert would have there: no
        target;
      corrects it: the target is the expert's thought, followed by the policy's own action, whose
        tokens are read and not trained;
      or finds the state `hopeless`: no target.

    Targets join those of the rounds before (DAgger) and are drawn evenly from all. For
    `losses.thought_cloning` with source="thought_corrections", beside a term of reinforcement
    learning such as `losses.thought_scaled_surrogate`:

      L = L_RL + L_thoughts,   L_thoughts = -mean log pi(c* | o),   c* the corrected thought.

    A target is a row of one turn for any context: what the policy had read, its own earlier
    thoughts among it, and the corrected reply. The expert's thought is that of the environment's
    view (`envs.text.View.thought`), such as `3 below 17` in NumberLine-v1 with the wording
    "reasoned", or names its command.

    Metrics (Opponents, buffers, tasks):
      thoughts/accepted: Thoughts accepted [share]; of those that the policy writes.
      thoughts/hopeless: Hopeless thoughts [share]; of those that the policy writes: wrong, and not
        corrected.
      thoughts/rows: Corrected thoughts [rows]; that can be drawn.

    Args:
      episodes: per round. size: M, places for targets, of which the oldest go first.
      rows: drawn per update; 0: all M places, of which empty ones count nothing.
      rounds: only targets of the last so many rounds are drawn; 0: of all.
      actions: behind a corrected thought stands the policy's "own" action, untrained; or that of
        the "teacher", and with `losses.behaviour_cloning` the whole reply is cloned.
      hopeless: a function (state, agent i32[], params) -> bool[]; "": no state is.

    Raises:
      ValueError: a policy over arrays or without thoughts, several environments or agents, one in
        Python, no expert, segments, or an option outside its range.

    References:
      GTR (2025), guided thought reinforcement, https://arxiv.org/abs/2503.08525, from notes on the
      paper and on its code (weit123/GTR, commit d6bfc81), of which neither was read. The corrector
      is scripted here, where the paper asks a vision-language model that may call tools: it needs
      no tools, is never wrong, and accepts one wording. The paper corrects the episodes that PPO
      learns from; these are others of the same policy. There an episode ends, with reward -1, where
      the corrector gives up or the action leaves its target, and a format bonus of 5 is added to
      the return of a turn after GAE; neither is done here.
    """
    path = "config.components.thought_corrections"
    for name, value, least in (
        ("episodes", episodes, 1), ("size", size, 1), ("rows", rows, 0), ("rounds", rounds, 0),
    ):  # fmt: skip
        check_range(f"{path}.{name}", value, least)
    check_choice(f"{path}.actions", actions, get_args(Actions))
    required(setup, "thought_corrections", "language")
    policy = setup.policy
    if policy.grammar.think == "none":
        raise ValueError(
            f"component 'thought_corrections' with grammar {policy.grammar.name!r} and "
            "think='none': expected thoughts, such as config.policy.grammar='action'"
        )
    room = classroom(
        setup, "thought_corrections", expert_teacher(thoughts=True), labels=True,
        corrects=ThoughtCorrector(policy, actions, hopeless),
    )  # fmt: skip
    hooks = Hooks(room, policy, actions, episodes, size, rows, rounds)
    return Component(init=hooks.init, source=Source(hooks.make), after=hooks.after)
