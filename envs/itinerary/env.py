"""Itinerary-v1: ask a traveller for preferences, search, choose an option per domain."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

DOMAINS = ("flight", "hotel", "apartment", "car", "restaurant")
SLOTS = ("time", "place", "style")
VALUES = (("early", "late"), ("central", "quiet"), ("plain", "grand"))
# What the user has said about a slot: nothing, that anything will do, or the wanted value.
UNKNOWN, ANY, TOLD = range(3)
# What an option is.
WRONG, CORRECT, BEST = range(3)
SEARCH_REWARD = PREFERENCE_REWARD = 0.2
CHOICE_REWARD = np.array([0.0, 0.8, 1.0], np.float32)


@struct.dataclass
class ItineraryState(EnvState):
    """cares: bool[D, S], slots of each domain for which the user has a preference. wanted: i32[D,
    S], the preferred value, read where `cares`. values: i32[D, O, S], of the options, the cheapest
    first. known: u8[D, S], UNKNOWN, ANY or TOLD. found: bool[D], the options were listed. searches:
    i32[]. off_topic: i32[], questions since the last one that found a preference. failed: bool[],
    the last action was a search that failed. chosen: i32[D], -1 for nothing yet."""

    cares: jax.Array
    wanted: jax.Array
    values: jax.Array
    known: jax.Array
    found: jax.Array
    searches: jax.Array
    off_topic: jax.Array
    failed: jax.Array
    chosen: jax.Array


@struct.dataclass
class ItineraryParams(EnvParams):
    """failing: every so many searches one fails, whatever it is for. patience: after so many
    questions off topic the user volunteers a preference."""

    max_steps_in_episode: int = 20
    failing: int = 5
    patience: int = 3


@dataclasses.dataclass(frozen=True)
class Itinerary(Environment):
    """Choose one option in each of `domains` domains for a user who says preferences if asked.

    The user has a preference for one to all of the `slots` slots of a domain. An option is correct
    if it has all preferred values, and best if it is the cheapest correct one. The user is a script
    of rules, no language model.

    Observation: float32, per slot whether nothing is known, anything will do, or the value that is
    wanted [D * S * 4]; per option, once listed, its values [D * O * S * 2]; per domain whether its
    options are listed, the chosen one, and whether that was wrong, correct or best [D * (4 + O)];
    whether a search has just failed [1]. How many searches and questions off topic there were is
    not seen. Actions: `ask DOMAIN SLOT`, `search DOMAIN`, `choose DOMAIN NUMBER`; all are legal,
    also a choice before a search, but a second one in a domain changes nothing. Reward: 0.2 for a
    question that finds a new preference, 0.2 for the first search of a domain that succeeds, 1 for
    the best option, 0.8 for another correct one. Every `failing`-th search (5) fails. A question
    that finds nothing, since there is no preference, it is known, or the choice is made, is off
    topic: in the third in a row (`patience`) the user volunteers one of the remaining preferences,
    without a reward. Searches and choices neither count nor interrupt. Ends with the last choice.
    Success: the best option in every domain. Limit: 20 steps.

    Task: preferences, and per domain at least two correct options and a wrong one, in random order.

    Expert: knows what the agent sees. Domain by domain it asks for each slot, searches until the
    options are listed, and chooses the cheapest that fits; always succeeds in domains * (slots + 2)
    turns and those of failed searches. It loses 0.2 where the user volunteers. Return of 4,096
    tasks: 4.77, random play 1.91 with a success of 0.014.

    Source: UserRL's TravelGym (Qian et al., 2025, https://arxiv.org/abs/2509.19736; code read):
    rewards, failing searches, volunteering, one choice per domain, which drops what remains of its
    preferences. There a model plays the user and judges questions and search arguments, preferences
    are hinted at rather than said, and `[finish]` ends the episode; slots and options are ours, and
    a user who volunteers answers the question too.
    """

    domains: int = 3
    slots: int = 3
    options: int = 4

    wordings: ClassVar[str] = "envs.itinerary.words"
    costly_reset: ClassVar[bool] = False
    default_params: ClassVar[ItineraryParams] = ItineraryParams()

    def __post_init__(self):
        sizes = (self.domains, self.slots, self.options)
        if not all(1 <= n <= m for n, m in zip(sizes, (5, 3, 6), strict=True)) or self.options < 3:
            raise ValueError(
                f"domains {self.domains}, slots {self.slots}, options {self.options}: expected 1 "
                "to 5, 1 to 3 and 3 to 6"
            )

    @property
    def action_names(self) -> tuple[str, ...]:
        """Questions by domain and slot, searches by domain, choices by domain and option."""
        names, numbers = DOMAINS[: self.domains], range(1, self.options + 1)
        questions = (f"ask {name} {slot}" for name in names for slot in SLOTS[: self.slots])
        choices = (f"choose {name} {number}" for name in names for number in numbers)
        return (*questions, *(f"search {name}" for name in names), *choices)

    def initial(self, key: jax.Array, params: ItineraryParams) -> ItineraryState:
        keys = jax.random.split(key, 5)
        shape = (self.domains, self.slots)
        count = jax.random.randint(keys[0], (self.domains, 1), 1, self.slots + 1)
        rank = self._ranks(keys[1], self.slots)
        cares = rank < count
        wanted = jax.random.randint(keys[2], shape, 0, 2)
        values = jax.random.randint(keys[3], (self.domains, self.options, self.slots), 0, 2)
        # Of the options in a random order the first two fit, the third misses a preference.
        order = self._ranks(keys[4], self.options)[:, :, None]
        values = jnp.where((order < 2) & cares[:, None], wanted[:, None], values)
        values = jnp.where((order == 2) & (rank == 0)[:, None], 1 - wanted[:, None], values)
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return ItineraryState(
            time=zero,
            cares=cares,
            wanted=wanted,
            values=values,
            known=jnp.full(shape, UNKNOWN, jnp.uint8),
            found=jnp.zeros(self.domains, bool),
            searches=zero,
            off_topic=zero,
            failed=no,
            chosen=jnp.full(self.domains, -1, jnp.int32),
        )

    def _ranks(self, key: jax.Array, count: int) -> jax.Array:
        """A random permutation for each domain, i32[D, count]."""
        draw = jax.random.uniform(key, (self.domains, count))
        return jnp.argsort(jnp.argsort(draw, axis=1), axis=1).astype(jnp.int32)

    def judged(self, state: ItineraryState) -> jax.Array:
        """WRONG, CORRECT or BEST of each option, i32[D, O]."""
        fits = jnp.all((state.values == state.wanted[:, None]) | ~state.cares[:, None], axis=2)
        best = fits & (jnp.cumsum(fits, axis=1) == 1)
        return fits.astype(jnp.int32) + best

    def remaining(self, state: ItineraryState) -> jax.Array:
        """Preferences that the user can still say, bool[D, S]; none of a domain with a choice."""
        return state.cares & (state.known != TOLD) & (state.chosen < 0)[:, None]

    def transition(
        self, key: jax.Array, state: ItineraryState, action: jax.Array, params: ItineraryParams
    ) -> tuple[ItineraryState, jax.Array]:
        """A question, a search or a choice; each leaves the others' part of the state alone."""
        first = self.domains * self.slots
        asks = (action == np.arange(first)).reshape(self.domains, self.slots)
        searched = action == first + np.arange(self.domains)
        offers = first + self.domains + np.arange(self.domains * self.options)
        chooses = (action == offers).reshape(self.domains, self.options)
        state, told = self._ask(key, state, asks, params)
        number = state.searches + jnp.any(searched)
        failed = jnp.any(searched) & (number % params.failing == 0)
        finds = searched & ~failed & ~state.found
        chooses = chooses & (state.chosen < 0)[:, None]
        worth = jnp.where(chooses, jnp.asarray(CHOICE_REWARD)[self.judged(state)], 0.0)
        reward = PREFERENCE_REWARD * told + SEARCH_REWARD * jnp.any(finds) + jnp.sum(worth)
        chosen = jnp.where(jnp.any(chooses, axis=1), jnp.argmax(chooses, axis=1), state.chosen)
        state = state.replace(
            found=state.found | finds,
            searches=number.astype(jnp.int32),
            failed=failed,
            chosen=chosen.astype(jnp.int32),
        )
        return state, reward

    def _ask(
        self, key: jax.Array, state: ItineraryState, asks: jax.Array, params: ItineraryParams
    ) -> tuple[ItineraryState, jax.Array]:
        """(state after a question bool[D, S], whether it found a preference); none if all False."""
        remaining = self.remaining(state)
        told = asks & remaining
        off = jnp.any(asks) & ~jnp.any(told)
        count = jnp.where(jnp.any(told), 0, state.off_topic + off)
        volunteers = off & (count >= params.patience) & jnp.any(remaining)
        draw = jnp.where(remaining, jax.random.uniform(key, remaining.shape), -1.0)
        said = told | ((draw == jnp.max(draw)) & remaining & volunteers)
        known = jnp.where(asks & (state.known == UNKNOWN), ANY, state.known)
        state = state.replace(
            known=jnp.where(said, TOLD, known).astype(jnp.uint8),
            off_topic=jnp.where(volunteers, 0, count).astype(jnp.int32),
        )
        return state, jnp.any(told)

    def verdict(self, state: ItineraryState) -> jax.Array:
        """What the chosen options are, i32[D]; -1 without one."""
        picked = state.chosen[:, None] == np.arange(self.options)
        return jnp.sum(jnp.where(picked, self.judged(state) + 1, 0), axis=1) - 1

    def observe(self, state: ItineraryState, params: ItineraryParams) -> jax.Array:
        told = (state.known == TOLD)[..., None] & (state.wanted[..., None] == np.arange(2))
        said = state.known[..., None] == np.arange(2, dtype=np.uint8)
        listed = (state.values[..., None] == np.arange(2)) & state.found[:, None, None, None]
        picked = state.chosen[:, None] == np.arange(self.options)
        verdict = self.verdict(state)[:, None] == np.arange(3)
        parts = (said, told, listed, state.found, picked, verdict, state.failed)
        return jnp.concatenate([part.reshape(-1) for part in parts]).astype(jnp.float32)

    def is_terminated(self, state: ItineraryState, params: ItineraryParams) -> jax.Array:
        return jnp.all(state.chosen >= 0)

    def is_success(self, state: ItineraryState, params: ItineraryParams) -> jax.Array:
        return jnp.all(self.verdict(state) == BEST)

    def expert(self, state: ItineraryState, params: ItineraryParams) -> jax.Array:
        at = jnp.argmax(state.chosen < 0)
        known = state.known[at]
        fits = jnp.all((state.values[at] == state.wanted[at]) | (known != TOLD), axis=1)
        questions = self.domains * self.slots
        choose = questions + self.domains + at * self.options + jnp.argmax(fits)
        search_or_choose = jnp.where(state.found[at], choose, questions + at)
        ask = at * self.slots + jnp.argmax(known == UNKNOWN)
        asks = jnp.any(known == UNKNOWN)
        return jnp.where(asks, ask, search_or_choose).astype(jnp.int32)

    def render(self, state: ItineraryState, params: ItineraryParams) -> str:
        """A line per domain: preferences, in brackets those not said yet, then the options, `*` for
        a correct and `**` for the best one, in brackets the chosen one."""
        lines, judged = [], np.asarray(self.judged(state))
        for d in range(self.domains):
            wants = []
            for s in np.flatnonzero(state.cares[d]):
                value = VALUES[s][int(state.wanted[d, s])]
                wants.append(value if int(state.known[d, s]) == TOLD else f"[{value}]")
            options = []
            for o in range(self.options):
                values = (VALUES[s][int(state.values[d, o, s])] for s in range(self.slots))
                text = f"{o + 1} {' '.join(values)}{'*' * judged[d, o]}"
                options.append(f"[{text}]" if int(state.chosen[d]) == o else text)
            listed = "" if state.found[d] else " (not listed)"
            lines.append(f"{DOMAINS[d]}: {' '.join(wants)} | {', '.join(options)}{listed}")
        return "\n".join(lines)
