"""Functions under test as one program each: every operation outside of jit is a program of its own,
and compiling is most of the time of the tests."""

import functools

import jax


def fetched(function, **options):
    """The function under jit (with its options), which returns numpy arrays."""
    program = jax.jit(function, **options)

    @functools.wraps(function)
    def run(*args, **kwargs):
        return jax.device_get(program(*args, **kwargs))

    return run
