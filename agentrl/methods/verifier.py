"""A generative verifier: one token, yes or no, after a finished attempt (MARS-SQL's validation)."""

from typing import TYPE_CHECKING, Literal, get_args

import chex
import jax
import jax.numpy as jnp

from agentrl.checks import check_choice
from agentrl.learner.component import Component, Setup, Source
from agentrl.learner.passes import log_probs
from agentrl.learner.required import required
from agentrl.policies.protocol import AnyPolicy
from agentrl.streams import Rows, Streams
from envs.environment import Environment

if TYPE_CHECKING:
    from agentrl.policies.language import LanguagePolicy

Over = Literal["pair", "all"]


def verdict_tokens(policy: "LanguagePolicy", env: Environment) -> tuple[int, int]:
    """Tokens of yes and no: the first ones of the environment's last two commands.

    Raises:
      ValueError: an environment without a validator, or verdicts that begin alike.
    """
    if env.validator is None:
        raise ValueError(f"{env.name} has no validator: use an environment with one, as Queries-v1")
    words = [policy.codec.fragments[env.view.lexicon.index(x)][0] for x in env.action_names[-2:]]
    yes, no = map(int, words)
    if yes == no:
        raise ValueError(f"{env.name}: the verdicts {env.action_names[-2:]} begin with one token")
    return yes, no


def verdict_rows(rows: Rows, streams: Streams, validator: int) -> Rows:
    """The validator's rows, of which only the first token of its reply is trained."""
    first = rows.loss_mask & (jnp.cumsum(rows.loss_mask, axis=1) == 1)
    judges = streams.role[rows.stream] == validator
    return rows.replace(loss_mask=first & judges[:, None])


def p_yes(
    policy: AnyPolicy,
    params: chex.ArrayTree,
    rows: Rows,
    tokens: tuple[int, int],
    *,
    over: Over = "pair",
    microbatch: int | None = None,
) -> jax.Array:
    """Probability of yes at the trained position of each row (`verdict_rows`), f32[R].

    over: "pair", of the tokens of yes and no alone, exp(l_yes) / (exp(l_yes) + exp(l_no)); "all",
    of the whole vocabulary, exp(l_yes).
    """
    check_choice("p_yes over", over, get_args(Over))

    def of(token):
        told = jnp.where(rows.loss_mask, token, rows.tokens)
        logp = log_probs(policy, params, rows.replace(tokens=told), microbatch)
        return jnp.sum(jnp.where(rows.loss_mask, logp, 0.0), axis=1)

    yes = of(tokens[0])
    return jnp.exp(yes) if over == "all" else jax.nn.sigmoid(yes - of(tokens[1]))


def verifier(setup: Setup) -> Component:
    """Source "verifier": the validator's turns of the rollout with the true verdict in them.

    What is learnt is one token for each finished attempt, yes if it succeeded and no if not:
    cross-entropy by `losses.behaviour_cloning` with source="verifier". Rows are single turns.

    Metric verdict_accuracy: share of the verdicts that were drawn that are right.

    Metrics (Opponents, buffers, tasks):
      verdict_accuracy: Right verdicts [share]; of a validator's, as drawn.

    Raises:
      ValueError: a policy over arrays, several environments, one without a validator, or rows of
        several turns.

    References:
      MARS-SQL (2025), https://arxiv.org/abs/2511.01008, code YangHaolin0526/MARS-SQL 0ece2af
      (read). There the verdict stands behind the last two thoughts, and the mean over eight draws
      is that of one number: the first token's probability does not depend on what is drawn.
    """
    env, _ = required(setup, "verifier", "language", one_environment=True)
    rollout = setup.rollout
    if rollout.num_rows * env.num_agents != rollout.num_streams * rollout.turns:
        raise ValueError("component 'verifier': rows have to be single turns; use context 'window'")
    yes, no = verdict_tokens(setup.policy, env)

    def make(context, sources):
        streams, rows = sources["rollout"]
        rows = verdict_rows(rows, streams, env.validator)
        right = jnp.any(streams.success & streams.mask, axis=1)[rows.stream]
        label = jnp.where(right, yes, no)[:, None]
        return streams, rows.replace(tokens=jnp.where(rows.loss_mask, label, rows.tokens))

    def annotate(context, streams, rows):
        _, told = make(context, {"rollout": (streams, rows)})
        same = told.loss_mask & (told.tokens == rows.tokens)
        counts = jnp.stack([jnp.sum(same), jnp.sum(told.loss_mask)]).astype(jnp.float32)
        return {}, {"verdict_accuracy": counts}

    return Component(source=Source(make, reads=("rollout",)), annotate=annotate)
