"""Q-shaping: a Q learner that is told values of some actions first, and then learns without."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl import losses
from agentrl.checks import check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.archer import stored
from agentrl.methods.by_turn import collected, transitions
from agentrl.methods.networks import observations
from agentrl.methods.transitions import played
from agentrl.methods.twin_q import Critic, TwinQ, drawn, fitted, no_turns, rows_of
from agentrl.players.scripted import check_expert
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.types import Rollout
from agentrl.streams import PerPosition, Rows, Streams
from envs.environment import Environment, EnvParams

PATH = "config.components.q_shaping"
_COUNT, _SIZE, _PART = {"low": 0}, {"low": 1}, {"low": 0.0, "high": 1.0}
_ABOVE = {"low": 0.0, "above": True, "below": True}
RANGES: dict[str, dict[str, Any]] = {
    "examples": _COUNT, "good": {"low": 0.0, "below": True}, "bad": {"low": 0.0, "below": True},
    "correct": _PART, "noise": _PART, "weight": {"low": 0.0, "below": True},
    "shaped": _COUNT, "gamma": _PART, "hidden": _SIZE, "learning_rate": _ABOVE,
    "rate": _PART | {"above": True}, "steps": _COUNT, "batch": _SIZE, "rows": {"low": 2},
    "size": _SIZE,
}  # fmt: skip
# The fields of a turn that is learnt from.
FIELDS = ("observation", "action", "following", "reward", "over", "acted", "seen")


class Shaped(struct.PyTreeNode):
    """critic: the twins. replay: turns, {name: [C, ...]}; place: i32[], where the next one goes.
    told: {observation, action, value, acted} of the actions with a heuristic value, or None.
    updates: i32[]. key: for draws."""

    critic: Critic
    replay: dict[str, Any]
    place: jax.Array
    told: dict[str, Any] | None
    updates: jax.Array
    key: jax.Array


def heuristics(
    env: Environment,
    env_params: EnvParams,
    key: jax.Array,
    *,
    examples: int,
    noise: float,
    correct: float,
    good: float,
    bad: float,
) -> dict[str, jax.Array]:
    """Actions with a heuristic value each: `good` where the expert would do the same, else `bad`,
    or the other way round.

    They are those of `examples` episodes of the expert with `noise`, by name [M, ...]. correct:
    probability that a value is the right one of the two, for each action by itself.
    """
    play_key, key = jax.random.split(key)
    data = played(env, env_params, jnp.full(examples, noise), play_key, gamma=1.0, best=1.0)
    right = data.of_way == jax.random.bernoulli(key, correct, data.of_way.shape)
    value = jnp.where(right, jnp.float32(good), jnp.float32(bad))
    # Those that are there stand in front, as `drawn` expects.
    order = jnp.argsort(~data.acted, stable=True)
    found = {
        "observation": data.observation, "action": data.action, "value": value, "acted": data.acted
    }  # fmt: skip
    return jax.tree.map(lambda x: x[order], found)


def critic_loss(
    twins: TwinQ,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Mapping[str, Any],
    told: Mapping[str, Any] | None,
    weight: jax.Array | float,
    *,
    gamma: float,
) -> jax.Array:
    """Both twins' mean of `losses.q_loss` to r + gamma max_a min_j Q'_j(s', a) over turns, and
    `weight` times that to the heuristic values over the actions that have one; f32[]."""
    best = jnp.max(twins.lower(slow, turns["following"]), axis=1)
    target = losses.bootstrap_target(turns["reward"], turns["over"], best, gamma=gamma)
    loss = _regression(twins, params, turns, target)
    if told is None:
        return loss
    return loss + weight * _regression(twins, params, told, told["value"])


def _regression(twins, params, turns, target):
    q, there = twins.of_action(params, turns["observation"], turns["action"]), turns["acted"]
    each = sum(losses.q_loss(q[:, twin], target, there, huber=1.0) for twin in (0, 1))
    return jnp.sum(each) / jnp.maximum(jnp.sum(there), 1)


class Hooks(NamedTuple):
    """The hooks of `q_shaping`, with what they are made of. values: options of `heuristics`, of
    no `examples` there are none."""

    policy: Policy
    rollout: Rollout
    env: Environment
    env_params: EnvParams
    twins: TwinQ
    adam: optax.GradientTransformation
    values: Mapping[str, Any]
    weight: float
    shaped: int
    forever: bool
    policy_init: bool
    gamma: float
    rate: float
    steps: int
    batch: int
    rows: int
    size: int

    def shapes(self, updates: jax.Array) -> jax.Array:
        """Whether heuristics count after so many updates, bool[]."""
        return jnp.ones((), bool) if self.forever else updates < self.shaped

    def init(self, start: InitInputs) -> Shaped:
        """Untrained twins, an empty replay, and the heuristics."""
        new, told_key, key = jax.random.split(start.key, 3)
        like = jax.eval_shape(transitions, *collected(self.rollout, self.policy, start.key))
        replay = no_turns({name: like[name] for name in FIELDS}, self.size)
        critic = self.twins.created(new, replay["observation"][:1], self.adam)
        told = None
        if self.values["examples"]:
            told = heuristics(self.env, self.env_params, told_key, **self.values)
        zero = jnp.zeros((), jnp.int32)
        return Shaped(critic, replay, zero, told, zero, key)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of own turns, and at first half of them of the heuristics' states."""
        del sources
        value, (key, told_key) = context.value, jax.random.split(context.key)
        turns = drawn(value.replay, self.rows, key)
        if value.told is None:
            return None, rows_of(turns)
        if not self.policy_init:
            waits = value.updates < self.shaped
            return None, rows_of(turns | {"acted": turns["acted"] & ~waits})
        told = drawn(value.told, self.rows, told_key)
        mine = self.shapes(value.updates) & (jnp.arange(self.rows) < self.rows // 2)

        def pick(name):
            own = turns[name]
            return jnp.where(mine.reshape(-1, *(1,) * (own.ndim - 1)), told[name], own)

        return None, rows_of({name: pick(name) for name in ("observation", "action", "acted")})

    def annotate(
        self, context: Context, streams: Streams | None, rows: Rows
    ) -> dict[str, PerPosition]:
        """`action_values`: the smaller of the twins' Q of every action, at each position."""
        del streams
        seen, _ = observations(rows)
        q = self.twins.lower(context.value.critic.params, seen)
        return {"action_values": PerPosition(q.reshape(*rows.tokens.shape, -1))}

    def after(self, value: Shaped, outcome: UpdateResult) -> tuple[Shaped, dict[str, Any]]:
        """The value after the twins' steps."""
        key, fit_key = jax.random.split(value.key)
        new = transitions(outcome.streams, outcome.rows)
        replay, place = stored(value.replay, value.place, {name: new[name] for name in FIELDS})
        eta = jnp.where(self.shapes(value.updates), self.weight, 0.0)

        def loss_of(params, slow, key):
            key, told_key = jax.random.split(key)
            told = None if value.told is None else drawn(value.told, self.batch, told_key)
            turns = drawn(replay, self.batch, key)
            return critic_loss(self.twins, params, slow, turns, told, eta, gamma=self.gamma)

        keys = jax.random.split(fit_key, self.steps)
        critic, found = fitted(value.critic, self.adam, loss_of, keys, rate=self.rate)
        now = eta * (value.told is not None)
        value = value.replace(
            critic=critic, replay=replay, place=place, updates=value.updates + 1, key=key
        )
        return value, {
            "critic_error": jnp.stack([jnp.sum(found), jnp.float32(found.size)]),
            "q_shaping/weight": jnp.stack([now, jnp.ones(())]),
        }


def q_shaping(
    setup: Setup,
    *,
    examples: int = 32,
    noise: float = 0.5,
    correct: float = 1.0,
    good: float = 1.0,
    bad: float = 0.0,
    weight: float = 1.0,
    shaped: int = 20,
    forever: bool = False,
    q_init: bool = True,
    policy_init: bool = True,
    gamma: float = 0.95,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    rate: float = 0.02,
    steps: int = 20,
    batch: int = 128,
    rows: int = 256,
    size: int = 16384,
) -> Component:
    """Source of its own name: own turns from a replay, with the twins' Q, which are shaped first.

    Twins Q learn from a replay of the policy's own turns,

        y = r + gamma max_a min_j Q'_j(s', a),

    and in the first `shaped` updates also from heuristic values of some actions, see `heuristics`:
    l = (y - Q)^2 + eta (q - Q)^2, halved, linear beyond 1. After that nothing is left of these but
    where learning starts from, so that a wrong heuristic costs time and no success. The policy's
    step is `losses.boltzmann_imitation` with source="q_shaping". examples=0 is the Q learner alone.

    Reports critic_error (see `archer`), too.

    Metrics (Opponents, buffers, tasks):
      q_shaping/weight: Weight of heuristics; Q-shaping: 0 once they are left.

    Args:
      examples, noise, correct, good, bad: of `heuristics`; examples=0: there are none.
      weight: eta. shaped: updates in which it counts. forever: it never stops, which is biased.
      q_init: the twins learn from the heuristics. policy_init: in the shaped updates the policy
        learns, half of its rows from the states of the heuristics; else it waits for them to end.
      hidden: width of the twins. learning_rate: of Adam. rate: by which the slow copies follow
        after each step. steps, batch: per update, each on as many turns.
      rows: turns per update for the policy. size: of the replay.

    Raises:
      ValueError: another kind of policy or environment, heuristics without an expert, or an option
        outside its range.

    References:
      Wu (2024), From reward shaping to Q-shaping, https://arxiv.org/abs/2410.01458, from reviews;
      neither paper nor code was read, and the update is our reading of them. There a language model
      writes code that names good and bad actions, the learner is TD3, and ten agents are shaped for
      15,000 steps each, of which the best goes on (nothing of that selection is here; the steps of
      shaped updates are counted like all others).
    """
    env, env_params = required(
        setup, "q_shaping", "arrays", one_agent=True, one_environment=True, discrete=True,
        in_graph=True, whole_episodes=True, without_memory=True,
    )  # fmt: skip
    if examples:
        check_expert(env, env_params)
    numbers = {
        "examples": examples, "good": good, "bad": bad, "correct": correct, "noise": noise,
        "weight": weight, "shaped": shaped, "gamma": gamma, "hidden": hidden,
        "learning_rate": learning_rate,
        "rate": rate, "steps": steps, "batch": batch, "rows": rows, "size": size,
    }  # fmt: skip
    for name, number in numbers.items():
        check_range(f"{PATH}.{name}", number, **RANGES[name])
    values = {"examples": examples, "noise": noise, "correct": correct, "good": good, "bad": bad}
    hooks = Hooks(
        setup.policy, setup.rollout, env, env_params, TwinQ.of(env, hidden),
        optax.adam(learning_rate), values, weight=weight * q_init, shaped=shaped, forever=forever,
        policy_init=policy_init, gamma=gamma, rate=rate, steps=steps, batch=batch, rows=rows,
        size=size,
    )  # fmt: skip
    return Component(
        init=hooks.init,
        source=Source(hooks.make, reads=("rollout",)),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("action_values",),
    )
