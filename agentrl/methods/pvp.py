"""Proxy value propagation: an overseer takes over where the policy goes wrong, and no reward is
read."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl import losses
from agentrl.checks import check_choice, check_range
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
from agentrl.methods.networks import observations
from agentrl.methods.twin_q import Critic, TwinQ, drawn, fitted, no_turns, rows_of
from agentrl.players.scripted import check_expert
from agentrl.policies.actor_critic import Policy
from agentrl.streams import PerPosition, Rows, Streams
from envs.environment import Environment, EnvParams

Buffers = Literal["two", "one"]

PATH = "config.components.pvp"
_COUNT, _SIZE, _PART = {"low": 0}, {"low": 1}, {"low": 0.0, "high": 1.0}
_ABOVE = {"low": 0.0, "above": True, "below": True}
RANGES: dict[str, dict[str, Any]] = {
    "episodes": _SIZE, "watched": _PART, "tolerance": {"low": 0.0, "below": True},
    "release": _COUNT, "propagation": {"low": 0.0, "below": True}, "bound": _ABOVE, "gamma": _PART,
    "hidden": _SIZE, "learning_rate": _ABOVE, "rate": _PART | {"above": True}, "steps": _COUNT,
    "batch": {"low": 2}, "rows": {"low": 2}, "size": _SIZE,
}  # fmt: skip
# (state, action, key) -> f32[]: the return of the episode if this action is taken, and the
# expert's from there on.
Worth = Callable[[Any, jax.Array, jax.Array], jax.Array]


class Overseen(struct.PyTreeNode):
    """critic: the twins. human, novice: turns by name, {name: [C, ...]}, of the overseer and of the
    policy; places: i32[2], where the next one of each goes. asked: i32[], turns that the overseer
    has acted in. key: for draws."""

    critic: Critic
    human: dict[str, Any]
    novice: dict[str, Any]
    places: jax.Array
    asked: jax.Array
    key: jax.Array


def worth_of(env: Environment, env_params: EnvParams, gamma: float) -> Worth:
    """The discounted return of an action and of the expert afterwards, until the end or the limit.

    In a world without chance it is Q* of the action, if the expert is optimal.
    """
    limit = int(env_params.max_steps_in_episode)

    def step(carry, number):
        state, action, runs, total, key = carry
        step_key, key = jax.random.split(key)
        _, new, reward, over, _ = env.step_env(step_key, state, action, env_params)
        total = total + jnp.where(runs, gamma**number * reward, 0.0)
        runs = runs & ~over & ~env.is_truncated(new, env_params)
        return (new, env.expert(new, env_params), runs, total, key), None

    def worth(state, action, key):
        carry = (state, action, jnp.ones((), bool), jnp.zeros(()), key)
        (_, _, _, total, _), _ = jax.lax.scan(step, carry, jnp.arange(limit))
        return total

    return worth


def overseen(
    env: Environment,
    env_params: EnvParams,
    policy: Policy,
    acting: chex.ArrayTree,
    key: jax.Array,
    *,
    watched: float,
    tolerance: float,
    release: int,
    gamma: float,
) -> dict[str, jax.Array]:
    """An episode under shared control, by name [T, ...]; after the end `acted` is False.

    The overseer takes over where what the policy is about to do is worth less than what the expert
    would do by more than `tolerance`, and lets go after `release` further turns in which the policy
    would not have gone wrong. action: what was done; novice: what the policy would have done;
    takeover: the expert did it; success: whether the task was solved at this turn. watched:
    probability that there is an overseer in the episode.
    """
    start_key, watch_key, key = jax.random.split(key, 3)
    worth, present = worth_of(env, env_params, gamma), jax.random.bernoulli(watch_key, watched)

    def turn(carry, key):
        state, observation, runs, left = carry
        act_key, worth_key, step_key = jax.random.split(key, 3)
        outputs, _, _ = policy.step(acting, None, observation[None])
        novice = policy.head.draw(outputs, None, act_key)[0]
        right = env.expert(state, env_params).astype(novice.dtype)
        loss = worth(state, right, worth_key) - worth(state, novice, worth_key)
        wrong = loss > tolerance
        takes = present & (wrong | (left > 0))
        left = jnp.where(wrong, release, jnp.maximum(left - 1, 0))
        action = jnp.where(takes, right, novice)
        following, new, _, over, info = env.step_env(step_key, state, action, env_params)
        told = {
            "observation": observation, "following": following, "action": action, "novice": novice,
            "takeover": takes & runs, "over": over & runs, "acted": runs, "seen": runs,
            "success": info["success"] & runs,
        }  # fmt: skip
        return (new, following, runs & ~over & ~env.is_truncated(new, env_params), left), told

    observation, state = env.reset_env(start_key, env_params)
    turns = jax.random.split(key, int(env_params.max_steps_in_episode))
    first = (state, observation, jnp.ones((), bool), jnp.zeros((), jnp.int32))
    return jax.lax.scan(turn, first, turns)[1]


def halves(
    human: Mapping[str, Any], novice: Mapping[str, Any], count: int, key: jax.Array
) -> dict[str, Any]:
    """`count` turns, half of them from each buffer; all from one where the other is empty."""
    keys = jax.random.split(key, 4)
    half = count - count // 2
    some = [jnp.any(x["acted"]) for x in (human, novice)]

    def part(own, other, there, count, keys):
        these, those = drawn(own, count, keys[0]), drawn(other, count, keys[1])
        return jax.tree.map(functools.partial(jnp.where, there), these, those)

    one = part(human, novice, some[0], half, keys[:2])
    two = part(novice, human, some[1], count // 2, keys[2:])
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), one, two)


def critic_loss(
    twins: TwinQ,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Mapping[str, Any],
    *,
    gamma: float,
    bound: float,
    propagation: float,
) -> jax.Array:
    """Mean over turns, both twins together, of `losses.proxy_value_loss` and `propagation` times
    `losses.q_loss` to gamma max_a min_j Q'_j(s', a); f32[]. No reward is read."""
    best = jnp.max(twins.lower(slow, turns["following"]), axis=1)
    target = losses.bootstrap_target(jnp.zeros_like(best), turns["over"], best, gamma=gamma)
    both, there = twins.all(params, turns["observation"]), turns["acted"]
    differs = turns["action"] != turns["novice"]
    total = jnp.zeros(there.shape)
    done, would = (
        jnp.take_along_axis(both, turns[name][:, None, None], 2)[..., 0]
        for name in ("action", "novice")
    )
    for twin in (0, 1):
        done_by, would_by = done[:, twin], would[:, twin]
        total += losses.proxy_value_loss(
            done_by, would_by, turns["takeover"], differs, there, bound=bound
        )
        total += propagation * losses.q_loss(done_by, target, there, huber=1.0)
    return jnp.sum(total) / jnp.maximum(jnp.sum(there), 1)


def metrics_of(
    told: Mapping[str, jax.Array], asked: jax.Array, found: jax.Array
) -> dict[str, jax.Array]:
    """The metrics of an update: of its episodes [episodes, T] and its losses f32[steps]."""
    solved = jnp.any(told["success"], axis=1)
    numbers = {
        "critic_error": (jnp.sum(found), found.size),
        "pvp/takeovers": (jnp.sum(told["takeover"]), jnp.sum(told["acted"])),
        "pvp/interventions": (asked, 1),
        "pvp/success_rate": (jnp.sum(solved), solved.size),
    }
    return {
        name: jnp.stack([jnp.asarray(x, jnp.float32) for x in pair])
        for name, pair in numbers.items()
    }


class Hooks(NamedTuple):
    """The hooks of `pvp`, with what they are made of. watch: options of `overseen`;
    of_loss: of `critic_loss`. human: whether the overseer's turns have a buffer of their own."""

    policy: Policy
    env: Environment
    env_params: EnvParams
    twins: TwinQ
    adam: optax.GradientTransformation
    watch: Mapping[str, Any]
    of_loss: Mapping[str, float]
    human: bool
    rate: float
    episodes: int
    steps: int
    batch: int
    rows: int
    size: int

    def play(self, acting: chex.ArrayTree, key: jax.Array) -> dict[str, jax.Array]:
        """Episodes of the policy that the overseer watches, [episodes, T, ...]."""
        one = functools.partial(
            overseen, self.env, self.env_params, self.policy, acting, **self.watch
        )
        return jax.vmap(one)(jax.random.split(key, self.episodes))

    def init(self, start: InitInputs) -> Overseen:
        """Twins Q with random weights, and two buffers of `size` turns without any."""
        acting = self.policy.init(start.key)
        played = jax.eval_shape(self.play, acting, start.key)
        turns = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), played)
        empty = no_turns(turns, self.size)
        zero, (new, key) = jnp.zeros((), jnp.int32), jax.random.split(start.key)
        critic = self.twins.created(new, empty["observation"][:1], self.adam)
        return Overseen(critic, empty, empty, jnp.zeros(2, jnp.int32), zero, key)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of drawn turns: one half the overseer's, the other the policy's own."""
        del sources
        turns = halves(context.value.human, context.value.novice, self.rows, context.key)
        return None, rows_of(turns, turns["takeover"].astype(jnp.int32))

    def annotate(
        self, context: Context, streams: Streams | None, rows: Rows
    ) -> dict[str, PerPosition]:
        """Q of all actions, and which turns were the overseer's."""
        seen, _ = observations(rows)
        values = self.twins.lower(context.value.critic.params, seen)
        by_overseer = (rows.turn > 0) & rows.loss_mask & (streams is None)
        return {
            "action_values": PerPosition(values.reshape(*rows.tokens.shape, -1)),
            "intervened": PerPosition(by_overseer * 1.0),
        }

    def after(self, value: Overseen, outcome: UpdateResult) -> tuple[Overseen, dict[str, Any]]:
        """The value after watched episodes and the twins' steps."""
        key, play_key, fit_key = jax.random.split(value.key, 3)
        told = self.play(outcome.params, play_key)
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), told)
        by_human = flat["takeover"] & self.human
        others = flat["acted"] & ~by_human
        human, one = stored(value.human, value.places[0], flat | {"acted": by_human})
        novice, two = stored(value.novice, value.places[1], flat | {"acted": others})
        asked = value.asked + jnp.sum(flat["takeover"], dtype=jnp.int32)

        def loss_of(params, slow, key):
            turns = halves(human, novice, self.batch, key)
            return critic_loss(self.twins, params, slow, turns, **self.of_loss)

        keys = jax.random.split(fit_key, self.steps)
        critic, found = fitted(value.critic, self.adam, loss_of, keys, rate=self.rate)
        new = Overseen(critic, human, novice, jnp.stack([one, two]), asked, key)
        return new, metrics_of(told, asked, found)


def pvp(
    setup: Setup,
    *,
    episodes: int = 4,
    watched: float = 1.0,
    tolerance: float = 0.02,
    release: int = 2,
    buffers: Buffers = "two",
    propagation: float = 1.0,
    bound: float = 1.0,
    gamma: float = 0.95,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    rate: float = 0.02,
    steps: int = 32,
    batch: int = 64,
    rows: int = 128,
    size: int = 8192,
) -> Component:
    """Source of its own name: turns of episodes that an overseer watches, with the twins' Q.

    After each update the policy plays `episodes`, in which the environment's expert takes over
    where the policy goes wrong, see `overseen`. Its turns and the policy's go into two buffers, of
    which each draw takes half. Twins Q are fitted to `losses.proxy_value_loss` and, so that these
    values spread, to gamma max_a Q'(s', a) without a reward. The policy's step is
    `losses.boltzmann_imitation` with source="pvp". Only the overseer reads rewards.

    It fills `action_values`, and `intervened`, 1 at the overseer's turns: behaviour cloning of the
    interventions is a term with scale="intervened", without the other.

    Reports critic_error (see `archer`), too.

    Metrics (Opponents, buffers, tasks):
      pvp/takeovers: Turns of the overseer [share]; PVP.
      pvp/interventions: Interventions [turns]; of the overseer so far.
      pvp/success_rate: Success of watched episodes [share]; with its help.

    Args:
      episodes: per update. watched: share of them with an overseer; 0: nobody intervenes, and Q
        learning without rewards is left.
      tolerance, release: when the overseer takes over and lets go.
      buffers: "one": its turns are drawn as often as they are.
      propagation: weight of the regression without rewards; 0: labels alone.
      bound: B. gamma: of the overseer and of the values.
      hidden: width of the twins. learning_rate: of Adam. rate: by which the slow copies follow
        after each step. steps, batch: per update, each on as many turns.
      rows: turns per update for the policy. size: of each buffer.

    Raises:
      ValueError: another kind of policy or environment, no expert, or an option outside its range.

    References:
      Peng et al. (2023), https://arxiv.org/abs/2502.03369; see `losses.proxy_value_loss`. A person
      watches there. With discrete actions the code has one network and no actor; twins and an actor
      are of its continuous version, in which the regression leaves out the first turn of an
      intervention.
    """
    env, env_params = required(
        setup, "pvp", "arrays", one_agent=True, one_environment=True, discrete=True, in_graph=True,
        without_memory=True,
    )  # fmt: skip
    check_expert(env, env_params)
    numbers = {
        "episodes": episodes, "watched": watched, "tolerance": tolerance, "release": release,
        "propagation": propagation, "bound": bound, "gamma": gamma, "hidden": hidden,
        "learning_rate": learning_rate, "rate": rate, "steps": steps, "batch": batch, "rows": rows,
        "size": size,
    }  # fmt: skip
    for name, number in numbers.items():
        check_range(f"{PATH}.{name}", number, **RANGES[name])
    check_choice(f"{PATH}.buffers", buffers, get_args(Buffers))
    hooks = Hooks(
        setup.policy, env, env_params, TwinQ.of(env, hidden), optax.adam(learning_rate),
        watch={"watched": watched, "tolerance": tolerance, "release": release, "gamma": gamma},
        of_loss={"gamma": gamma, "bound": bound, "propagation": propagation},
        human=buffers == "two", rate=rate, episodes=episodes, steps=steps, batch=batch, rows=rows,
        size=size,
    )  # fmt: skip
    fills = ("action_values", "intervened")
    return Component(
        init=hooks.init,
        source=Source(hooks.make),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=fills,
    )
