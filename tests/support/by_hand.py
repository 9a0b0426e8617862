"""What a component says of the turns of one stream that is written by hand."""

import jax
import jax.numpy as jnp

from agentrl import policies, rollout
from agentrl.learner.component import Context, Setup
from agentrl.streams import Rows, Streams


def setup_of(env, params, kind=rollout.episodes, critic="none"):
    """What a component is built from, in a run of this environment with a small policy."""
    shapes = env.observation_shape, env.num_codes, env.num_actions
    policy = policies.mlp(*shapes, hidden=(8,), critic=critic)
    return Setup(
        envs={"one": (env, params)}, policy=policy, rollout=kind(policy, env, params), seed=0,
        num_seeds=1, updates=(0, 1), log_every=1, microbatch=None,
    )  # fmt: skip


def context(value=(), params=None, key=None):
    """What an annotation looks at that reads no more than these."""
    return Context(None, value, params, key)


def turn_rewards(component, state, action, mask, key=None):
    """The annotation `turn_reward` f32[T] of one stream, in rows of one turn.

    state: with which the episode begins. action: i32[T]. mask: bool[T], whether there is one. The
    environment's rewards, which nothing may read, are NaN.
    """
    turns = len(action)
    streams = Streams(
        reward=jnp.full((1, turns), jnp.nan),
        mask=mask[None],
        first_state=jax.tree.map(lambda x: x[None], state),
    )
    rows = Rows(
        tokens=action[:, None],
        loss_mask=mask[:, None],
        stream=jnp.zeros(turns, jnp.int32),
        turn=jnp.arange(turns)[:, None],
        behaviour_logp=jnp.zeros((turns, 1)),
    )
    notes, _ = component.annotate(context(key=key), streams, rows)
    return notes["turn_reward"].values[0]
