"""Playing on a fixed set of tasks: what kind each of them is, and how many at once."""

import jax
import numpy as np
import pytest

import envs
from agentrl.evaluation import play
from agentrl.players.scripted import expert_actor
from envs.vector import World


def test_kinds_are_those_of_the_tasks_that_are_played():
    env, params = envs.make("VolleyballSkill-v1", teams="plane")
    keys = play.task_keys(0, 32)
    found = np.asarray(play.kinds(env, params, keys))
    drawn = jax.jit(jax.vmap(env.initial, in_axes=(0, None)))(keys, params)
    np.testing.assert_array_equal(found, drawn.kind)
    assert set(found) == {0, 1} and env.kinds == ("hit short", "hit deep")


def test_tasks_have_the_same_outcomes_however_many_are_played_at_once():
    env, params = envs.make("FrozenLake-v1", size=3, slippery=False, max_steps_in_episode=6)
    expert, keys = expert_actor(World(env, params)), play.task_keys(0, 12)

    def play_some(keys, key):
        return play.play(expert, env, params, keys, key)

    whole, thirds = (
        play.in_turn(play_some, keys, jax.random.key(1), at_once) for at_once in (None, 4)
    )
    jax.tree.map(np.testing.assert_array_equal, whole, thirds)
    assert len(set(np.asarray(whole.length))) > 1
    with pytest.raises(ValueError, match="at_once=5 does not divide 12 episodes"):
        play.in_turn(play_some, keys, jax.random.key(1), 5)
