"""What was looked up: useful and redundant searches and visits, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context as context_of
from by_hand import setup_of

import envs
from agentrl.methods.lookups import lookups
from agentrl.streams import Rows, Streams


def looked_up(env, params, actions, **options):
    """What the component says of the turns of one stream, one turn more than it has, and the
    metric."""
    turns = len(actions) + 1
    mask = np.arange(turns) < len(actions)
    streams = Streams(reward=jnp.full((1, turns), jnp.nan), mask=mask[None])
    rows = Rows(
        tokens=jnp.array([*actions, 0])[:, None],
        loss_mask=jnp.asarray(mask)[:, None],
        stream=jnp.zeros(turns, jnp.int32),
        turn=jnp.arange(turns)[:, None],
        behaviour_logp=jnp.zeros((turns, 1)),
    )
    component = lookups(setup_of(env, params), **options)
    notes, metrics = jax.jit(component.annotate)(context_of(), streams, rows)
    return np.asarray(notes["lookups"].values[0]), metrics["lookups/redundant"].tolist()


def test_a_search_is_made_once():
    env, params = envs.make("SearchQA-v1", entities=20, relations=4)
    answer = env.num_searches
    found, told = looked_up(env, params, [3, 7, 3, 3, answer, answer])
    unique, again, nothing = [1, 0, 0, 0], [0, 1, 0, 0], [0] * 4
    np.testing.assert_array_equal(found, [unique, unique, again, again, *[nothing] * 3])
    assert told == [2, 4]


def test_a_page_is_visited_again_to_verify():
    env, params = envs.make("SoloResearch-v1")
    answer = env.num_actions - 1
    actions = [2, 2, 5, 2, answer]
    useful, redundant, nothing = [0, 0, 1, 0], [0, 0, 0, 1], [0] * 4
    found, told = looked_up(env, params, actions)
    np.testing.assert_array_equal(found, [useful, useful, useful, redundant, nothing, nothing])
    assert told == [1, 4]
    strict, _ = looked_up(env, params, actions, verifications=0)
    np.testing.assert_array_equal(strict, [useful, redundant, useful, redundant, nothing, nothing])


def test_what_it_does_not_fit():
    with pytest.raises(ValueError, match="`call_kind`, such as SearchQA-v1"):
        lookups(setup_of(*envs.make("FrozenLake-v1")))
