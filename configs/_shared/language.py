"""Defaults of the experiments with language policies: the policy, SFT, the learner."""

from typing import Any

import jax
import jax.numpy as jnp
import ml_collections

import envs
from agentrl import policies
from agentrl.config import base_config, check_variant, section
from agentrl.methods.prompted import expert_plan
from configs._shared import methods

METHODS = (*methods.METHODS, "sft")
# Four questions of SearchQA-v1, one search each.
QUESTIONS = {"objectives": 4, "entities": 20, "relations": 4, "max_hops": 1}


def policy(critic: str = "none") -> ml_collections.ConfigDict:
    """A transformer of 92,000 parameters, more or less: it depends on the environment's words."""
    return section(
        policies.transformer, width=64, layers=2, heads=2, kv_heads=2, hidden=128, critic=critic
    )


def config_of(
    method: str,
    env: ml_collections.ConfigDict,
    rollout: ml_collections.ConfigDict,
    context: ml_collections.ConfigDict,
    *,
    warm_updates: int,
    updates: int,
) -> ml_collections.ConfigDict:
    """`warm_updates` on the expert's episodes, then `updates` of a method; none of "sft".

    Methods from a common warm start: train "sft" once, then each method with --config.init_from of
    that run and --config.warm_start.updates=0.
    """
    check_variant(method, METHODS)
    learns = method != "sft"
    config = base_config()
    config.updates = warm_updates + updates * learns
    config.log_every = 20
    config.env = env
    config.policy = policy(critic="shared" if method == "ppo" else "none")
    config.rollout, config.context = rollout, context
    # GiGPO without division by the standard deviation, as in its code's configuration file. With
    # it the penalty below outweighs success (configs/words/README.md, "GiGPO, part by part").
    normalize = "mean" if method == "gigpo" else "std"
    methods.use(config, method if learns else "grpo", normalize)
    config.reward.invalid_action_penalty = {"coefficient": 0.02}
    config.warm_start.update(updates=warm_updates, learning_rate=3e-3)
    config.expert.update(episodes=32)
    config.learner.minibatches = 4
    # Microbatches that fit a CPU's caches; short episodes are padded to half the length only.
    config.learner.update(microbatch=16, lengths=2)
    config.learner.normalize_advantage = "batch"
    config.optimizer.learning_rate = 3e-4
    # After SFT, and at the end.
    config.evaluation.every = warm_updates
    return config


def lake_plan(state: Any, agent: jax.Array, params: Any) -> jax.Array:
    """The expert's commands from a state of a lake of 4 x 4 to the end, for a prompt."""
    env, _ = envs.make("FrozenLake-v1", size=4, slippery=False)
    return expert_plan(env, 6)(state, agent, params)


def questions(state: Any, agent: jax.Array, params: Any) -> jax.Array:
    """All questions of a SearchQA-v1 of `QUESTIONS`, as its first observation tells them."""
    env, _ = envs.make("SearchQA-v1", **QUESTIONS)
    nothing = jnp.full_like(state.passages, -1)
    state = state.replace(answered=jnp.zeros_like(state.answered), passages=nothing)
    return env.view.describe(state, params)


def out_of_time(state: Any, agent: jax.Array, params: Any) -> jax.Array:
    """Whether the way to the target of a NumberLine-v1 is longer than the turns that are left."""
    del agent
    left = params.max_steps_in_episode - state.time
    return jnp.abs(state.target - state.position) > left
