"""Travel-v1: search for offers, book one per domain, and keep to a budget and to hours."""

import dataclasses
import functools
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState

DOMAINS = ("flight", "hotel", "sight", "dinner")
UNKNOWN, ABSENT, OFFERED = -1, 0, 1
HIGHEST_PRICE = 5


@struct.dataclass
class TravelState(EnvState):
    """budget: i32[]. offered: bool[D, O], what there is to book. listed: i32[D, O], what the last
    search of each domain said of each offer: UNKNOWN before one, ABSENT or OFFERED. booked: i32[D],
    -1 for nothing. handed_in: bool[], the trip was handed in."""

    budget: jax.Array
    offered: jax.Array
    listed: jax.Array
    booked: jax.Array
    handed_in: jax.Array


@struct.dataclass
class TravelParams(EnvParams):
    """noise: the probability with which a search is wrong about an offer, anew at each search. 0: a
    sandbox, whose answers are stored and right. slack: what a budget may exceed the price of the
    trip by that it was drawn for, at most."""

    max_steps_in_episode: int = 12
    noise: float = 0.0
    slack: int = 1


@dataclasses.dataclass(frozen=True)
class Travel(Environment):
    """Book one offer in each of `domains` domains: within the budget, and no earlier than the one
    in the domain before.

    Prices and hours of the `options` offers per domain never change (`world` draws them), which of
    them there are does: a trip of offers that nobody has searched for may look right, and not
    exist.

    Observation: float32, the budget as a thermometer, then per offer whether the last search of its
    domain found it, whether it did not (neither before a search), and whether it is booked; prices
    and hours are not seen. Actions: `search DOMAIN`; `book DOMAIN OFFER`, in the place of what was
    booked there; `hand in`, which ends the episode. All are legal. Reward: on handing in, 1 if the
    trip is complete, within the budget and in order, whether its offers exist or not: the check of
    a reader who has the trip alone. Success: so is the trip, and all its offers exist and were
    found by the last search of their domains. Limit: 12 steps. Task: a trip in order, its price and
    up to `slack` more as the budget, and each other offer with probability 1/2.

    Kinds: "single", only one trip of existing offers is right; "several".

    Expert: searches all domains, books the cheapest right trip of what was found, hands in; without
    noise it always succeeds.

    Source: DeepTravel (2025), https://arxiv.org/abs/2509.21842 (from notes, no code published): a
    sandbox of travel tools, a check of the whole trip before that of its items against the tools'
    answers. The world is ours.
    """

    domains: int = 3
    options: int = 4
    world: int = 0

    wordings: ClassVar[str] = "envs.travel.words"
    costly_reset: ClassVar[bool] = False
    kinds: ClassVar[tuple[str, ...]] = ("single", "several")
    default_params: ClassVar[TravelParams] = TravelParams()

    def __post_init__(self):
        if not 1 <= self.domains <= len(DOMAINS) or not 2 <= self.options <= 6:
            raise ValueError(
                f"domains {self.domains}, options {self.options}: expected 1 to {len(DOMAINS)} and "
                "2 to 6"
            )

    @property
    def action_names(self) -> tuple[str, ...]:
        """Searches by domain, bookings by domain and offer, `hand in`."""
        names = DOMAINS[: self.domains]
        offers = range(1, self.options + 1)
        bookings = (f"book {name} {offer}" for name in names for offer in offers)
        return (*(f"search {name}" for name in names), *bookings, "hand in")

    @functools.cached_property
    def prices(self) -> np.ndarray:
        """Price of each offer, i32[D, O], from 1 to 5."""
        return self._table(lambda draw: draw.integers(1, HIGHEST_PRICE + 1, self.options))

    @functools.cached_property
    def hours(self) -> np.ndarray:
        """Hour of each offer, i32[D, O]; in every domain each of 0 to O - 1 once."""
        return self._table(lambda draw: draw.permutation(self.options))

    def _table(self, row) -> np.ndarray:
        draws = (np.random.default_rng([self.world, d]) for d in range(self.domains))
        return np.stack([row(draw) for draw in draws]).astype(np.int32)

    @functools.cached_property
    def trips(self) -> np.ndarray:
        """All trips in order, an offer per domain, i32[P, D], the cheapest first."""
        every = np.array(list(itertools.product(range(self.options), repeat=self.domains)))
        hours = np.take_along_axis(self.hours, every.T, axis=1)
        ordered = every[np.all(np.diff(hours, axis=0) >= 0, axis=0)]
        return ordered[np.argsort(self._prices_of(ordered), kind="stable")].astype(np.int32)

    @property
    def highest(self) -> int:
        """The largest budget, for which no trip is too expensive."""
        return HIGHEST_PRICE * self.domains

    def _prices_of(self, trips: np.ndarray) -> np.ndarray:
        return np.take_along_axis(self.prices, trips.T, axis=1).sum(axis=0).astype(np.int32)

    def initial(self, key: jax.Array, params: TravelParams) -> TravelState:
        trip_key, offer_key, slack_key = jax.random.split(key, 3)
        number = jax.random.randint(trip_key, (), 0, len(self.trips))
        trip = jnp.asarray(self.trips)[number]
        shape = (self.domains, self.options)
        offered = jax.random.bernoulli(offer_key, 0.5, shape) | self._is(trip)
        slack = jax.random.randint(slack_key, (), 0, params.slack + 1)
        return TravelState(
            time=jnp.zeros((), jnp.int32),
            budget=jnp.minimum(
                jnp.asarray(self._prices_of(self.trips))[number] + slack, self.highest
            ),
            offered=offered,
            listed=jnp.full(shape, UNKNOWN, jnp.int32),
            booked=jnp.full(self.domains, -1, jnp.int32),
            handed_in=jnp.zeros((), bool),
        )

    def _is(self, booked: jax.Array) -> jax.Array:
        """bool[D, O], one offer per domain; none for -1."""
        return booked[:, None] == np.arange(self.options)

    def _parts(self, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The domains that an action searches, bool[..., D], and the offer that it books, bool[...,
        D, O]."""
        place = jnp.asarray(action)[..., None]
        searched = place == np.arange(self.domains)
        bookings = self.domains + np.arange(self.domains * self.options)
        return searched, (place == bookings).reshape(*place.shape[:-1], self.domains, self.options)

    def answers(self, key: jax.Array, state: TravelState, params: TravelParams) -> jax.Array:
        """What searches of all domains would say now, bool[D, O]: each is wrong with `noise`."""
        return state.offered ^ (jax.random.uniform(key, state.offered.shape) < params.noise)

    def transition(
        self, key: jax.Array, state: TravelState, action: jax.Array, params: TravelParams
    ) -> tuple[TravelState, jax.Array]:
        """A search, a booking, or the end."""
        searched, books = self._parts(action)
        answers = self.answers(key, state, params).astype(jnp.int32)
        listed = jnp.where(searched[:, None], answers, state.listed)
        booked = jnp.where(jnp.any(books, axis=1), jnp.argmax(books, axis=1), state.booked)
        following = state.replace(
            listed=listed,
            booked=booked.astype(jnp.int32),
            handed_in=action == self.num_actions - 1,
        )
        right = following.handed_in & self.is_right(following)
        return following, jnp.where(right, 1.0, 0.0)

    def is_right(self, state: TravelState) -> jax.Array:
        """Whether the trip is complete, within the budget and in order, bool[]."""
        same = jnp.all(jnp.asarray(self.trips) == state.booked, axis=1)
        return jnp.any(same & (self._prices_of(self.trips) <= state.budget))

    def observe(self, state: TravelState, params: TravelParams) -> jax.Array:
        seen = jnp.stack(
            [state.listed == OFFERED, state.listed == ABSENT, self._is(state.booked)], axis=-1
        )
        budget = state.budget > np.arange(self.highest)
        return jnp.concatenate([budget, seen.reshape(-1)]).astype(jnp.float32)

    def is_terminated(self, state: TravelState, params: TravelParams) -> jax.Array:
        return state.handed_in

    def is_success(self, state: TravelState, params: TravelParams) -> jax.Array:
        real = ~self._is(state.booked) | (state.offered & (state.listed == OFFERED))
        return state.handed_in & self.is_right(state) & jnp.all(real)

    def kind_of(self, state: TravelState, params: TravelParams) -> jax.Array:
        """0 if one trip of existing offers is right, else 1."""
        return (jnp.sum(self._possible(state.offered, state.budget)) > 1).astype(jnp.int32)

    def _possible(self, offered: jax.Array, budget: jax.Array) -> jax.Array:
        """Which of `trips` are of such offers and within a budget, bool[P]."""
        there = jnp.all(offered[np.arange(self.domains), self.trips], axis=1)
        return there & (self._prices_of(self.trips) <= budget)

    # What `agentrl.methods.turn_checks` compares.

    def checked(
        self, key: jax.Array, state: TravelState, action: jax.Array, params: TravelParams
    ) -> tuple[jax.Array, jax.Array]:
        """Turns that book what stays booked, and those of them that the tools confirm.

        A booking is confirmed if its domain was searched in an earlier turn and a search of the
        checker's own, now, finds the offer.

        Args:
          key: of that search.
          state: of the episode's start.
          action: i32[T, M], the actions of each turn in their order; -1 for none.

        Returns:
          (claims bool[T], confirmed bool[T]); a turn is confirmed if all of its claims are.
        """
        searched, books = self._parts(action.reshape(-1))
        booking = jnp.any(books, axis=2)
        before = jnp.cumsum(searched, axis=0) - searched > 0
        later = jnp.flip(jnp.cumsum(jnp.flip(booking, 0), axis=0), 0) - booking > 0
        claims = booking & ~later
        exists = jnp.any(books & self.answers(key, state, params), axis=2)
        wrong = jnp.any(claims & ~(before & exists), axis=1)
        claims = jnp.any(claims, axis=1)

        def turns(each):
            return jnp.any(each.reshape(action.shape), axis=-1)

        return turns(claims), turns(claims) & ~turns(wrong)

    def expert(self, state: TravelState, params: TravelParams) -> jax.Array:
        open_domains = state.listed[:, 0] == UNKNOWN
        possible = self._possible(state.listed == OFFERED, state.budget)
        # The cheapest trip that was found; where there is none, the cheapest of all.
        trip = jnp.asarray(self.trips)[jnp.argmax(possible)]
        missing = state.booked != trip
        at = jnp.argmax(missing)
        book = self.domains + at * self.options + trip[at]
        rest = jnp.where(jnp.any(missing), book, self.num_actions - 1)
        return jnp.where(jnp.any(open_domains), jnp.argmax(open_domains), rest).astype(jnp.int32)

    def render(self, state: TravelState, params: TravelParams) -> str:
        """The budget, then a line per domain: what exists and was found, in brackets what is
        booked."""
        lines = [f"budget {int(state.budget)}"]
        for d in range(self.domains):
            marks = []
            for o in range(self.options):
                sign = {UNKNOWN: "?", ABSENT: "-", OFFERED: "+"}[int(state.listed[d, o])]
                text = f"{o + 1}{sign}{self.prices[d, o]}@{self.hours[d, o]}"
                marks.append(f"[{text}]" if int(state.booked[d]) == o else text)
            lines.append(f"{DOMAINS[d]}: {' '.join(marks)}")
        return "\n".join(lines)
