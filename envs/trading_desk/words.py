"""The trading desk in words: the regime, the position, and the signals of the tools asked."""

import jax.numpy as jnp
import numpy as np

from envs.text import Lexicon, View, template
from envs.trading_desk import rules
from envs.trading_desk.env import SIGNS, TradingDesk

RULES = (
    "You decide {when} whether to buy, sell or hold a stock. Before that you may ask tools, each "
    "at most once {when}; a query costs {cost}. What a signal is worth depends on the regime. "
    "Commands: ask {tools}, buy, sell, hold, for example: ask rsi."
)
POSITIONS = ("short", "flat", "long")


def compact(env: TradingDesk) -> View:
    """`g1 rsi+ news- ?`; with several days `g1 long rsi+ news- ?`."""
    regimes = [f"g{i} " for i in range(len(rules.REGIMES))]
    signals = [[f"{name}{sign} " for sign in SIGNS] for name, *_ in rules.TOOLS]
    return _view(env, regimes, [f"{word} " for word in POSITIONS], signals, "?")


def faithful(env: TradingDesk) -> View:
    """`Regime: high rates. RSI: oversold (+). News tone: negative (-). Your decision?`"""
    regimes = [f"Regime: {name}. " for name in rules.REGIMES]
    signals = [
        [f"{title}: {word} ({sign}). " for word, sign in zip(words, SIGNS, strict=True)]
        for _, title, words in rules.TOOLS
    ]
    positions = [f"Position: {word}. " for word in POSITIONS]
    return _view(env, regimes, positions, signals, "Your decision?")


def _view(env: TradingDesk, regimes, positions, signals, end: str) -> View:
    lexicon = Lexicon()
    of_regime, of_position = lexicon.table(regimes), lexicon.table(positions)
    of_signal = np.stack([lexicon.table(row) for row in signals])
    asks = lexicon(end)
    tools = lexicon.table(name for name, *_ in rules.TOOLS)

    def describe(state, params):
        regime, shown = env.today(state)
        first = jnp.where(env.show_regime, jnp.asarray(of_regime)[regime], 0)
        place = jnp.asarray(of_position)[state.position.astype(jnp.int32) + 1]
        said = jnp.asarray(of_signal)[np.arange(len(signals)), shown + 1]
        head = jnp.stack([first, jnp.where(env.days > 1, place, 0)])
        return jnp.concatenate([head, jnp.where(state.asked, said, 0), asks[None]])

    longest = [max(map(len, regimes)), max(map(len, positions)) * (env.days > 1), len(end)]
    names = [name for name, *_ in rules.TOOLS]
    return View(
        lexicon=lexicon,
        describe=describe,
        templates=(
            template(lexicon, "ask {tool}"),
            *(template(lexicon, name) for name in ("buy", "sell", "hold")),
        ),
        slots=lambda state, params: {"tool": tools[:, None]},
        max_fragments=len(signals) + 3,
        max_bytes=sum(longest) + sum(max(map(len, row)) for row in signals),
        max_command_bytes=len("ask ") + max(map(len, names)),
        rules=RULES.format(
            when="once" if env.days == 1 else "each day",
            cost=f"{env.default_params.query_cost:g}",
            tools=", ".join(names),
        ),
    )


WORDINGS = {"compact": compact, "faithful": faithful}
