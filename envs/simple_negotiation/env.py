"""SimpleNegotiation-v1: trade goods by offers; the seat that gains more wins."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams
from envs.rules_game import RulesGame, RulesState
from envs.simple_negotiation import offers, rules
from envs.simple_negotiation.offers import MOST
from envs.simple_negotiation.rules import Act

ACCEPT, DENY, PASS = range(3)
_FIRST = 3


@struct.dataclass
class SimpleNegotiationParams(GameParams):
    """turns: number of legal acts of a game.

    TextArena states 10, but checks before it counts, which gives 11. SPIRAL has 10; there an
    illegal act ends the game at once and costs 1, the other gets 0.
    """

    max_steps_in_episode: int = 22
    turns: int = 11


@dataclasses.dataclass(frozen=True)
class SimpleNegotiation(RulesGame):
    """Two seats trade in turn, seat 0 first; the one that gains more by its own values wins.

    `rules`: "textarena", five resources, stocks and values drawn and private; "spiral", ten wood
    and ten gold each; one seat values wood three times as much as gold, the other gold, and both
    know it. The rules also differ in who may accept and when an offer closes:
    `envs.simple_negotiation.rules.respond`.

    Observation: uint8 codes. [turns left, result of the last act, owner of the open offer (0 none,
    1 own, 2 the other's)], then R codes each: given and asked in the open offer, own stock, own
    stock at the start, own values. The other's stock and values are never shown; with SPIRAL's
    rules they follow from the agent's own.

    Actions: 0 accept, 1 deny, 2 pass (with TextArena's rules the same as deny), then the offers of
    one resource for another, (given, asked, how many given, how many asked) with `quantities` of
    each, the last running fastest. Indices from `num_actions` on are offers of any goods, up to 31
    of each, with or without accepting the open offer in the same act: `encode`; in text `offer 3
    sheep 2 ore for 5 brick and accept`, four resources at most.

    Illegal: offering goods that the seat does not own, accepting an offer that it cannot pay, and
    with SPIRAL's rules accepting its own offer. If an act accepts and offers, each part can be an
    error of its own (`GameParams`), and the legal part takes effect. On the last turn a forgiven
    error ends the game as a legal act does.

    Reward at the end: 1 for the larger gain, -1 for the other, 0 if equal. Expert: accepts offers
    that gain it something and no less than the other; else makes the offer of the table that raises
    the smaller of both gains most without falling behind, asking for each resource in turn; else
    passes. It assumes the mean for private values of the other.

    Source: TextArena 0.7.4, SimpleNegotiation-v0, and SPIRAL's SimpleNegotiation-v1 (read); their
    recorded games are replayed. Deviations: no talk; offers have the bounds of `encode`, where the
    sources have none; SPIRAL's driver, which admits only six random replies per turn, is left out.
    """

    # The module; below it `rules` is an option. Its rules are of acts, which may be half an error,
    # and the number of turns is in `params`; so what is legal, and what passes on to `play`,
    # `terminal` and `returns`, is written here.
    game = rules
    rules: str = "textarena"
    quantities: tuple[int, ...] = (1, 2, 3, 5, 8)

    # Both together have at most fifty units of a resource.
    num_codes: ClassVar[int] = 51
    costly_reset: ClassVar[bool] = False
    wordings: ClassVar[str] = "envs.simple_negotiation.words"

    def __post_init__(self):
        if self.rules not in rules.RESOURCES:
            raise ValueError(f"rules={self.rules!r}: expected one of {', '.join(rules.RESOURCES)}")
        if not self.quantities or not all(1 <= q <= MOST for q in self.quantities):
            raise ValueError(f"quantities {self.quantities}: expected numbers from 1 to {MOST}")
        if len(set(self.quantities)) < len(self.quantities):
            raise ValueError(f"quantities {self.quantities}: expected each number once")

    @property
    def default_params(self) -> SimpleNegotiationParams:
        """The settings of the source that `rules` names, TextArena or SPIRAL."""
        if self.rules == "textarena":
            return SimpleNegotiationParams()
        return SimpleNegotiationParams(
            illegal_allowance=0, illegal_other_reward=0.0, turns=10, max_steps_in_episode=20
        )

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the R resources."""
        return rules.RESOURCES[self.rules]

    @property
    def table(self) -> np.ndarray:
        """Offers of the table, i32[n, 4]: resource given, resource asked, how many of each."""
        numbers = range(len(self.resources))
        rows = [
            (given, asked, q, p)
            for given in numbers
            for asked in numbers
            for q in self.quantities
            for p in self.quantities
            if given != asked
        ]
        return np.array(rows, np.int32)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Three words and the offers of the table."""
        names = self.resources
        offers = (f"offer {q} {names[g]} for {p} {names[a]}" for g, a, q, p in self.table)
        return ("accept", "deny", "pass", *offers)

    @property
    def num_actions(self) -> int:
        size = len(self.resources)
        return _FIRST + size * (size - 1) * len(self.quantities) ** 2

    def encode(self, give: jax.Array, ask: jax.Array, accept: jax.Array) -> jax.Array:
        """Index of an offer, i32[]: in the table if it contains the offer and nothing is accepted.

        give, ask: i32[R]. -1 if the offer cannot be written: more than 31 of a resource; with a
        resource on both sides, more than 28 of one or more than four amounts. An offer of nothing
        has an index: it is an offer that could not be read.
        """
        number = offers.number(give, ask, accept)
        beyond = jnp.where(number < 0, -1, self.num_actions + number)
        plain = (jnp.sum(give > 0) == 1) & (jnp.sum(ask > 0) == 1) & ~accept
        table = self.table
        same = (jnp.argmax(give) == table[:, 0]) & (jnp.argmax(ask) == table[:, 1])
        same = plain & same & (jnp.sum(give) == table[:, 2]) & (jnp.sum(ask) == table[:, 3])
        return jnp.where(jnp.any(same), _FIRST + jnp.argmax(same), beyond).astype(jnp.int32)

    def decode(self, action: jax.Array) -> Act:
        """Content of an action; undefined indices are offers that cannot be read."""
        size, count = len(self.resources), len(self.quantities)
        kinds = np.arange(size)
        index = action - _FIRST
        listed = (index >= 0) & (action < self.num_actions)
        pair = index // count**2
        given, other = pair // (size - 1), pair % (size - 1)
        asked = other + (other >= given)
        given = jnp.where(kinds == given, self._quantity(index // count % count), 0)
        asked = jnp.where(kinds == asked, self._quantity(index % count), 0)

        give, ask, accept = offers.offer(action - self.num_actions, size)
        return Act(
            accept=(action == ACCEPT) | accept,
            deny=action == DENY,
            offers=(action < 0) | (action >= _FIRST),
            give=jnp.where(listed, given, give),
            ask=jnp.where(listed, asked, ask),
        )

    def _quantity(self, number: jax.Array) -> jax.Array:
        places = np.arange(len(self.quantities))
        return jnp.sum(jnp.where(places == number, np.array(self.quantities, np.int32), 0))

    def start(self, key: jax.Array, params: SimpleNegotiationParams) -> tuple[Any, ...]:
        return *rules.draw(self.rules, key), self.rules

    def is_legal(
        self, state: RulesState, action: jax.Array, params: SimpleNegotiationParams
    ) -> jax.Array:
        """Whether an act, of the table or beyond, contains no error."""
        at = state.game
        answer = rules.respond(at.kind, at.market, rules.player(at), self.decode(action), 0)
        return answer.errors == 0

    def legal(self, state: RulesState, params: SimpleNegotiationParams) -> jax.Array:
        """Accepting if it is no error, and offers of owned goods."""
        size, count = len(self.resources), len(self.quantities)
        own = rules.of_seat(state.game.market.stock, rules.player(state.game))
        owned = own[:, None] >= np.array(self.quantities, np.int32)
        owned = jnp.broadcast_to(owned[:, None, :, None], (size, size - 1, count, count))
        accept = self.is_legal(state, jnp.int32(ACCEPT), params)
        return jnp.concatenate([accept[None], jnp.ones(2, bool), owned.reshape(-1)])

    def play(
        self,
        key: jax.Array,
        state: RulesState,
        action: jax.Array,
        params: SimpleNegotiationParams,
    ) -> tuple[RulesState, jax.Array, jax.Array]:
        """One act, with errors counted one by one; after the last turn the gains are compared."""
        seat = rules.player(state.game)
        mine = self._agents == seat
        act = self.decode(jnp.sum(jnp.where(mine, action, 0)))
        spare = params.illegal_allowance - state.errors
        game, errors = rules.play(state.game, act, spare, params.turns)
        valid, lost = errors == 0, errors > spare
        following = state.replace(
            game=game,
            errors=jnp.where(valid, 0, state.errors + errors),
            offender=jnp.where(lost, seat, state.offender),
        )
        penalty = jnp.where(mine, params.illegal_reward, params.illegal_other_reward)
        reward = jnp.where(lost, penalty, rules.returns(game, params.turns))
        return following, reward, valid | ~mine

    def observe_as(
        self, state: RulesState, agent: jax.Array, params: SimpleNegotiationParams
    ) -> jax.Array:
        """The agent's own goods and values, and the public offers."""
        at, market = state.game, state.game.market
        whose = jnp.where(market.proposer < 0, 0, jnp.where(market.proposer == agent, 1, 2))
        left = jnp.clip(params.turns - at.turn, 0, self.num_codes - 1)
        own = [rules.of_seat(rows, agent) for rows in (market.stock, at.start, at.values)]
        parts = [jnp.stack([left, at.last, whose]), market.give, market.ask, *own]
        return jnp.concatenate(parts).astype(jnp.uint8)

    def is_over(self, state: RulesState, params: SimpleNegotiationParams) -> jax.Array:
        return rules.terminal(state.game, params.turns)

    def won(self, state: RulesState, params: SimpleNegotiationParams) -> jax.Array:
        return rules.returns(state.game, params.turns) > 0

    def expert(self, state: RulesState, params: SimpleNegotiationParams) -> jax.Array:
        """Looks for trades in which both gain, and itself no less than the other."""
        at, market = state.game, state.game.market
        seat = rules.player(at)
        stock, values = (rules.of_seat(rows, seat) for rows in (market.stock, at.values))
        others, payable = jnp.asarray(rules.BASE), jnp.full(len(rules.BASE), MOST)
        if self.rules == "spiral":
            others = rules.of_seat(at.values, 1 - seat)
            payable = rules.of_seat(market.stock, 1 - seat)
        comes = market.give - market.ask
        gain, their_gain = jnp.sum(comes * values), -jnp.sum(comes * others)
        takes = (market.proposer == 1 - seat) & jnp.all(stock >= market.ask)
        takes = takes & (gain > 0) & (gain >= their_gain)

        # Offers [given, asked, how many given, how many asked]: those of the table, and
        # each resource for itself, which gains nothing. This avoids a gather under vmap.
        size, count = len(self.resources), len(self.quantities)
        amounts = np.array(self.quantities, np.int32)
        given = lambda x: (x[:, None] * amounts)[:, None, :, None]  # noqa: E731
        asked = lambda x: (x[:, None] * amounts)[None, :, None, :]  # noqa: E731
        ones, kinds = np.ones(size, np.int32), np.arange(size)[None, :, None, None]
        gain, their_gain = asked(values) - given(values), given(others) - asked(others)
        fits = (given(ones) <= stock[:, None, None, None]) & (gain >= their_gain)
        fits = fits & (asked(ones) <= payable[None, :, None, None])
        worth = jnp.where(fits & (gain > 0), their_gain, 0)
        # Asks for another resource each time, if possible: a refused one is not asked for
        # again.
        turns = kinds == at.turn // 2 % size
        worth = jnp.where(jnp.any(turns & (worth > 0)), jnp.where(turns, worth, 0), worth)
        best = jnp.argmax(worth)
        pair, numbers = best // count**2, best % count**2
        row, column = pair // size, pair % size
        place = (row * (size - 1) + column - (column > row)) * count**2 + numbers
        offer = jnp.where(jnp.any(worth > 0), _FIRST + place, PASS)
        return jnp.where(takes, ACCEPT, offer).astype(jnp.int32)

    def render(self, state: RulesState, params: SimpleNegotiationParams) -> str:
        """Goods and values of both seats, and the open offer."""
        at = state.game
        stock, values = np.asarray(at.market.stock), np.asarray(at.values)
        rows = [
            f"seat {seat}: "
            + ", ".join(
                f"{n} {name} at {v}"
                for n, name, v in zip(stock[seat], self.resources, values[seat], strict=True)
            )
            for seat in range(2)
        ]
        if at.market.proposer >= 0:
            sides = [
                " ".join(f"{n} {name}" for n, name in zip(side, self.resources, strict=True) if n)
                for side in (np.asarray(at.market.give), np.asarray(at.market.ask))
            ]
            rows.append(f"seat {int(at.market.proposer)} offers {' for '.join(sides)}")
        return "\n".join(rows)
