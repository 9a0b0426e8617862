"""GiGPO for a transformer that reads and writes, in one file, from agentrl's public functions.

    python colab/gigpo_in_words_in_one_file.py

A policy of 90,000 parameters is taught an expert's replies (SFT), then learns by GiGPO from its own
episodes. Observation, reply, parsing, environment and update are one compiled program. It is the
update of `configs/words/coin_talk.py` without microbatches, number for number
(tests/colab/test_one_file.py); the library's own is the same with every joint open, see
`agentrl/learner/train_step.py`.

Feng et al. (2025), Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import envs
from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.streams import at_positions

TAUGHT, UPDATES, EXPERT_EPISODES = 80, 200, 32
GROUPS, GROUP_SIZE, MINIBATCHES = 16, 8, 4
GAMMA, PENALTY = 0.95, 0.02
SFT_RATE, RATE, MAX_GRAD_NORM = 3e-3, 3e-4, 0.5


class State(NamedTuple):
    """params, opt_state: of the policy. key: of the next update."""

    params: Any
    opt_state: Any
    key: jax.Array


env, env_params = envs.make("Coin-v1")
policy = policies.transformer(env.view, width=64, layers=2, heads=2, kv_heads=2, hidden=128)
# The whole episode is one row: what the policy read and wrote, turn after turn.
context = rollout.contexts.whole()
episodes = rollout.episodes(
    policy, env, env_params, context, num_groups=GROUPS, group_size=GROUP_SIZE
)


def adam(rate: float) -> optax.GradientTransformation:
    """Adam on gradients clipped to a global norm."""
    clip = optax.clip_by_global_norm(MAX_GRAD_NORM)
    return optax.chain(clip, optax.adamw(rate, eps=1e-5, weight_decay=0.0))


def init(seed: int) -> State:
    """The state before the first update."""
    param_key, _, _, key = jax.random.split(jax.random.key(seed), 4)
    params = policy.init(param_key)
    return State(params, adam(RATE).init(params), key)


def step(loss, optimizer, params, opt_state, batch):
    """One step of the optimizer."""
    gradient = jax.grad(loss)(params, batch)
    change, opt_state = optimizer.update(gradient, opt_state, params)
    return optax.apply_updates(params, change), opt_state


def imitation(params: Any, rows: Any) -> jax.Array:
    """Negative log-likelihood of the expert's tokens."""
    logp, mask = policy.score(params, rows).logp, rows.loss_mask
    return losses.aggregate(losses.behaviour_cloning(logp, mask), mask, "token_mean")


def taught(state: State, _: None) -> tuple[State, None]:
    """One supervised update on new episodes of the environment's expert."""
    key, task_key, chance_key = jax.random.split(state.key, 3)
    _, rows = episodes.demonstrate(jax.random.split(task_key, EXPERT_EPISODES), chance_key)
    params, opt_state = step(imitation, adam(SFT_RATE), state.params, state.opt_state, rows)
    return State(params, opt_state, key), None


def surrogate(params: Any, batch: dict[str, Any]) -> jax.Array:
    """PPO's clipped surrogate on the tokens that the policy wrote."""
    rows, mask = batch["rows"], batch["rows"].loss_mask
    logp = policy.score(params, rows).logp
    loss, _ = losses.clipped_surrogate(logp, rows.behaviour_logp, batch["advantage"], mask)
    return losses.aggregate(loss, mask, "token_mean")


def update(state: State, _: None) -> tuple[State, dict[str, jax.Array]]:
    """One update: groups of episodes of the same tasks, GiGPO's credit, one pass of minibatches."""
    key, collect_key, update_key, _ = jax.random.split(state.key, 4)
    _, streams, rows, metrics = episodes.collect(state.params, episodes.init(key), collect_key)
    invalid = rewards.invalid_action_penalty(streams.valid, streams.mask, coefficient=PENALTY)
    advantage = advantages.gigpo(
        streams.reward,
        streams.mask,
        streams.group,
        streams.anchor,
        gamma=GAMMA,
        normalize="mean",
        penalty=invalid,
    )
    # A turn's advantage goes to every token of its reply.
    advantage = at_positions(advantages.whiten(advantage, streams.mask), rows)
    batch = {"rows": rows, "advantage": advantage}
    (order_key,) = jax.random.split(update_key, 1)
    order = jax.random.permutation(order_key, len(rows.tokens)).reshape(MINIBATCHES, -1)

    def minibatch(carry, part):
        return step(surrogate, adam(RATE), *carry, part), None

    (params, opt_state), _ = jax.lax.scan(
        minibatch, (state.params, state.opt_state), jax.tree.map(lambda x: x[order], batch)
    )
    return State(params, opt_state, key), metrics


def main() -> None:
    """Teaches and trains one seed, and prints the success of the episodes of each update."""
    state = init(0)
    state, _ = jax.jit(lambda s: jax.lax.scan(taught, s, length=TAUGHT))(state)
    state = state._replace(opt_state=adam(RATE).init(state.params))
    several = jax.jit(lambda s: jax.lax.scan(update, s, length=10))
    for done in range(10, UPDATES + 1, 10):
        state, metrics = several(state)
        total, count = jnp.sum(metrics["success_rate"], axis=0)
        print(f"{done:4} updates: success {total / count:.2f}")


if __name__ == "__main__":
    main()
