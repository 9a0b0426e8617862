"""Value learners over a data set of transitions: no episode is played while they learn."""

import functools
from collections.abc import Callable, Iterable, Mapping
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
from agentrl.losses.implicit import Divergence
from agentrl.methods.networks import Embedding, followed_by_slow
from agentrl.methods.transition_rows import Actions, RowsOf, rows_by
from agentrl.methods.transitions import (
    Transitions,
    drawn,
    drawn_numbers,
    mean_return,
    played,
    recorded,
    shares,
)
from agentrl.players.scripted import check_expert
from agentrl.streams import PerPosition, Rows, Streams
from envs.environment import Environment, EnvParams

Target = Literal["bootstrap", "returns", "recoil", "labels"]
Implicit = Literal["expectile", "chi2", "total_variation", "reverse_kl"]
Weights = Literal["exponential", "advantage", "value"]


PATH = "config.components.offline_values"
_COUNT, _SIZE, _WEIGHT = {"low": 0}, {"low": 1}, {"low": 0.0}
_ABOVE, _PART = {"low": 0.0, "above": True}, {"low": 0.0, "high": 1.0, "above": True}
RANGES: dict[str, dict[str, Any]] = {
    "expert": _COUNT, "random": _COUNT, "mixed": _COUNT, "steps": _COUNT, "hidden": _SIZE,
    "critic_first": _COUNT, "batch": _SIZE, "rows": _SIZE, "beta": _WEIGHT,
    "conservative": _WEIGHT, "best": _PART, "rate": _PART, "learning_rate": _ABOVE,
    "largest_weight": _ABOVE,
    "gamma": {"low": 0.0, "high": 1.0}, "expert_share": {"low": 0.0, "high": 1.0},
}  # fmt: skip


class Values(struct.PyTreeNode):
    """params, slow: {"q", "v"} of the networks and of their slow copies. opt_state. data: what is
    learnt from. updates: i32[]. key: for draws."""

    params: chex.ArrayTree
    slow: chex.ArrayTree
    opt_state: chex.ArrayTree
    data: Transitions
    updates: jax.Array
    key: jax.Array


class Networks(NamedTuple):
    """Twin networks of actions' values, and one of states' values, over observations."""

    twins: Embedding
    state: Embedding
    num_actions: int

    def q(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """Q of all actions by both twins, f32[n, 2, A]."""
        out = self.twins.apply(params["q"], observation)
        return out.reshape(-1, 2, self.num_actions)

    def v(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """The value of states, f32[n], by the network V."""
        return self.state.apply(params["v"], observation)[:, 0]

    def lower_q(self, params: chex.ArrayTree, observation: jax.Array, action: jax.Array):
        """The smaller of the twins' Q of one action, f32[n]."""
        return jnp.min(of_action(self.q(params, observation), action), axis=1)


def of_action(q: jax.Array, action: jax.Array) -> jax.Array:
    """Q of one action i32[n], f32[n, 2], from that of all f32[n, 2, A]."""
    return jnp.take_along_axis(q, action[:, None, None], axis=2)[..., 0]


class Losses(NamedTuple):
    """Which losses are fitted; options of `offline_values`."""

    target: Target
    implicit: Implicit
    temperature: float
    conservative: float
    gamma: float

    def of_values(self, value: jax.Array, q: jax.Array) -> jax.Array:
        """The loss of V, f32[n]."""
        if self.implicit == "expectile":
            return losses.expectile_value_loss(value, q, expectile=self.temperature)
        kind: Divergence = self.implicit
        return losses.dual_value_loss(value, q, divergence=kind, temperature=self.temperature)

    def of_transitions(
        self,
        networks: Networks,
        params: chex.ArrayTree,
        slow: chex.ArrayTree,
        turns: Transitions,
        probability: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """(the loss of Q, of both twins together, and of V), means over `turns`, f32[] each.

        probability: f32[n, A], the policy's. What is a target comes from the slow copies.
        """
        all_, value = networks.q(params, turns.observation), networks.v(params, turns.observation)
        q, policy_q = of_action(all_, turns.action), jnp.sum(all_ * probability[:, None], axis=2)
        reward = turns.reward if self.target == "bootstrap" else jnp.zeros_like(turns.reward)
        following = networks.v(slow, turns.following)
        target: jax.Array = losses.bootstrap_target(reward, turns.over, following, gamma=self.gamma)
        if self.target == "returns":
            target = turns.to_go
        if self.target == "labels":
            target = 1.0 + turns.of_way
        of_q = jnp.zeros(())
        for twin in (0, 1):
            if self.target == "recoil":
                each = losses.recoil_loss(q[:, twin], policy_q[:, twin], target, turns.of_expert)
            else:
                each = losses.q_loss(q[:, twin], target)
            away = losses.conservative_loss(all_[:, twin], turns.action)
            of_q = of_q + jnp.mean(each + self.conservative * away)
        low = networks.lower_q(slow, turns.observation, turns.action)
        return of_q, jnp.mean(self.of_values(value, low))


def fitted(
    value: Values,
    networks: Networks,
    fit: Losses,
    probability: Callable[[Transitions], jax.Array],
    transform: optax.GradientTransformation,
    share: jax.Array,
    *,
    rate: float,
    batch: int,
    steps: int,
) -> tuple[Values, jax.Array]:
    """(the networks after `steps` steps on `batch` transitions each, losses of Q and V f32[steps,
    2] before each step).

    probability: (transitions) -> f32[n, A], the policy's. share: f32[M], probability of each
    transition in a draw. rate: by which the slow copies follow.
    """

    def loss_of(params, slow, key):
        turns = drawn(value.data, share, batch, key)
        both = fit.of_transitions(networks, params, slow, turns, probability(turns))
        return sum(both), jnp.stack(both)

    key, draw = jax.random.split(value.key)
    params, slow, opt_state, both = followed_by_slow(
        loss_of, transform, value.params, value.slow, value.opt_state,
        jax.random.split(draw, steps), rate,
    )  # fmt: skip
    return value.replace(params=params, slow=slow, opt_state=opt_state, key=key), both


def read(
    path: str, env: Environment, gamma: float, best: float, of_who: bool, in_words: bool
) -> tuple[Transitions, jax.Array]:
    """(transitions, mean return) of a file, see `recorded`; errors name the option.

    of_who: whether other options ask who has played. in_words: of a language policy.
    """
    if in_words:
        raise ValueError(
            f"{PATH}.path={path!r} with a language policy, whose rows are written from states, "
            "which a file does not hold: have the episodes played (expert, random, mixed), or "
            "clone the file's text (source agentrl.trajectories.file)"
        )
    if of_who:
        raise ValueError(
            f"{PATH}.path={path!r} with episodes that are played (expert, random, mixed), with "
            "expert_share or with target='labels': a file does not say who has played; leave these "
            "out"
        )
    try:
        data, returns = recorded(path, env, gamma=gamma, best=best)
        return jax.tree.map(jnp.asarray, data), jnp.mean(returns)
    except ValueError as error:
        raise ValueError(f"{PATH}.path={error}") from None


def noise_levels(
    env: Environment,
    env_params: EnvParams,
    counts: tuple[int, int, int],
    noise: tuple[float, ...],
    path: str,
) -> tuple[float, ...]:
    """The noise of each episode of the set: 0 of the expert's, 1 of random ones, `noise` in turn.

    counts: of the expert's, of random, and of mixed episodes. path: the component's, for errors.

    Raises:
      ValueError: an environment without an expert, no episodes, or levels outside [0, 1].
    """
    check_expert(env, env_params)
    expert, random, mixed = counts
    for value in noise:
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(f"{path}.noise={noise}: expected probabilities, such as (0.3, 0.6)")
    if mixed and not noise:
        raise ValueError(f"{path}.mixed={mixed} with noise=(): give at least one level")
    levels = (0.0,) * expert + (1.0,) * random
    levels += tuple(float(noise[number % len(noise)]) for number in range(mixed))
    if not levels:
        raise ValueError(f"{path}: a data set of no episodes; set expert, random or mixed")
    return levels


def check_options(
    numbers: Mapping[str, float | None],
    choices: Iterable[tuple[str, str, Any]],
    implicit: Implicit,
    temperature: float,
) -> None:
    """ValueError for an option outside its range, or that is none of its choices, by name."""
    for name, value in numbers.items():
        check_range(f"{PATH}.{name}", value, **RANGES[name])
    for name, given, kinds in choices:
        check_choice(f"{PATH}.{name}", given, get_args(kinds))
    highest = float("inf") if implicit == "reverse_kl" else 1.0
    below = implicit == "expectile"
    check_range(f"{PATH}.temperature", temperature, 0.0, highest, above=True, below=below)


def weight_of(
    kind: Weights, q: jax.Array, value: jax.Array, beta: float, largest: float
) -> jax.Array:
    """The weight of actions in `losses.weighted_imitation`, see `offline_values`."""
    if kind == "exponential":
        return losses.exponential_weight(q, value, beta=beta, largest=largest)
    return beta * (q - value if kind == "advantage" else q)


def check_share(expert_share: float | None, target: Target, levels: tuple[float, ...]) -> None:
    """ValueError where episodes of a kind that is to be drawn from are not in the set."""
    if target == "recoil" and expert_share is None:
        raise ValueError(
            f"{PATH}.expert_share=None with target='recoil', which is about a mixture of two sets: "
            "set a share, such as 0.5"
        )
    for share, there, kind in (
        (expert_share, 0.0 in levels, "without noise (set expert)"),
        (expert_share is not None and 1.0 - expert_share, any(levels), "with noise (set mixed)"),
    ):
        if share and not there:
            raise ValueError(
                f"{PATH}.expert_share={expert_share}: there are no episodes {kind} to draw from"
            )


class Hooks(NamedTuple):
    """The hooks of `offline_values`, with what they are made of. of_file: see `read`; None of a set
    that is played, of episodes with the noise `level`."""

    env: Environment
    env_params: EnvParams
    networks: Networks
    fit: Losses
    of_rows: RowsOf
    adam: optax.GradientTransformation
    of_file: tuple[Transitions, jax.Array] | None
    level: tuple[float, ...]
    best: float
    expert_share: float | None
    weights: Weights
    beta: float
    largest_weight: float
    critic_first: int
    rate: float
    steps: int
    batch: int
    rows: int

    def init(self, start: InitInputs) -> Values:
        """The data set, and untrained networks."""
        networks, of_rows = self.networks, self.of_rows
        play, q_key, v_key, key = jax.random.split(start.key, 4)
        if self.of_file is None:
            level = jnp.array(self.level)
            data = of_rows.told(
                played(
                    self.env, self.env_params, level, play,
                    gamma=self.fit.gamma, best=self.best, states=of_rows.states,
                )
            )  # fmt: skip
        else:
            data, _ = self.of_file
        params = {
            "q": networks.twins.init(q_key, data.observation[:1]),
            "v": networks.state.init(v_key, data.observation[:1]),
        }
        return Values(params, params, self.adam.init(params), data, jnp.zeros((), jnp.int32), key)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of the set's best episodes."""
        del sources
        data, (draw, act) = context.value.data, jax.random.split(context.key)
        share = jnp.where(data.best, shares(data, self.expert_share), 0.0)
        number = drawn_numbers(share / jnp.sum(share), self.rows, draw)
        turns = jax.tree.map(lambda x: x[number], data)
        return None, self.of_rows.rows(context.params, turns, number, act)

    def annotate(
        self, context: Context, streams: Streams | None, rows: Rows
    ) -> dict[str, PerPosition]:
        """The weight of each row's action."""
        value = context.value
        known = self.of_rows.acted(value.data, rows, streams is None)
        if known is None:
            return {}
        q, v = self.networks.lower_q(value.slow, *known), self.networks.v(value.params, known[0])
        weight = weight_of(self.weights, q, v, self.beta, self.largest_weight)
        weight = jnp.where(value.updates >= self.critic_first, weight, 0.0)
        # One for each row, of whose turn it is, at all its positions.
        weight = jnp.broadcast_to(weight.reshape(rows.tokens.shape[0], -1), rows.tokens.shape)
        return {"imitation_weight": PerPosition(weight)}

    def after(self, value: Values, outcome: UpdateResult) -> tuple[Values, dict[str, jax.Array]]:
        """The networks after `steps` on batches of the data set."""
        value, both = fitted(
            value, self.networks, self.fit,
            functools.partial(self.of_rows.probability, outcome.params), self.adam,
            shares(value.data, self.expert_share), rate=self.rate, batch=self.batch,
            steps=self.steps,
        )  # fmt: skip
        if self.of_file is None:
            mean = mean_return(value.data, len(self.level))
        else:
            mean = self.of_file[1]
        return value.replace(updates=value.updates + 1), {
            "q_error": jnp.stack([jnp.sum(both[:, 0]), jnp.float32(self.steps)]),
            "v_error": jnp.stack([jnp.sum(both[:, 1]), jnp.float32(self.steps)]),
            "data_return": jnp.stack([mean, jnp.ones(())]),
        }


def offline_values(
    setup: Setup,
    *,
    expert: int = 0,
    random: int = 0,
    mixed: int = 0,
    path: str = "",
    noise: tuple[float, ...] = (0.3, 0.6, 0.9),
    best: float = 1.0,
    expert_share: float | None = None,
    target: Target = "bootstrap",
    implicit: Implicit = "expectile",
    temperature: float = 0.7,
    conservative: float = 0.0,
    actions: Actions = "data",
    weights: Weights = "exponential",
    critic_first: int = 0,
    beta: float = 3.0,
    largest_weight: float = 100.0,
    gamma: float = 0.95,
    hidden: int = 64,
    learning_rate: float = 3e-3,
    rate: float = 0.05,
    steps: int = 8,
    batch: int = 128,
    rows: int = 1024,
) -> Component:
    """Source of its own name: a data set of transitions, with weights by Q and V learnt from it.

    The set is played once, by the environment's expert with noise, before the first update, or
    read from a file. Each update fits twin networks Q and a network V to it, with an optimiser and
    slow copies of their own, and gives `rows` transitions to the terms of the objective, with an
    `imitation_weight` for `losses.weighted_imitation`. Without a term of source "rollout" nothing
    is played, and the run is offline.

    With a language policy the set, the draws from it, Q and V are the same, over the environment's
    arrays: values of whole replies (utterance-level). Rows are single turns, the prompt as the
    context shows it, and the command as briefly as the grammar allows, all of whose tokens have the
    turn's weight; nobody has drawn it, so that the probability of an action is that of its command
    among the commands.

    Named otherwise:

        behaviour cloning: beta=0, steps=0; filtered: best=0.1, too;
        Monte Carlo returns: target="returns", temperature=0.5;
        IQL: the defaults; ILQL: conservative=0.01, too;
        f-DVL: implicit="chi2", "total_variation", or XQL's "reverse_kl";
        ReCOIL: target="recoil", implicit="chi2", expert_share=0.5, which reads no rewards;
        VEM: target="labels", actions="policy", weights="value", beta=0.5, critic_first=50.

    Metrics (Critic and models):
      q_error: Loss of Q; offline values: both twins together.
      v_error: Loss of V; offline values.
      data_return: Return of the data; offline values: mean over its episodes.

    Args:
      expert, random, mixed: episodes that the expert plays, that are random, and that the expert
        plays with each of `noise` in turn, probabilities of a random legal action.
      path: a file of trajectories in their place, see `transitions.recorded`; for example of a data
        set of Minari's (`launchers.trajectories --from_minari`).
      best: share of the episodes, by their returns, from which the source's rows come; (0, 1].
      expert_share: share of the expert's transitions in what is drawn, beta in ReCOIL; None: as
        they are in the set.
      target: of Q. "bootstrap": r + gamma V'(s'); "returns": the return to go; "recoil": see
        `losses.recoil_loss`; "labels": 2 for what the expert would do in the state, else 1.
      implicit, temperature: the loss of V, see `losses.expectile_value_loss` (tau) and
        `losses.dual_value_loss` (lambda).
      conservative: weight of `losses.conservative_loss`.
      actions: of the source's rows, "data", or drawn from the "policy" in the data's states.
      weights: with Q the smaller of the slow twins, "exponential": min(exp(beta (Q - V)),
        largest_weight); "advantage": beta (Q - V); "value": beta Q.
      critic_first: updates at first in which the weights are 0, so that the policy waits.
      hidden: width of the networks' two layers. learning_rate: of Adam. rate: by which the slow
        copies follow after each step.
      steps, batch: steps per update, each on as many transitions.

    Raises:
      ValueError: several agents or environments, one in Python, a policy with memory, no expert, an
        option outside its range, no episodes of a kind that is needed, or in words a file, or a
        context with summaries.

    References:
      As in the losses. VEM: https://arxiv.org/abs/2502.18906, code microsoft/GUI-Agent-RL 6d2381e
      (read), where a language model is trained to say the labels, which another one gave, and then
      kept; with weights="value", as there, bad actions are raised, too, half as much as good ones.
      LMRL-Gym 911d726 (read) and ILQL do not train a policy by weights: they add
      beta min_j Q'_j to the logits of a cloned one, and begin Q at -4.4; and their Q and V are of
      tokens, heads on a language model, with the return discounted by token. In the code of DVL
      4b7cf11 (read) the learning rate is 3e-4 and 0.005 the rate, for a hundred times as many
      steps.
    """
    env, env_params = required(
        setup, "offline_values", None, one_agent=True, one_environment=True, discrete=True,
        in_graph=True, without_memory=True,
    )  # fmt: skip
    check_options(
        {
            "expert": expert, "random": random, "mixed": mixed, "best": best, "gamma": gamma,
            "expert_share": expert_share, "conservative": conservative, "beta": beta,
            "largest_weight": largest_weight, "critic_first": critic_first, "hidden": hidden,
            "learning_rate": learning_rate, "rate": rate, "steps": steps, "batch": batch,
            "rows": rows,
        },
        (
            ("target", target, Target), ("implicit", implicit, Implicit),
            ("actions", actions, Actions), ("weights", weights, Weights),
        ),
        implicit, temperature,
    )  # fmt: skip
    of_who = bool(expert or random or mixed) or target == "labels" or expert_share is not None
    of_rows = rows_by(setup, actions, asks=target == "recoil")
    of_file = read(path, env, gamma, best, of_who, of_rows.states) if path else None
    level = () if path else noise_levels(env, env_params, (expert, random, mixed), noise, PATH)
    check_share(expert_share, target, level)
    networks = Networks(
        twins=Embedding(hidden, 2 * env.num_actions, env.num_codes),
        state=Embedding(hidden, 1, env.num_codes),
        num_actions=env.num_actions,
    )
    fit = Losses(target, implicit, temperature, conservative, gamma)
    hooks = Hooks(
        env, env_params, networks, fit, of_rows, optax.adam(learning_rate), of_file, level, best,
        expert_share, weights, beta, largest_weight, critic_first, rate, steps, batch, rows,
    )  # fmt: skip
    return Component(
        init=hooks.init,
        source=Source(hooks.make),
        annotate=hooks.annotate,
        after=hooks.after,
        fills=("imitation_weight",),
    )
