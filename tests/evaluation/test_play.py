"""Playing on a fixed set of tasks: what kind each of them is."""

import jax
import numpy as np

import envs
from agentrl.evaluation import play


def test_kinds_are_those_of_the_tasks_that_are_played():
    env, params = envs.make("VolleyballSkill-v1", teams="plane")
    keys = play.task_keys(0, 32)
    found = np.asarray(play.kinds(env, params, keys))
    drawn = jax.jit(jax.vmap(env.initial, in_axes=(0, None)))(keys, params)
    np.testing.assert_array_equal(found, drawn.kind)
    assert set(found) == {0, 1} and env.kinds == ("hit short", "hit deep")
