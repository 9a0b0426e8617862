"""Ways to run functions of one seed for all seeds agree; what a kind does not take is said."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import envs
from agentrl.actors import contexts
from agentrl.config import refused
from agentrl.policies.language import transformer
from agentrl.rollout.bound import bind
from agentrl.rollout.runner import IN_PYTHON, one_by_one, only_seed
from agentrl.rollout.types import Runner


@dataclasses.dataclass(frozen=True)
class Steered(type(envs.make("FrozenLake-v1")[0])):
    continuous = True


def of_one(x, key):
    return {"sum": x + jax.random.normal(key), "pair": (x, 2 * x)}


@pytest.mark.parametrize("over", [one_by_one, IN_PYTHON.over_seeds])
def test_seeds_one_by_one_are_as_all_at_once(over):
    given = jnp.arange(3.0), jax.random.split(jax.random.key(0), 3)
    expected = Runner().over_seeds(of_one)(*given)
    jax.tree.map(np.testing.assert_array_equal, over(of_one)(*given), expected)


def test_one_seed_is_not_mapped():
    given = jnp.ones(1), jax.random.split(jax.random.key(0), 1)
    expected = jax.vmap(of_one)(*given)
    jax.tree.map(np.testing.assert_array_equal, only_seed(of_one)(*given), expected)


def test_only_what_collects_is_python():
    assert IN_PYTHON.of_phase(True) is IN_PYTHON
    assert IN_PYTHON.of_phase(False) == Runner(over_seeds=one_by_one)
    assert Runner().of_phase(False) == Runner().of_phase(True) == Runner()


def test_results_of_python_are_put_where_programs_put_theirs():
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    function = IN_PYTHON.compiled(
        lambda: ({"a": np.ones(2)}, np.zeros(1)), out_shardings=(here, None)
    )
    assert isinstance(function()[0]["a"], jax.Array)

    def plain():
        return np.ones(2)

    assert IN_PYTHON.compiled(plain, out_shardings=(None, None), donate_argnums=0) is plain


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"evaluation__at_once": 2}, "at_once=2 is used by nothing: environments in Python"),
        ({"learner__microbatch": "auto"}, "microbatch='auto': with environments in Python"),
        ({"population__every": 2}, "population.every=2 .*trains one seed after the other"),
    ],
)
def test_what_environments_in_python_do_not_take(changes, message):
    config = tiny.groups_config()
    with config.ignore_type():
        tiny.changed(config, changes)
    env = envs.hosted.Hosted("toy", {}, "", 1.0)
    with pytest.raises(ValueError, match=message):
        for learning in (False, True):
            refused.check_environment(config, env, learning=learning)


def test_continuous_actions_have_no_words():
    lake, params = envs.make("FrozenLake-v1")
    env = Steered(**{field.name: getattr(lake, field.name) for field in dataclasses.fields(lake)})
    policy = transformer(env.view, width=8, layers=1, heads=1, kv_heads=1)
    context = contexts.window(history=0)
    with pytest.raises(ValueError, match="continuous actions, which have no words: use one of cnn"):
        bind(policy, env, params, context, 2, mask_illegal=False)
