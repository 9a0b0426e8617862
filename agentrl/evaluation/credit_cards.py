"""The credit view as HTML: episodes side by side, turns as cards, credit as coloured cells."""

import collections
from collections.abc import Mapping, Sequence

import numpy as np

from agentrl.evaluation import boards
from agentrl.evaluation.credit_view import CreditView, Episode, Turn
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, join, tag
from agentrl.evaluation.replaced import table_of

# Number of turns of an episode shown at once; the others are folded.
SHOWN_TURNS = 24


def section(shown: CreditView, replaced: tuple[Sequence[str], Sequence[str]] = ((), ())) -> Markup:
    """HTML of episodes turn by turn: what was seen and done, its reward and its advantage.

    replaced: (partners, replacements) of a rollout with counterfactual runs, which are shown, too.
    """
    glyphs = boards.palette(shown.environment)
    texts = {t.board for e in shown.episodes for t in e.turns} | {
        e.last_board for e in shown.episodes
    }
    texts.discard("")
    grids = bool(texts) and all(boards.is_grid(text, glyphs) for text in texts)
    counts = collections.Counter(number(value) for value in shown.returns)
    spread = ", ".join(text + f" (×{n})" * (n > 1) for text, n in counts.items())
    equal = None
    if shown.returns[0] == shown.returns[-1]:
        text = "All returns are equal: there is nothing to compare between these episodes."
        equal = tag("p", tag("b", text))
    return tag(
        "div",
        tag(
            "p",
            f"One group of {shown.group_size} episodes of the same task, played by the policy of "
            f"update {shown.update}; returns {spread}. Shown are the best and the worst, equal "
            f"courses once. A badge such as A×5 names the turn's anchor group and its number of "
            f"turns in the whole group: the same situation, met 5 times. Point at one to see its "
            f"other turns.",
        ),
        equal,
        tag("div", scale(shown.limit), class_="scale"),
        boards.glyph_legend(texts, glyphs) if grids else None,
        tag(
            "div",
            *[
                _episode(e, i, shown, glyphs if grids else None, replaced)
                for i, e in enumerate(shown.episodes)
            ],
            class_="episodes",
        ),
        class_="credit",
    )


def shade(value: float, limit: float) -> str:
    """Blue for positive, orange for negative credit; the number itself is printed over it."""
    colour = "0,114,178" if value > 0 else "213,94,0"
    return f"--shade:rgba({colour},{0.6 * min(abs(value) / limit, 1):.2f})"


def indent(depth: int) -> str | None:
    """Style of a turn of an agent that was called: further right, per call."""
    return f"margin-left:{1.5 * depth:g}em" if depth else None


def scale(limit: float) -> Markup:
    """Legend of the colours: seven advantages from -limit to limit in their shades."""
    cells = [
        tag("span", signed(value), class_="cell", style=shade(value, limit))
        for value in np.linspace(-limit, limit, 7)
    ]
    return join(tag("span", "advantage", class_="note"), *cells)


def signed(value: float) -> str:
    """A number with its sign; without one if it rounds to 0."""
    return f"{value:+.2f}".replace("-", "−") if abs(value) >= 0.005 else "0.00"


def _picture(text: str, before: str | None, glyphs: Mapping | None, label: str) -> Markup | None:
    if not text:
        return None
    return boards.text(text, before) if glyphs is None else boards.grid(text, glyphs, label)


def _episode(
    episode: Episode, index: int, shown: CreditView, glyphs: Mapping | None, replaced: tuple
) -> Markup:
    title = f"Return {number(episode.episode_return)} · {episode.end}"
    length = f"{len(episode.turns)} turn{'' if len(episode.turns) == 1 else 's'}"
    cards, before = [], None
    for turn in episode.turns:
        cards.append(_turn(turn, before, shown.limit, glyphs))
        before = turn.board
    label = f"after the last turn: {episode.end}"
    last = _picture(episode.last_board, before, glyphs, label)
    cards.append(tag("li", last, tag("div", episode.end, class_="did"), class_="turn last"))
    folded = None
    if len(cards) > SHOWN_TURNS + 4:
        summary = tag("summary", f"{len(cards) - SHOWN_TURNS - 1} more turns")
        folded = tag("details", summary, tag("ol", *cards[SHOWN_TURNS:-1]))
        cards = [*cards[:SHOWN_TURNS], tag("li", folded, class_="more"), cards[-1]]
    return tag(
        "section",
        tag("h4", title, tag("span", length, class_="note")),
        None if episode.runs is None else table_of(episode.runs, *replaced),
        tag("ol", *cards),
        aria_label=f"Episode {index + 1}: {title}",
    )


def _turn(turn: Turn, before: str | None, limit: float, glyphs: Mapping | None) -> Markup:
    facts = [tag("span", f"p {turn.probability:.2f}", class_="note")]
    if turn.depth:
        facts.insert(0, tag("span", f"agent {turn.agent}, called", class_="note"))
    if turn.reward:
        facts.append(tag("span", f"reward {number(turn.reward)}", class_="note"))
    credit = [
        tag(
            "span",
            tag("i", label),
            " ",
            signed(value),
            class_="cell",
            style=shade(value, limit),
            title=f"{label} {value:+.6f}",
        )
        for label, value in turn.credit.items()
    ]
    badge = tag("span", "alone", class_="alone", title="no other turn of the group was here")
    if turn.anchor:
        badge = tag(
            "span",
            f"{turn.anchor}×{turn.anchor_size}",
            class_="anchor",
            data_anchor=turn.anchor,
            tabindex=0,
            title=f"anchor group {turn.anchor}: {turn.anchor_size} turns of the group",
        )
    return tag(
        "li",
        _picture(turn.board, before, glyphs, f"turn {turn.number + 1}, before acting"),
        tag(
            "div",
            tag("b", turn.action),
            facts,
            None if turn.valid else tag("span", "invalid", class_="invalid"),
            badge,
            class_="did",
        ),
        tag("div", *credit, class_="cells"),
        class_="turn",
        style=indent(turn.depth),
        data_anchor=turn.anchor or None,
        value=turn.number + 1,
    )
