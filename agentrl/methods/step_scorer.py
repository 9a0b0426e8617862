"""StepORLM: a process scorer of turns that learns beside the policy, from its own labels where they
agree with the outcome."""

import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_range
from agentrl.learner.component import (
    Component,
    Context,
    InitInputs,
    Metrics,
    Setup,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.bags import (
    BagModel,
    Bags,
    Features,
    TextFeatures,
    bags_of,
    explored,
    features_by,
    outcome_shares,
)
from agentrl.methods.by_turn import solved
from agentrl.methods.networks import descended
from agentrl.methods.pairs import check_judged
from agentrl.methods.progress import correlation
from agentrl.methods.transitions import drawn
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams

PATH = "config.components.step_scorer"


class Scorer(struct.PyTreeNode):
    """params, opt_state: of the network, as it is trained. judge: its parameters when the round
    began, by which turns are scored and labelled. reader: the policy's parameters whose last layer
    it is on, as they were at first; () over arrays."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    judge: chex.ArrayTree
    reader: chex.ArrayTree = ()


def agreeing_labels(logit: jax.Array, mask: jax.Array, outcome: jax.Array) -> jax.Array:
    """Probability that a scorer calls each turn right, of its labels that agree with the outcome.

    A label of a stream says of each turn whether it is right, drawn with p_t = sigmoid(logit_t). It
    agrees if all are right and the stream has succeeded, or one is wrong and it has not. So it is
    1 in a success, and in a failure

      p_t (1 - prod_{s != t} p_s) / (1 - prod_s p_s).

    With p = .9, .5, .8 in a failure: .84375, .21875, .6875. The last turn with p < 1 bears it all.

    logit: f32[N, T]. mask: bool[N, T], turns that exist. outcome: bool[N] or f32[N], above 0 is a
    success. Returns f32[N, T], 0 outside mask.
    """
    log = jnp.where(mask, jax.nn.log_sigmoid(jnp.where(mask, logit, 0.0)), 0.0)
    total = jnp.sum(log, axis=1, keepdims=True)
    # A scorer that is sure of all turns of a failure leaves 0 / 0.
    wrong = jnp.maximum(-jnp.expm1(total), 1e-12)
    others = -jnp.expm1(jnp.minimum(total - log, 0.0))
    failed = jnp.clip(jnp.exp(log) * others / wrong, 0.0, 1.0)
    return jnp.where(mask, jnp.where(outcome[:, None] > 0, 1.0, failed), 0.0)


def label_error(
    params: chex.ArrayTree, network: BagModel, bags: Bags, label: jax.Array
) -> jax.Array:
    """Mean over turns of the cross-entropy of the network's p_t with labels f32[M, T], f32[]."""
    logit = network.apply(params, bags.features, bags.mask)
    assert isinstance(logit, jax.Array)
    error = optax.sigmoid_binary_cross_entropy(logit, label)
    return jnp.sum(jnp.where(bags.mask, error, 0.0)) / jnp.maximum(jnp.sum(bags.mask), 1)


class Hooks(NamedTuple):
    """The hooks of `step_scorer`, with what they are made of."""

    rollout: Rollout
    features: Features
    network: BagModel
    adam: optax.GradientTransformation
    steps: int
    every: int
    explore: int
    fit: int
    batch: int

    def init(self, start: InitInputs) -> Scorer:
        """The network, fitted to explored episodes."""
        network, features = self.network, self.features
        key, play, draw = jax.random.split(start.key, 3)
        reader = features.reader(start.params)
        params = network.init(key, jnp.zeros((1, 1, features.width)), jnp.ones((1, 1), bool))
        bags = explored(self.rollout, features, start.params, play, self.explore, solved)
        share = outcome_shares(bags.label, jnp.any(bags.mask, axis=1), bins=1)

        def step(carry, key):
            own = drawn(bags, share, self.batch, key)
            loss_of = self._loss_of(carry[0], own)
            return descended(loss_of, self.adam, *carry, 1)[:2], None

        carry = params, self.adam.init(params)
        (params, opt_state), _ = jax.lax.scan(step, carry, jax.random.split(draw, self.fit))
        return Scorer(params, opt_state, params, reader)

    def _loss_of(self, judge: chex.ArrayTree, bags: Bags) -> functools.partial[jax.Array]:
        """(params) -> the error on labels of the network `judge` that agree with the outcomes."""
        label = agreeing_labels(self._logits(judge, bags), bags.mask, bags.label)
        label = jax.lax.stop_gradient(label)
        return functools.partial(label_error, network=self.network, bags=bags, label=label)

    def _logits(self, params: chex.ArrayTree, bags: Bags) -> jax.Array:
        logit = self.network.apply(params, bags.features, bags.mask)
        assert isinstance(logit, jax.Array)
        return logit

    def amend(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[Streams, Rows, Metrics]:
        """The streams with `judgement`, p_t - 1/2 by the round's judge."""
        value, mask = context.value, streams.mask
        bags = bags_of(self.features, value.reader, streams, rows, solved)
        chance = jax.nn.sigmoid(self._logits(value.judge, bags))
        score = jnp.where(mask, chance - 0.5, 0.0)
        present = jnp.any(mask, axis=1)
        all_right = jnp.all((score > 0) | ~mask, axis=1)
        agrees = present & (all_right == (bags.label > 0))
        assert streams.judgement is not None  # `check_judged`
        alike = correlation(chance, (streams.judgement > 0) * 1.0, mask)
        metrics = {
            "scorer_agreement": jnp.stack([jnp.sum(agrees) * 1.0, jnp.sum(present) * 1.0]),
            "scorer_right": jnp.stack([jnp.sum(score > 0) * 1.0, jnp.sum(mask) * 1.0]),
            "scorer_correlation": jnp.stack([alike, jnp.ones(())]),
        }
        return streams.replace(judgement=score), rows, metrics

    def after(self, value: Scorer, outcome: UpdateResult) -> tuple[Scorer, Metrics]:
        """The network after its steps on the update's streams, which judges from the next round."""
        assert outcome.streams is not None  # `check_judged`: turns of the rollout are judged
        assert outcome.rows is not None
        bags = bags_of(self.features, value.reader, outcome.streams, outcome.rows, solved)
        params, opt_state, errors = descended(
            self._loss_of(value.judge, bags),
            self.adam, value.params, value.opt_state, self.steps,
        )  # fmt: skip
        due = (outcome.before.update + 1) % self.every == 0
        judge = jax.tree.map(lambda new, old: jnp.where(due, new, old), params, value.judge)
        new = Scorer(params, opt_state, judge, value.reader)
        return new, {"scorer_error": jnp.stack([errors[0], jnp.ones(())])}


def step_scorer(
    setup: Setup,
    *,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    steps: int = 8,
    every: int = 5,
    explore: int = 8,
    fit: int = 1000,
    batch: int = 64,
) -> Component:
    """Scores each turn by a network that learns which turns are right: fills `judgement`.

    p_t is the probability that turn t is right; `Streams.judgement` is p_t - 1/2, so that
    `methods.pairs.pairs(by="judgement")` reads the share of turns judged right, StepORLM's process
    score, for `losses.weighted_dpo`. Nothing tells the network about turns: it is trained on its
    own labels that agree with the outcome (success), see `agreeing_labels`. It is fitted to
    `explore` collections before the first update; then it takes `steps` steps per update on the
    batch, towards labels of the judge, which is the network as it was when the round began.

    config.rollout.judge must be set; its scores are replaced, and only compared with. In words the
    network is on the last layer of the language model as it was at first, at the last token of each
    reply.

    Metrics (Critic and models):
      scorer_agreement: Scorer and outcome [share]; streams called all right exactly where they
        succeed.
      scorer_right: Turns called right [share]; by the step scorer.
      scorer_correlation: Scorer and judge; correlation over turns of the scorer's probability with
        whether config.rollout.judge's score is above 0.
      scorer_error: Scorer's error [nats]; per turn, before the update's steps.

    Args:
      hidden: width of the network's two layers. learning_rate: of Adam.
      steps: per update; 0: frozen as it was fitted.
      every: updates in a round, as config.reference.every.
      explore: collections that the policy plays beforehand, after a warm start. fit: steps on them,
        each towards the network's own labels at that step. batch: streams drawn for each.

    Raises:
      ValueError: nothing that judges turns, no success, continuous actions, several networks in
        words, a rollout outside the graph or with tasks that a component draws, or an option
        outside its range.

    References:
      StepORLM (2025), https://arxiv.org/abs/2509.22558, from notes; no code was read. There the
      scorer is a language model that writes critiques, of which those that agree with the solver
      are imitated, in three rounds. Here the mean over all of a stream's agreeing labels is taken
      in closed form, so that each stream counts once however seldom its labels agree, and the
      scorer has no teacher at first: fitting it from its own labels maximises the likelihood of
      the outcomes, prod_t p_t of a success.
    """
    required(
        setup, "step_scorer", None,
        discrete=True, whole_episodes=True, one_environment=True, in_graph=True,
    )  # fmt: skip
    check_judged(setup, "component 'step_scorer' replaces, and is compared with, scores: it")
    for name, number, least in (
        ("hidden", hidden, 1), ("steps", steps, 0), ("every", every, 1), ("explore", explore, 1),
        ("fit", fit, 1), ("batch", batch, 1),
    ):  # fmt: skip
        check_range(f"{PATH}.{name}", number, least)
    check_range(f"{PATH}.learning_rate", learning_rate, 0.0, above=True)
    env, _ = next(iter(setup.envs.values()))
    features = features_by(setup, "action")
    if isinstance(features, TextFeatures) and not isinstance(setup.policy, LanguagePolicy):
        raise ValueError("component 'step_scorer' in words needs one transformer as the policy")
    if not env.has_success or setup.rollout.needs:
        raise ValueError(
            f"component 'step_scorer' with {env.name}: expected an environment with success, and "
            "tasks that no component draws (before the first update nothing draws any)"
        )
    hooks = Hooks(
        setup.rollout, features, BagModel("instance", hidden, 1), optax.adam(learning_rate), steps,
        every, explore, fit, batch,
    )  # fmt: skip
    return Component(
        init=hooks.init,
        amend=hooks.amend,
        after=hooks.after if steps else None,
        restarts=True,
    )
