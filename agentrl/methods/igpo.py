"""IGPO's annotation: how much each turn has raised the policy's belief in the reference answer."""

from typing import TYPE_CHECKING, Literal, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.passes import log_probs
from agentrl.learner.required import required
from agentrl.policies import codec as codecs
from agentrl.rollout.metrics import mean
from agentrl.streams import PerTurn, Rows, last_turns
from envs.environment import Environment, EnvParams

if TYPE_CHECKING:
    from agentrl.policies.language import LanguagePolicy

Belief = Literal["log_prob", "prob"]


def answer_rows(
    rows: Rows, answer: jax.Array, length: jax.Array, shape: tuple[int, int]
) -> tuple[Rows, jax.Array]:
    """(rows [N * T, L] that end in the answer instead of the turn's reply, bool[N, T]).

    Row n T + t has the tokens that stood in front of the reply of turn t of stream n, then those of
    the answer, which are its loss_mask; nothing where the stream did not act, or no row has room.

    Args:
      answer: i32[N, G]; length: i32[N], tokens of it that count.
    """
    size = rows.tokens.shape[1]
    there = rows.loss_mask & (rows.turn >= 0)
    position = jnp.broadcast_to(jnp.arange(size), there.shape)
    stream = jnp.where(there, rows.stream[:, None], shape[0])  # dropped
    turn = jnp.maximum(rows.turn, 0)
    begins = jnp.full(shape, size).at[stream, turn].min(position, mode="drop").reshape(-1)
    number = jnp.arange(there.shape[0])[:, None]
    row = jnp.zeros(shape, jnp.int32).at[stream, turn].max(number, mode="drop").reshape(-1)
    answer, length = (jnp.repeat(x, shape[1], axis=0) for x in (answer, length))
    offset = jnp.arange(size) - begins[:, None]
    inside = (offset >= 0) & (offset < length[:, None])
    fits = (begins + length <= size) & (begins < size)
    chosen = jnp.take_along_axis(answer, jnp.clip(offset, 0, answer.shape[1] - 1), axis=1)
    zeros = jnp.zeros(inside.shape)
    return Rows(
        tokens=jnp.where(inside, chosen, jnp.where(offset < 0, rows.tokens[row], 0)),
        loss_mask=inside & fits[:, None],
        stream=jnp.repeat(jnp.arange(shape[0], dtype=jnp.int32), shape[1]),
        turn=jnp.zeros(inside.shape, jnp.int32),
        behaviour_logp=zeros,
        role=None if rows.role is None else rows.role[row],
    ), fits.reshape(shape)


def gain_of(
    belief: jax.Array, known: jax.Array, mask: jax.Array, cap: float | None = None
) -> jax.Array:
    """The belief before a stream's next turn less that before this one, f32[N, T].

    belief: f32[N, T], before the reply of each turn. known: bool[N, T], it could be taken. 0 in the
    last turn, and where either is unknown or not finite. cap: largest absolute value.
    """
    known = known & mask & jnp.isfinite(belief)
    belief = jnp.where(known, belief, 0.0)

    def backward(following, turn):
        value, here, acted = turn
        after, there = following
        gain = jnp.where(acted & here & there, after - value, 0.0)
        kept = jnp.where(acted, value, after), jnp.where(acted, here, there)
        return kept, gain

    nothing = jnp.zeros(mask.shape[0]), jnp.zeros(mask.shape[0], bool)
    _, gain = jax.lax.scan(backward, nothing, (belief.T, known.T, mask.T), reverse=True)
    return gain.T if cap is None else jnp.clip(gain.T, -cap, cap)


def reference_replies(
    policy: "LanguagePolicy", env: Environment, env_params: EnvParams, states: chex.ArrayTree
) -> tuple[jax.Array, jax.Array]:
    """(tokens i32[N, G], length i32[N] without EOS) of replies with the right answers in states."""
    commands = env.commands(jax.tree.map(lambda x: x[0], states), env_params)
    size = codecs.reply_tokens(policy.codec, policy.grammar, env.view, commands.shape[-1])

    def one(state):
        fragments = env.commands(state, env_params)[env.reference_answer(state, env_params)]
        return codecs.replies(policy.codec, policy.grammar, fragments, size)

    said = jax.vmap(one)(states)
    return said.tokens, said.length - 1


def information_gain(
    setup: Setup,
    *,
    belief: Belief = "log_prob",
    leading: int = 1,
    cap: float | None = None,
) -> Component:
    """Supplies `information_gain` f32[N, T] for estimator `igpo`.

    The belief before a turn is the mean log-probability s of the reference answer's tokens,
    written in the place of the turn's reply; the turn's gain is what follows less that. One forward
    pass over N T rows (the paper shares one row by an attention mask; the numbers are the same).

    For environments with `reference_answer(state, params) -> action`, the right answer to a task,
    such as SearchQA-v1 with objectives=1.

    Metrics (Results):
      belief: Belief in the answer [share]; of listeners, in the true one; information gain: before
        the first turn.

    Metrics (Credit):
      information_gain: Information gain [nats]; IGPO: rise of the belief in the answer, per turn
        but the last.

    Args:
      belief: the gain is of s ("log_prob", the paper) or of exp(s) ("prob", the release).
      leading: tokens at the front of the reply that all answers share (SearchQA-v1: "answer"); they
        and EOS are the bridge and the closing tag, and do not count.
      cap: largest absolute gain, against answers that are copied into the context; None: none.

    Raises:
      ValueError: another environment or policy, or an option outside its range.

    References:
      IGPO (2025), https://arxiv.org/abs/2510.14967; code GuoqingWang1/IGPO bff163b (read).
    """
    env, env_params = required(
        setup, "information_gain", "language", "reference_answer", example="SearchQA-v1",
        one_environment=True,
    )  # fmt: skip
    check_choice("config.components.information_gain.belief", belief, get_args(Belief))
    check_range("config.components.information_gain.leading", leading, 0)
    check_range("config.components.information_gain.cap", cap, 0.0, above=True)
    policy = setup.policy

    def annotate(context, streams, rows):
        mask = streams.mask
        tokens, length = reference_replies(policy, env, env_params, streams.first_state)
        asked, known = answer_rows(rows, tokens, length, mask.shape)
        logp = log_probs(policy, context.params, asked, setup.microbatch, setup.lengths)
        counts = asked.loss_mask & (jnp.cumsum(asked.loss_mask, axis=1) > leading)
        count = jnp.sum(counts, axis=1)
        s = jnp.sum(jnp.where(counts, logp, 0.0), axis=1) / jnp.maximum(count, 1)
        s = s.reshape(mask.shape)
        known &= (count > 0).reshape(s.shape)
        level = s if belief == "log_prob" else jnp.exp(s)
        gain = gain_of(level, known, mask, cap)
        gains, first = mask & ~last_turns(mask), last_turns(mask[:, ::-1])[:, ::-1]
        belief_before = jnp.where(known & mask, s, 0.0)
        metrics = {"information_gain": mean(gain, gains), "belief": mean(belief_before, first)}
        return {
            "information_gain": PerTurn(gain),
            "answer_belief": PerTurn(belief_before),
        }, metrics

    return Component(annotate=annotate, fills=("information_gain",))
