"""Transcripts: conversations of one group, token by token, with probability and advantage."""

import collections
from collections.abc import Sequence

import numpy as np

from agentrl import advantages
from agentrl.evaluation.call_tree import callers, course
from agentrl.evaluation.credit_cards import indent, scale, shade, signed
from agentrl.evaluation.credit_view import (
    choose_episodes,
    choose_group,
    letters,
    members_of,
    returns_of,
)
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, tag
from agentrl.evaluation.replaced import table_of
from agentrl.policies.codec import Codec, decode
from agentrl.streams import OBSERVATION, Rows, Streams


def section(
    codec: Codec,
    streams: Streams,
    rows: Rows,
    advantage: np.ndarray,
    *,
    update: int = 0,
    episodes: int = 4,
    tasks: Sequence[str] = (),
    replaced: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Markup:
    """The best and worst conversations of the group whose returns differ most, with those of whom
    they called.

    advantage: f32[N, T], of each turn; every token of its reply has the same. For each turn the new
    observation is shown instead of the whole context, whose length is given.
    tasks: names of the tasks 0, 1, ...; one group is shown per task. If every conversation is a
    group by itself, all conversations of one seat form the shown group. For games whole matches are
    shown, fewer with more seats: observations and replies of each learning seat, side by side.
    replaced: (partners, replacements) of a rollout with counterfactual runs, which are shown, too.
    """
    streams, rows = on_host(streams), on_host(rows)
    owner = np.asarray(
        advantages.anchor_segments(streams.mask, streams.group, streams.anchor, role=streams.role)
    )
    about = "the same task"
    if np.unique(streams.group).size == streams.group.size:
        nobody = np.zeros_like(streams.group)
        task, role = (nobody if x is None else x for x in (streams.task, streams.role))
        streams = streams.replace(group=task * (role.max() + 1) + role)
        about = "a task of its own each"
    parts = []
    for task, name in enumerate(tasks if len(tasks) > 1 else [None]):
        group, _ = choose_group(streams, None if name is None else task)
        if name is not None:
            parts.append(tag("h4", name))
        intro = f"about {about}, by the policy of update {update}"
        parts.append(
            _group(codec, streams, rows, advantage, group, owner, intro, episodes, replaced)
        )
    return tag("div", *parts, class_="credit talk")


def _group(
    codec, streams, rows, advantage, group: int, owner, intro: str, episodes: int, replaced
) -> Markup:
    calls = (callers(streams) >= 0).any()
    seats = 1 if streams.role is None or calls else int(streams.role.max()) + 1
    shown = choose_episodes(streams, group, episodes if seats == 1 else max(2, episodes // seats))
    if seats > 1:
        beside = streams.episode == streams.episode[shown][:, None]
        beside &= streams.mask.any(axis=1)
        shown = list(dict.fromkeys(np.nonzero(beside)[1].tolist()))
    sizes = collections.Counter(owner[streams.mask].tolist())
    courses = [course(streams, i) for i in shown]
    at = [(place.stream, place.turn) for places in courses for place in places]
    names = letters([owner[i, t] for i, t in at if sizes[owner[i, t]] > 1])
    limit = max(*(abs(float(advantage[i, t])) for i, t in at), 1e-6)
    members = members_of(streams, group)
    spread = collections.Counter(number(r) for r in sorted(returns_of(streams)[members])[::-1])
    told = ", ".join(text + f" (×{n})" * (n > 1) for text, n in spread.items())
    of_seat = f" of seat {streams.role[members[0]]}" if seats > 1 else ""
    cards = []
    for i, places in zip(shown, courses, strict=True):
        badges = {
            (own, t): (names[owner[own, t]], sizes[owner[own, t]])
            for t, own, _ in places
            if owner[own, t] in names
        }
        cards.append(_episode(codec, streams, rows, advantage, i, places, badges, limit, replaced))
    return tag(
        "div",
        tag(
            "p",
            f"One group of {len(members)} conversations{of_seat} {intro}; returns {told}. Tokens "
            "that the policy wrote, and is trained on, are boxes in the colour of their advantage; "
            "the paler the letters, the less likely the token was. Point at one for its numbers. "
            "Everything else was read, and is masked.",
        ),
        tag("div", scale(limit), class_="scale"),
        tag("div", *cards, class_="episodes"),
    )


def find_turn(rows: Rows, stream: int, turn: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Position of a turn of a stream: its row, and the positions read and written in it."""
    here = (rows.turn == turn) & (rows.stream == stream)[:, None]
    row = int(np.argmax((here & rows.loss_mask).any(axis=1)))
    read = here[row] & (rows.span[row] == OBSERVATION)
    return row, np.flatnonzero(read), np.flatnonzero(here[row] & rows.loss_mask[row])


def on_host(tree):
    """Streams or rows as numpy arrays."""
    fields = {k: v if v is None else np.asarray(v) for k, v in vars(tree).items()}
    return tree.replace(**fields)


def _episode(codec, streams, rows, advantage, stream, places, badges, limit, replaced) -> Markup:
    turns = []
    # Several roles on one transcript: rows are all of it, or single turns of one role each.
    several = rows.speaker is not None
    if rows.role is not None:
        own = rows.loss_mask.any(axis=1) & (rows.stream == stream)
        several |= np.unique(rows.role[own]).size > 1
    for t, i, depth in places:
        row, read, written = find_turn(rows, i, t)
        called = tag("span", f"stream {i}, called", class_="note") if depth else None
        if len(written) and several:
            who = rows.role[row] if rows.speaker is None else rows.speaker[row][written[0]]
            called = tag("span", f"role {who}", class_="note")
        turns.append(
            tag(
                "li",
                tag("pre", decode(codec, rows.tokens[row][read]), class_="read"),
                tag("div", *_tokens(codec, rows, row, written, advantage[i, t], limit)),
                tag(
                    "div", called, *_facts(streams, i, t, written, badges.get((i, t))), class_="did"
                ),
                class_="turn",
                style=indent(depth),
                value=int(t) + 1,
            )
        )
    title = ending(streams, stream)
    if streams.role is not None and streams.role.any():
        title = f"Match {streams.episode[stream]} · seat {streams.role[stream]} · {title}"
    beside = None if streams.runs is None else table_of(streams.runs[stream], *replaced)
    return tag("section", tag("h4", title), beside, tag("ol", *turns), aria_label=title)


def ending(streams: Streams, stream: int) -> str:
    """A stream's return and how it ended, in words."""
    end = "failure"
    if streams.success[stream].any():
        end = "success"
    elif streams.truncated[stream].any():
        end = "out of time"
    return f"Return {number(float(returns_of(streams)[stream]))} · {end}"


def _tokens(codec, rows, row, written, advantage, limit) -> list[Markup]:
    out = []
    for position in written:
        token = int(rows.tokens[row, position])
        text = "end" if token == codec.end else decode(codec, [token]) or f"#{token}"
        probability = float(np.exp(rows.behaviour_logp[row, position]))
        out.append(
            tag(
                "span",
                tag("span", text, style=f"opacity:{0.35 + 0.65 * probability:.2f}"),
                class_="cell token" + (" control" if token == codec.end else ""),
                style=shade(float(advantage), limit),
                title=f"p {probability:.3f} · advantage {signed(float(advantage))}",
            )
        )
    return out


def _facts(streams, i, t, written, badge) -> list[Markup]:
    facts = [tag("span", f"read {written[0]} tokens" if len(written) else "", class_="note")]
    if streams.reward[i, t]:
        facts.append(tag("span", f"reward {number(float(streams.reward[i, t]))}", class_="note"))
    if not streams.well_formed[i, t]:
        facts.append(tag("span", "malformed", class_="invalid"))
    elif not streams.valid[i, t]:
        facts.append(tag("span", "invalid", class_="invalid"))
    if badge is not None:
        name, size = badge
        facts.append(tag("span", f"{name}×{size}", class_="anchor", data_anchor=name))
    return facts
