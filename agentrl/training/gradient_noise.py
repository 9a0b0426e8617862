"""How noisy the policy gradient of early turns is, under one way of credit and another.

Episodes of a run's checkpoint, each with the gradient g of sum A log pi over what its executor did
in the first turns; A by HAE and by GAE, from the same streams and the same critic. Of policies over
arrays without memory, in a game with a planner.

  noise    trace of the covariance of g, (sum |g_i - mean g|^2) / (n - 1)
  signal   |mean g|^2 - noise / n, the squared length of the true mean without bias

The scale of advantages moves both; their ratio does not depend on it.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from agentrl.policies import Policy
from agentrl.streams import Rows
from agentrl.training.credit import ESTIMATORS, estimate


def noise_and_signal(gradients: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise and signal, f32[] each, of gradients f32[n, D] of n independent episodes."""
    count = gradients.shape[0]
    mean = jnp.mean(gradients, axis=0)
    noise = jnp.sum(jnp.square(gradients - mean)) / (count - 1)
    return noise, jnp.sum(jnp.square(mean)) - noise / count


def episode_gradients(
    policy: Policy, params: chex.ArrayTree, rows: Rows, weight: jax.Array
) -> jax.Array:
    """Gradient of sum_t weight_t log pi_t of each of B episodes, f32[B, D].

    rows: one position each, the B episodes of turn 0, then of turn 1, and so on, as rollouts of
    policies without memory give them; weight: f32[T, B].
    """
    turns, batch = weight.shape
    by_episode = jax.tree.map(
        lambda x: jnp.swapaxes(x.reshape(turns, batch, *x.shape[1:]), 0, 1), rows
    )

    def one(rows, weight):
        def total(params):
            logp = policy.score(params, rows).logp[:, 0]
            return jnp.sum(jnp.where(weight != 0, logp, 0.0) * weight)

        gradient = jax.grad(total)(params)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(gradient)])

    return jax.vmap(one)(by_episode, weight.T)


def measure(run: Any, turns: int, batches: int) -> dict[str, tuple[jax.Array, jax.Array]]:
    """{way of credit: (noise, signal)}, f32[seeds] each, of a run that was read back."""
    policy, rollout = run.experiment.policy, run.experiment.rollout
    rates = run.config.advantage
    options = {"gamma": rates.gamma, "lam": rates.lam}
    ways = {
        "hae": options | {"subgoal_lam": rates.get("subgoal_lam", rates.lam)},
        "gae": options,
    }

    def collect(params, key):
        _, streams, rows, _ = rollout.collect(params, None, key)
        stream, turn = rows.stream, rows.turn[:, 0]
        early = rows.loss_mask[:, 0] & (turn < turns) & (streams.parent[stream] >= 0)
        found = {}
        for name, chosen in ways.items():
            advantage = estimate(ESTIMATORS[name], chosen, streams)[stream, turn]
            weight = jnp.where(early, advantage, 0.0).reshape(rollout.turns, -1)
            found[name] = episode_gradients(policy, params, rows, weight)
        return found

    def of_seed(params):
        keys = jax.random.split(jax.random.key(0), batches)
        found = jax.lax.map(lambda key: collect(params, key), keys)
        return {name: noise_and_signal(x.reshape(-1, x.shape[-1])) for name, x in found.items()}

    return jax.jit(lambda params: jax.lax.map(of_seed, params))(run.state.params)
