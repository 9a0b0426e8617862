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
    program, _ = program_of(experiment)
    return experiment, *run(program, jax.jit(experiment.init)(0), updates)


def train_and_resume(config, directory, updates=4):
    """As `train`; checks that the program is traced once, and that a run restored from a checkpoint
    in the middle gives the same metrics and the same state bitwise."""
    experiment = build(config)
    found = states_and_resume(program_of(experiment), experiment, directory, updates)
    return experiment, *found


def states_and_resume(made, experiment, directory, updates=4):
    """(states, metrics) of `train_and_resume`, of what `program_of` gave."""
    program, traces = made
    states, metrics = run(program, jax.jit(experiment.init)(0), updates)
    half = updates // 2
    checkpoint.save(directory, half, states[half], keep=1)
    _, restored = checkpoint.restore(directory, jax.eval_shape(lambda: states[half]))
    resumed, again = run(program, restored, updates - half)
    assert len(traces) == 1
    assert again == metrics[half:]
    same(resumed[-1], states[-1])
    return states, metrics


def program_of(experiment):
    """(the program of an update, a list with an entry per trace of it)."""
    _, train = experiment.phases[-1]
    traces = []

    def counted(state):
        traces.append(state)
        return train(state)

    return jax.jit(counted), traces


def run(program, state, updates):
    """(states after 0, 1, ... updates from this one, metrics of each update as means)."""
    states, metrics = [state], []
    for _ in range(updates):
        state, told = program(state)
        states.append(state)
        told = jax.device_get(told)
        metrics.append({k: float(v[0]) / float(v[1]) for k, v in told.items() if float(v[1])})
    return states, metrics


def same(one, other):
    """Asserts that two trees are bitwise equal; a failure names the entry."""

    def raw(x):
        return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x

    def equal(path, a, b):
        np.testing.assert_array_equal(raw(a), raw(b), err_msg=jax.tree_util.keystr(path))

    jax.tree_util.tree_map_with_path(equal, one, other)


def distance(one, other):
    """The largest difference between two trees of numbers."""
    one, other = jax.device_get((one, other))
    each = jax.tree.map(lambda a, b: float(np.max(np.abs(a - b))), one, other)
    return max(jax.tree.leaves(each))
