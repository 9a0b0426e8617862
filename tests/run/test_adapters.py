"""Adapters on another run's parameters: a planner's and an executor's, on weights that stay."""

import json

import jax
import numpy as np
import pytest

from agentrl import advantages, policies, rollout
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.run import loop, restored

ADAPTERS = {"lora_rank": 2, "lora_targets": ("q_proj", "up_proj"), "lora_roles": 2}


def config_of(**options):
    config = base_config()
    config.mesh.data = 1
    config.env = env_section("PlannedHousehold-v1", objects=3, receptacles=4)
    small = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "hidden": 32}
    config.policy = section(policies.transformer, constrained=True, **small, **options)
    config.rollout = section(rollout.episodes, num_groups=2, group_size=2, max_turns=3)
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(advantages.rae_by_turn)
    config.updates = config.log_every = 1
    config.evaluation.episodes = 2
    return config


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A run of the whole policy, one supervised update long."""
    config = config_of()
    config.warm_start.update(updates=1)
    config.expert.update(episodes=2, held_out=False)
    workdir = tmp_path_factory.mktemp("runs") / "base"
    assert loop.run(config, workdir, command="test")
    return workdir


def of_adapters(base):
    config = config_of(**ADAPTERS)
    config.init_from = str(base)
    # Without a success there is no advantage: something to learn all the same.
    config.objective.entropy.weight = 0.01
    config.objective.kl.weight = 0.01
    config.optimizer.learning_rate = 0.1
    return config


@pytest.mark.long
def test_planner_and_executor_learn_adapters_of_their_own(base, tmp_path):
    config, workdir = of_adapters(base), tmp_path / "run"
    config.updates = 2
    assert loop.run(config, workdir, command="test", stop_after=1)
    assert loop.run(config, workdir, command="test")
    first, second = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    for record in (first, second):
        assert record["grad_norm"] > 0 and record["rejected_updates"] == 0
        # The learner's log-probabilities are the sampler's.
        assert abs(record["kl/rollout_train"]) < 1e-6
    # The reference is where the run began, after resuming too, and no second copy of the weights.
    assert abs(first["kl_ref"]) < 1e-6 < second["kl_ref"]
    before = restored.load(base).state.params
    state = restored.load(workdir).state
    after = state.params
    reference = state.carry["reference"]
    assert list(reference) == ["lora"]
    assert not any(x.any() for x in jax.tree.leaves(reference["lora"]) if x.shape[-1] != 2)
    jax.tree.map(np.testing.assert_array_equal, {k: after[k] for k in before}, before)
    b = np.asarray(after["lora"]["self_attn"]["q_proj"]["b"])
    assert b.shape == (1, 1, 2, 2, 16) and (np.abs(b).max(axis=(0, 1, 3, 4)) > 0).all()


def test_adapters_need_something_to_be_for(base):
    config = of_adapters(base)
    config.policy.lora_roles = 3
    with pytest.raises(ValueError, match="lora_roles=3, and this rollout has 2 role"):
        build(config)
    config = config_of(**ADAPTERS)
    with pytest.raises(ValueError, match="without config.init_from: adapters on random weights"):
        build(config)
    config = of_adapters(base)
    config.policy.width = 32
    with pytest.raises(restored.RunError, match="another policy"):
        restored.parameters(base, config, build(config))
