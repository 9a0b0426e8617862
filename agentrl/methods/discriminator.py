"""Adversarial inverse reinforcement learning of a reward that several tasks share (MT-CSIRL)."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import chex
import jax
import jax.numpy as jnp
import optax
from flax import struct

from agentrl import losses
from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Context, InitInputs, Setup, UpdateResult
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns, transitions
from agentrl.methods.networks import Embedding, descended, observations
from agentrl.methods.progress import correlation
from agentrl.methods.transitions import Transitions, drawn, played
from agentrl.players.scripted import check_expert
from agentrl.policies.actor_critic import Policy
from agentrl.streams import PerTurn, Rows, Streams
from envs.environment import EnvParams

if TYPE_CHECKING:
    from envs.meadow.env import Meadow

Form = Literal["airl", "gail"]
PATH = "config.components.discriminator"


class Discriminator(struct.PyTreeNode):
    """params: {"common", "potential"} of the networks. opt_state. data: the demonstrations. key:
    for draws."""

    params: chex.ArrayTree
    opt_state: chex.ArrayTree
    data: Transitions
    key: jax.Array


class Judge(NamedTuple):
    """The networks: the reward of actions by what is common to all tasks, and a potential of whole
    observations. heads: 1, or one per task."""

    env: "Meadow"
    common: Embedding
    potential: Embedding
    heads: int
    form: Form
    gamma: float
    temperature: float
    smoothing: float

    def rewards(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """c of all actions in observations [n, F] by each head, f32[n, heads, A]."""
        seen = observation[:, jnp.asarray(self.env.common)]
        out = self.common.apply(params["common"], seen)
        return out.reshape(-1, self.heads, self.env.num_actions)

    def reward(self, params: chex.ArrayTree, observation: jax.Array, action: jax.Array):
        """c of one action i32[n] by the head of the task, f32[n]."""
        every = self.rewards(params, observation)
        head = self.env.task_of(observation) if self.heads > 1 else jnp.zeros_like(action)
        own = jnp.take_along_axis(every, head[:, None, None], axis=1)[:, 0]
        return jnp.take_along_axis(own, action[:, None], axis=1)[:, 0]

    def logit(self, params: chex.ArrayTree, turns: Mapping[str, jax.Array], logp: jax.Array):
        """The logit of "the expert's", f32[n], of transitions by name."""
        common = self.reward(params, turns["observation"], turns["action"])
        if self.form == "gail":
            return common
        before, behind = (
            self.potential.apply(params["potential"], turns[name])[:, 0]
            for name in ("observation", "following")
        )
        return losses.airl_logit(
            turns["reward"] + common,
            before,
            behind,
            turns["over"],
            logp,
            gamma=self.gamma,
            temperature=self.temperature,
        )

    def loss(
        self,
        params: chex.ArrayTree,
        turns: Mapping[str, jax.Array],
        label: jax.Array,
        some: jax.Array,
    ) -> jax.Array:
        """Mean `losses.discriminator_loss` of transitions with their `logp`, f32[].

        label: bool[n], it is the expert's. some: bool[], the policy has any; 0 where not.
        """
        logit = self.logit(params, turns, turns["logp"])
        loss = losses.discriminator_loss(logit, label, smoothing=self.smoothing)
        return jnp.where(some, jnp.mean(loss), 0.0)

    def common_sense(self, params: chex.ArrayTree, observation: jax.Array) -> jax.Array:
        """min(c, 0) of all actions, c the mean of the heads, f32[n, A]."""
        return jnp.minimum(jnp.mean(self.rewards(params, observation), axis=1), 0.0)


def log_policy(policy: Policy, params: chex.ArrayTree, turns: Mapping[str, jax.Array]) -> jax.Array:
    """log pi(a | s) of transitions, f32[n]."""
    logits, _, _ = policy.step(params, None, turns["observation"])
    every = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(every, turns["action"][:, None], axis=1)[:, 0]


class Hooks(NamedTuple):
    """The hooks of `discriminator`, with what they are made of."""

    policy: Policy
    env_params: EnvParams
    judge: Judge
    adamw: optax.GradientTransformation
    demonstrations: int
    steps: int
    batch: int

    def init(self, start: InitInputs) -> Discriminator:
        """Untrained networks of reward and potential, and the expert's episodes, played once."""
        judge, env = self.judge, self.judge.env
        play, one, other, key = jax.random.split(start.key, 4)
        data = played(
            env, self.env_params, jnp.zeros(self.demonstrations), play, gamma=judge.gamma, best=1.0
        )
        seen = data.observation[:1]
        params = {
            "common": judge.common.init(one, seen[:, jnp.asarray(env.common)]),
            "potential": judge.potential.init(other, seen),
        }
        return Discriminator(params, self.adamw.init(params), data, key)

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """`imitation` f32[N, T]: the reward that the networks now give to each turn."""
        seen, there = observations(rows)
        action = jnp.where(there, rows.tokens.reshape(-1), 0)
        paid = self.judge.reward(context.value.params, seen, action).reshape(rows.tokens.shape)
        return {"imitation": PerTurn(to_turns(paid, rows, streams.mask.shape))}

    def after(
        self, value: Discriminator, outcome: UpdateResult
    ) -> tuple[Discriminator, dict[str, Any]]:
        """The networks after `steps` on demonstrations and the update's own turns."""
        own = transitions(outcome.streams, outcome.rows)
        own["read"] = own["acted"] & (own["seen"] | own["over"])
        found, loss = self.trained(outcome.before.params, value, own)
        told = outcome.notes["imitation"].values
        return found, {
            "discriminator_error": jnp.stack([loss[0], jnp.ones(())]),
        } | _measured(self.judge, found, own, told, outcome.streams.mask)

    def trained(
        self, acting: chex.ArrayTree, value: Discriminator, own: Mapping[str, jax.Array]
    ) -> tuple[Discriminator, jax.Array]:
        """(the discriminator after `steps` steps, losses f32[steps] before each).

        acting: the policy's parameters. own: its transitions, those that are `read`.
        """
        data, batch = value.data, self.batch
        names = ("observation", "following", "reward", "over", "action")
        shown = {name: getattr(data, name) for name in names} | {"read": data.acted}
        used = {name: own[name] for name in shown}
        sides = [x | {"logp": log_policy(self.policy, acting, x)} for x in (shown, used)]
        shares = [turns["read"] / jnp.maximum(jnp.sum(turns["read"]), 1) for turns in sides]
        label = jnp.arange(2 * batch) < batch
        some = jnp.any(used["read"])

        def step(carry, keys):
            parts = [drawn(x, s, batch, k) for x, s, k in zip(sides, shares, keys, strict=True)]
            turns = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
            loss_of = functools.partial(self.judge.loss, turns=turns, label=label, some=some)
            params, opt_state, loss = descended(loss_of, self.adamw, *carry, 1)
            return (params, opt_state), loss[0]

        key, draw = jax.random.split(value.key)
        carry = (value.params, value.opt_state)
        keys = jax.random.split(draw, (self.steps, 2))
        (params, opt_state), found = jax.lax.scan(step, carry, keys)
        return value.replace(params=params, opt_state=opt_state, key=key), found


def discriminator(
    setup: Setup,
    *,
    form: Form = "airl",
    shared: bool = True,
    demonstrations: int = 256,
    hidden: int = 64,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-3,
    smoothing: float = 0.0,
    gamma: float = 0.97,
    temperature: float = 0.1,
    steps: int = 16,
    batch: int = 256,
) -> Component:
    """Supplies `imitation` f32[N, T] for reward term `imitation_reward`: a reward c(s, a) that the
    tasks share, learnt against demonstrations whose tasks have known rewards r_k.

    The demonstrations are played once by the environment's expert, before the first update. Each
    update trains a discriminator on equally many transitions of the expert and of the policy, drawn
    over all tasks. c sees the entries `env.common` of an observation and the action, so neither the
    task nor the place. r_k is the environment's reward, and outside of what is learnt:

      "airl": the logit is (r_k + c + gamma h(s') - h(s)) / temperature - log pi, where h sees
        everything and is not transferred; the policy is paid r_k + c by `imitation_reward`;
      "gail": the logit is c.

    With one task this is AIRL with a known reward, or GAIL. With shared=False there is a c per
    task; in a new task it is their mean.

    The transfer is `env.transfer` for the task's reward and min(c, 0): what an agent that starts
    anew could learn from c. What pays can be collected for ever, and c is known up to a constant
    only; so what is above 0 is left out there.

    Metrics (Critic and models):
      discriminator_error: Discriminator's loss [nats]; before the update's first step.
      imitation: Learnt reward; mean c per turn.
      imitation_correlation: Learnt and true reward; their correlation over the batch's turns.
      common_reward: True common reward; per episode, paid or not.
      transfer/{result}: Held-out tasks: {result}; of the best walk for the task's and the learnt
        reward, where result is success or common.

    Args:
      form: of the logit. shared: one c for all tasks.
      demonstrations: episodes. hidden: width of both networks' layers.
      learning_rate, weight_decay: of AdamW. smoothing: of labels.
      gamma, temperature: of `losses.airl_logit`; the temperature is that of the expert's choices.
      steps, batch: steps per update, each on as many transitions of each kind.

    Raises:
      ValueError: an environment without tasks that share a reward, as `Meadow-v1` has them, another
        kind of policy, or an option outside its range.

    References:
      Glazer et al. (2024), https://arxiv.org/abs/2402.11367, from summaries; its code was not read.
      There are policies per task, here one that sees its goal; the curriculum and the variant
      without known rewards are left out. AIRL's form is ours: a converged plain discriminator says
      0 everywhere, which transfers nothing.
    """
    env, env_params = required(
        setup, "discriminator", "arrays", "task_of", "common_reward", "transfer",
        example="Meadow-v1", one_agent=True, one_environment=True, discrete=True, in_graph=True,
        whole_episodes=True, without_memory=True,
    )  # fmt: skip
    check_expert(env, env_params)
    check_choice(f"{PATH}.form", form, get_args(Form))
    counts = {"demonstrations": demonstrations, "hidden": hidden, "steps": steps, "batch": batch}
    for name, number in counts.items():
        check_range(f"{PATH}.{name}", number, 1)
    check_range(f"{PATH}.learning_rate", learning_rate, 0.0, above=True)
    check_range(f"{PATH}.weight_decay", weight_decay, 0.0)
    check_range(f"{PATH}.smoothing", smoothing, 0.0, 0.5, below=True)
    check_range(f"{PATH}.gamma", gamma, 0.0, 1.0)
    check_range(f"{PATH}.temperature", temperature, 0.0, above=True)
    heads = 1 if shared else env.tasks
    judge = Judge(
        env, Embedding(hidden, heads * env.num_actions, env.num_codes),
        Embedding(hidden, 1, env.num_codes), heads, form, gamma, temperature, smoothing,
    )  # fmt: skip
    adamw = optax.adamw(learning_rate, weight_decay=weight_decay)
    hooks = Hooks(setup.policy, env_params, judge, adamw, demonstrations, steps, batch)
    return Component(
        init=hooks.init, annotate=hooks.annotate, after=hooks.after, fills=("imitation",)
    )


def _measured(
    judge: Judge,
    value: Discriminator,
    own: Mapping[str, jax.Array],
    told: jax.Array,
    mask: jax.Array,
) -> dict[str, jax.Array]:
    """The metrics of `discriminator` beside its loss. told: f32[N, T], c as it was paid."""
    env = judge.env
    true = env.common_reward(own["observation"], own["action"]).reshape(mask.shape)
    alike = correlation(told, true, mask)
    extra = functools.partial(judge.common_sense, value.params)
    one, turns = jnp.ones(()), jnp.sum(mask) * 1.0
    anew = {f"transfer/{name}": jnp.stack([x, one]) for name, x in env.transfer(extra).items()}
    episodes = jnp.sum(jnp.any(mask, axis=1)) * 1.0
    return anew | {
        "imitation": jnp.stack([jnp.sum(jnp.where(mask, told, 0.0)), turns]),
        "imitation_correlation": jnp.stack([alike, one]),
        "common_reward": jnp.stack([jnp.sum(jnp.where(mask, true, 0.0)), episodes]),
    }
