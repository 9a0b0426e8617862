"""A critic that is trained before the policy: who moves when, and a run that resumes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import distance, lake, program_of, run, states_and_resume, train

from agentrl import advantages, policies
from agentrl.config import section
from agentrl.config.build import build
from agentrl.methods.critic_first import critic_first


def config_of(**options):
    config = lake(size=2, max_steps_in_episode=4)
    config.policy = section(policies.mlp, hidden=(8,), critic="separate")
    config.advantage = section(advantages.gae, gamma=0.99, lam=0.95)
    config.objective.value.weight = 0.5
    if options:
        config.components.critic_first = section(critic_first, **options)
    return config


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    """(experiment, its program, states, metrics) of a run whose policy waits for two updates."""
    experiment = build(config_of(updates=2))
    made = program_of(experiment)
    found = states_and_resume(made, experiment, tmp_path_factory.mktemp("critic"))
    return experiment, made[0], *found


def test_the_policy_waits_for_the_critic_and_a_run_resumes(waited):
    experiment, _, states, metrics = waited
    rows = jax.jit(experiment.batches)(states[0])["rollout"].rows
    score = jax.jit(experiment.policy.score)
    told = [score(state.params, rows) for state in states[:4]]
    steps = [
        (distance(old.logp, new.logp), distance(old.value, new.value))
        for old, new in zip(told, told[1:], strict=False)
    ]
    policy, critic = np.array(steps).T
    np.testing.assert_array_equal(policy[:2], 0.0)
    assert policy[2] > 0 and (critic > 0).all()
    assert [m["policy_waits"] for m in metrics] == [1.0, 1.0, 0.0, 0.0]


def test_none_to_wait_for_is_the_plain_run(waited):
    """None of two that are over, and none of none."""
    _, program, states, _ = waited
    _, plain, _ = train(config_of(), 2)
    over = states[0].replace(carry=states[0].carry | {"critic_first": jnp.int32(2)})
    without, metrics = run(program, over, 2)
    assert [m["policy_waits"] for m in metrics] == [0.0, 0.0]
    assert distance(plain[-1].params, without[-1].params) == 0
    none = build(config_of(updates=0)).components["critic_first"]
    inputs = none.before(none.init(None), None, None)
    assert inputs.numbers == {"objective.policy.weight": 1.0}


def test_refusals():
    with pytest.raises(ValueError, match="one weight per term"):
        build(config_of(terms=("policy", "entropy")))
