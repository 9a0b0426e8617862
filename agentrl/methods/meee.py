"""MEEE: a soft actor-critic with an ensemble of models, whose disagreement says where to look and
how much to believe."""

import functools
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
    Inputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.archer import stored
from agentrl.methods.by_turn import collected, transitions
from agentrl.methods.networks import observations
from agentrl.methods.twin_q import Critic, TwinQ, drawn, fitted, no_turns, rows_of, weighted_mean
from agentrl.methods.world_model import LearnedEnvironment, model_loss
from agentrl.policies.actor_critic import Policy
from agentrl.rollout.types import Rollout
from agentrl.streams import PerPosition, Rows, Streams

PATH = "config.components.meee"
# The fields of a turn that is learnt from.
FIELDS = ("observation", "action", "following", "reward", "over", "acted", "seen")
_COUNT, _SIZE, _WEIGHT = {"low": 0}, {"low": 1}, {"low": 0.0, "below": True}
_ABOVE, _PART = {"low": 0.0, "above": True, "below": True}, {"low": 0.0, "high": 1.0}
RANGES: dict[str, dict[str, Any]] = {
    "models": _SIZE, "imagined": _COUNT, "horizon": _SIZE, "trust": _WEIGHT, "optimism": _WEIGHT,
    "temperature": _WEIGHT, "gamma": _PART, "hidden": _SIZE, "learning_rate": _ABOVE,
    "model_learning_rate": _ABOVE, "rate": _PART | {"above": True}, "steps": _COUNT,
    "model_steps": _COUNT, "batch": _SIZE, "rows": _SIZE, "size": _SIZE, "warm_up": _COUNT,
}  # fmt: skip


class Believed(struct.PyTreeNode):
    """critic: the twins. weights, opt_state: of the models, [E, ...]. replay: real turns, {name:
    [C, ...]}. place: i32[], where the next one goes. imagined: the turns imagined last, with their
    `confidence`; None where nothing is imagined. updates: i32[]. key: for draws."""

    critic: Critic
    weights: chex.ArrayTree
    opt_state: chex.ArrayTree
    replay: dict[str, Any]
    place: jax.Array
    imagined: dict[str, Any] | None
    updates: jax.Array
    key: jax.Array


def whole_turns(streams: Streams, rows: Rows) -> dict[str, Any]:
    """`by_turn.transitions`, where an episode's last turn leaves the observation as it is.

    What follows an end is not seen. Models that learn nothing about it would be apart there for
    ever, and go on from it where they miss the end.
    """
    turns = transitions(streams, rows)
    over = turns["over"]
    shape = over.reshape(-1, *(1,) * (turns["following"].ndim - 1))
    turns["following"] = jnp.where(shape, turns["observation"], turns["following"])
    return {name: turns[name] for name in FIELDS} | {"seen": turns["seen"] | over}


def predictions(
    model: LearnedEnvironment, weights: chex.ArrayTree, observation: jax.Array, action: jax.Array
) -> jax.Array:
    """What each member expects of n turns, f32[E, n, D]: the next observation (of codes their
    probabilities) and the reward. weights: [E, ...]."""

    def one(weights):
        after, reward, _ = model.predicted(weights, observation, action)
        after = after if model.codes is None else jax.nn.softmax(after)
        return jnp.concatenate([after.reshape(len(reward), -1), reward[:, None]], axis=1)

    return jax.vmap(one)(weights)


def deviations(
    model: LearnedEnvironment, weights: chex.ArrayTree, observation: jax.Array
) -> jax.Array:
    """`losses.ensemble_deviation` of all actions in n observations, f32[n, A]."""
    count, actions = observation.shape[0], len(model.actions)
    each = jnp.repeat(observation, actions, axis=0)
    action = jnp.tile(jnp.arange(actions, dtype=jnp.int32), count)
    apart = losses.ensemble_deviation(predictions(model, weights, each, action))
    return apart.reshape(count, actions)


def imagine(
    model: LearnedEnvironment,
    weights: chex.ArrayTree,
    policy: Policy,
    acting: chex.ArrayTree,
    start: Mapping[str, Any],
    key: jax.Array,
    *,
    horizon: int,
    trust: float,
) -> dict[str, Any]:
    """Turns of the policy in the ensemble, by name [horizon * n, ...], with `confidence` f32.

    Each turn is a member's that is drawn for it. start: real turns, from whose observations the
    policy goes on. acting: its parameters. trust: T of `losses.confidence_weight`.
    """
    count = start["acted"].shape[0]
    members = jax.tree.leaves(weights)[0].shape[0]

    def turn(carry, key):
        observation, runs = carry
        act_key, pick_key, code_key, end_key = jax.random.split(key, 4)
        outputs, _, _ = policy.step(acting, None, observation)
        action = policy.head.draw(outputs, None, act_key)
        member = jax.random.randint(pick_key, (count,), 0, members)
        every = jax.vmap(model.predicted, (0, None, None))(weights, observation, action)
        after, reward, end = (x[member, jnp.arange(count)] for x in every)
        if model.codes is not None:
            after = jax.random.categorical(code_key, after).astype(observation.dtype)
        over = jax.random.bernoulli(end_key, jax.nn.sigmoid(end)) & runs
        apart = losses.ensemble_deviation(predictions(model, weights, observation, action))
        told = {
            "observation": observation, "action": action, "following": after, "reward": reward,
            "over": over, "acted": runs, "seen": runs,
            "confidence": losses.confidence_weight(apart, temperature=trust),
        }  # fmt: skip
        return (after, runs & ~over), told

    first = (start["observation"], start["acted"])
    _, told = jax.lax.scan(turn, first, jax.random.split(key, horizon))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), told)


def mixed(value: Believed, count: int, key: jax.Array) -> dict[str, Any]:
    """`count` turns with their `confidence`: half of them imagined, or none where nothing is."""
    real_key, key = jax.random.split(key)
    unreal = value.imagined
    real = drawn(value.replay, count if unreal is None else count - count // 2, real_key)
    real["confidence"] = jnp.ones(real["acted"].shape)
    if unreal is None:
        return real
    number = jax.random.randint(key, (count // 2,), 0, unreal["acted"].shape[0])
    joined = lambda x, y: jnp.concatenate([x, y[number]])  # noqa: E731
    return jax.tree.map(joined, real, unreal)


def critic_loss(
    twins: TwinQ,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Mapping[str, Any],
    logits: jax.Array,
    *,
    gamma: float,
    temperature: float,
) -> jax.Array:
    """Mean over turns of confidence * sum_j (Q_j(s, a) - y)^2, y = r + gamma V'(s'), f32[].

    V' is `losses.soft_value` of the smaller slow twin, under logits f32[n, A] of the policy in what
    followed.
    """
    following = losses.soft_value(
        logits, twins.lower(slow, turns["following"]), temperature=temperature
    )
    target = losses.bootstrap_target(turns["reward"], turns["over"], following, gamma=gamma)
    q = twins.of_action(params, turns["observation"], turns["action"])
    error = jnp.sum(jnp.square(q - target[:, None]), axis=1)
    return weighted_mean(error, turns["confidence"], turns["acted"])


def model_fitted(
    model: LearnedEnvironment,
    transform: optax.GradientTransformation,
    replay: Mapping[str, Any],
    weights: chex.ArrayTree,
    opt_state: chex.ArrayTree,
    key: jax.Array,
    *,
    steps: int,
    batch: int,
) -> tuple[tuple[chex.ArrayTree, chex.ArrayTree], jax.Array]:
    """((weights, opt_state) of one model after `steps` steps, losses f32[steps]), each on `batch`
    turns of the replay."""

    def step(carry, key):
        weights, opt_state = carry
        turns = drawn(replay, batch, key)
        told = {name: turns[name] for name in FIELDS}
        loss, grads = jax.value_and_grad(model_loss, argnums=1)(model, weights, **told)
        updates, opt_state = transform.update(grads, opt_state, weights)
        return (optax.apply_updates(weights, updates), opt_state), loss

    return jax.lax.scan(step, (weights, opt_state), jax.random.split(key, steps))


def models_fitted(
    model: LearnedEnvironment,
    transform: optax.GradientTransformation,
    value: Believed,
    key: jax.Array,
    *,
    steps: int,
    batch: int,
) -> tuple[Believed, jax.Array]:
    """(the value with models after `steps` steps, losses f32[E, steps]); each member draws `batch`
    turns of its own per step."""
    member = functools.partial(
        model_fitted, model, transform, value.replay, steps=steps, batch=batch
    )
    count = jax.tree.leaves(value.weights)[0].shape[0]
    keys = jax.random.split(key, count)
    (weights, opt_state), found = jax.vmap(member)(value.weights, value.opt_state, keys)
    return value.replace(weights=weights, opt_state=opt_state), found


def score(
    model: LearnedEnvironment,
    twins: TwinQ,
    critic: chex.ArrayTree,
    weights: chex.ArrayTree,
    coefficient: jax.Array,
    observation: jax.Array,
) -> jax.Array:
    """`losses.upper_confidence` of each action in n observations, f32[n, A]."""
    apart = coefficient * deviations(model, weights, observation)
    return losses.upper_confidence(twins.lower(critic, observation), apart)


class Options(NamedTuple):
    """The options of `meee`."""

    models: int
    imagined: int
    horizon: int
    trust: float
    optimism: float
    temperature: float
    gamma: float
    hidden: int
    learning_rate: float
    model_learning_rate: float
    rate: float
    steps: int
    model_steps: int
    batch: int
    rows: int
    size: int
    warm_up: int


class Hooks(NamedTuple):
    """The hooks of `meee`, with what they are made of."""

    policy: Policy
    rollout: Rollout
    model: LearnedEnvironment
    twins: TwinQ
    adam: optax.GradientTransformation
    of_models: optax.GradientTransformation
    options: Options

    def init(self, start: InitInputs) -> Believed:
        """Untrained critics and models, and an empty replay."""
        number, model = self.options, self.model
        q_key, model_key, key = jax.random.split(start.key, 3)
        like = jax.eval_shape(whole_turns, *collected(self.rollout, self.policy, start.key))
        replay = no_turns(like, number.size)
        first = replay["observation"][:1]
        weights = jax.vmap(lambda key: model.network.init(key, first, replay["action"][:1]))(
            jax.random.split(model_key, number.models)
        )
        unreal = None
        if number.imagined:
            unreal = no_turns(replay, number.imagined * number.horizon)
            unreal["confidence"] = jnp.ones(number.imagined * number.horizon)
        zero = jnp.zeros((), jnp.int32)
        return Believed(
            self.twins.created(q_key, first, self.adam), weights,
            jax.vmap(self.of_models.init)(weights), replay, zero, unreal, zero, key,
        )  # fmt: skip

    def before(self, value: Believed, params: chex.ArrayTree, key: jax.Array) -> Inputs:
        """The parameters that act, with a score if there is one."""
        del key
        if not self.options.optimism:
            return Inputs()
        ready = value.updates >= self.options.warm_up
        coefficient = jnp.where(ready, self.options.optimism, 0.0)
        of_run = functools.partial(score, self.model, self.twins)
        asked = jax.tree_util.Partial(of_run, value.critic.params, value.weights, coefficient)
        return Inputs(params={**params, "score": asked})

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of real turns, and of imagined ones behind them."""
        del sources
        count = self.options.rows
        turns = mixed(context.value, count, context.key)
        unreal = jnp.arange(count) >= count - count // 2
        return None, rows_of(turns, unreal & bool(self.options.imagined))

    def annotate(
        self, context: Context, streams: Streams | None, rows: Rows
    ) -> dict[str, PerPosition]:
        """Q of all actions, and the confidence in what is imagined."""
        value, (seen, there) = context.value, observations(rows)
        shape, trust = rows.tokens.shape, self.options.trust
        action = jnp.where(there, rows.tokens.reshape(-1), 0)
        confidence = jnp.ones(shape)
        if streams is None and self.options.imagined:
            means = predictions(self.model, value.weights, seen, action)
            apart = losses.ensemble_deviation(means)
            weight = losses.confidence_weight(apart, temperature=trust).reshape(shape)
            confidence = jnp.where(rows.turn > 0, weight, 1.0)
        values = self.twins.lower(value.critic.params, seen).reshape(*shape, -1)
        return {"action_values": PerPosition(values), "confidence": PerPosition(confidence)}

    def after(self, value: Believed, outcome: UpdateResult) -> tuple[Believed, dict[str, Any]]:
        """The value after the steps of models and critics."""
        number, policy = self.options, self.policy
        new = whole_turns(outcome.streams, outcome.rows)
        replay, place = stored(value.replay, value.place, new)
        key, model_key, start_key, key_of_turns, fit_key = jax.random.split(value.key, 5)
        value = value.replace(replay=replay, place=place, updates=value.updates + 1, key=key)
        value, of_model = models_fitted(
            self.model, self.of_models, value, model_key,
            steps=number.model_steps, batch=number.batch,
        )  # fmt: skip
        if number.imagined:
            start = drawn(replay, number.imagined, start_key)
            unreal = imagine(
                self.model, value.weights, policy, outcome.params, start, key_of_turns,
                horizon=number.horizon, trust=number.trust,
            )  # fmt: skip
            unreal["acted"] = unreal["acted"] & (value.updates >= number.warm_up)
            value = value.replace(imagined=unreal)

        def loss_of(params, slow, key):
            turns = mixed(value, number.batch, key)
            logits, _, _ = policy.step(outcome.params, None, turns["following"])
            soft = {"gamma": number.gamma, "temperature": number.temperature}
            return critic_loss(self.twins, params, slow, turns, logits, **soft)

        keys = jax.random.split(fit_key, number.steps)
        critic, found = fitted(value.critic, self.adam, loss_of, keys, rate=number.rate)
        return value.replace(critic=critic), told(found, of_model, value.imagined)


def meee(
    setup: Setup,
    *,
    models: int = 5,
    imagined: int = 256,
    horizon: int = 1,
    trust: float = 20.0,
    optimism: float = 1.0,
    temperature: float = 0.1,
    gamma: float = 0.95,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    model_learning_rate: float = 1e-3,
    rate: float = 0.02,
    steps: int = 20,
    model_steps: int = 20,
    batch: int = 128,
    rows: int = 256,
    size: int = 16384,
    warm_up: int = 10,
) -> Component:
    """Source of its own name: real and imagined turns, with the twins' Q and a confidence in each.

    Real turns go into a replay, on which E models of the environment are trained, each on draws of
    its own. From replayed observations the policy goes on in the models, and the twins learn from
    both kinds of turns,

        y = r + gamma sum_a pi(a | s') (min_j Q'_j(s', a) - alpha log pi(a | s')),

    of which an imagined one has the weight w = 2 sigmoid(-T d), d how far the models are apart. The
    policy's step is `losses.soft_policy_loss` with source="meee" and scale="confidence". With
    policy `policies.scored_mlp` real actions are the best of several candidates by min_j Q_j +
    lambda d. imagined=0, optimism=0 is a discrete soft actor-critic; one model, or trust=0, is one
    with plain imagined turns.

    Reports critic_error (see `archer`) and model_loss (see `world_model`), the mean of the members,
    too.

    Metrics (Opponents, buffers, tasks):
      meee/confidence: Confidence in the models; MEEE: weight of imagined turns, mean.

    Args:
      models: E. imagined: replayed observations per update from which the policy goes on, for
        `horizon` turns; 0: nothing is imagined. trust: T; 0: all weights are 1. optimism: lambda;
        0: the policy chooses by itself.
      temperature: alpha, the same as of the policy's term.
      hidden: width of critics and models. learning_rate, model_learning_rate: of Adam. rate: by
        which the slow copies follow after each step.
      steps, model_steps: of the critics and of each model, per update, each on `batch` turns.
      rows: turns per update for the policy. size: of the replay.
      warm_up: updates before anything imagined counts, and before the models are asked where to
        look.

    Raises:
      ValueError: another kind of policy or environment, `optimism` with a policy that takes no
        score, or an option outside its range.

    References:
      Yao et al. (2021), MEEE, https://arxiv.org/abs/2107.01825; code YaoYao1995/MEEE c4d6612 (read
      for its arithmetic). There actions are continuous, candidates are the policy's action and 19
      perturbed ones, imagined turns of several updates are kept and alpha is tuned. d is in the
      units of observations: here of codes it is of probabilities, and its mean is over all cells,
      also those that never change, so that T has to grow with their number.
    """
    env, env_params = required(
        setup, "meee", "arrays", one_agent=True, one_environment=True, discrete=True,
        in_graph=True, whole_episodes=True, without_memory=True,
    )  # fmt: skip
    numbers = {
        "models": models, "imagined": imagined, "horizon": horizon, "trust": trust,
        "optimism": optimism, "temperature": temperature, "gamma": gamma, "hidden": hidden,
        "learning_rate": learning_rate, "model_learning_rate": model_learning_rate, "rate": rate,
        "steps": steps, "model_steps": model_steps, "batch": batch, "rows": rows, "size": size,
        "warm_up": warm_up,
    }  # fmt: skip
    for name, number in numbers.items():
        check_range(f"{PATH}.{name}", number, **RANGES[name])
    policy = setup.policy
    if optimism and not policy.candidates:
        raise ValueError(
            f"{PATH}.optimism={optimism} with a policy that takes no score: set config.policy = "
            "section(policies.scored_mlp), or optimism=0"
        )
    model = LearnedEnvironment(
        shape=tuple(env.observation_shape),
        codes=env.num_codes,
        actions=tuple(env.action_names),
        hidden=hidden,
    )
    hooks = Hooks(
        policy, setup.rollout, model, TwinQ.of(env, hidden), optax.adam(learning_rate),
        optax.adam(model_learning_rate), Options(**numbers),
    )  # fmt: skip
    return Component(
        init=hooks.init,
        before=hooks.before,
        source=Source(hooks.make, reads=("rollout",)),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("action_values", "confidence"),
    )


def told(
    found: jax.Array, of_model: jax.Array, unreal: Mapping[str, Any] | None
) -> dict[str, jax.Array]:
    """The metrics of an update: of the losses of critics f32[steps] and of models f32[E, steps]."""
    metrics = {
        "critic_error": jnp.stack([jnp.sum(found), jnp.float32(found.size)]),
        "model_loss": jnp.stack([jnp.sum(of_model), jnp.float32(of_model.size)]),
    }
    if unreal is not None:
        sure = jnp.sum(jnp.where(unreal["acted"], unreal["confidence"], 0.0))
        metrics["meee/confidence"] = jnp.stack([sure, jnp.sum(unreal["acted"]) * 1.0])
    return metrics
