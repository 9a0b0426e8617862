"""Video-MTR's rewards of looks, in Video-v1 by hand, and what they do not fit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import setup_of, turn_rewards

import envs
from agentrl import rollout
from agentrl.methods.looking import looking

ENV, PARAMS = envs.make("Video-v1", scenes=1)
TURNS = 6


@functools.cache
def program(**options):
    """(actions i32[TURNS], bool[TURNS] whether there is one) -> rewards of the turns of one
    stream; the scene is at 2 to 7."""
    component = looking(setup_of(ENV, PARAMS), **options)

    def found(number, mask):
        state = ENV.initial(jax.random.key(0), PARAMS).replace(start=jnp.array([2], jnp.int32))
        return turn_rewards(component, state, number, mask)

    return jax.jit(found)


def annotated(commands, **options):
    """The rewards of these commands, behind which nothing of the padding may have any."""
    number = [ENV.action_names.index(name) for name in commands]
    padded = np.int32([*number, *[0] * (TURNS - len(number))])
    found = np.asarray(program(**options)(padded, np.arange(TURNS) < len(number)))
    np.testing.assert_array_equal(found[len(number) :], 0)
    return found[: len(number) + 1]


def test_a_better_look_than_the_one_before_pays():
    """IoU with 2 to 7: at first 1/21, then 3/11 (2, 4, 6), 6/8, 6/8, 0."""
    looks = ["look 0 to 15", "look 0 to 7", "look 0 to 7", "look 8 to 15"]
    np.testing.assert_allclose(annotated([*looks, "answer 1"]), [0.5, 0.5, 0, 0, 0, 0])
    np.testing.assert_allclose(annotated(["look 8 to 15", "answer 1"]), [0, 0, 0])
    np.testing.assert_allclose(annotated(["answer 1"]), [0, 0])


def test_looks_pay_for_exploration_while_they_are_rare():
    commands = ["look 8 to 15", "look 0 to 7", "answer 1"]
    paid = annotated(commands, explore=0.2, explore_below=0.7)
    np.testing.assert_allclose(paid, [0.2, 0.7, 0, 0], atol=1e-6)
    paid = annotated(commands, explore=0.2, explore_below=0.6)
    np.testing.assert_allclose(paid, [0, 0.5, 0, 0], atol=1e-6)


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match="Video-v1"):
        looking(setup_of(*envs.make("FrozenLake-v1")))
    with pytest.raises(ValueError, match="whole episodes"):
        looking(setup_of(ENV, PARAMS, rollout.segments))
    with pytest.raises(ValueError, match="explore_below"):
        looking(setup_of(ENV, PARAMS), explore_below=2.0)


def test_a_reply_that_is_no_command_leaves_the_last_look():
    """In words -1 stands for such a reply: what was shown before is still what is improved on."""
    component = looking(setup_of(ENV, PARAMS))
    state = ENV.initial(jax.random.key(0), PARAMS).replace(start=jnp.array([2], jnp.int32))
    look = ENV.action_names.index("look 0 to 7")
    mask = jnp.arange(4) < 3
    given = turn_rewards(component, state, jnp.array([look, -1, look, 0]), mask)
    np.testing.assert_allclose(given, [0.5, 0, 0, 0])
