"""Fingerprints of a suite's worlds: a changed environment is another comparison."""

import hashlib
import json
import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

import configs
from agentrl.config.environments import environments
from agentrl.evaluation import play
from envs import vector

# Held-out tasks, and turns of random play in each, that a fingerprint is of.
TASKS, TURNS = 64, 16
PATH = pathlib.Path(configs.__file__).parent / "comparison" / "tasks.json"


def fingerprint(section: Mapping) -> str:
    """Digest of what is seen and paid when the first held-out tasks are played at random.

    section: the environment's, of a config. Numbers are rounded to three decimals, so that machines
    agree; another task, observation, rule or reward gives another digest.
    """
    ((env, params),) = environments(section).values()
    world = vector.World(env, params)

    @jax.jit
    def played(tasks):
        first, begun = world.vmap(env.reset_agents)(tasks)

        def turn(state, key):
            choose, step = jax.random.split(key)
            shape = (TASKS, env.num_agents)
            action = jax.random.randint(choose, shape, 0, env.num_actions)
            steps = jax.random.split(step, TASKS)
            observation, state, outcome = world.vmap(env.step_agents)(steps, state, action)
            kept = (observation, outcome.reward, outcome.terminated, outcome.success)
            return state, jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), kept)

        keys = jax.random.split(jax.random.key(1), TURNS)
        return first, jax.lax.scan(turn, begun, keys)[1]

    seen = jax.device_get(played(play.task_keys(0, TASKS)))
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(seen):
        digest.update(np.round(1000 * np.asarray(leaf, np.float64)).astype(np.int64).tobytes())
    return digest.hexdigest()[:16]


def stored() -> dict[str, dict[str, str]]:
    """The fingerprints with which the stored results were made, by suite and world."""
    return json.loads(PATH.read_text())
