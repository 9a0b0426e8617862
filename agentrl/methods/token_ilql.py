"""ILQL over tokens: Q and V of each token of a reply, from a data set, weigh what is imitated.

Letters: M transitions of a data set, n of them drawn; rows of L tokens, replies of G, V in the
vocabulary, D width.
"""

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
from agentrl.methods.networks import Embedding, followed_by_slow
from agentrl.methods.offline_values import noise_levels
from agentrl.methods.text_critics import trunk_of
from agentrl.methods.transition_text import TextRows, text_rows_by
from agentrl.methods.transitions import Transitions, drawn_numbers, mean_return, played, shares
from agentrl.methods.turn_actions import reply_size
from agentrl.policies import decoder
from agentrl.policies.decoder import DecoderConfig
from agentrl.policies.language import LanguagePolicy
from agentrl.streams import PerPosition, Rows, Streams
from envs.environment import Environment, EnvParams

PATH = "config.components.token_ilql"
_COUNT, _SIZE, _ABOVE = {"low": 0}, {"low": 1}, {"low": 0.0, "above": True}
RANGES: dict[str, dict[str, Any]] = {
    "expert": _COUNT, "random": _COUNT, "mixed": _COUNT, "steps": _COUNT, "conservative": _COUNT,
    "beta": _COUNT, "hidden": _SIZE, "layers": _SIZE, "batch": _SIZE, "rows": _SIZE,
    "learning_rate": _ABOVE, "largest_weight": _ABOVE, "gamma": {"low": 0.0, "high": 1.0},
    "rate": {"low": 0.0, "high": 1.0, "above": True},
    "expectile": {"low": 0.0, "high": 1.0, "above": True, "below": True},
}  # fmt: skip


class Fitted(struct.PyTreeNode):
    """params, slow: {"trunk", "q", "v"} of the networks and of their slow copies. data: what is
    learnt from. key: for draws."""

    params: chex.ArrayTree
    slow: chex.ArrayTree
    opt_state: chex.ArrayTree
    data: Transitions
    key: jax.Array


class Reply(NamedTuple):
    """The replies of n rows of single turns. tokens: i32[n, G]. inside: bool[n, G]. begin: i32[n],
    the position of the first token."""

    tokens: jax.Array
    inside: jax.Array
    begin: jax.Array

    @property
    def last(self) -> jax.Array:
        """The last token of each, bool[n, G]."""
        return self.inside & ~jnp.roll(self.inside, -1, axis=1).at[:, -1].set(False)


def reply_of(rows: Rows, size: int) -> Reply:
    """The replies of rows, of up to G = `size` tokens."""
    begin = jnp.argmax(rows.loss_mask, axis=1).astype(jnp.int32)
    place = jnp.minimum(begin[:, None] + jnp.arange(size), rows.tokens.shape[1] - 1)
    inside = jnp.take_along_axis(rows.loss_mask, place, axis=1)
    inside &= jnp.arange(size) < jnp.sum(rows.loss_mask, axis=1, keepdims=True)
    tokens = jnp.take_along_axis(rows.tokens, place, axis=1)
    return Reply(jnp.where(inside, tokens, 0), inside, begin)


class Networks(NamedTuple):
    """A causal transformer over the rows, with heads for twin Q of all tokens and for V.

    Both are read at the token in front: Q(s, a) of token a, s all that stands before it.
    """

    config: DecoderConfig
    twins: Embedding
    value: Embedding

    @classmethod
    def of(cls, vocabulary: int, hidden: int, layers: int) -> "Networks":
        """Networks of tokens below `vocabulary`, of width `hidden`, a multiple of 4."""
        twins = Embedding(hidden, 2 * vocabulary, None)
        return cls(trunk_of(vocabulary, hidden, layers), twins, Embedding(hidden, 1, None))

    def init(self, key: jax.Array) -> dict[str, chex.ArrayTree]:
        trunk, q, v = jax.random.split(key, 3)
        example = jnp.zeros((1, self.config.width))
        return {
            "trunk": decoder.init(trunk, self.config),
            "q": self.twins.init(q, example),
            "v": self.value.init(v, example),
        }

    def told(self, params: Any, rows: Rows, reply: Reply) -> tuple[jax.Array, jax.Array]:
        """(Q of all tokens f32[n, G, 2, V], V f32[n, G]) in front of the replies' tokens."""
        states = decoder.hidden(params["trunk"], self.config, rows.tokens)
        count, size = reply.inside.shape
        before = jnp.maximum(reply.begin[:, None] + jnp.arange(size) - 1, 0)
        before = jnp.minimum(before, states.shape[1] - 1)
        flat = jnp.take_along_axis(states, before[..., None], axis=1).reshape(count * size, -1)
        q = self.twins.apply(params["q"], flat).reshape(count, size, 2, -1)
        return q, self.value.apply(params["v"], flat).reshape(count, size)


def of_tokens(q: jax.Array, tokens: jax.Array) -> jax.Array:
    """Q of the tokens i32[n, G] by each twin, f32[n, G, 2]."""
    return jnp.take_along_axis(q, tokens[..., None, None], axis=3)[..., 0]


class Turns(NamedTuple):
    """Drawn turns, each with the row of the next one. reward: f32[n]. over: bool[n], the rules
    ended the episode. follows: bool[n], a next turn is known."""

    rows: Rows
    following: Rows
    reward: jax.Array
    over: jax.Array
    follows: jax.Array


def token_losses(
    networks: Networks,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Turns,
    size: int,
    *,
    gamma: float,
    expectile: float,
    conservative: float,
) -> tuple[jax.Array, jax.Array]:
    """(the loss of Q, of both twins together, and of V), means over the replies' tokens, f32[]
    each. See `token_ilql`."""
    reply, ahead = (reply_of(rows, size) for rows in (turns.rows, turns.following))
    q, value = networks.told(params, turns.rows, reply)
    slow_q, slow_value = networks.told(slow, turns.rows, reply)
    _, next_value = networks.told(slow, turns.following, ahead)
    last = reply.last
    following = jnp.where(last, next_value[:, :1], jnp.roll(slow_value, -1, axis=1))
    over = last & turns.over[:, None]
    reward = jnp.where(last, turns.reward[:, None], 0.0)
    target = losses.bootstrap_target(reward, over, following, gamma=gamma)
    # What a limit cuts has no next turn to be worth anything.
    known = reply.inside & (~last | (turns.over | turns.follows)[:, None])
    chosen, of_q = of_tokens(q, reply.tokens), jnp.zeros(())
    for twin in (0, 1):
        each = losses.q_loss(chosen[..., twin], target, known)
        flat = q[:, :, twin].reshape(reply.inside.size, -1)
        away = losses.conservative_loss(flat, reply.tokens.reshape(-1), known.reshape(-1))
        total = jnp.sum(each) + conservative * jnp.sum(away)
        of_q = of_q + total / jnp.maximum(jnp.sum(known), 1)
    low = jnp.min(of_tokens(slow_q, reply.tokens), axis=2)
    of_v = losses.expectile_value_loss(value, low, reply.inside, expectile=expectile)
    return of_q, jnp.sum(of_v) / jnp.maximum(jnp.sum(reply.inside), 1)


def turns_of(data: Transitions, number: jax.Array, length: int) -> Turns:
    """The transitions of these numbers i32[n], of episodes of `length` places each."""
    following = jnp.minimum(number + 1, data.acted.shape[0] - 1)
    follows = ((number + 1) % length != 0) & data.acted[following]
    own, other = (jax.tree.map(lambda x, i=i: x[i], data.text) for i in (number, following))
    return Turns(own, other, data.reward[number], data.over[number], follows)


def fitted(
    value: Fitted,
    networks: Networks,
    transform: optax.GradientTransformation,
    length: int,
    size: int,
    *,
    rate: float,
    batch: int,
    steps: int,
    **fit: float,
) -> tuple[Fitted, jax.Array]:
    """(the networks after `steps` steps on `batch` turns each, losses of Q and V f32[steps, 2]
    before each step). fit: options of `token_losses`."""
    share = shares(value.data, None)

    def loss_of(params, slow, key):
        turns = turns_of(value.data, drawn_numbers(share, batch, key), length)
        both = token_losses(networks, params, slow, turns, size, **fit)
        return sum(both), jnp.stack(both)

    key, draw = jax.random.split(value.key)
    params, slow, opt_state, both = followed_by_slow(
        loss_of, transform, value.params, value.slow, value.opt_state,
        jax.random.split(draw, steps), rate,
    )  # fmt: skip
    return value.replace(params=params, slow=slow, opt_state=opt_state, key=key), both


def weights_of(
    networks: Networks, value: Fitted, rows: Rows, size: int, *, beta: float, largest: float
) -> jax.Array:
    """min(exp(beta (min_j Q'_j - V)), largest) at the tokens of the rows' replies, f32[n, L]."""
    reply = reply_of(rows, size)
    q, _ = networks.told(value.slow, rows, reply)
    _, v = networks.told(value.params, rows, reply)
    low = jnp.min(of_tokens(q, reply.tokens), axis=2)
    weight = losses.exponential_weight(low, v, beta=beta, largest=largest)
    offset = jnp.arange(rows.tokens.shape[1]) - reply.begin[:, None]
    there = rows.loss_mask & (offset < size)
    at = jnp.take_along_axis(weight, jnp.where(there, offset, 0), axis=1)
    return jnp.where(there, at, 0.0)


def check_options(numbers: dict[str, float]) -> None:
    """ValueError for an option outside its range, by name."""
    for name, value in numbers.items():
        check_range(f"{PATH}.{name}", value, **RANGES[name])
    if numbers["hidden"] % 4:
        raise ValueError(
            f"{PATH}.hidden={numbers['hidden']}: expected a multiple of 4, for two heads"
        )


class Hooks(NamedTuple):
    """The hooks of `token_ilql`, with what they are made of. options: of `fitted`."""

    env: Environment
    env_params: EnvParams
    networks: Networks
    adam: optax.GradientTransformation
    text: TextRows
    size: int
    level: tuple[float, ...]
    beta: float
    largest_weight: float
    rows: int
    options: Mapping[str, Any]

    def init(self, start: InitInputs) -> Fitted:
        """The data set, and untrained networks."""
        play, key, draw = jax.random.split(start.key, 3)
        how = {"gamma": 1.0, "best": 1.0, "states": True}
        level = jnp.array(self.level)
        data = self.text.told(played(self.env, self.env_params, level, play, **how))
        params = self.networks.init(key)
        return Fitted(params, params, self.adam.init(params), data.replace(state=None), draw)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """`rows` turns of the data set, drawn evenly, as text."""
        del sources
        data = context.value.data
        number = drawn_numbers(shares(data, None), self.rows, context.key)
        rows = jax.tree.map(lambda x: x[number], data.text)
        return None, rows.replace(stream=number.astype(jnp.int32))

    def annotate(
        self, context: Context, streams: Streams | None, rows: Rows
    ) -> dict[str, PerPosition]:
        """The weight of each token of the data's replies."""
        if streams is not None:
            return {}
        weight = weights_of(
            self.networks, context.value, rows, self.size,
            beta=self.beta, largest=self.largest_weight,
        )  # fmt: skip
        return {"imitation_weight": PerPosition(weight)}

    def after(self, value: Fitted, outcome: UpdateResult) -> tuple[Fitted, dict[str, jax.Array]]:
        """Q and V after their steps on batches of the data set."""
        del outcome
        value, both = fitted(
            value, self.networks, self.adam, self.text.turns, self.size, **self.options
        )
        steps, mean = jnp.float32(self.options["steps"]), mean_return(value.data, len(self.level))
        return value, {
            "q_error": jnp.stack([jnp.sum(both[:, 0]), steps]),
            "v_error": jnp.stack([jnp.sum(both[:, 1]), steps]),
            "data_return": jnp.stack([mean, jnp.ones(())]),
        }


def token_ilql(
    setup: Setup,
    *,
    expert: int = 0,
    random: int = 0,
    mixed: int = 0,
    noise: tuple[float, ...] = (0.3, 0.6, 0.9),
    expectile: float = 0.7,
    conservative: float = 0.01,
    beta: float = 3.0,
    largest_weight: float = 100.0,
    gamma: float = 0.98,
    hidden: int = 32,
    layers: int = 2,
    learning_rate: float = 3e-3,
    rate: float = 0.05,
    steps: int = 8,
    batch: int = 64,
    rows: int = 256,
) -> Component:
    """Source of its own name: a data set of turns in words, whose tokens have weights by Q and V of
    tokens (ILQL, Snell et al. 2022).

    The set is that of `agentrl.methods.offline_values`: episodes of the environment's expert with
    noise, played once, with their text. A step is a token: s is all that stands in the row before
    it. With V of the slow copies, r the turn's reward,

        y = gamma V'(s')  within a reply;  r + gamma V'(s') at its last token, s' the next turn's
        prompt;  r where the episode terminated;
        L = sum over the twins of (Q_j - y)^2 / 2 + conservative CE(Q_j, a)  +  expectile loss of V
        to min_j Q'_j.

    Each update takes `steps` steps on `batch` turns and gives `rows` turns to the terms of the
    objective, each token with `imitation_weight` min(exp(beta (min_j Q'_j - V)), largest_weight)
    for `losses.weighted_imitation`. Without a term of source "rollout" nothing is played.

    Metrics: q_error, v_error, means of the update's losses; data_return, the mean return of the
    data's episodes.

    Args:
      expert, random, mixed, noise: as in `offline_values`.
      expectile: tau, in (0, 1). conservative: weight of `losses.conservative_loss`.
      beta, largest_weight: of the weights. gamma: discount per token.
      hidden, layers: width (a multiple of 4) and layers of the transformer. learning_rate: of Adam.
      rate: by which the slow copies follow after each step.

    Raises:
      ValueError: another policy than one transformer, several agents or environments, one in
        Python, no expert, no episodes, an option outside its range, or a context with summaries.

    References:
      Snell et al. (2022), ILQL, https://arxiv.org/abs/2206.11871; abdulhaim/LMRL-Gym 911d726
      (read). There Q and V are heads on the language model itself, begin at -4.4, and a cloned
      model acts by its logits plus beta (min_j Q'_j - V); here they have a transformer of their
      own, begin at random, and the policy is trained by the weights, so that nothing is added when
      it acts, as for the utterance-level learners of `offline_values`. Their perturbation and these
      weights have the same optimum for one state, the data's policy times exp(beta (Q - V)).
    """
    env, env_params = required(
        setup, "token_ilql", "language", one_agent=True, one_environment=True, discrete=True,
        in_graph=True,
    )  # fmt: skip
    check_options(
        {
            "expert": expert, "random": random, "mixed": mixed, "steps": steps, "beta": beta,
            "conservative": conservative, "hidden": hidden, "layers": layers, "batch": batch,
            "rows": rows, "learning_rate": learning_rate, "largest_weight": largest_weight,
            "gamma": gamma, "rate": rate, "expectile": expectile,
        }
    )  # fmt: skip
    policy = setup.policy
    if not isinstance(policy, LanguagePolicy):
        raise ValueError("component 'token_ilql' needs one transformer as the policy")
    level = noise_levels(env, env_params, (expert, random, mixed), noise, PATH)
    networks = Networks.of(policy.config.vocab_size, hidden, layers)
    options = {
        "rate": rate, "batch": batch, "steps": steps, "gamma": gamma, "expectile": expectile,
        "conservative": conservative,
    }  # fmt: skip
    hooks = Hooks(
        env, env_params, networks, optax.adam(learning_rate),
        text_rows_by(setup, "data", asks=False), reply_size(setup), level, beta, largest_weight,
        rows, options,
    )  # fmt: skip
    return Component(
        init=hooks.init,
        source=Source(hooks.make),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("imitation_weight",),
    )
