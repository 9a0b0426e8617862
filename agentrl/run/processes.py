"""Several processes with devices of their own, joined by `jax.distributed`.

Each runs the same programs on the same mesh. Only the first one writes files. Events of one process
(a signal, an error) are communicated to all before any reacts, since otherwise the others would
wait in a program for one that has left.
"""

import jax
import numpy as np
from jax.experimental import multihost_utils


def is_first() -> bool:
    """Whether this is the process that writes."""
    return jax.process_index() == 0


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process. Returns when all have answered."""
    if jax.process_count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def from_first(number: int) -> int:
    """The first process's number, in all of them."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.asarray(number)))
