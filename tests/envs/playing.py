"""Environments as tests play them: one set of compiled programs each, and text read and written.

Params are arguments of the programs, which options that are params only therefore share. Actions
and rewards are the same in every wording, so the programs that play are shared by all of them.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import envs

KEY = jax.random.key(0)

make = functools.cache(envs.make)


@functools.cache
def programs(env):
    """(reset of key and params, step of key, state, action and params), compiled once."""
    if env.wording != "compact":
        return programs(dataclasses.replace(env, wording="compact"))
    return jax.jit(lambda key, params: env.reset_env(key, params)[1]), jax.jit(env.step_env)


@functools.cache
def functions(name, **options):
    """(env, params, reset of a key, step of state, action and key)."""
    env, params = make(name, **options)
    reset, step = programs(env)

    def take(state, action, key=KEY):
        return step(key, state, np.int32(action), params)

    return env, params, lambda key: reset(key, params), take


@functools.cache
def starts(count, name, seed=0, **options):
    """Many first states."""
    env, params = make(name, **options)
    draw = jax.jit(jax.vmap(lambda key: env.reset_env(key, params)[1]))
    return draw(jax.random.split(jax.random.key(seed), count))


class Episode(NamedTuple):
    """An episode without resets: its last state, and of each step what came before and after."""

    last: Any
    state: Any
    action: jax.Array
    over: jax.Array
    observation: jax.Array
    after: Any
    reward: jax.Array
    terminated: jax.Array
    info: dict


def expert(env, params):
    """The policy of the environment's expert."""
    return lambda key, state: env.expert(state, params)


def at_random(env, params):
    """The policy that takes any legal action."""

    def act(key, state):
        legal = env.legal_actions(state, params)[0]
        return jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))

    return act


def episode(env, params, key, steps, policy):
    """An episode of a policy (key, state) -> action. To be compiled by who calls it, in a batch."""
    key, reset_key = jax.random.split(key)
    _, first = env.reset_env(reset_key, params)

    def step(state, key):
        act_key, step_key = jax.random.split(key)
        over = env.is_terminated(state, params) | env.is_truncated(state, params)
        action = policy(act_key, state)
        out = env.step_env(step_key, state, action, params)
        return out[1], (state, action, over, *out)

    last, told = jax.lax.scan(step, first, jax.random.split(key, steps))
    return Episode(last, *told)
