"""ArCHer: critics of whole replies, learnt from a replay of turns, and the policy's advantage."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl.advantages.temporal import AtLimit, ended
from agentrl.advantages.utterance import twin_targets
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
from agentrl.methods.by_turn import collected, empty_like
from agentrl.methods.networks import followed_by_slow
from agentrl.methods.utterance_critics import ArrayCritics, Turns, UtteranceCritics
from agentrl.streams import PerTurn, Rows, Streams

PATH = "config.components.archer"


class Critics(struct.PyTreeNode):
    """params, slow: of the critics and of their slow copies. opt_state. replay: {name: [C, ...]} of
    `UtteranceCritics.turns`. place: i32[], where the next ones go. updates: i32[]. key: for
    draws."""

    params: chex.ArrayTree
    slow: chex.ArrayTree
    opt_state: chex.ArrayTree
    replay: dict[str, Any]
    place: jax.Array
    updates: jax.Array
    key: jax.Array


def put(replay: Mapping[str, Any], place: jax.Array, new: Mapping[str, Any], known: jax.Array):
    """(the replay with those places of `new` that are `known` bool[M], the next place): a ring."""
    size = jax.tree.leaves(replay)[0].shape[0]
    number = jnp.cumsum(known) - 1
    at = jnp.where(known & (number < size), (place + number) % size, size)  # dropped
    store = lambda all_, x: all_.at[at].set(x, mode="drop")  # noqa: E731
    return jax.tree.map(store, replay, dict(new)), (place + jnp.sum(known)) % size


def stored(replay: Mapping[str, Any], place: jax.Array, new: Mapping[str, Any]):
    """`put` of the whole transitions of `new`, see `by_turn.transitions`.

    A transition is whole if its next observation was seen, or the episode terminated.
    """
    return put(replay, place, new, new["acted"] & (new["over"] | new["seen"]))


def mean_error(value: jax.Array, target: jax.Array, there: jax.Array) -> jax.Array:
    """Mean of sum_j (value_j - target_j)^2 where there is one, f32[]; 0 where there is none.

    value, target: f32[..., 2], of which the target has no gradient. there: bool[...].
    """
    error = jnp.sum(jnp.square(value - jax.lax.stop_gradient(target)), axis=-1)
    return jnp.sum(jnp.where(there, error, 0.0)) / jnp.maximum(jnp.sum(there), 1)


def critic_loss(
    critics: UtteranceCritics,
    params: chex.ArrayTree,
    slow: chex.ArrayTree,
    turns: Turns,
    said: Any,
    gamma: float,
) -> jax.Array:
    """sum_j of the mean over turns of (Q_j(o, u) - y_j)^2 and of (V_j(o) - Q'_j(o, u'))^2, f32[].

    y_j of `twin_targets`; said: replies u' of the policy of now, the second mean is over turns that
    have one; ' is a slow copy. Places of the replay that are still empty do not count.
    """
    q, v = critics.values(params, turns)
    said_q, answered = critics.anew_q(slow, turns, said)
    following = critics.next_values(slow, turns)
    target = twin_targets(turns["reward"], turns["over"], following, gamma=gamma)
    return mean_error(q, target, turns["acted"]) + mean_error(v, said_q, answered)


def drawn(replay: Turns, count: int, key: jax.Array) -> dict[str, Any]:
    """`count` places of the replay. It is filled from its first place on: empty ones are drawn,
    too, until it is full."""
    size = jax.tree.leaves(replay)[0].shape[0]
    number = jax.random.randint(key, (count,), 0, size)
    return jax.tree.map(lambda x: x[number], dict(replay))


def fitted(
    critics: UtteranceCritics,
    acting: chex.ArrayTree,
    transform: optax.GradientTransformation,
    value: Critics,
    *,
    gamma: float,
    rate: float,
    batch: int,
    steps: int,
) -> tuple[Critics, jax.Array]:
    """(the critics after `steps` steps on `batch` places of the replay each, losses f32[steps]).

    acting: the policy's parameters.
    """

    def loss_of(params, slow, key):
        which, draw = jax.random.split(key)
        turns = drawn(value.replay, batch, which)
        said = critics.anew(acting, turns, draw)
        loss = critic_loss(critics, params, slow, turns, said, gamma)
        return loss, loss

    key, draw = jax.random.split(value.key)
    params, slow, opt_state, losses = followed_by_slow(
        loss_of, transform, value.params, value.slow, value.opt_state,
        jax.random.split(draw, steps), rate,
    )  # fmt: skip
    return value.replace(params=params, slow=slow, opt_state=opt_state, key=key), losses


class Hooks(NamedTuple):
    """The hooks of `archer`, with what they are made of. options: of `fitted`."""

    setup: Setup
    critics: UtteranceCritics
    adam: optax.GradientTransformation
    options: Mapping[str, Any]
    size: int
    warm_up: int
    rows: int
    at_limit: AtLimit

    def turns(self, streams: Streams, rows: Rows) -> dict[str, Any]:
        """The turns of whole streams, which a limit ends or not."""
        over = ended(streams.terminated, streams.truncated, self.at_limit)
        return self.critics.turns(streams.replace(terminated=over), rows)

    def init(self, start: InitInputs) -> Critics:
        """Untrained critics, and an empty replay."""
        batch = collected(self.setup.rollout, self.setup.policy, start.key)
        replay = empty_like(jax.eval_shape(self.turns, *batch), self.size)
        params, zero = self.critics.init(start.key), jnp.zeros((), jnp.int32)
        key = jax.random.fold_in(start.key, 1)
        return Critics(params, params, self.adam.init(params), replay, zero, zero, key)

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """Replies of the policy in observations of the replay."""
        del sources
        which, draw = jax.random.split(context.key)
        turns = drawn(context.value.replay, self.rows, which)
        said = self.critics.anew(context.params, turns, draw)
        return self.critics.learnt(context.params, turns, said)

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """Q and V of each turn."""
        value = context.value
        q, v = self.critics.values(value.params, self.turns(streams, rows))
        shape, ready = (*streams.mask.shape, 2), value.updates >= self.warm_up
        q, v = (jnp.where(ready, x.reshape(shape), 0.0) for x in (q, v))
        return {"twin_q": PerTurn(q), "twin_v": PerTurn(v)}

    def after(self, value: Critics, outcome: UpdateResult) -> tuple[Critics, dict[str, jax.Array]]:
        """The critics after their steps, and the replay with the update's turns."""
        new = self.turns(outcome.streams, outcome.rows)
        known = jnp.any(new["acted"].reshape(new["acted"].shape[0], -1), axis=1)
        replay, place = put(value.replay, value.place, new, known)
        value = value.replace(replay=replay, place=place, updates=value.updates + 1)
        value, losses = fitted(self.critics, outcome.params, self.adam, value, **self.options)
        error = jnp.stack([jnp.sum(losses), jnp.float32(self.options["steps"])])
        return value, {"critic_error": error}


def archer(
    setup: Setup,
    *,
    gamma: float = 0.95,
    hidden: int = 64,
    layers: int = 1,
    learning_rate: float = 1e-3,
    rate: float = 0.1,
    steps: int = 50,
    batch: int = 256,
    size: int = 16384,
    warm_up: int = 20,
    rows: int = 256,
    at_limit: AtLimit = "bootstrap",
) -> Component:
    """Supplies `twin_q` and `twin_v` f32[N, T, 2] for estimator `twin_critics`.

    Critics Q_j(o, u) of replies and V_j(o) of observations are fitted to a replay of turns, to the
    targets r + gamma V'_j(o') and Q'_j(o, u') with u' drawn from the policy of now; ' are copies
    that follow slowly. Over arrays a reply is an action, see `utterance_critics.ArrayCritics`; in
    words it is a text, which a transformer of the critics' own reads with all that the policy read
    before it, see `text_critics.TextCritics`.

    The policy learns from its own episodes of the update by `losses.reinforce` or another loss; or,
    as published, with source="archer", from replies that it draws anew in observations of the
    replay, whose advantage the critics alone say: `rows` of them per update, of log-probabilities
    as they were drawn (the ratio before the first step is 1).

    Metric critic_error, the mean of the update's losses.

    Metrics (Critic and models):
      critic_error: Critic's error; mean loss of a component's critics.

    Args:
      hidden: width of the critics' two layers; in words also of the transformer, a multiple of 4.
      layers: of the transformer in words; over arrays there is none.
      learning_rate: of Adam. rate: by which the slow copies follow after each step.
      steps, batch: steps per update, each on as many places of the replay, which has `size`. A
        place is a turn over arrays, an episode in words.
      warm_up: updates at first in which Q and V are given as 0, so that the policy stays.
      rows: of source "archer", a turn each.
      at_limit: as for `advantages.gae`. "bootstrap": a turn that a limit cut is in no replay, since
        nothing is known of what follows; "end": it ended the episode.

    Raises:
      ValueError: several agents or environments, one in Python, continuous actions, segments, a
        policy with memory, in words constrained replies or several roles, or an option outside its
        range.

    References:
      Zhou et al. (2024), ArCHer, https://arxiv.org/abs/2402.19446; code YifeiZhou02/ArCHer 7c771a7
      (read). There the critics are heads of three layers on a pretrained RoBERTa, which is trained
      with them and reads observation and reply apart; here the transformer begins at random, has
      the policy's tokens, and reads the reply behind its observation. There each turn of a batch
      gets a new reply for V, here in words one turn of each episode, while Q is fitted at all. A
      batch of critics is there drawn from all turns alike, here in words from all episodes alike.
    """
    # It draws replies to single observations, hence without memory.
    required(
        setup, "archer", None, one_agent=True, one_environment=True, discrete=True, in_graph=True,
        whole_episodes=True, without_memory=True,
    )  # fmt: skip
    for name, value in (
        ("hidden", hidden), ("layers", layers), ("steps", steps), ("batch", batch), ("size", size),
        ("rows", rows),
    ):  # fmt: skip
        check_range(f"{PATH}.{name}", value, 1)
    check_range(f"{PATH}.warm_up", warm_up, 0)
    check_range(f"{PATH}.learning_rate", learning_rate, 0.0, below=True)
    check_range(f"{PATH}.rate", rate, 0.0, 1.0, above=True)
    check_range(f"{PATH}.gamma", gamma, 0.0, 1.0)
    check_choice(f"{PATH}.at_limit", at_limit, get_args(AtLimit))
    if setup.policy.reads_text:
        from agentrl.methods.text_critics import text_critics  # imports the decoder

        critics = text_critics(setup, hidden, layers)
    else:
        critics = ArrayCritics(setup, hidden)
    options = {"gamma": gamma, "rate": rate, "batch": batch, "steps": steps}
    hooks = Hooks(setup, critics, optax.adam(learning_rate), options, size, warm_up, rows, at_limit)
    return Component(
        init=hooks.init,
        source=Source(hooks.make, reads=("rollout",)),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("twin_q", "twin_v"),
    )
