"""Model calls of anybody's program as streams and rows: a recorder, and the rows of what it kept.

The program asks for replies as it likes, in several roles and with prompts of its own making; it
needs no environment. What it asked becomes what the learner takes:

    recorder = Recorder(functools.partial(sample, params), key)
    reward = program(recorder)                       # calls recorder(prompt, role=...)
    streams, rows = rows_of_calls([Session(recorder.calls, reward, group=0), ...], ...)
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import decoder
from agentrl.policies.language import LanguagePolicy
from agentrl.policies.sampling import sample
from agentrl.streams import ACTION, OBSERVATION, Rows, Streams


class Call(NamedTuple):
    """One call of the model: tokens of the prompt and of the reply, log-probability of each token
    of the reply, and the role that asked."""

    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    logp: tuple[float, ...]
    role: int = 0


class Session(NamedTuple):
    """A run of the program: its calls in their order, its reward, and the group (task) that it is
    compared in."""

    calls: Sequence[Call]
    reward: float
    group: int


class Recorder:
    """A model for a program: (prompt tokens, role) -> reply tokens. calls: what was asked so far.

    sample: (prompt i32[n], key) -> (reply tokens, log-probabilities), see `make_sampler`.
    """

    def __init__(
        self, sample: Callable[..., tuple[Sequence[int], Sequence[float]]], key: jax.Array
    ):
        self._sample, self._key = sample, key
        self.calls: list[Call] = []

    def __call__(self, prompt: Sequence[int], role: int = 0) -> tuple[int, ...]:
        self._key, key = jax.random.split(self._key)
        reply, logp = self._sample(np.asarray(prompt, np.int32), key)
        told = Call(tuple(map(int, prompt)), tuple(map(int, reply)), tuple(map(float, logp)), role)
        self.calls.append(told)
        return told.reply


def make_sampler(
    policy: LanguagePolicy, *, length: int, max_new_tokens: int
) -> Callable[[chex.ArrayTree, np.ndarray, jax.Array], tuple[list[int], list[float]]]:
    """(params, prompt, key) -> (reply tokens, log-probabilities), one program for all prompts.

    The whole text is read again for each token, which is for programs with few and short calls.

    Args:
      policy: a language policy whose replies are not constrained.
      length: tokens of a prompt and its reply, at most.
      max_new_tokens: tokens of a reply, at most; it ends with the codec's end token.

    Raises:
      ValueError: a policy that cuts tokens (top-k, top-p, min-p, constrained replies), whose
        sampling masks a call does not record; a prompt that is too long.
    """
    if policy.cuts:
        raise ValueError(
            "make_sampler: the policy cuts tokens, and calls record no sampling masks; use "
            "top_k=0, top_p=1, min_p=0 and constrained=False"
        )

    @jax.jit
    def following(params, tokens, count, key):
        hidden = decoder.hidden(params, policy.config, tokens[None])
        scores = decoder.unembed(params, policy.config, hidden[:, count - 1])
        token, logp, _ = sample(key, scores, policy.sampling, None)
        return token[0], logp[0]

    def write(params, prompt, key):
        if len(prompt) + max_new_tokens > length:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens and a reply of up to {max_new_tokens} do not "
                f"fit in length={length}"
            )
        text, reply, logp = [*map(int, prompt)], [], []
        for each in jax.random.split(key, max_new_tokens):
            tokens = np.zeros(length, np.int32)
            tokens[: len(text)] = text
            token, chance = following(params, tokens, len(text), each)
            text.append(int(token))
            reply.append(int(token))
            logp.append(float(chance))
            if token == policy.codec.end:
                break
        return reply, logp

    return write


def merged(calls: Sequence[Call], *, merge: bool = True) -> list[list[int]]:
    """Numbers of the calls that share a row.

    A call continues the row of the one before if its prompt begins with exactly that prompt and
    reply, and both are of one role; else it begins a new row.
    """
    rows: list[list[int]] = []
    for number, call in enumerate(calls):
        last = calls[rows[-1][-1]] if rows else None
        seen = () if last is None else (*last.prompt, *last.reply)
        if merge and last is not None and last.role == call.role:
            if call.prompt[: len(seen)] == seen:
                rows[-1].append(number)
                continue
        rows.append([number])
    return rows


def rows_of_calls(
    sessions: Sequence[Session],
    *,
    calls: int,
    rows: int,
    row_tokens: int,
    merge: bool = True,
    roles: Collection[int] | None = None,
) -> tuple[Streams, Rows]:
    """Streams [N, calls] and rows [rows, row_tokens] of N sessions.

    A session is a stream and its calls are the turns, with its reward at the last trained one, so
    that estimators over groups of episodes apply. Tokens of prompts are read and not trained.

    Args:
      sessions: in the order of their groups.
      calls, rows, row_tokens: sizes of the arrays, the same from batch to batch.
      merge: False: a row per call (transitions), else as `merged` says.
      roles: that are trained; None: all.

    Raises:
      ValueError: more calls, rows or tokens than there is room for: nothing is cut.

    References:
      Luo et al. (2025), Agent Lightning, https://arxiv.org/abs/2508.03680; code
      microsoft/agent-lightning c632d8dd (read). `advantages.per_rollout_mean` weighs sessions
      equally however their calls were merged.
    """
    count = len(sessions)
    mask, reward = np.zeros((count, calls), bool), np.zeros((count, calls), np.float32)
    cost = np.zeros((count, calls), np.float32)
    written = [
        (number, session.calls, part)
        for number, session in enumerate(sessions)
        for part in merged(session.calls, merge=merge)
        if roles is None or session.calls[part[0]].role in roles
    ]
    if len(written) > rows:
        raise ValueError(f"rows_of_calls: the calls take {len(written)} rows; raise rows={rows}")
    out = _Rows(rows, row_tokens)
    for place, (number, said, part) in enumerate(written):
        if part[-1] >= calls:
            raise ValueError(
                f"rows_of_calls: session {number} has {len(said)} calls; raise calls={calls}"
            )
        out.write(place, number, said, part)
        mask[number, part] = True
        cost[number, part] = [len(said[turn].reply) for turn in part]
    for number, session in enumerate(sessions):
        if mask[number].any():
            reward[number, np.flatnonzero(mask[number])[-1]] = session.reward
    last = mask & (np.cumsum(mask[:, ::-1], axis=1)[:, ::-1] == 1)
    group = np.array([session.group for session in sessions], np.int32)
    streams = Streams(
        reward=reward,
        mask=mask,
        group=group,
        episode=np.arange(count, dtype=np.int32),
        terminated=last,
        truncated=np.zeros_like(mask),
        valid=mask.copy(),
        cost=cost,
    )
    return jax.tree.map(jnp.asarray, streams), out.arrays()


class _Rows:
    """Rows of merged calls, filled one after the other."""

    def __init__(self, rows: int, length: int):
        shape = (rows, length)
        self.length = length
        self.tokens, self.mask = np.zeros(shape, np.int32), np.zeros(shape, bool)
        self.turn, self.span = np.full(shape, -1, np.int32), np.full(shape, -1, np.int32)
        self.logp = np.zeros(shape, np.float32)
        self.stream, self.role = np.zeros(rows, np.int32), np.zeros(rows, np.int32)

    def write(self, place: int, stream: int, calls: Sequence[Call], part: Sequence[int]) -> None:
        """Writes the calls `part` of a session as one row."""
        size = len(calls[part[-1]].prompt) + len(calls[part[-1]].reply)
        if size > self.length:
            raise ValueError(
                f"rows_of_calls: a row of session {stream} has {size} tokens; raise "
                f"row_tokens={self.length}"
            )
        self.stream[place], self.role[place], begin = stream, calls[part[0]].role, 0
        for turn in part:
            call = calls[turn]
            read, end = len(call.prompt), len(call.prompt) + len(call.reply)
            self.tokens[place, begin:end] = (*call.prompt, *call.reply)[begin:]
            self.turn[place, begin:end] = turn
            self.span[place, begin:read], self.span[place, read:end] = OBSERVATION, ACTION
            self.mask[place, read:end], self.logp[place, read:end] = True, call.logp
            begin = end

    def arrays(self) -> Rows:
        """All rows; those that were not written train nothing."""
        return Rows(
            tokens=jnp.asarray(self.tokens),
            loss_mask=jnp.asarray(self.mask),
            stream=jnp.asarray(self.stream),
            turn=jnp.asarray(self.turn),
            behaviour_logp=jnp.asarray(self.logp),
            span=jnp.asarray(self.span),
            role=jnp.asarray(self.role),
        )
