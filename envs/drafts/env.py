"""Drafts-v1: agents write short drafts about what they can read, and grade each other's."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.agents import Draft
from envs.game import GameParams, GameState, SimultaneousGame, opening

GRADES = 4
PASS, NOTE, ANSWER, GRADE = range(4)


class Written(NamedTuple):
    """What was written in an episode of A agents with K drafts of S steps; -1 for nothing.

    draft: i32[A, T], the draft that each turn belongs to. notes: i32[A, K, S]. answer: i32[A, K].
    grade: i32[A, K, A - 1], by each of the others, from 0.
    """

    draft: jax.Array
    notes: jax.Array
    answer: jax.Array
    grade: jax.Array


@struct.dataclass
class DraftsState(GameState):
    """numbers: i32[terms]. readings: i32[A, K, terms], what each agent reads for each draft; notes:
    i32[A, K, S]; answers: i32[A, K]; grades: i32[A, (A - 1) K], of each agent in its order; -1 each
    for nothing. drafted: i32[A], drafts that have ended. reviewed: i32[], reviews so far of each
    agent."""

    numbers: jax.Array
    readings: jax.Array
    notes: jax.Array
    answers: jax.Array
    grades: jax.Array
    drafted: jax.Array
    reviewed: jax.Array


@struct.dataclass
class DraftsParams(GameParams):
    """blank, misread: chances that a number is not read, or read as another one."""

    illegal_reward: float = 0.0
    blank: float = 0.3
    misread: float = 0.1


@dataclasses.dataclass(frozen=True)
class Drafts(SimultaneousGame):
    """Which is the largest of some numbers? Each agent writes drafts, then grades those of others.

    For each draft an agent reads all the numbers anew: some are blank, some misread. A draft is up
    to `steps` notes of a number, one a turn, and an answer; one without a note or without an answer
    is not well formed. With `sees_first` the agent reads its earlier draft beside. When all drafts
    are written, each agent grades each draft of the others, with its own last one before it, unless
    `reviews` is off. The answer that is shown is that of the well-formed draft with the highest
    mean grade, the first one of equals.

    Actions: note a number, answer one, grade 0 to 3, pass. A pass ends a draft without an answer,
    or grades 0; an illegal action is a pass. Reward, of all: 1 at the end if the shown answer is
    right; success: the same. No limit is reached.

    Observation: float32, one-hot each: what the agent reads; its draft (the last one in a review),
    notes and answer; the other draft before it; and whether it drafts, and which, or reviews.

    Expert: notes what it reads, answers the largest of all notes it sees; a grade of 3 for its own
    answer, 2 for a larger one, 0 for a smaller one or none. Every answer of it is right if nothing
    is blank or misread; if only blank, an answer is right when the largest was read by then.

    Source: the smallest task for DRAFT-RL, https://arxiv.org/abs/2511.20468 (code read: ArthasTY's
    06b2bd3, which has one criterion of format, steps and an answer, and reviews of six numbers in
    [0, 1]); the task, the noise and the grades are ours.
    """

    agents: int = 3
    drafts: int = 2
    steps: int = 4
    terms: int = 3
    numbers: int = 8
    sees_first: bool = True
    reviews: bool = True

    cooperative: ClassVar[bool] = True
    one_team: ClassVar[bool] = True
    wordings: ClassVar[str] = "envs.drafts.words"
    costly_reset: ClassVar[bool] = False

    def __post_init__(self):
        if not 2 <= self.agents <= 8 or not 1 <= self.drafts <= 4 or not 1 <= self.steps <= 8:
            raise ValueError(
                f"agents {self.agents}, drafts {self.drafts}, steps {self.steps}: expected 2 to 8, "
                "1 to 4 and 1 to 8"
            )
        if not 1 <= self.terms <= 4 or not 2 <= self.numbers <= 20:
            raise ValueError(
                f"terms {self.terms}, numbers {self.numbers}: expected 1 to 4 and 2 to 20"
            )

    @property
    def num_agents(self) -> int:
        """Those that draft, and grade."""
        return self.agents

    @property
    def num_reviews(self) -> int:
        """Drafts that each agent grades."""
        return (self.agents - 1) * self.drafts * self.reviews

    @property
    def highest_grade(self) -> int:
        """Grades are from 0 to this."""
        return GRADES - 1

    @property
    def default_params(self) -> DraftsParams:
        """A turn for every note, answer and grade."""
        turns = self.drafts * (self.steps + 1) + self.num_reviews
        return DraftsParams(max_steps_in_episode=turns)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The pass, notes, answers, grades."""
        said = (f"{word} {n}" for word in ("note", "answer") for n in range(self.numbers))
        return ("pass", *said, *(f"grade {n}" for n in range(GRADES)))

    def parts_of(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of actions what each does (PASS, NOTE, ANSWER, GRADE) and its number, i32 each."""
        count = (1, self.numbers, self.numbers, GRADES)
        kind = np.repeat(np.arange(4, dtype=np.int32), count)
        number = np.concatenate([np.arange(n, dtype=np.int32) for n in count])
        return jnp.asarray(kind)[action], jnp.asarray(number)[action]

    @property
    def reviewed_by(self) -> tuple[np.ndarray, np.ndarray]:
        """(agent, draft) of each review of each agent, i32[A, (A - 1) K]."""
        number = np.arange((self.agents - 1) * self.drafts)
        agent = np.arange(self.agents)[:, None] + 1 + number // self.drafts
        return agent % self.agents, np.broadcast_to(number % self.drafts, agent.shape)

    def initial(self, key: jax.Array, params: DraftsParams) -> DraftsState:
        draw, chance, other = jax.random.split(key, 3)
        numbers = jax.random.randint(draw, (self.terms,), 0, self.numbers)
        shape = (self.agents, self.drafts, self.terms)
        luck = jax.random.uniform(chance, shape)
        wrong = (numbers + jax.random.randint(other, shape, 1, self.numbers)) % self.numbers
        read = jnp.where(luck < params.blank + params.misread, wrong, numbers)
        return DraftsState(
            **opening(),
            numbers=numbers,
            readings=jnp.where(luck < params.blank, -1, read).astype(jnp.int32),
            notes=jnp.full((self.agents, self.drafts, self.steps), -1, jnp.int32),
            answers=jnp.full((self.agents, self.drafts), -1, jnp.int32),
            grades=jnp.full((self.agents, (self.agents - 1) * self.drafts), -1, jnp.int32),
            drafted=jnp.zeros(self.agents, jnp.int32),
            reviewed=jnp.zeros((), jnp.int32),
        )

    def drafting(self, state: DraftsState) -> jax.Array:
        """Which agents have drafts to write, bool[A]."""
        return state.drafted < self.drafts

    def acting(self, state: DraftsState, params: DraftsParams) -> jax.Array:
        """Those that draft; when all have, all that review."""
        drafting = self.drafting(state)
        return (drafting | ~jnp.any(drafting)) & self.is_running(state, params)

    def legal_actions(self, state: DraftsState, params: DraftsParams) -> jax.Array:
        """Notes as long as there is place, answers, grades in reviews, the pass."""
        acts, drafting = self.acting(state, params)[:, None], self.drafting(state)[:, None]
        now = jnp.minimum(state.drafted, self.drafts - 1)
        place = state.notes[np.arange(self.agents), now, -1:] < 0
        kind, _ = self.parts_of(np.arange(self.num_actions))
        drafts = (kind == ANSWER) | (place & (kind == NOTE))
        legal = (kind == PASS) | jnp.where(drafting, drafts, kind == GRADE)
        return legal & acts

    def transition(
        self, key: jax.Array, state: DraftsState, action: jax.Array, params: DraftsParams
    ) -> tuple[DraftsState, jax.Array]:
        drafting, now = self.drafting(state), jnp.arange(self.drafts) == state.drafted[:, None]
        kind, number = self.parts_of(action)
        place = jnp.sum(state.notes >= 0, axis=2)[..., None] == np.arange(self.steps)
        here = now[..., None] & place & ((kind == NOTE) & drafting)[:, None, None]
        answered = now & ((kind == ANSWER) & drafting)[:, None]
        reviews = ~jnp.any(drafting)
        graded = reviews & (np.arange(state.grades.shape[1]) == state.reviewed)
        following = state.replace(
            notes=jnp.where(here, number[:, None, None], state.notes),
            answers=jnp.where(answered, number[:, None], state.answers),
            grades=jnp.where(graded, number[:, None], state.grades),
            drafted=state.drafted + (drafting & (kind != NOTE)),
            reviewed=state.reviewed + reviews,
        )
        right = self.is_over(following, params) & self.right(following)
        return following, jnp.broadcast_to(right * 1.0, (self.agents,))

    def is_over(self, state: DraftsState, params: DraftsParams) -> jax.Array:
        return ~jnp.any(self.drafting(state)) & (state.reviewed >= self.num_reviews)

    def won(self, state: DraftsState, params: DraftsParams) -> jax.Array:
        """All, if the shown answer is right."""
        return jnp.broadcast_to(self.right(state), (self.agents,))

    def solution(self, state: DraftsState) -> jax.Array:
        """The right answer, i32[]."""
        return jnp.max(state.numbers)

    def shown(self, state: DraftsState) -> jax.Array:
        """The draft whose answer is shown, i32[], among A K."""
        grade = jnp.sum(jnp.maximum(self.by_draft(state.grades), 0), axis=2)
        formed = (state.answers >= 0) & (state.notes[..., 0] >= 0)
        return jnp.argmax(jnp.where(formed, grade, -1))

    def right(self, state: DraftsState) -> jax.Array:
        """Whether the answer that is shown is right, bool[]."""
        return state.answers.reshape(-1)[self.shown(state)] == self.solution(state)

    def drafts_of(self, state: DraftsState, params: DraftsParams) -> tuple[Draft, ...]:
        """At the end all drafts, agent by agent."""
        if not self.is_over(state, params):
            return ()
        best, solution = int(self.shown(state)), int(self.solution(state))
        grades = np.asarray(self.by_draft(jnp.asarray(state.grades))).tolist()
        out = []
        for number in range(self.agents * self.drafts):
            who, which = divmod(number, self.drafts)
            notes = [int(n) for n in np.asarray(state.notes[who, which]) if n >= 0]
            answer = int(state.answers[who, which])
            words = [*(f"note {n}" for n in notes), *([f"answer {answer}"] * (answer >= 0))]
            given = grades[who][which] if self.reviews else []
            out.append(
                Draft(
                    writer=f"agent {who}, draft {which + 1}",
                    text=", ".join(words),
                    grades=tuple(float(g) for g in given if g >= 0),
                    formed=bool(notes) and answer >= 0,
                    right=answer == solution,
                    went_on=number == best,
                )
            )
        return tuple(out)

    def by_draft(self, grades: jax.Array) -> jax.Array:
        """Grades in the order of their reviewers [A, (A - 1) K], by draft: [A, K, A - 1]."""
        agent, draft = self.reviewed_by
        reviewer = np.broadcast_to(np.arange(self.agents)[:, None], agent.shape)
        place = (reviewer - agent) % self.agents - 1
        out = jnp.zeros((self.agents, self.drafts, self.agents - 1), grades.dtype)
        return out.at[agent, draft, place].set(grades)

    def written(self, action: jax.Array, mask: jax.Array) -> Written:
        """What an episode's turns have written. action: i32[A, T], illegal ones as passes; mask:
        bool[A, T], the agent acted."""
        kind, number = self.parts_of(jnp.where(mask, action, PASS))
        ends = (mask & (kind != NOTE)).astype(jnp.int32)
        before = jnp.cumsum(ends, axis=1) - ends
        draft = jnp.where(mask & (before < self.drafts), before, -1)
        agent = jnp.broadcast_to(jnp.arange(self.agents)[:, None], draft.shape)
        same = draft[:, :, None] == draft[:, None, :]
        step = jnp.sum(jnp.tril(same & (draft >= 0)[:, None, :], -1), axis=2)
        empty = jnp.full((self.agents, self.drafts), -1, jnp.int32)
        at = jnp.where((draft >= 0) & (kind == ANSWER), draft, self.drafts)  # dropped
        answer = empty.at[agent, at].set(number, mode="drop")
        at = jnp.where((draft >= 0) & (kind == NOTE), draft, self.drafts)
        noted = jnp.full((*empty.shape, self.steps), -1, jnp.int32)
        noted = noted.at[agent, at, step].set(number, mode="drop")
        count = (self.agents - 1) * self.drafts
        at = jnp.where(mask & (draft < 0), before - self.drafts, count)
        grades = jnp.full((self.agents, count), -1, jnp.int32)
        grades = grades.at[agent, at].set(number, mode="drop")
        return Written(draft, noted, answer, self.by_draft(grades))

    def seen(self, state: DraftsState, agent: jax.Array) -> tuple[jax.Array, ...]:
        """What an agent has before it: numbers i32[terms], the notes i32[S] and the answer i32[] of
        its draft and of the other one; -1 each for nothing."""
        number = state.drafted[agent]
        own = jnp.minimum(number, self.drafts - 1)
        peer, draft = (jnp.asarray(x)[agent] for x in self.reviewed_by)
        now = jnp.minimum(state.reviewed, peer.shape[0] - 1)
        drafting = jnp.any(self.drafting(state))
        who = jnp.where(drafting, agent, peer[now])
        which = jnp.where(drafting, jnp.maximum(own - 1, 0), draft[now])
        shown = jnp.where(drafting, (own > 0) & self.sees_first, True)
        return (
            state.readings[agent, own],
            state.notes[agent, own],
            state.answers[agent, own],
            jnp.where(shown, state.notes[who, which], -1),
            jnp.where(shown, state.answers[who, which], -1),
        )

    def observe_as(self, state: DraftsState, agent: jax.Array, params: DraftsParams) -> jax.Array:
        told = jnp.concatenate([jnp.atleast_1d(x) for x in self.seen(state, agent)])
        phase = state.drafted[agent] == np.arange(self.drafts + 1)
        known = (told[:, None] == np.arange(self.numbers)).reshape(-1)
        return jnp.concatenate([known, phase]).astype(jnp.float32)

    def expert(self, state: DraftsState, params: DraftsParams) -> jax.Array:
        """Notes, the largest, and grades by its own answer."""

        def of(agent):
            read, notes, own, other, answer = self.seen(state, agent)
            drafting = state.drafted[agent] < self.drafts
            most = jnp.max(jnp.concatenate([read, notes, other]))
            most = jnp.where(most < 0, self.numbers - 1, most)
            count, seen = jnp.sum(notes >= 0), jnp.sum(read >= 0)
            # What was read, in its order, behind which the blanks stand.
            read = read[jnp.argsort(read < 0, stable=True)]
            note = jnp.where(seen > 0, read[jnp.minimum(count, self.terms - 1)], most)
            goes_on = (count < jnp.maximum(seen, 1)) & (count < self.steps)
            grade = jnp.where(answer == own, 3, jnp.where(answer > own, 2, 0)) * (answer >= 0)
            written = jnp.where(goes_on, note, self.numbers + most)
            return 1 + jnp.where(drafting, written, 2 * self.numbers + grade)

        return jax.vmap(of)(self._agents).astype(jnp.int32)

    def render(self, state: DraftsState, params: DraftsParams) -> str:
        """The numbers, and a line for each agent: what it wrote, and its grades, if any."""
        lines = ["numbers " + " ".join(map(str, np.asarray(state.numbers)))]
        for notes, answers, grades in zip(state.notes, state.answers, state.grades, strict=True):
            parts = []
            for note, answer in zip(np.asarray(notes), map(int, answers), strict=True):
                written = [str(n) for n in note if n >= 0]
                written += [f"-> {answer}"] if written or answer >= 0 else []
                parts += [" ".join(written)] if written else []
            given = " ".join(str(g) for g in np.asarray(grades) if g >= 0)
            parts += [f"grades {given}"] if given else []
            lines += [" | ".join(parts)] if parts else []
        return "\n".join(lines)
