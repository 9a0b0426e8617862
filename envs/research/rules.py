"""Questions and sources of the research environments: what a team and one agent alone share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

KINDS = ("local", "web")
TOPICS = ("boss", "heir", "pal", "rival", "tutor", "aunt", "guard", "twin", "cook", "maid")
TOPICS += ("nurse", "baker")
# What filler words a page is made of.
FILLER = ("ama", "beto", "ciru", "dano", "eka", "folu", "geni", "hapa")
# The result of the last opening or call.
NOTHING_YET, FOUND, FAILED = range(3)


@struct.dataclass
class Question:
    """topic i32[H]: of each fact in order, -1 behind the last. found bool[H]. page i32[W]: filler
    words of the page that was opened last. answered, correct: bool[]."""

    topic: jax.Array
    found: jax.Array
    page: jax.Array
    answered: jax.Array
    correct: jax.Array


@dataclasses.dataclass(frozen=True)
class Sources:
    """Options of both environments, and the rules that they share.

    facts: (fewest, most) of a question. topics: number. sources: per kind. filler: words of a page.
    """

    facts: tuple[int, int] = (2, 3)
    topics: int = 6
    sources: int = 3
    filler: int = 2

    def __post_init__(self):
        low, high = self.facts
        if not 0 <= low <= high <= 6 or high < 1:
            raise ValueError(f"facts {self.facts}: expected (fewest, most) of 0 to 6, most above 0")
        if not 1 <= self.topics <= len(TOPICS) or not 1 <= self.sources <= 4:
            raise ValueError(
                f"topics {self.topics}, sources {self.sources}: expected 1 to {len(TOPICS)} and "
                "1 to 4 per kind"
            )
        if not 1 <= self.filler <= 64:
            raise ValueError(f"filler {self.filler}: expected 1 to 64 words")

    def drawn(self, key: jax.Array) -> Question:
        """A question with a uniform number of facts of uniform topics."""
        count_key, topic_key = jax.random.split(key)
        low, high = self.facts
        count = jax.random.randint(count_key, (), low, high + 1)
        topic = jax.random.randint(topic_key, (high,), 0, self.topics)
        no = jnp.zeros((), bool)
        return Question(
            topic=jnp.where(np.arange(high) < count, topic, -1),
            found=jnp.zeros(high, bool),
            page=jnp.full(self.filler, -1, jnp.int32),
            answered=no,
            correct=no,
        )

    def missing(self, question: Question) -> jax.Array:
        """Facts that are not known yet, bool[H]."""
        return (question.topic >= 0) & ~self.known(question)

    def known(self, question: Question) -> jax.Array:
        """Facts that count as found where something is asked or shown, bool[H]."""
        return question.found

    def first_missing(self, question: Question) -> jax.Array:
        """Index of the first fact that is missing, i32[]; 0 if none is."""
        return jnp.argmax(self.missing(question)).astype(jnp.int32)

    def home(self, topic: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(kind, source of that kind) i32[] that has the facts of a topic: topics alternate between
        the kinds, and go round the sources of each."""
        return topic % len(KINDS), (topic // len(KINDS)) % self.sources

    def opens(self, key, question, fact, kind, source, params):
        """(question with the page, whether the fact is on it) of opening a source."""
        luck_key, page_key = jax.random.split(key)
        home_kind, home_source = self.home(question.topic[fact])
        there = self.missing(question)[fact] & (kind == home_kind) & (source == home_source)
        lucky = jax.random.uniform(luck_key) < params.right
        page = jax.random.randint(page_key, (self.filler,), 0, len(FILLER))
        return question.replace(page=page), there & lucky

    def learnt(self, question: Question, fact: jax.Array, now: jax.Array) -> Question:
        """The question with a fact found, where `now`."""
        return question.replace(found=question.found | ((np.arange(self.facts[1]) == fact) & now))

    def answer(self, key: jax.Array, question: Question, params) -> tuple[Question, jax.Array]:
        """(question that is answered, 1 if rightly): the answerer is fixed, its chance depends on
        the number of missing facts."""
        missing = jnp.minimum(jnp.sum(self.missing(question)), 2)
        right = jax.random.uniform(key) < jnp.asarray(params.answers)[missing]
        done = question.replace(answered=jnp.ones((), bool), correct=right)
        return done, right.astype(jnp.float32)

    def seen(self, question: Question) -> jax.Array:
        """The question as indicators: the topic and the status of each fact."""
        topic = question.topic[:, None] == np.arange(self.topics)
        return jnp.append(topic.reshape(-1), self.known(question))

    def shown(self, question: Question) -> str:
        """`boss found, heir, pal`, for drawings."""
        topic, found = np.asarray(question.topic), np.asarray(self.known(question))
        facts = [
            TOPICS[t] + " found" * bool(f) for t, f in zip(topic, found, strict=True) if t >= 0
        ]
        end = ""
        if bool(question.answered):
            end = " | answered " + ("rightly" if bool(question.correct) else "wrongly")
        return (", ".join(facts) or "nothing to find") + end
