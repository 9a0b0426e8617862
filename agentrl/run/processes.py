"""Several processes with devices of their own, joined by `jax.distributed`.

Each runs the same programs on the same mesh. The first alone writes what people read; what a
process has seen for itself (a signal, an error) is made known to all before anyone acts on it, or
the others would wait in a program for one that has left.
"""

import jax
import numpy as np


def is_first() -> bool:
    """Whether this process writes."""
    return jax.process_index() == 0


def any_of(flag: bool) -> bool:
    """Whether some process says so. Returns when all have been asked."""
    if jax.process_count() == 1:
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))
