"""ArCHer: critics of whole replies, learnt from a replay of turns, and the policy's advantage."""

from collections.abc import Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.advantages.utterance import twin_targets
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import collected, transitions
from agentrl.methods.networks import Embedding
from agentrl.policies.actor_critic import Policy
from agentrl.streams import PerTurn
from envs.environment import Environment


class Critics(struct.PyTreeNode):
    """params, slow: of the critics and of their slow copies. opt_state. replay: {name: [C, ...]} of
    `transitions`. place: i32[], where the next one goes. updates: i32[]. key: for draws."""

    params: chex.ArrayTree
    slow: chex.ArrayTree
    opt_state: chex.ArrayTree
    replay: dict[str, Any]
    place: jax.Array
    updates: jax.Array
    key: jax.Array


def stored(replay: Mapping[str, Any], place: jax.Array, new: Mapping[str, Any]):
    """(the replay with the whole transitions of `new`, the next place): a ring.

    A transition is whole if its next observation was seen, or the episode terminated.
    """
    size, known = replay["action"].shape[0], new["acted"] & (new["over"] | new["seen"])
    number = jnp.cumsum(known) - 1
    at = jnp.where(known & (number < size), (place + number) % size, size)  # dropped
    put = lambda all_, x: all_.at[at].set(x, mode="drop")  # noqa: E731
    return jax.tree.map(put, replay, dict(new)), (place + jnp.sum(known)) % size


class Networks:
    """Two critics of replies, Q f32[n, A, 2], and two of observations, V f32[n, 2]."""

    def __init__(self, hidden: int, env: Environment):
        self.env, self.actions = env, env.num_actions
        self.q = Embedding(hidden, 2 * env.num_actions, env.num_codes)
        self.v = Embedding(hidden, 2, env.num_codes)

    def init(self, key: jax.Array) -> dict[str, chex.ArrayTree]:
        example = jnp.zeros((1, *self.env.observation_shape), self.env.observation_dtype)
        q, v = jax.random.split(key)
        return {"q": self.q.init(q, example), "v": self.v.init(v, example)}

    def values(self, params, observation: chex.ArrayTree, action: jax.Array):
        """(Q f32[n, 2] of an action, V f32[n, 2])."""
        q = self.q.apply(params["q"], observation).reshape(-1, self.actions, 2)
        q = jnp.take_along_axis(q, action[:, None, None], axis=1)[:, 0]
        return q, self.v.apply(params["v"], observation)


def critic_loss(
    networks: Networks,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Mapping[str, Any],
    drawn: jax.Array,
    gamma: float,
) -> jax.Array:
    """Mean over turns of sum_j (Q_j(o, u) - y_j)^2 + (V_j(o) - Q'_j(o, drawn))^2, f32[].

    y_j of `twin_targets`; drawn: i32[n], replies of the policy of now; ' is a slow copy. Places of
    the replay that are still empty do not count.
    """
    q, v = networks.values(params, turns["observation"], turns["action"])
    slow_q, _ = networks.values(slow, turns["observation"], drawn)
    _, next_v = networks.values(slow, turns["following"], turns["action"])
    target = twin_targets(turns["reward"], turns["over"], next_v, gamma=gamma)
    error = jnp.square(q - target) + jnp.square(v - jax.lax.stop_gradient(slow_q))
    error = jnp.where(turns["acted"], jnp.sum(error, axis=-1), 0.0)
    return jnp.sum(error) / jnp.maximum(jnp.sum(turns["acted"]), 1)


def fitted(
    networks: Networks,
    policy: Policy,
    acting: chex.ArrayTree,
    transform: optax.GradientTransformation,
    value: Critics,
    *,
    gamma: float,
    rate: float,
    batch: int,
    steps: int,
) -> tuple[Critics, jax.Array]:
    """(the critics after `steps` steps on `batch` turns of the replay each, losses f32[steps]).

    acting: the policy's parameters.
    """
    size = value.replay["action"].shape[0]

    def step(carry, key):
        params, slow, opt_state = carry
        which, draw = jax.random.split(key)
        # The ring is filled from its first place on: empty places are drawn until it is full.
        number = jax.random.randint(which, (batch,), 0, size)
        turns = jax.tree.map(lambda x: x[number], value.replay)
        outputs, _, _ = policy.step(acting, None, turns["observation"])
        drawn = policy.head.draw(outputs, turns.get("legal"), draw)
        loss_of = lambda p: critic_loss(networks, p, slow, turns, drawn, gamma)  # noqa: E731
        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt_state = transform.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return (params, optax.incremental_update(params, slow, rate), opt_state), loss

    key, draw = jax.random.split(value.key)
    carry = (value.params, value.slow, value.opt_state)
    carry, losses = jax.lax.scan(step, carry, jax.random.split(draw, steps))
    params, slow, opt_state = carry
    return value.replace(params=params, slow=slow, opt_state=opt_state, key=key), losses


def archer(
    setup: Setup,
    *,
    gamma: float = 0.95,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    rate: float = 0.1,
    steps: int = 50,
    batch: int = 256,
    size: int = 16384,
    warm_up: int = 20,
) -> Component:
    """Supplies `twin_q` and `twin_v` f32[N, T, 2] for estimator `twin_critics`.

    Critics Q_j(o, u) of replies and V_j(o) of observations are fitted to a replay of turns, to the
    targets r + gamma V'_j(o') and Q'_j(o, u) with u drawn from the policy of now; ' are copies
    that follow slowly. The policy learns from its own episodes by `losses.reinforce`.

    Metric critic_error, the mean of the update's losses.

    Args:
      hidden: width of the critics' two layers. learning_rate: of Adam. rate: by which the slow
        copies follow after each step.
      steps, batch: steps per update, each on as many turns of the replay, which has `size`.
      warm_up: updates at first in which Q and V are given as 0, so that the policy stays.

    Raises:
      ValueError: another kind of policy or environment, or an option outside its range.

    References:
      Zhou et al. (2024), ArCHer, https://arxiv.org/abs/2402.19446; code YifeiZhou02/ArCHer 7c771a7
      (read). There critics are heads on a language model, slow copies follow once per epoch of
      critics, and the actor draws its replies anew in replayed observations; here replies are
      actions of a policy over arrays, and the actor learns in the observations that it met.
    """
    # It draws replies in single observations, hence without memory.
    env, _ = required(
        setup, "archer", "arrays", one_agent=True, one_environment=True, discrete=True,
        whole_episodes=True, without_memory=True,
    )  # fmt: skip
    policy = setup.policy
    for name, value in (("hidden", hidden), ("steps", steps), ("batch", batch), ("size", size)):
        check_range(f"config.components.archer.{name}", value, 1)
    check_range("config.components.archer.warm_up", warm_up, 0)
    check_range("config.components.archer.learning_rate", learning_rate, 0.0, below=True)
    check_range("config.components.archer.rate", rate, 0.0, 1.0, above=True)
    check_range("config.components.archer.gamma", gamma, 0.0, 1.0)
    networks, adam = Networks(hidden, env), optax.adam(learning_rate)
    options = {"gamma": gamma, "rate": rate, "batch": batch, "steps": steps}

    def init(start):
        streams, rows = collected(setup.rollout, policy, start.key)
        of_batch = jax.eval_shape(transitions, streams, rows)
        replay = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), of_batch)
        params, zero = networks.init(start.key), jnp.zeros((), jnp.int32)
        key = jax.random.fold_in(start.key, 1)
        return Critics(params, params, adam.init(params), replay, zero, zero, key)

    def annotate(context, streams, rows):
        value, turns = context.value, transitions(streams, rows)
        q, v = networks.values(value.params, turns["observation"], turns["action"])
        shape, ready = (*streams.mask.shape, 2), value.updates >= warm_up
        q, v = (jnp.where(ready, x.reshape(shape), 0.0) for x in (q, v))
        return {"twin_q": PerTurn(q), "twin_v": PerTurn(v)}

    def after(value, outcome):
        new = transitions(outcome.streams, outcome.rows)
        replay, place = stored(value.replay, value.place, new)
        value = value.replace(replay=replay, place=place, updates=value.updates + 1)
        value, losses = fitted(networks, policy, outcome.params, adam, value, **options)
        error = jnp.stack([jnp.sum(losses), jnp.float32(steps)])
        return value, {"critic_error": error}

    return Component(init=init, annotate=annotate, after=after, fills=("twin_q", "twin_v"))
