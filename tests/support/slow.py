"""A config whose updates take as long as $PAUSE says, and compute the same whatever it says."""

import os
import time

import jax
import tiny

from agentrl import advantages
from agentrl.config import section


def paused(reward: jax.Array, mask: jax.Array, group: jax.Array, *, pause: float) -> jax.Array:
    """RLOO after `pause` times $PAUSE seconds."""
    jax.debug.callback(lambda: time.sleep(pause * float(os.environ.get("PAUSE", "0"))))
    return advantages.rloo(reward, mask, group)


def get_config():
    """Twenty updates of the small lake, with metrics of each."""
    import slow  # a config file is read under another name than its module has

    config = tiny.groups_config(updates=20, log_every=1, evaluation__every=10)
    config.evaluation.episodes = 4
    config.advantage = section(slow.paused, pause=0.5)
    return config
