"""TradingDesk-v1: ask tools about the market, then buy, sell or hold."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.trading_desk import rules

TOOLS = len(rules.TOOLS)
DECISIONS = ("buy", "sell", "hold")
SIGNS = "-0+"


@struct.dataclass
class TradingDeskState(EnvState):
    """Days of the market and what was done so far.

    regimes i8[days]. signals i8[days, 6]: as the tools show them. scores i8[days]: z. noise
    f32[days]. day i32[]. asked bool[6]: tools asked this day. position i8[]: -1, 0 or 1. profit
    f32[days]: of the days that are over. right i32[]: right decisions.
    """

    regimes: jax.Array
    signals: jax.Array
    scores: jax.Array
    noise: jax.Array
    day: jax.Array
    asked: jax.Array
    position: jax.Array
    profit: jax.Array
    right: jax.Array


@struct.dataclass
class TradingDeskParams(EnvParams):
    """query_cost: of a query. hold_share: share of days on which HOLD is right. reliability:
    probability that a tool shows its signal; else a uniform one. noise: standard deviation of a
    day's return in percent. trade_cost: of a change of the position, in percent."""

    max_steps_in_episode: int = 8
    illegal_reward: float = -0.1
    query_cost: float = 0.05
    hold_share: float = 0.5
    reliability: float = 1.0
    noise: float = 0.5
    trade_cost: float = 0.1


@dataclasses.dataclass(frozen=True)
class TradingDesk(Environment):
    """Six tools each show a signal -1, 0 or 1 about the day; `weights` [3, 6] say what they are
    worth in the day's regime and have to be learnt.

    The score is z = weights[regime] . signals. Right is to buy for z >= 2, to sell for z <= -2,
    else to hold. days: with 1, an episode is one decision. With more it is a portfolio: buy takes
    position 1, sell -1, hold keeps it (0 at first), and a day's return is 0.5 z + noise percent.

    Observation: float32, indicators of the regime [3] (zeros without `show_regime`), of each tool's
    signal if it was asked today [18], and with several days of the position [3]. Actions: 0 to 5
    ask a tool, 6 buy, 7 sell, 8 hold; a decision ends the day. To ask a tool again, or one that
    does not exist, is illegal: -0.1, and nothing changes. Reward: -query_cost per query; for a
    single decision 1 if right, -1 for the opposite (buy for sell), else -0.5; with several days
    position * return - trade_cost if the position changed, in percent. Ends with the last day's
    decision; limit 8 steps per day. Task: regimes are uniform, HOLD is right on `hold_share` of the
    days, signals are uniform given that. Success: the decision was right, or the profit positive.

    Expert: asks the tools by the size of their weights until no signal can change the decision;
    optimal among policies that never guess if tools are reliable. Without `show_regime` it knows
    the regime nevertheless.
    Source: after AlphaQuanter (a summary was read; its code is not available): tools, decisions
    and a reward per day. Market, weights and all constants are reconstructed or ours; its signals
    are news and prices that a language model reads, and nothing here stands for that.
    """

    weights: tuple[tuple[int, ...], ...] = rules.WEIGHTS
    days: int = 1
    show_regime: bool = True

    wordings: ClassVar[str] = "envs.trading_desk.words"
    action_names: ClassVar[tuple[str, ...]] = (*(name for name, *_ in rules.TOOLS), *DECISIONS)

    def __post_init__(self):
        rows = [len(row) for row in self.weights]
        if rows != [TOOLS] * len(rules.REGIMES) or np.abs(self.weights).max() > 9:
            raise ValueError(
                f"weights {self.weights}: expected {len(rules.REGIMES)} rows, one per regime, of "
                f"{TOOLS} whole numbers -9 to 9, one per tool"
            )
        if self.days < 1:
            raise ValueError(f"days {self.days}: expected at least 1")
        rules.tables(self.weights)

    @property
    def default_params(self) -> TradingDeskParams:
        """Time to ask every tool each day, with one step to spare."""
        return TradingDeskParams(max_steps_in_episode=8 * self.days)

    def initial(self, key: jax.Array, params: TradingDeskParams) -> TradingDeskState:
        days = self.days
        regime_key, signal_key, shown_key, other_key, noise_key = jax.random.split(key, 5)
        regimes = jax.random.randint(regime_key, (days,), 0, len(rules.REGIMES))

        def of_day(key, regime):
            return rules.draw_signals(key, self.weights, regime, params.hold_share)

        signals = jax.vmap(of_day)(jax.random.split(signal_key, days), regimes)
        scores = jnp.sum(jnp.asarray(self.weights)[regimes] * signals, axis=1)
        other = jax.random.randint(other_key, signals.shape, -1, 2)
        reliable = jax.random.bernoulli(shown_key, params.reliability, signals.shape)
        return TradingDeskState(
            time=jnp.zeros((), jnp.int32),
            regimes=regimes.astype(jnp.int8),
            signals=jnp.where(reliable, signals, other).astype(jnp.int8),
            scores=scores.astype(jnp.int8),
            noise=params.noise * jax.random.normal(noise_key, (days,)),
            day=jnp.zeros((), jnp.int32),
            asked=jnp.zeros(TOOLS, bool),
            position=jnp.zeros((), jnp.int8),
            profit=jnp.zeros(days),
            right=jnp.zeros((), jnp.int32),
        )

    def today(self, state: TradingDeskState) -> tuple[jax.Array, jax.Array]:
        """(regime i32[], signals i32[6]) of the day, or of the last one after the end."""
        day = jnp.minimum(state.day, self.days - 1)
        return state.regimes[day].astype(jnp.int32), state.signals[day].astype(jnp.int32)

    def transition(
        self,
        key: jax.Array,
        state: TradingDeskState,
        action: jax.Array,
        params: TradingDeskParams,
    ) -> tuple[TradingDeskState, jax.Array]:
        """Asks a tool, or decides and ends the day."""
        del key
        asks = action < TOOLS
        day = jnp.minimum(state.day, self.days - 1)
        score = state.scores[day].astype(jnp.int32)
        choice = jnp.asarray([rules.BUY, rules.SELL, rules.HOLD])[jnp.clip(action - TOOLS, 0, 2)]
        should = rules.decision(score)
        keeps = choice == rules.HOLD
        position = jnp.where(keeps | asks, state.position, choice.astype(jnp.int8))
        profit = position * (0.5 * score + state.noise[day])
        profit = profit - params.trade_cost * (position != state.position)
        if self.days == 1:
            mismatch = jnp.where(choice == -should, -1.0, -0.5)
            reward = jnp.where(choice == should, 1.0, mismatch)
        else:
            reward = profit
        ended = (np.arange(self.days) == state.day) & ~asks
        after = state.replace(
            day=state.day + ~asks,
            asked=jnp.where(asks, state.asked | (np.arange(TOOLS) == action), False),
            position=position,
            profit=jnp.where(ended, profit, state.profit),
            right=state.right + (~asks & (choice == should)),
        )
        return after, jnp.where(asks, -params.query_cost, reward)

    def legal(self, state: TradingDeskState, params: TradingDeskParams) -> jax.Array:
        """Tools that were not asked today, and decisions."""
        return jnp.concatenate([~state.asked, jnp.ones(len(DECISIONS), bool)])

    def observe(self, state: TradingDeskState, params: TradingDeskParams) -> jax.Array:
        regime, signals = self.today(state)
        regimes = (np.arange(len(rules.REGIMES)) == regime) & self.show_regime
        shown = (signals[:, None] == np.arange(-1, 2)) & state.asked[:, None]
        parts = [regimes, shown.reshape(-1)]
        if self.days > 1:
            parts.append(state.position == np.arange(-1, 2))
        return jnp.concatenate(parts).astype(jnp.float32)

    def is_terminated(self, state: TradingDeskState, params: TradingDeskParams) -> jax.Array:
        return state.day >= self.days

    def is_success(self, state: TradingDeskState, params: TradingDeskParams) -> jax.Array:
        well = state.right == 1 if self.days == 1 else jnp.sum(state.profit) > 0
        return (state.day >= self.days) & well

    def expert(self, state: TradingDeskState, params: TradingDeskParams) -> jax.Array:
        regime, signals = self.today(state)
        weights = jnp.asarray(self.weights)[regime]
        unsure, tool, choice = rules.next_query(weights, signals, state.asked)
        decides = jnp.where(choice == rules.BUY, 0, jnp.where(choice == rules.SELL, 1, 2))
        return jnp.where(unsure, tool, TOOLS + decides).astype(jnp.int32)

    def render(self, state: TradingDeskState, params: TradingDeskParams) -> str:
        """`day 1 growth | trend+ news- | z 1`, the last of which is hidden from the agent."""
        day = min(int(state.day), self.days - 1)
        signals = np.asarray(state.signals)[day]
        shown = [
            name + SIGNS[signals[tool] + 1]
            for tool, (name, *_) in enumerate(rules.TOOLS)
            if bool(state.asked[tool])
        ]
        place = f"day {day + 1} {rules.REGIMES[int(state.regimes[day])]}"
        return " | ".join([place, " ".join(shown), f"z {int(state.scores[day])}"])
