"""Ways to run functions of one seed for all seeds: as one program, or as Python."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.rollout.types import Runner


def one_by_one(function: Callable) -> Callable:
    """As `jax.vmap`, one element at a time, compiled.

    For programs with `while_loop`s: under `vmap` every element would run as long as the slowest,
    and copy its KV cache at each step.
    """
    return lambda *args: jax.lax.map(lambda one: function(*one), args)


def only_seed(function: Callable) -> Callable:
    """As `jax.vmap` over an axis of length 1, without mapping."""

    def of_one(*args):
        out = function(*jax.tree.map(lambda x: x.squeeze(0), args))
        return jax.tree.map(lambda x: jnp.asarray(x)[None], out)

    return of_one


def _python_map(function: Callable) -> Callable:
    """As `jax.vmap`, one element at a time, in Python."""

    def across(*args):
        count = len(jax.tree.leaves(args)[0])
        outs = [function(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(count)]
        return jax.tree.map(lambda *xs: jnp.stack(xs), *outs)

    return across


def _not_compiled(function: Callable, *, out_shardings: Any = None, **_: object) -> Callable:
    """In the place of `jax.jit`, for functions that cannot be compiled as a whole: their results
    are put where `out_shardings` says, a prefix of their tree."""
    if not jax.tree.leaves(out_shardings):
        return function

    def placed(*args):
        return jax.device_put(function(*args), out_shardings)

    return placed


# Collecting is Python that runs programs of its own.
IN_PYTHON = Runner(_not_compiled, _python_map, Runner(over_seeds=one_by_one), traced=False)
