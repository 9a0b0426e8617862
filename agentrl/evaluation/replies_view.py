"""The report's page of replies before and after training, on the same tasks, as HTML."""

import collections
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agentrl.evaluation.credit_view import returns_of
from agentrl.evaluation.figures import number
from agentrl.evaluation.markup import Markup, stacked, tag
from agentrl.evaluation.transcripts import ending, find_turn, on_host
from agentrl.policies.codec import Codec, decode
from agentrl.streams import Rows, Streams

# Different replies whose shares are shown, and the characters of each.
MOST = 10
LONGEST = 160
_ABOUT = (
    "The same {count} conversations of the run's first seed, begun with the same keys: by the "
    "policy before the first update, and by that of update {update}. Of each way in which success "
    "may have changed the first conversation follows in which a reply differs."
)
_SOLVED = {
    (False, True): "solved after training only",
    (True, False): "solved before training only",
    (True, True): "solved both times",
    (False, False): "solved neither time",
}


class Said(NamedTuple):
    """What a policy said in a batch: its streams and rows, as numpy arrays."""

    streams: Streams
    rows: Rows


def section(
    codec: Codec,
    before: tuple[Streams, Rows],
    after: tuple[Streams, Rows],
    *,
    update: int,
    tasks: Sequence[str] = (),
) -> Markup:
    """What changed in a policy's replies: numbers, its most frequent replies, and conversations.

    Of each way in which success may have changed (gained, lost, both, neither) the first
    conversation is shown whose replies differ, so that nothing is chosen by hand.

    before, after: streams [N, T] and rows of two rollouts with the same keys, stream for stream.
    update: of the policy after. tasks: names of the tasks 0, 1, ...

    Raises:
      ValueError: the two have different numbers of streams.
    """
    pair = [Said(*map(on_host, batch)) for batch in (before, after)]
    there = [said.streams.mask.any(axis=1) for said in pair]
    if there[0].shape != there[1].shape:
        raise ValueError(
            f"{len(there[0])} streams before and {len(there[1])} after; expected those of two "
            "rollouts with the same keys"
        )
    both = np.flatnonzero(there[0] & there[1])
    if not len(both):
        return tag("p", "Not shown: no conversation was held both times.", class_="note")
    found = [_replies(codec, said, both) for said in pair]
    return tag(
        "div",
        tag("p", _ABOUT.format(count=len(both), update=update)),
        stacked(["", "before", "after"], _numbers(pair, both), ["", "n", "n"]),
        tag("h4", "The most frequent replies, and their shares of all"),
        stacked(["reply", "before", "after"], _frequent(found), ["words", "n", "n"]),
        _conversations(codec, pair, both, found, tasks),
        class_="talk",
    )


def _replies(codec: Codec, said: Said, chosen: np.ndarray) -> dict[int, list[str]]:
    """The texts that chosen streams wrote, turn by turn; "" where one wrote nothing."""
    streams, rows = said
    row, at = np.nonzero(rows.loss_mask)
    place = np.stack([row, rows.turn[row, at]])
    edges = np.flatnonzero(np.diff(place, axis=1).any(axis=0)) + 1
    texts: dict[tuple[int, int], str] = {}
    for part in np.split(np.arange(len(row)), edges) if len(row) else ():
        key = int(rows.stream[row[part[0]]]), int(place[1, part[0]])
        texts.setdefault(key, decode(codec, rows.tokens[row[part], at[part]]).strip())
    return {
        int(i): [texts.get((int(i), int(t)), "") for t in np.flatnonzero(streams.mask[i])]
        for i in chosen
    }


def _numbers(pair: Sequence[Said], both: np.ndarray) -> list[list[str]]:
    """A row per number, of the conversations `both`."""
    columns = []
    for streams, rows in pair:
        mask = streams.mask[both]
        wrote = rows.loss_mask & np.isin(rows.stream, both)[:, None]
        turns = max(mask.sum(), 1)
        columns.append(
            {
                "success": (streams.success & streams.mask)[both].any(axis=1).mean(),
                "return": returns_of(streams)[both].mean(),
                "replies of a conversation": mask.sum(axis=1).mean(),
                "tokens of a reply": wrote.sum() / turns,
                "replies that are no command": (~streams.well_formed[both] & mask).sum() / turns,
                "illegal actions": (~streams.valid[both] & mask).sum() / turns,
                "geometric mean of a token's probability": np.exp(
                    np.where(wrote, rows.behaviour_logp, 0).sum() / max(wrote.sum(), 1)
                ),
            }
        )
    return [[name, *(number(float(column[name])) for column in columns)] for name in columns[0]]


def _frequent(found: Sequence[dict[int, list[str]]]) -> list[list[object]]:
    counts = [collections.Counter(text for one in said.values() for text in one) for said in found]
    shares = [{x: n / counted.total() for x, n in counted.items()} for counted in counts]
    texts = sorted(set().union(*shares), key=lambda x: (-max(s.get(x, 0) for s in shares), x))
    return [
        [_shown(_clipped(text)), *(f"{s.get(text, 0):.3f}" for s in shares)]
        for text in texts[:MOST]
    ]


def _shown(text: str) -> Markup:
    return tag("pre", text, class_="reply") if text else tag("span", "empty", class_="note")


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


def _conversations(codec, pair, both, found, tasks) -> list[Markup]:
    """A conversation of each way in which success may have changed, before and after."""
    solved = [(said.streams.success & said.streams.mask).any(axis=1) for said in pair]
    ways: dict[tuple[bool, bool], list[int]] = {}
    for i in both:
        ways.setdefault((bool(solved[0][i]), bool(solved[1][i])), []).append(int(i))
    parts = []
    for way, title in _SOLVED.items():
        streams = ways.get(way, [])
        share = f"{title}: {len(streams)} of {len(both)}"
        differ = [i for i in streams if found[0][i] != found[1][i]]
        parts.append(tag("h4", share[0].upper() + share[1:]))
        if differ:
            parts.append(_side_by_side(codec, pair, found, differ[0], tasks))
    return parts


def _side_by_side(codec, pair, found, stream: int, tasks) -> Markup:
    cells: list[list[Markup]] = []
    for said, replies in zip(pair, found, strict=True):
        turns = np.flatnonzero(said.streams.mask[stream])
        cells.append([])
        for t, reply in zip(turns, replies[stream], strict=True):
            row, read, _ = find_turn(said.rows, stream, t)
            seen = decode(codec, said.rows.tokens[row][read])
            cells[-1].append(tag("div", tag("pre", seen, class_="read"), _shown(reply)))
    pairs = itertools.zip_longest(*cells, fillvalue=Markup(""))
    rows = [[str(t), *turns] for t, turns in enumerate(pairs, 1)]
    rows.append(["end", *(ending(said.streams, stream) for said in pair)])
    task = pair[1].streams.task
    named = f", {tasks[int(task[stream])]}" if len(tasks) > 1 and task is not None else ""
    head = [f"turn (conversation {stream}{named})", "before", "after"]
    return stacked(head, rows, ["", "words", "words"])
