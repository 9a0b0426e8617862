"""Small experiments of methods: trained, interrupted, and compared."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.run import checkpoint


def lake(**env):
    """GRPO of an MLP on small lakes, a program per update."""
    config = base_config()
    config.mesh.data = 1
    config.updates, config.log_every = 8, 1
    options = {"size": 3, "slippery": False, "max_steps_in_episode": 6} | env
    config.env = env_section("FrozenLake-v1", **options)
    config.policy = section(policies.mlp, hidden=(8,), critic="none")
    config.rollout = section(rollout.episodes, num_groups=4, group_size=4)
    config.advantage = section(advantages.grpo)
    config.optimizer.learning_rate = 0.01
    return config


def train(config, updates=3):
    """(experiment, states after 0, 1, ... updates, metrics of each update as means)."""
    experiment = build(config)
    program, _ = _program(experiment)
    states, metrics = _run(program, jax.jit(experiment.init)(0), updates)
    return experiment, states, metrics


def train_and_resume(config, directory, updates=4):
    """As `train`; checks that the program is traced once, and that a run restored from a checkpoint
    in the middle gives the same metrics and the same state bitwise."""
    experiment = build(config)
    program, traces = _program(experiment)
    states, metrics = _run(program, jax.jit(experiment.init)(0), updates)
    half = updates // 2
    checkpoint.save(directory, half, states[half], keep=1)
    _, restored = checkpoint.restore(directory, jax.eval_shape(lambda: states[half]))
    resumed, again = _run(program, restored, updates - half)
    assert len(traces) == 1
    assert again == metrics[half:]
    same(resumed[-1], states[-1])
    return experiment, states, metrics


def _program(experiment):
    """(the program of an update, a list with an entry per trace of it)."""
    _, train = experiment.phases[-1]
    traces = []

    def counted(state):
        traces.append(state)
        return train(state)

    return jax.jit(counted), traces


def _run(program, state, updates):
    states, metrics = [state], []
    for _ in range(updates):
        state, told = program(state)
        states.append(state)
        told = jax.device_get(told)
        metrics.append({k: float(v[0]) / float(v[1]) for k, v in told.items() if float(v[1])})
    return states, metrics


def same(one, other):
    """Asserts that two trees are bitwise equal."""

    def raw(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    jax.tree.map(lambda a, b: np.testing.assert_array_equal(raw(a), raw(b)), one, other)


def distance(one, other):
    """The largest difference between two trees of numbers."""
    one, other = jax.device_get((one, other))
    each = jax.tree.map(lambda a, b: float(np.max(np.abs(a - b))), one, other)
    return max(jax.tree.leaves(each))
