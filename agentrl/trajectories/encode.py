"""Episodes of texts in the tokens of a policy, so that it can be trained on them."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from agentrl.actors.chat_template import left_out
from agentrl.actors.contexts import Context
from agentrl.actors.prompts import Format, Piece, format_of, pieces_of
from agentrl.actors.transcript import OBSERVED, REPLIED, SPAN_OF_KIND, rows_of
from agentrl.policies.codec import Codec, decode
from agentrl.streams import SPANS
from agentrl.trajectories.schema import Agent, Episode, SchemaError, Span, Turn


def encoded(episode: Episode, codec: Codec, context: Context) -> Episode:
    """The episode with the rows that a policy with this codec would have had in this context.

    Of each agent's turns the texts that were read are its observations, and those that were written
    its replies, with the token that ends them unless they stopped for their length;
    `contexts.whole` makes one row, other contexts one for each turn, or stride of the window.
    Log-probabilities and advantages are not known.

    Raises:
      SchemaError: an episode without texts, or a text without tokens.
      ValueError: a context whose prompts do not follow from observations and replies alone.
    """
    if why := left_out(context):
        raise ValueError(
            f"context {context.name!r}: {why}; expected 'whole', 'window' or 'sliding'"
        )
    try:
        agents = tuple(_encoded(agent, codec, context) for agent in episode.agents)
    except SchemaError as error:
        raise error
    except ValueError as error:
        raise SchemaError(str(error)) from None
    return dataclasses.replace(episode, agents=agents)


def _encoded(agent: Agent, codec: Codec, context: Context) -> Agent:
    texts = _texts(agent)
    form, messages, rows = format_of(codec), [], []
    row_of = rows_of(context, len(texts)).tolist()
    for t, (seen, said) in enumerate(texts):
        messages.append({"role": "user", "content": seen})
        pieces = pieces_of(form, context, messages)
        pieces.append(Piece(t, REPLIED, [*form.encode(said), form.end]))
        messages.append({"role": "assistant", "content": said})
        if row_of[t] in row_of[t + 1 :]:
            continue
        first = row_of.index(row_of[t])
        spans = (_spans(form, codec, piece, agent.turns, first) for piece in pieces)
        rows.append(tuple(itertools.chain(*spans)))
    return dataclasses.replace(agent, rows=tuple(rows))


def _texts(agent: Agent) -> list[tuple[str, str]]:
    """(text read, text written) in each turn."""
    out = []
    for turn in agent.turns:
        rows = [row for row in agent.rows if any(s.trained and s.turn == turn.number for s in row)]
        if not rows:
            raise SchemaError(f"turn {turn.number}: no text that was written; expected a reply")
        own = [span for span in rows[0] if span.turn == turn.number]
        texts = ["".join(s.text for s in own if s.trained == said) for said in (False, True)]
        out.append((texts[0], texts[1]))
    return out


def _spans(
    form: Format, codec: Codec, piece: Piece, turns: Sequence[Turn], first: int
) -> Iterator[Span]:
    """The spans of a piece in the row of turns from `first` on."""
    tokens, replied = piece.tokens, piece.kind == REPLIED
    if form.opening and piece.turn == 0 and piece.kind == OBSERVED:
        yield Span(None, None, form.opening, decode(codec, form.opening))
        tokens = tokens[len(form.opening) :]
    if replied and turns[piece.turn].stop == "length":
        tokens = tokens[:-1]
    kind, trained = SPANS[SPAN_OF_KIND[piece.kind]], piece.turn >= first
    if tokens:
        number, text = turns[piece.turn].number, decode(codec, tokens)
        yield Span(kind, number, tuple(tokens), text, replied and trained)
