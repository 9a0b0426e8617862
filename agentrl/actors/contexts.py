"""Contexts: the prompt of each reply of a language policy.

An episode is, for each agent, a list of pieces: the observation and the reply of each of its own
turns. A context determines which pieces are shown before the reply of turn t:

  whole     everything so far. An episode is one row, and the KV cache lives across turns.
  window    the last `history` turns and the new observation. One row per turn, as in the others.
  sliding   all replies, but only the last `history` observations and the new one; an older
            observation shrinks to its control tokens. The window moves by `stride` observations,
            and turns between two moves are one row (DeepMiner).
  summary   everything, until it is longer than `limit`. Then the policy writes a summary, which
            replaces all turns so far except the first observation (SUPO).
  fold      everything, but a reply may open a branch; when a later reply returns, the turns in
            between are dropped and the returning reply stays (branch and return).

A row shows exactly the tokens that were shown when its reply was sampled, so that ratios of
probabilities are 1 before the first update.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from agentrl.checks import check_range

SUMMARY_REQUEST = "Summarize what has happened so far."
BRANCH_TAGS = ("<branch>", "<return>")


class Context(NamedTuple):
    """A context as data; the functions of this module make one.

    history: turns that are kept; None: all. keep_first: the first observation always stays.
    replies: last turns whose replies are kept, without the observations that `history` leaves out;
    None: all. one_row: the row is the whole episode. stride: observations that leave at once.
    limit: prompt tokens from which a summary is written; None: never. summary_tokens: tokens of a
      summary. request: text that asks for it. max_summaries: per episode and agent; None: any
      number.
    branch: (opening, returning) tags of `fold`, or ().
    inject: text that is put into observations, or a function (state, agent, params) -> fragments
      i32[K] of the environment's lexicon (task-dependent, 0 for none); inject_every: into the
      first observation only (0), or into that of every k-th turn.
    max_new_tokens: tokens of a reply; default: those of the longest command.
    context_tokens: tokens of a row; default: enough for all pieces. An episode whose next turn does
      not fit is truncated.
    """

    name: str
    history: int | None = None
    keep_first: bool = False
    replies: int | None = 0
    one_row: bool = False
    stride: int = 1
    limit: int | None = None
    summary_tokens: int = 0
    request: str = ""
    max_summaries: int | None = None
    branch: tuple[str, ...] = ()
    inject: str | Callable[[Any, Any, Any], Any] = ""
    inject_every: int = 0
    max_new_tokens: int | None = None
    context_tokens: int | None = None

    @property
    def remembers(self) -> bool:
        """Whether a prompt shows anything but the new observation, so that it needs memory."""
        return self.history != 0 or self.keep_first or self.replies != 0 or bool(self.inject)


_SHARED = ("inject", "inject_every", "max_new_tokens", "context_tokens")


def _context(make: Callable[..., Context]) -> Callable[..., Context]:
    """Adds the options that all contexts have to a function of a context's own options.

    They are inject, inject_every, max_new_tokens and context_tokens, with the meaning and the
    defaults of `Context`. The result raises ValueError for values out of range.
    """
    own = inspect.signature(make)
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=Context._field_defaults[name],
            annotation=Context.__annotations__[name],
        )
        for name in _SHARED
    ]

    @functools.wraps(make)
    def with_shared(**options):
        given = {name: options.pop(name) for name in _SHARED if name in options}
        return _checked(make(**options)._replace(**given))

    signature = own.replace(parameters=[*own.parameters.values(), *shared])
    vars(with_shared)["__signature__"] = signature
    return with_shared


@_context
def whole() -> Context:
    """The prompt is the episode so far: all observations and replies of this agent.

    The KV cache lives across turns, so each token is read once; the episode is one row.
    """
    return Context("whole", one_row=True)


@_context
def window(*, history: int = 0, keep_first: bool = False, replies: int = 0) -> Context:
    """The prompt is the last `history` turns (observation and reply of each), then the new
    observation; with keep_first the episode's first observation in front. One row per turn.

    replies: of the last `replies` turns the reply stays even where the observation does not, which
    shrinks to its control tokens. MEM1 (https://arxiv.org/abs/2506.15841) is history=0, replies=1
    and keep_first: the question, the last thought and command, and their result. (Its training mask
    hides that thought from the next one, which was sampled with it in view; here rows show what was
    in view.)
    """
    check_range("context replies", replies, 0)
    return Context("window", history=history, keep_first=keep_first, replies=replies)


@_context
def sliding(*, history: int = 0, keep_first: bool = False, stride: int = 1) -> Context:
    """The prompt is all replies so far, but of the observations only the last W = history + 1, the
    new one among them; with keep_first the episode's first observation stays, too.

    stride: S, 1 to W. Where an observation would be the (W + 1)-th in view, the S earliest ones
    shrink at once, so that the prompts of the next S turns continue each other. Such turns are one
    row: T turns have 1 + ceil((T - W - 1) / S) rows with keep_first, and 1 + ceil((T - W) / S)
    without. At S = 1 each turn has a row.

    DeepMiner (2025), from notes that quote its formulas. There the first message is the question,
    which never leaves (keep_first), and W counts outputs of tools; its W and S are not known.
    """
    check_range("context stride", stride, 1, history + 1)
    return Context("sliding", history=history, keep_first=keep_first, replies=None, stride=stride)


@_context
def summary(
    *,
    limit: int,
    summary_tokens: int = 32,
    request: str = SUMMARY_REQUEST,
    max_summaries: int | None = None,
) -> Context:
    """Everything, with a summary by the policy when a prompt would be longer than `limit` tokens.

    SUPO (https://arxiv.org/abs/2510.06727). The summary is an extra reply within the turn: it is
    sampled after `request`, has a row of its own and is trained with the advantage of its turn.
    Later prompts show the first observation, the request with the summary, and the turns since. An
    episode that needs more than max_summaries (SUPO's S) is truncated; SUPO's overlong mask is
    filter `not_truncated` with when="after".
    Deviation: SUPO discards the observation that overflowed; here it is shown after the summary.
    """
    check_range("context limit", limit, 1)
    check_range("context summary_tokens", summary_tokens, 1)
    check_range("context max_summaries", max_summaries or 0, 0)
    return Context(
        "summary",
        keep_first=True,
        limit=limit,
        summary_tokens=summary_tokens,
        request=request,
        max_summaries=max_summaries,
    )


@_context
def fold(*, branch: tuple[str, str] = BRANCH_TAGS) -> Context:
    """Everything but finished branches.

    A reply with the tag branch[0] opens a branch, unless one is open. A later reply with branch[1]
    closes it: the turns in between and the observation before that reply are no longer shown; the
    reply, which states the result of the branch, stays.
    """
    if len(branch) != 2 or not all(branch):
        raise ValueError(f"context branch={branch!r}: expected an opening and a returning tag")
    return Context("fold", branch=tuple(branch))


def _checked(context: Context) -> Context:
    check_range("context history", context.history, 0)
    check_range("context max_new_tokens", context.max_new_tokens, 1)
    check_range("context context_tokens", context.context_tokens, 1)
    if context.inject_every < 0 or (context.inject_every and not context.inject):
        raise ValueError(
            f"context inject_every={context.inject_every} with inject={context.inject!r}: expected "
            "0 or a number of turns, and a text to inject"
        )
    return context
