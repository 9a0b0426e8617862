"""SPA and multiple-instance reward models: an episode's outcome is spread over its turns."""

import functools
from typing import NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.bags import (
    BagKind,
    BagModel,
    Bags,
    Features,
    Reads,
    TextFeatures,
    bag_error,
    bags_of,
    explored,
    features_by,
    outcome_shares,
    progress_error,
)
from agentrl.methods.by_turn import returns_of
from agentrl.methods.networks import descended
from agentrl.methods.transitions import drawn
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import PerTurn, Rows, Streams

PATH = "config.components.progress"


class Progress(struct.PyTreeNode):
    """params, opt_state: of the network that tells the progress of each turn. reader: the language
    model's parameters whose last layer it is on, as they were at first; () over arrays."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    reader: chex.ArrayTree = ()


def correlation(one: jax.Array, other: jax.Array, mask: jax.Array) -> jax.Array:
    """Pearson's correlation over the turns where mask is True, f32[]; 0 where one is constant.

    one, other: f32[N, T]. mask: bool[N, T].
    """
    count = jnp.maximum(jnp.sum(mask), 1)
    one, other = (jnp.where(mask, x, 0.0) for x in (one, other))
    one, other = (jnp.where(mask, x - jnp.sum(x) / count, 0.0) for x in (one, other))
    size = jnp.sum(one**2) * jnp.sum(other**2)
    return jnp.where(size > 1e-12, jnp.sum(one * other) / jnp.sqrt(jnp.maximum(size, 1e-12)), 0.0)


def fitted(
    network: BagModel,
    adam: optax.GradientTransformation,
    bags: Bags,
    start: jax.Array,
    key: jax.Array,
    *,
    steps: int,
    batch: int,
    balanced: bool = False,
    fits: int = 1,
) -> Progress:
    """The network after `steps` steps on `batch` bags each.

    start, key: keys of the first parameters, and of draws. balanced: see `outcome_shares`. fits:
    networks that start apart, of which the one with the least error on the bags is kept.
    """
    share = outcome_shares(bags.label, jnp.any(bags.mask, axis=1), bins=10 if balanced else 1)

    def step(carry, key):
        own = drawn(bags, share, batch, key)
        loss_of = functools.partial(bag_error, network=network, bags=own)
        return descended(loss_of, adam, *carry, 1)[:2], None

    def fit(start, draw):
        params = network.init(start, bags.features[:1], bags.mask[:1])
        carry = params, adam.init(params)
        carry, _ = jax.lax.scan(step, carry, jax.random.split(draw, steps))
        told = jnp.sum(network.apply(carry[0], bags.features, bags.mask), axis=1)
        return Progress(*carry), jnp.sum(share * jnp.square(told - bags.label))

    keys = (x[None] if fits == 1 else jax.random.split(x, fits) for x in (start, key))
    values, errors = jax.vmap(fit)(*keys)
    best = jnp.argmin(errors)
    return jax.tree.map(lambda x: x[best], values)


def _checked(setup: Setup, kind: BagKind, reads: Reads, **counts: int) -> Features:
    """What is known of turns; raises the errors of `progress`."""
    required(setup, "progress", None, discrete=True)
    for name, number in counts.items():
        least = 0 if name in ("steps", "explore") else 1
        check_range(f"{PATH}.{name}", number, least)
    check_choice(f"{PATH}.kind", kind, get_args(BagKind))
    check_choice(f"{PATH}.reads", reads, get_args(Reads))
    features = features_by(setup, reads)
    in_words = isinstance(features, TextFeatures)
    if in_words and not isinstance(setup.policy, LanguagePolicy):
        raise ValueError("component 'progress' in words needs one transformer as the policy")
    if in_words and reads != "action":
        raise ValueError(f"{PATH}.reads={reads!r}: in words the reply is read, too; use 'action'")
    if counts["explore"]:
        required(setup, "progress", None, in_graph=True)
        if setup.rollout.needs:
            raise ValueError(
                f"{PATH}.explore={counts['explore']}: before the first update nothing draws tasks"
            )
    return features


class Hooks(NamedTuple):
    """The hooks of `progress`, with what they are made of."""

    rollout: Rollout
    features: Features
    network: BagModel
    adam: optax.GradientTransformation
    steps: int
    explore: int
    fit: int
    batch: int
    balanced: bool
    fits: int

    def init(self, start: InitInputs) -> Progress:
        """The network, fitted to explored episodes or untrained."""
        network, features = self.network, self.features
        key, play, draw = jax.random.split(start.key, 3)
        params = network.init(key, jnp.zeros((1, 1, features.width)), jnp.ones((1, 1), bool))
        value = Progress(params, self.adam.init(params))
        if self.explore:
            bags = explored(self.rollout, features, start.params, play, self.explore)
            value = fitted(
                network, self.adam, bags, key, draw,
                steps=self.fit, batch=self.batch, balanced=self.balanced, fits=self.fits,
            )  # fmt: skip
        return value.replace(reader=features.reader(start.params))

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """`progress` f32[N, T]: what the network gives each turn of the return."""
        value = context.value
        own = bags_of(self.features, value.reader, streams, rows)
        return {"progress": PerTurn(self.network.apply(value.params, own.features, own.mask))}

    def after(
        self, value: Progress, outcome: UpdateResult
    ) -> tuple[Progress, dict[str, jax.Array]]:
        """The network after its steps on the update's streams."""
        streams, told = outcome.streams, outcome.notes["progress"].values
        error = progress_error(told, returns_of(streams), streams.mask)
        alike = correlation(told, streams.reward, streams.mask)
        if self.steps:
            own = bags_of(self.features, value.reader, streams, outcome.rows)
            loss_of = functools.partial(bag_error, network=self.network, bags=own)
            params, opt_state, _ = descended(
                loss_of, self.adam, value.params, value.opt_state, self.steps
            )
            value = value.replace(params=params, opt_state=opt_state)
        return value, {
            "progress_error": jnp.stack([error, jnp.ones(())]),
            "progress_correlation": jnp.stack([alike, jnp.ones(())]),
        }


def progress(
    setup: Setup,
    *,
    kind: BagKind = "instance",
    reads: Reads = "action",
    hidden: int = 64,
    memory: int = 2,
    learning_rate: float = 1e-3,
    steps: int = 8,
    explore: int = 0,
    fit: int = 1000,
    batch: int = 64,
    balanced: bool = False,
    fits: int = 1,
) -> Component:
    """Supplies `progress` f32[N, T] for reward term `progress_reward`.

    c_t of a network that is trained so that the sum of c_t over a stream is its return: SPA's
    progress, or a reward model of multiple-instance learning, for which a trajectory is a bag whose
    label is known. The sum does not fix how it is spread: actions that successful streams have more
    often get more. Named otherwise:

        SPA, fitted to each batch as it comes: the defaults;
        SPA as published: explore=32, steps=0, balanced=True; kept up with the policy: steps=8;
        reward models on labels of trajectories (MIL): explore=16, steps=0, reads="observation"
        and a kind of `methods.bags.BagModel`: "instance", "embedding", "recurrent", "csc".

    In words the network is on the last layer of the language model as it was before the first
    update, at the last token of each reply; that model is not trained (released: it is).

    Metrics, of a batch before the update's steps: progress_error, the mean squared error of the
    sums; progress_correlation, of c_t with the rewards of turns (which are not read else).

    Metrics (Critic and models):
      progress_error: Progress error; squared error of the predicted returns.
      progress_correlation: Progress as a reward; its correlation with turns' rewards.

    Args:
      kind: of the model; all but "instance" have a memory, and what they pay depends on the past.
      reads: "action", observation and action of a turn, or "observation" alone.
      hidden: width of the network's layers. memory: units of its LSTM.
      learning_rate: of Adam. steps: per update, on the streams of the batch; 0: as it was fitted.
      explore: collections that the policy plays before the first update, after a warm start, to
        which the network is fitted beforehand; 0: none.
      fit: steps beforehand. batch: streams drawn for each. balanced: all returns are drawn equally
        often (of ten equal parts of their range), as of most episodes nothing can be learnt.
      fits: networks that are fitted beforehand, of which the one with the least error on the
        explored episodes is kept; an LSTM may find no memory that helps.

    Raises:
      ValueError: continuous actions, several networks in words, an option outside its range, or
        exploring with a rollout outside the graph or with tasks that a component draws.

    References:
      Wang et al. (2025), SPA-RL, https://arxiv.org/abs/2505.20732; code
      WangHanLinHenry/SPA-RL-Agent ed20087 (read). There f is a head on a language model, fitted
      beforehand to explored episodes. Two defects of the release are not copied: its step values
      are overwritten by a leave-one-out outcome, and the last step's is multiplied by 0.
      Early et al. (2022), https://arxiv.org/abs/2205.15367; code
      JAEarly/MIL-for-Non-Markovian-Reward-Modelling 4e9edcd (read): 5,000 bags, an encoder of
      64, 32, 32, a head of 32, 16, dropout 0.1, memory 2, up to 250 epochs with early stopping.
      Deviations: two layers, no dropout, a fixed number of steps; there the policy sees the
      LSTM's state beside its observation, here it has a memory of its own (`policies.gru`).
    """
    counts = {
        "hidden": hidden, "memory": memory, "fit": fit, "batch": batch, "fits": fits,
        "steps": steps, "explore": explore,
    }  # fmt: skip
    features = _checked(setup, kind, reads, **counts)
    check_range(f"{PATH}.learning_rate", learning_rate, 0.0, below=True)
    hooks = Hooks(
        setup.rollout, features, BagModel(kind, hidden, memory), optax.adam(learning_rate), steps,
        explore, fit, batch, balanced, fits,
    )  # fmt: skip
    return Component(
        init=hooks.init,
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("progress",),
        restarts=explore > 0,
    )
