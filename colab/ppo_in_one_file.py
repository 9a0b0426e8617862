"""PPO on CartPole in one file, from agentrl's public functions: to learn PPO, or to fork.

    python colab/ppo_in_one_file.py

It is the update of `configs/start/cartpole_ppo.py`, number for number
(tests/colab/test_one_file.py): the library's own is the same steps with every joint open, see
`agentrl/learner/train_step.py`.

Schulman et al. (2017), https://arxiv.org/abs/1707.06347.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import envs
from agentrl import advantages, losses, policies, rollout
from agentrl.streams import at_positions

NUM_ENVS, LENGTH, UPDATES = 4, 128, 960
EPOCHS, MINIBATCHES = 4, 4
GAMMA, LAM = 0.99, 0.95
CLIP, VALUE_CLIP = 0.2, 0.2
VALUE_WEIGHT, ENTROPY_WEIGHT = 0.5, 0.01
LEARNING_RATE, MAX_GRAD_NORM = 2.5e-4, 0.5


class State(NamedTuple):
    """params, opt_state: of the policy. environments: in mid-episode. key: of the next update."""

    params: Any
    opt_state: Any
    environments: Any
    key: jax.Array


env, env_params = envs.make("CartPole-v1")
policy = policies.mlp(env.observation_shape, env.num_codes, env.num_actions)
segments = rollout.segments(policy, env, env_params, num_envs=NUM_ENVS, length=LENGTH)
schedule = optax.linear_schedule(LEARNING_RATE, 0.0, UPDATES * EPOCHS * MINIBATCHES)
optimizer = optax.chain(
    optax.clip_by_global_norm(MAX_GRAD_NORM),
    optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-5, weight_decay=0.0),
)


def init(seed: int) -> State:
    """The state before the first update."""
    param_key, rollout_key, _, key = jax.random.split(jax.random.key(seed), 4)
    params = policy.init(param_key)
    return State(params, optimizer.init(params), segments.init(rollout_key), key)


def loss(params: Any, batch: dict[str, Any]) -> jax.Array:
    """PPO's loss on the rows of a minibatch; a row is one action."""
    rows, mask = batch["rows"], batch["rows"].loss_mask
    logp, entropy, value = policy.score(params, rows)
    advantage = advantages.whiten(batch["advantage"], mask)
    policy_loss, _ = losses.clipped_surrogate(
        logp, rows.behaviour_logp, advantage, mask, clip_low=CLIP, clip_high=CLIP
    )
    value_loss = losses.clipped_value_loss(
        value, batch["old_value"], batch["target"], mask, clip=VALUE_CLIP
    )
    total = policy_loss + VALUE_WEIGHT * value_loss - ENTROPY_WEIGHT * entropy
    return losses.aggregate(total, mask, "token_mean")


def gradient_step(carry: tuple[Any, Any], batch: dict[str, Any]) -> tuple[tuple[Any, Any], None]:
    """One step of the optimizer on a minibatch."""
    params, opt_state = carry
    gradient = jax.grad(loss)(params, batch)
    change, opt_state = optimizer.update(gradient, opt_state, params)
    return (optax.apply_updates(params, change), opt_state), None


def update(state: State, _: None) -> tuple[State, dict[str, jax.Array]]:
    """One update: a segment of every environment, its advantages, epochs of minibatches."""
    key, collect_key, update_key, _ = jax.random.split(state.key, 4)
    environments, streams, rows, metrics = segments.collect(
        state.params, state.environments, collect_key
    )
    advantage = advantages.gae(
        streams.reward,
        streams.value,
        streams.mask,
        streams.terminated,
        streams.bootstrap,
        gamma=GAMMA,
        lam=LAM,
        truncated=streams.truncated,
    )
    batch = {
        "rows": rows,
        "advantage": at_positions(advantage, rows),
        "target": at_positions(advantage + streams.value, rows),
        "old_value": at_positions(streams.value, rows),
    }

    def epoch(carry, key):
        order = jax.random.permutation(key, NUM_ENVS * LENGTH).reshape(MINIBATCHES, -1)
        return jax.lax.scan(gradient_step, carry, jax.tree.map(lambda x: x[order], batch))

    (params, opt_state), _ = jax.lax.scan(
        epoch, (state.params, state.opt_state), jax.random.split(update_key, EPOCHS)
    )
    return State(params, opt_state, environments, key), metrics


def main() -> None:
    """Trains one seed and prints the return of the episodes that ended."""
    state = init(0)
    several = jax.jit(lambda state: jax.lax.scan(update, state, length=60))
    for done in range(60, UPDATES + 1, 60):
        state, metrics = several(state)
        total, count = jnp.sum(metrics["episode_return"], axis=0)
        print(f"{done * NUM_ENVS * LENGTH:8,} steps: return {total / count:.1f}")


if __name__ == "__main__":
    main()
