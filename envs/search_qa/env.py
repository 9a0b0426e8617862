"""SearchQA-v1: several multi-hop questions over a knowledge graph, with a search tool."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import NO_CALL, SEARCH, Environment, EnvParams, EnvState
from envs.search_qa import rules, synthesis
from envs.search_qa.rules import Questions
from envs.text import join

_FIRST = ("ba", "de", "fi", "go", "ha", "ju", "ka", "le", "mi", "no", "pa", "re", "so", "ta")
_FIRST += ("vi", "zu")
_SECOND = ("bo", "ca", "do", "fe", "ga", "ki", "la", "mu", "ne", "ri", "sa", "te", "vo", "wi")
_SECOND += ("xa", "ly")
# 256 names of four letters; neighbours share no syllable.
ENTITIES = tuple(_FIRST[i % 16] + _SECOND[(i // 16 + i) % 16] for i in range(256))
RELATIONS = (
    *("boss", "heir", "pal", "rival", "tutor", "aunt", "guard", "twin"),
    *("cook", "maid", "nurse", "baker", "judge", "agent", "coach", "guide"),
)


@struct.dataclass
class SearchQAState(EnvState):
    """One set of questions and the progress on them.

    corpus u32[]: seed of the passages. questions: k of them. answered, correct u8[]: how many of
    them were answered, and answered correctly. known u8[k]: hops of each question that were looked
    up in order. passages i16[P]: indices of the last search's results, -1 for none.
    """

    corpus: jax.Array
    questions: Questions
    answered: jax.Array
    correct: jax.Array
    known: jax.Array
    passages: jax.Array


@struct.dataclass
class SearchQAParams(EnvParams):
    """search_cost: cost per search. format_reward: reward for having answered all questions."""

    max_steps_in_episode: int = 8
    search_cost: float = 0.0
    format_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class SearchQA(Environment):
    """k `objectives`, answered in order; each is a question of `min_hops` to `max_hops` relations.

    A corpus over E `entities` and R `relations` has one passage (head, relation, object) per pair.
    It is drawn for each episode, so that all facts must be looked up, or determined by
    `corpus_seed`, so that it can also be memorised.

    Observation: uint8 codes, 0 for nothing, words as indices from 1. [questions answered]; for each
    question [entity, relations in order of the hops]; for each of the last search's `passages`
    [head, relation, object]. Answered questions are blanked; with `show_questions=False` all
    questions are, from the first search or answer on, and must be remembered.

    Actions: E R searches, for entity e and relation r action e R + r; then E answers to the first
    open question. In text, a search takes one or more known words in any order; it returns the best
    passages of `envs.search_qa.rules.retrieve`. With `answer_last` there is no search after the
    first answer, as in MEM1, where all k answers are given at once and must be remembered.
    Otherwise all actions are legal.

    Reward: 1 / k for a correct answer (exact match), minus `search_cost` per search, and
    `format_reward` with the last answer. Success: all correct. Ends with the last answer; limit k
    (max_hops + 1) + 2, two more than needed (MEM1's 2 k + 2 for two hops, with all answers in one
    turn).

    Anchors with of="state" are the questions, how many were answered, and the known hops, but not
    the last search's results or whether past answers were correct.

    `split`: a quarter of all questions are "unseen" and never occur in "seen"; it matters with a
    constant corpus. `distinct`: the questions begin at different entities. `synthesis`: questions
    are made from the pages, by a walk ("crawl", WebDancer's CRAWLQA) or an easy one made harder hop
    by hop ("harden", E2HQA), so that no fewer lookups than their hops find the answer; with "none"
    the path is drawn blindly and may have a shortcut, or come back to where it began
    (`envs.search_qa.synthesis`). Expert: looks up hop by hop and answers, in sum of hops + k steps.
    Source: MEM1 (read: search, answers, reward); its corpus and its retriever are replaced.
    """

    objectives: int = 2
    entities: int = 64
    relations: int = 8
    min_hops: int = 1
    max_hops: int = 2
    passages: int = 1
    corpus_seed: int | None = None
    show_questions: bool = True
    answer_last: bool = False
    distinct: bool = False
    split: str = "seen"
    synthesis: str = "none"

    wordings: ClassVar[str] = "envs.search_qa.words"

    def __post_init__(self):
        if not 1 <= self.objectives <= 16:
            raise ValueError(f"objectives {self.objectives}: expected 1 to 16")
        if not 4 <= self.relations <= len(RELATIONS):
            raise ValueError(f"relations {self.relations}: expected 4 to {len(RELATIONS)}")
        if self.entities % 4 or not 20 <= self.entities <= 252:
            raise ValueError(
                f"entities {self.entities}: expected a multiple of 4 from 20 (more than there can "
                "be relations) to 252 (numbers are bytes)"
            )
        if not 1 <= self.min_hops <= self.max_hops <= 4:
            raise ValueError(
                f"min_hops {self.min_hops}, max_hops {self.max_hops}: expected 1 to 4, in order"
            )
        if not 1 <= self.passages <= 4:
            raise ValueError(f"passages {self.passages}: expected 1 to 4")
        if self.distinct and 4 * self.objectives > self.entities:
            raise ValueError(
                f"objectives {self.objectives} with distinct=True: expected at most "
                f"{self.entities // 4}, a fourth of the entities"
            )
        if self.split not in ("seen", "unseen"):
            raise ValueError(f"split {self.split!r}: expected 'seen' or 'unseen'")
        if self.synthesis != "none":
            self._check_synthesis()

    def _check_synthesis(self):
        if self.synthesis not in synthesis.SYNTHESES:
            raise ValueError(f"synthesis {self.synthesis!r}: expected 'none', 'crawl' or 'harden'")
        if self.distinct:
            raise ValueError(
                f"distinct=True with synthesis {self.synthesis!r}: expected False; questions are "
                "made one by one"
            )
        if self.relations ** (self.max_hops - 1) > self.entities:
            raise ValueError(
                f"relations {self.relations}, max_hops {self.max_hops}, entities {self.entities} "
                f"with synthesis {self.synthesis!r}: expected at most entities for relations ** "
                "(max_hops - 1), or hardly any entity is so far from another; ask for fewer hops"
            )

    @property
    def default_params(self) -> SearchQAParams:
        """Two steps more than the longest questions need."""
        return SearchQAParams(max_steps_in_episode=self.objectives * (self.max_hops + 1) + 2)

    @property
    def num_codes(self) -> int:
        """One more than the entities; relations and counts are fewer."""
        return self.entities + 1

    @property
    def num_searches(self) -> int:
        """Number of searches by entity and relation; answers come after them."""
        return self.entities * self.relations

    @property
    def action_names(self) -> tuple[str, ...]:
        """Searches by entity and relation, then answers."""
        names, ways = ENTITIES[: self.entities], RELATIONS[: self.relations]
        searches = (f"search {name} {way}" for name in names for way in ways)
        return (*searches, *(f"answer {name}" for name in names))

    @property
    def num_actions(self) -> int:
        return self.num_searches + self.entities

    def initial(self, key: jax.Array, params: SearchQAParams) -> SearchQAState:
        """Draws questions, and a corpus unless it is constant."""
        corpus_key, question_key = jax.random.split(key)
        if self.corpus_seed is None:
            corpus = jax.random.bits(corpus_key, (), jnp.uint32)
        else:
            corpus = jnp.asarray(np.uint32(self.corpus_seed % 2**32))
        return SearchQAState(
            time=jnp.zeros((), jnp.int32),
            corpus=corpus,
            questions=self._asked(question_key, corpus),
            answered=jnp.zeros((), jnp.uint8),
            correct=jnp.zeros((), jnp.uint8),
            known=jnp.zeros(self.objectives, jnp.uint8),
            passages=jnp.full(self.passages, -1, jnp.int16),
        )

    def _asked(self, key: jax.Array, corpus: jax.Array) -> Questions:
        """The questions of an episode, drawn or made from its corpus."""
        sizes = self.objectives, self.entities, self.relations, (self.min_hops, self.max_hops)
        if self.synthesis == "none":
            return rules.draw_questions(key, *sizes, self.split, self.distinct)
        return synthesis.synthesised(key, corpus, *sizes, self.split, self.synthesis)

    def encode_query(self, words: jax.Array) -> jax.Array:
        """Action of a search for words i32[n]: entities, then relations from E on; -1 for none.

        The first entity and the first relation count. A pair is action e R + r, a single word is
        num_actions + 1 + its index, no word at all is num_actions, which is illegal.
        """

        def first(found: jax.Array) -> jax.Array:
            """The first valid word, or -1."""
            leading = found & (jnp.cumsum(found) == 1)
            return jnp.max(jnp.where(leading, words, -1))

        entity = first((words >= 0) & (words < self.entities))
        relation = first(words >= self.entities)
        pair = entity * self.relations + relation - self.entities
        alone = self.num_actions + 1 + jnp.maximum(entity, relation)
        return jnp.where((entity >= 0) & (relation >= 0), pair, alone).astype(jnp.int32)

    def _query(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(entity, relation) i32[] of a search, -1 for none."""
        alone = action - self.num_actions - 1
        entity = jnp.where(alone < self.entities, alone, -1)
        relation = jnp.where(alone < self.entities, -1, alone - self.entities)
        pair = action < self.num_searches
        return (
            jnp.where(pair, action // self.relations, entity),
            jnp.where(pair, action % self.relations, relation),
        )

    def call_kind(self, action: jax.Array) -> jax.Array:
        """SEARCH, or NO_CALL of answers and of what is no action."""
        words = (action >= 0) & (action < self.num_searches) | (action > self.num_actions)
        return jnp.where(words, SEARCH, NO_CALL)

    def transition(
        self, key: jax.Array, state: SearchQAState, action: jax.Array, params: SearchQAParams
    ) -> tuple[SearchQAState, jax.Array]:
        """Search, or answer the first open question."""
        del key
        answers = (action >= self.num_searches) & (action < self.num_actions)
        passages = rules.retrieve(*self._query(action), self.relations, self.passages)
        along = rules.chain(state.corpus, state.questions, self.entities)
        known = state.known.astype(jnp.int32)
        looked_up = rules.follow(known, along, state.questions, passages, self.relations)
        current = np.arange(self.objectives, dtype=np.uint8) == state.answered
        right = answers & jnp.any(current & (along[:, -1] == action - self.num_searches))
        answered = state.answered + answers
        finished = answered == self.objectives
        reward = jnp.where(right, 1 / self.objectives, 0.0)
        reward = reward + jnp.where(finished, params.format_reward, 0.0)
        state = state.replace(
            answered=answered.astype(jnp.uint8),
            correct=(state.correct + right).astype(jnp.uint8),
            known=jnp.where(answers, known, looked_up).astype(jnp.uint8),
            passages=jnp.where(answers, -1, passages).astype(jnp.int16),
        )
        return state, reward - jnp.where(answers, 0.0, params.search_cost)

    def may_search(self, state: SearchQAState) -> jax.Array:
        """Whether searches are legal, bool[]: with `answer_last` only until the first answer."""
        return (state.answered == 0) if self.answer_last else jnp.ones((), bool)

    def legal(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        answers = np.arange(self.num_actions) >= self.num_searches
        return answers | self.may_search(state)

    def is_legal(
        self, state: SearchQAState, action: jax.Array, params: SearchQAParams
    ) -> jax.Array:
        """As `legal`, in closed form, including searches for one word."""
        pair = (action >= 0) & (action < self.num_searches)
        answers = (action >= self.num_searches) & (action < self.num_actions)
        alone = action - self.num_actions - 1
        alone = (alone >= 0) & (alone < self.entities + self.relations)
        return answers | ((pair | alone) & self.may_search(state))

    def shown(self, state: SearchQAState) -> jax.Array:
        """Which questions are visible, bool[k]."""
        open_ = np.arange(self.objectives, dtype=np.uint8) >= state.answered
        if self.show_questions:
            return open_
        return open_ & (state.answered == 0) & (state.passages[0] < 0)

    def found(self, state: SearchQAState) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(head, relation, object) i32[P] of the last search's passages."""
        number = state.passages.astype(jnp.int32)
        head, relation = number // self.relations, number % self.relations
        return head, relation, rules.object_of(state.corpus, head, relation, self.entities)

    def observe(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        """Codes of the answered count, the open questions and the passages."""
        questions = state.questions
        there = np.arange(self.max_hops) < questions.hops[:, None]
        path = jnp.where(there, questions.relations + 1, 0)
        asked = jnp.concatenate([questions.entity[:, None] + 1, path], axis=1)
        asked = jnp.where(self.shown(state)[:, None], asked, 0)
        passages = jnp.stack(self.found(state), axis=1) + 1
        passages = jnp.where((state.passages >= 0)[:, None], passages, 0)
        parts = [state.answered[None], asked.reshape(-1), passages.reshape(-1)]
        return jnp.concatenate([part.astype(jnp.uint8) for part in parts])

    def is_terminated(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        return state.answered == self.objectives

    def is_success(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        return state.correct == self.objectives

    def fingerprint(
        self, state: SearchQAState, params: SearchQAParams, *, of: str = "observation"
    ) -> jax.Array:
        """As in the base class; of="state" leaves out the last passages and past correctness."""
        if of == "state":
            state = state.replace(
                correct=jnp.zeros_like(state.correct), passages=jnp.zeros_like(state.passages)
            )
        return super().fingerprint(state, params, of=of)

    def reference_answer(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        """Action that answers the first open question rightly, i32[]."""
        along = rules.chain(state.corpus, state.questions, self.entities)
        first = jnp.minimum(state.answered.astype(jnp.int32), self.objectives - 1)
        return (self.num_searches + along[first, -1]).astype(jnp.int32)

    def expert(self, state: SearchQAState, params: SearchQAParams) -> jax.Array:
        """The next unknown hop of the first open question, or its answer."""
        questions, along = (
            state.questions,
            rules.chain(state.corpus, state.questions, self.entities),
        )
        first = jnp.minimum(state.answered.astype(jnp.int32), self.objectives - 1)
        unknown = state.known < questions.hops
        target = first
        if self.answer_last:
            gathers = (state.answered == 0) & jnp.any(unknown)
            target = jnp.where(gathers, jnp.argmax(unknown), first)
        hop = jnp.minimum(state.known[target].astype(jnp.int32), self.max_hops - 1)
        relation = questions.relations[target, hop].astype(jnp.int32)
        search = along[target, hop] * self.relations + relation
        searches = unknown[target] & self.may_search(state)
        answer = self.num_searches + along[first, -1]
        return jnp.where(searches, search, answer).astype(jnp.int32)

    @property
    def foresees(self) -> int:
        """With `answer_last` the expert gives all answers in one reply, where it can have several
        commands."""
        return self.objectives if self.answer_last else 0

    def foreseen(self, state: SearchQAState, action: jax.Array) -> tuple[SearchQAState, jax.Array]:
        """Answers say nothing new; what a search finds has to be seen."""
        answers = action >= self.num_searches
        answered = (state.answered + answers).astype(jnp.uint8)
        return state.replace(answered=answered), answers & (answered < self.objectives)

    def noted(self, state: SearchQAState) -> tuple[jax.Array, jax.Array, jax.Array]:
        """What has been found out on each question: (bool[k], it is anything; i32[k], the entity
        that it asks about; i32[k], the entity that its known hops lead to)."""
        along = rules.chain(state.corpus, state.questions, self.entities)
        known = state.known.astype(jnp.int32)
        reached = jnp.take_along_axis(along, known[:, None], axis=1)[:, 0]
        return known > 0, along[:, 0], reached

    def render(self, state: SearchQAState, params: SearchQAParams) -> str:
        """The agent's text in this wording."""
        return join(self.view.lexicon, self.view.describe(state, params))
