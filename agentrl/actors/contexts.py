"""Contexts: the prompt of each reply of a language policy.

An episode is, for each agent, a list of pieces: the observation and the reply of each of its own
turns. A context determines which pieces are shown before the reply of turn t:

  whole     everything so far. An episode is one row, and the KV cache lives across turns.
  window    the last `history` turns and the new observation. One row per turn, as in the others.
  sliding   all replies, but only the last `history` observations and the new one; an older
            observation shrinks to its control tokens. (DeepMiner moves the window in strides and
            trains several turns in one row; contexts of replies, and losses, are the same.)
  summary   everything, until it is longer than `limit`. Then the policy writes a summary, which
            replaces all turns so far except the first observation (SUPO).
  fold      everything, but a reply may open a branch; when a later reply returns, the turns in
            between are dropped and the returning reply stays (branch and return).

A row shows exactly the tokens that were shown when its reply was sampled, so that ratios of
probabilities are 1 before the first update.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

SUMMARY_REQUEST = "Summarize what has happened so far."
BRANCH_TAGS = ("<branch>", "<return>")


class Context(NamedTuple):
    """A context as data; the functions of this module make one.

    history: turns that are kept; None: all. keep_first: the first observation always stays.
    keep_replies: replies older than `history` stay too. one_row: the row is the whole episode.
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
    keep_replies: bool = False
    one_row: bool = False
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
        """Whether prompts depend on earlier turns."""
        return self.history != 0 or self.keep_first or self.keep_replies or bool(self.inject)


def whole(
    *,
    inject: str | Callable[[Any, Any, Any], Any] = "",
    inject_every: int = 0,
    max_new_tokens: int | None = None,
    context_tokens: int | None = None,
) -> Context:
    """Everything so far; see `Context` for the options."""
    return _checked(
        Context(
            "whole",
            one_row=True,
            inject=inject,
            inject_every=inject_every,
            max_new_tokens=max_new_tokens,
            context_tokens=context_tokens,
        )
    )


def window(
    *,
    history: int = 0,
    keep_first: bool = False,
    inject: str | Callable[[Any, Any, Any], Any] = "",
    inject_every: int = 0,
    max_new_tokens: int | None = None,
    context_tokens: int | None = None,
) -> Context:
    """The last `history` turns and the new observation; see `Context` for the options."""
    return _checked(
        Context(
            "window",
            history=history,
            keep_first=keep_first,
            inject=inject,
            inject_every=inject_every,
            max_new_tokens=max_new_tokens,
            context_tokens=context_tokens,
        )
    )


def sliding(
    *,
    history: int = 0,
    keep_first: bool = False,
    inject: str | Callable[[Any, Any, Any], Any] = "",
    inject_every: int = 0,
    max_new_tokens: int | None = None,
    context_tokens: int | None = None,
) -> Context:
    """All replies, and the last `history` observations; see `Context` for the options."""
    return _checked(
        Context(
            "sliding",
            history=history,
            keep_first=keep_first,
            keep_replies=True,
            inject=inject,
            inject_every=inject_every,
            max_new_tokens=max_new_tokens,
            context_tokens=context_tokens,
        )
    )


def summary(
    *,
    limit: int,
    summary_tokens: int = 32,
    request: str = SUMMARY_REQUEST,
    max_summaries: int | None = None,
    inject: str | Callable[[Any, Any, Any], Any] = "",
    inject_every: int = 0,
    max_new_tokens: int | None = None,
    context_tokens: int | None = None,
) -> Context:
    """Everything, with a summary by the policy when a prompt would be longer than `limit` tokens.

    SUPO (https://arxiv.org/abs/2510.06727). The summary is an extra reply within the turn: it is
    sampled after `request`, has a row of its own and is trained with the advantage of its turn.
    Later prompts show the first observation, the request with the summary, and the turns since. An
    episode that needs more than max_summaries (SUPO's S) is truncated; SUPO's overlong mask is
    filter `not_truncated` with when="after".
    Deviation: SUPO discards the observation that overflowed; here it is shown after the summary.
    """
    if limit < 1 or summary_tokens < 1 or (max_summaries or 0) < 0:
        raise ValueError(
            f"context limit={limit}, summary_tokens={summary_tokens}, max_summaries="
            f"{max_summaries}: expected at least 1, 1 and 0"
        )
    return _checked(
        Context(
            "summary",
            keep_first=True,
            limit=limit,
            summary_tokens=summary_tokens,
            request=request,
            max_summaries=max_summaries,
            inject=inject,
            inject_every=inject_every,
            max_new_tokens=max_new_tokens,
            context_tokens=context_tokens,
        )
    )


def fold(
    *,
    branch: tuple[str, str] = BRANCH_TAGS,
    inject: str | Callable[[Any, Any, Any], Any] = "",
    inject_every: int = 0,
    max_new_tokens: int | None = None,
    context_tokens: int | None = None,
) -> Context:
    """Everything but finished branches.

    A reply with the tag branch[0] opens a branch, unless one is open. A later reply with branch[1]
    closes it: the turns in between and the observation before that reply are no longer shown; the
    reply, which states the result of the branch, stays.
    """
    if len(branch) != 2 or not all(branch):
        raise ValueError(f"context branch={branch!r}: expected an opening and a returning tag")
    return _checked(
        Context(
            "fold",
            branch=tuple(branch),
            inject=inject,
            inject_every=inject_every,
            max_new_tokens=max_new_tokens,
            context_tokens=context_tokens,
        )
    )


def _checked(context: Context) -> Context:
    if context.history is not None and context.history < 0:
        raise ValueError(
            f"context history={context.history}: expected the number of turns to keep, 0 or more"
        )
    for name in ("max_new_tokens", "context_tokens"):
        given = getattr(context, name)
        if given is not None and given < 1:
            raise ValueError(f"context {name}={given}: expected at least 1")
    if context.inject_every < 0 or (context.inject_every and not context.inject):
        raise ValueError(
            f"context inject_every={context.inject_every} with inject={context.inject!r}: expected "
            "0 or a number of turns, and a text to inject"
        )
    return context
