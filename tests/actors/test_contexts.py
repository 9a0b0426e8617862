"""What contexts show, against the attention mask that MEM1's release trains with."""

import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.actors import contexts
from agentrl.actors.transcript import OBSERVED, OMITTED, REPLIED, rows_of, shown

RECORDED = np.load(pathlib.Path(__file__).parents[1] / "data" / "token_loss.npz")
QUESTION, THOUGHT, COMMAND, RESULT = range(4)


def test_mem1_shows_what_its_release_shows_but_for_the_last_thought():
    """The mask hides the thought before the last command, which its rollout shows: the rollout is
    followed. Results see nothing there, and are never trained."""
    context = contexts.window(keep_first=True, replies=1)
    kind, step, mask = (RECORDED[f"mem1/{name}"] for name in ("kind", "step", "attn_mask"))
    for row in np.flatnonzero((kind == THOUGHT) | (kind == COMMAND)):
        turn, seen = step[row], set()
        for t, piece in shown(context, turn):
            if piece == OBSERVED:
                seen.add((QUESTION, 0) if t == 0 else (RESULT, t - 1))
            elif piece == REPLIED:
                seen |= {(THOUGHT, t), (COMMAND, t)}
        others = [c for c in range(row) if step[c] < turn or kind[c] == QUESTION]
        released = {(kind[c], step[c]) for c in others if mask[row, c]}
        assert seen == released | ({(THOUGHT, turn - 1)} if turn else set())
    # The results are not trained, all else is.
    np.testing.assert_array_equal(RECORDED["mem1/info_mask"], kind != RESULT)


@pytest.mark.parametrize("turn", [0, 1, 2, 7])
def test_mem1_shows_no_more_as_the_episode_goes_on(turn):
    pieces = shown(contexts.window(keep_first=True, replies=1), turn)
    middle = [(turn - 1, OMITTED)] if turn > 1 else []
    replied = [(turn - 1, REPLIED)] if turn else []
    assert pieces == [*([(0, OBSERVED)] if turn else []), *middle, *replied, (turn, OBSERVED)]


def test_replies_beside_a_window():
    pieces = shown(contexts.window(history=1, replies=3), 4)
    assert [t for t, kind in pieces if kind == REPLIED] == [1, 2, 3]
    assert [t for t, kind in pieces if kind == OBSERVED] == [3, 4]
    with pytest.raises(ValueError, match="replies"):
        contexts.window(replies=-1)


def test_deepminers_rows():
    """Twelve replies, W = 5 and S = 3: rows train replies 1 to 6, 7 to 9 and 10 to 12, with 0, 3
    and 6 results out of view."""
    context = contexts.sliding(history=4, keep_first=True, stride=3)
    left = [sum(kind == OMITTED for _, kind in shown(context, t)) for t in range(12)]
    assert left == [0] * 6 + [3] * 3 + [6] * 3
    assert rows_of(context, 12).tolist() == [0] * 6 + [1] * 3 + [2] * 3


@given(st.integers(0, 6), st.booleans(), st.integers(1, 7), st.integers(1, 25))
def test_strides_are_turns_that_continue_each_other(history, keep_first, stride, turns):
    window = history + 1
    if stride > window:
        with pytest.raises(ValueError, match="stride"):
            contexts.sliding(history=history, stride=stride)
        return
    context = contexts.sliding(history=history, keep_first=keep_first, stride=stride)
    prompts = [shown(context, t) for t in range(turns)]
    rows = rows_of(context, turns)
    if stride == 1:
        assert rows.tolist() == list(range(turns))
        return
    assert rows[-1] == max(0, -(-(turns - window - keep_first) // stride))
    for t, pieces in enumerate(prompts):
        in_view = [s for s, kind in pieces if kind == OBSERVED and not (keep_first and s == 0)]
        assert window - stride < len(in_view) <= window or len(in_view) == t + 1 - keep_first
        goes_on = t > 0 and pieces == [*prompts[t - 1], (t - 1, REPLIED), (t, OBSERVED)]
        assert goes_on == (t > 0 and rows[t] == rows[t - 1])
