"""Log-probabilities of what was sampled, had the prompt contained more: skills, reminders."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.actors.contexts import whole
from agentrl.actors.injection import injection
from agentrl.learner.component import Setup
from agentrl.learner.passes import log_probs
from agentrl.learner.required import required
from agentrl.streams import OBSERVATION, Rows, Streams
from envs.environment import Environment, EnvParams, EnvState


def taken_or(old: jax.Array, there: jax.Array, x: jax.Array, fill: float | bool) -> jax.Array:
    """x [R, L, ...] at positions old[r, l], and `fill` where they are not `there`; [R, L'] each."""
    wide = (*old.shape, *(1,) * (x.ndim - 2))
    return jnp.where(there.reshape(wide), jnp.take_along_axis(x, old.reshape(wide), axis=1), fill)


def with_inserted(rows: Rows, tokens: jax.Array, count: jax.Array, at: int) -> Rows:
    """Rows with the first `count` of `tokens` inserted at a position, [R, L + S].

    What is inserted is read, and not trained on. tokens: i32[R, S]; count: i32[R].
    """
    length, size = rows.tokens.shape[1], tokens.shape[1]
    index = jnp.broadcast_to(jnp.arange(length + size), (rows.tokens.shape[0], length + size))
    inside = (index >= at) & (index < at + count[:, None])
    old = jnp.where(index < at, index, index - count[:, None])
    there = (old >= 0) & (old < length) & ~inside
    old = jnp.clip(old, 0, length - 1)
    moved = functools.partial(taken_or, old, there)

    new = jnp.take_along_axis(tokens, jnp.clip(index - at, 0, size - 1), axis=1)
    # Nothing is cut where nothing is drawn, so that logits stay finite.
    return rows.replace(
        tokens=jnp.where(inside, new, moved(rows.tokens, 0)),
        loss_mask=moved(rows.loss_mask, False),
        turn=moved(rows.turn, -1),
        behaviour_logp=moved(rows.behaviour_logp, 0.0),
        span=None if rows.span is None else jnp.where(inside, OBSERVATION, moved(rows.span, -1)),
        legal=None if rows.legal is None else moved(rows.legal, True),
    )


def without_inserted(rows: Rows, count: jax.Array, at: int, length: int) -> Rows:
    """Rows [R, length] without the `count` i32[R] tokens that stand from position `at` on."""
    size = rows.tokens.shape[1]
    index = jnp.broadcast_to(jnp.arange(length), (rows.tokens.shape[0], length))
    old = jnp.where(index < at, index, index + count[:, None])
    there, old = old < size, jnp.minimum(old, size - 1)
    moved = functools.partial(taken_or, old, there)

    return rows.replace(
        tokens=moved(rows.tokens, 0),
        loss_mask=moved(rows.loss_mask, False),
        turn=moved(rows.turn, -1),
        behaviour_logp=moved(rows.behaviour_logp, 0.0),
        span=None if rows.span is None else moved(rows.span, -1),
        legal=None if rows.legal is None else moved(rows.legal, True),
    )


def expert_plan(env: Environment, turns: int) -> Callable[..., jax.Array]:
    """(state, agent, params) -> fragments of the expert's next commands, one after the other.

    Each is the expert's in the state that those before lead to, without chance; there are up to
    `turns` of them, and none after the end. The whole of what a teacher could say.
    """
    return functools.partial(_expert_plan, env, turns)


def _expert_plan(
    env: Environment, turns: int, state: EnvState, agent: jax.Array, params: EnvParams
) -> jax.Array:
    def step(carry, _):
        state, running = carry
        said = jnp.where(running, first_command(env, state, agent, params), 0)
        action = env.expert_as(state, agent, params)
        _, state, _, terminated, *_ = env.step_env(jax.random.key(0), state, action, params)
        return (state, running & ~terminated), said

    running = ~env.is_terminated(state, params)
    _, said = jax.lax.scan(step, (state, running), length=turns)
    return said.reshape(-1)


def first_command(
    env: Environment, state: EnvState, agent: jax.Array, params: EnvParams
) -> jax.Array:
    """The expert's command in a state, as fragments: a skill of one step."""
    return env.commands_as(state, agent, params)[env.expert_as(state, agent, params)]


def make_prompted(
    setup: Setup, name: str, text: str | Callable[..., Any]
) -> Callable[[chex.ArrayTree, Streams, Rows], jax.Array]:
    """(params, streams, rows) -> log-probabilities f32[R, L] of the trained positions, with `text`
    in front of the first observation of each row.

    Args:
      name: of the component, for errors.
      text: text, or a function (state, agent, params) -> fragments i32[K] of the environment's
        lexicon, of the state that the episode started from.

    Raises:
      ValueError: a policy that does not read text, or several environments or agents.
    """
    env, env_params = required(setup, name, "language", one_agent=True, one_environment=True)
    policy, codec, zero = setup.policy, setup.policy.codec, jnp.int32(0)
    inserted, at = injection(codec, whole(inject=text), env), len(setup.policy.codec.before)

    def prompted(params, streams, rows):
        tokens, count = jax.vmap(lambda state: inserted.tokens(state, zero, env_params, zero))(
            streams.first_state
        )
        tokens, count = tokens[rows.stream], count[rows.stream]
        shown = with_inserted(rows, tokens, count, at)
        logp = log_probs(policy, params, shown, setup.microbatch, setup.lengths)
        index = jnp.arange(rows.tokens.shape[1])
        index = jnp.where(index < at, index, index + count[:, None])
        return jnp.take_along_axis(logp, index, axis=1)

    return prompted
