"""E3B: what is new in an episode, by features that tell actions apart; and what is new in a run."""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.by_turn import ended, followed, to_turns
from agentrl.methods.counts import counted
from agentrl.methods.curiosity import deviation
from agentrl.methods.networks import Embedding, descended
from agentrl.methods.similar_anchors import observation_counts
from agentrl.methods.turn_actions import turn_actions
from agentrl.rewards.novelty import elliptical_novelty, of_next_turn
from agentrl.streams import PerTurn, Rows, Shared, Streams

Across = Literal["none", "counts"]
Reads = Callable[[Streams, Rows], jax.Array]
PATH = "config.components.e3b"


class E3B(struct.PyTreeNode):
    """params, opt_state: of the inverse-dynamics network. moments: f32[3], number, sum and sum of
    squares of the bonuses. counts: f32[buckets], visits in the run; () where none are read."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    moments: jax.Array
    counts: chex.ArrayTree


class InverseDynamics(NamedTuple):
    """Tells the action between two observations from an embedding phi of each."""

    encoder: Embedding
    head: Embedding

    def init(self, key: jax.Array, seen: jax.Array) -> chex.ArrayTree:
        """Random parameters, for observations such as `seen` [n, ...]."""
        one, other = jax.random.split(key)
        encoder = self.encoder.init(one, seen)
        phi = self.encoder.apply(encoder, seen)
        head = self.head.init(other, jnp.concatenate([phi, phi], axis=1))
        return {"encoder": encoder, "head": head}

    def phi(self, params: chex.ArrayTree, seen: jax.Array) -> jax.Array:
        """Features f32[n, F] of observations [n, ...]."""
        return self.encoder.apply(params["encoder"], seen)

    def logits(self, params: chex.ArrayTree, seen: jax.Array, following: jax.Array) -> jax.Array:
        """Logits f32[n, A] of the action between observations [n, ...] each."""
        both = [self.phi(params, seen), self.phi(params, following)]
        return self.head.apply(params["head"], jnp.concatenate(both, axis=1))


class Steps(NamedTuple):
    """The steps of a batch, n = N * T. seen, following: [n, ...], observations before and after.
    action: i32[n]. there: bool[n], the episode has both, and the action is known."""

    seen: jax.Array
    following: jax.Array
    action: jax.Array
    there: jax.Array


def inverse_loss(
    params: chex.ArrayTree, network: InverseDynamics, steps: Steps
) -> tuple[jax.Array, jax.Array]:
    """(mean of -log p(action | phi(seen), phi(following)), share of actions told right), f32[]
    each, over the steps that are `there`; 0 without any."""
    logits = network.logits(params, steps.seen, steps.following)
    action = jnp.where(steps.there, steps.action, 0)
    each = optax.softmax_cross_entropy_with_integer_labels(logits, action)
    right = jnp.argmax(logits, axis=1) == action
    count = jnp.maximum(jnp.sum(steps.there), 1)
    total = jnp.sum(jnp.where(steps.there, each, 0.0))
    return total / count, jnp.sum(right & steps.there) / count


def observations_by_turn(setup: Setup, buckets: int) -> Reads:
    """(streams, rows) -> what each turn was acted from, [N, T, ...]; zeros where nobody acted.

    Over arrays the observation; in words how often each token is in it, f32[N, T, buckets].
    """
    if not setup.policy.reads_text:
        return lambda streams, rows: to_turns(rows.observation, rows, streams.mask.shape)

    def in_words(streams, rows):
        shape = streams.mask.shape
        return observation_counts(rows, shape, buckets).reshape(*shape, buckets)

    return in_words


class Hooks(NamedTuple):
    """The hooks of `e3b`, with what they are made of. empty: one observation."""

    network: InverseDynamics
    adam: optax.GradientTransformation
    observed: Reads
    actions: Reads
    empty: jax.ShapeDtypeStruct
    steps: int
    ridge: float
    places: int

    def init(self, start: InitInputs) -> E3B:
        """An untrained network, and no place visited."""
        seen = jnp.zeros((1, *self.empty.shape), self.empty.dtype)
        params = self.network.init(start.key, seen)
        counts = jnp.zeros(self.places) if self.places else ()
        return E3B(params, self.adam.init(params), jnp.zeros(3), counts)

    def annotate(
        self, context: Context, streams: Streams, rows: Rows
    ) -> tuple[dict[str, PerTurn | Shared], dict[str, jax.Array]]:
        """`novelty` f32[N, T], the bonus over the deviation of all bonuses before this update."""
        value, mask = context.value, streams.mask
        seen = self.observed(streams, rows)
        flat = seen.reshape(-1, *seen.shape[2:])
        phi = self.network.phi(value.params, flat)
        phi, ends = phi.reshape(*mask.shape, -1), ended(streams)
        bonus, counts = elliptical_novelty(phi, mask, ends, ridge=self.ridge), value.counts
        metrics = {}
        if self.places:
            new, counts = counted(counts, streams)
            bonus = bonus * new
            metrics["places"] = jnp.stack([jnp.sum(counts > 0) * 1.0, jnp.ones(())])
        bonus = of_next_turn(bonus, mask, ends)
        turns = jnp.sum(mask) * 1.0
        added = jnp.stack([turns, jnp.sum(bonus), jnp.sum(bonus**2)])
        notes = {
            "novelty": PerTurn(bonus / deviation(value.moments)),
            "e3b": Shared((value.moments + added, counts)),
        }
        return notes, metrics | {"novelty": added[1::-1]}

    def after(self, value: E3B, outcome: UpdateResult) -> tuple[E3B, dict[str, jax.Array]]:
        """The network after its steps on the update's own; moments and counts with the update's."""
        met = self.met(outcome.streams, outcome.rows)
        _, right = inverse_loss(value.params, self.network, met)
        params, opt_state, losses = descended(
            lambda params: inverse_loss(params, self.network, met)[0],
            self.adam, value.params, value.opt_state, self.steps,
        )  # fmt: skip
        moments, counts = outcome.notes["e3b"].values
        count = jnp.sum(met.there) * 1.0
        metrics = {
            "inverse_loss": jnp.stack([losses[0] * count, count]),
            "inverse_accuracy": jnp.stack([right * count, count]),
        }
        return E3B(params, opt_state, moments, counts), metrics

    def met(self, streams: Streams, rows: Rows) -> Steps:
        """The steps of a batch; the last turn of an episode leads to nothing that is seen."""
        seen, action = self.observed(streams, rows), self.actions(streams, rows)[..., 0]
        steps = Steps(seen, jnp.roll(seen, -1, axis=1), action, followed(streams) & (action >= 0))
        return Steps(*(x.reshape(-1, *x.shape[2:]) for x in steps))


def e3b(
    setup: Setup,
    *,
    across: Across = "none",
    hidden: int = 64,
    features: int = 16,
    learning_rate: float = 1e-3,
    steps: int = 1,
    ridge: float = 0.1,
    buckets: int = 1 << 16,
    tokens: int = 512,
) -> Component:
    """Supplies `novelty` f32[N, T] for reward term `novelty_bonus`: new in the episode, by E3B.

    A turn from s to s' has, over the standard deviation of all such bonuses so far,

      novelty = b(s') / sqrt(N(s')),  b = phi' C^-1 phi,  C = ridge I + sum of earlier phi phi',

    the sum over the turns of the episode before s' (`agentrl.rewards.novelty.elliptical_novelty`)
    and N(s') the visits of s' in the run, by its anchor; without the root with across="none". The
    last turn of an episode has 0: no turn is acted from its final state.

    phi is trained in every update to tell the action from phi(s) and phi(s'), by cross-entropy, so
    that it need not keep what actions do not move. In words s is the tokens of the observation, in
    any order, and the action is the first command of the reply; a reply without one is not learnt
    from.

    Reports novelty (see `curiosity`) and, with across="counts", places (see `visit_counts`), too.

    Metrics (Critic and models):
      inverse_loss: Loss of the inverse model; E3B: of telling which action it was.
      inverse_accuracy: Actions told [share]; E3B: by the inverse model.

    Args:
      across: "none", the episodic bonus alone; "counts", times the global one.
      hidden, features: widths of the network, and of phi. learning_rate, steps: of Adam, each step
        on all turns of the batch.
      ridge: > 0.
      buckets: places that are told apart by counts. tokens: that are told apart in words; beyond
        either number some are taken for each other.

    Raises:
      ValueError: continuous actions, several agents or environments, an environment in Python,
        segments, in words commands that the state changes, or an option outside its range.

    References:
      Henaff et al. (2022), E3B, https://arxiv.org/abs/2210.05805; the product with a global bonus:
      Henaff et al. (2023), https://arxiv.org/abs/2306.03236 (code facebookresearch/e3b, at 802f6fe
      for the inverse model and edd2cce for the bonus, read). Deviations: there steps over the end
      of an episode are learnt from, too; gradients are clipped; actors use a copy of the encoder;
      the division by the deviation is an option.
    """
    needs = {"one_agent": True, "one_environment": True, "in_graph": True}
    env, _ = required(setup, "e3b", None, discrete=True, whole_episodes=True, **needs)
    check_choice(f"{PATH}.across", across, get_args(Across))
    sizes = {
        "hidden": hidden, "features": features, "steps": steps, "buckets": buckets, "tokens": tokens
    }  # fmt: skip
    for name, value in sizes.items():
        check_range(f"{PATH}.{name}", value, 1)
    check_range(f"{PATH}.learning_rate", learning_rate, 0.0, below=True)
    check_range(f"{PATH}.ridge", ridge, 0.0, above=True)
    codes, empty = env.num_codes, jax.ShapeDtypeStruct(env.observation_shape, env.observation_dtype)
    if setup.policy.reads_text:
        codes, empty = None, jax.ShapeDtypeStruct((tokens,), jnp.float32)
    encoder, head = Embedding(hidden, features, codes), Embedding(hidden, env.num_actions, None)
    hooks = Hooks(
        InverseDynamics(encoder, head), optax.adam(learning_rate),
        observations_by_turn(setup, tokens), turn_actions(setup, "e3b"), empty, steps, ridge,
        buckets if across == "counts" else 0,
    )  # fmt: skip
    return Component(
        init=hooks.init, annotate=hooks.annotate, after=hooks.after, fills=("novelty",)
    )
