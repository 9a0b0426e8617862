"""A policy over arrays as an actor."""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

import envs
from agentrl import losses
from agentrl.actors.types import Actor, Decision, View, flat
from agentrl.policies.actor_critic import Policy
from envs.vector import World

ANCHORS = ("observation", "state")


class ArrayRecord(NamedTuple):
    """Record of a turn of an array policy, from which rows are made, [B, S, ...] each.

    observation: the observation. legal: bool[B, S, num_actions], or None. action: the action to be
    scored. asked, answer, belief: whether the agent was asked the belief question, the true answer,
    and the probability that the policy gave to it; None if there is no question.
    """

    observation: chex.ArrayTree
    legal: jax.Array | None
    action: jax.Array
    asked: jax.Array | None = None
    answer: jax.Array | None = None
    belief: jax.Array | None = None


def array_actor(
    policy: Policy,
    params: chex.ArrayTree = None,
    *,
    greedy: bool = False,
    mask_illegal: bool = False,
    records: bool = False,
    anchor: str | None = None,
    world: World | None = None,
    asks: bool = False,
    believes: bool = False,
) -> Actor:
    """A policy over arrays.

    greedy: take its most likely action. mask_illegal: choose among legal actions only. records:
    decisions include logp, value, anchor and `ArrayRecord`, for learning.
    anchor: "observation", or "state" of the `world`, or None: decisions have no anchor.
    asks: the record includes which agents the `world` asks the belief question; believes: also the
      probability that the policy gives to the true answer.
    """
    remembers = policy.memory(1) is not None
    own = _ArrayActor(
        policy=policy,
        greedy=greedy,
        masks=mask_illegal and policy.head.discrete,
        records=records,
        anchor=anchor,
        world=world,
        asks=asks,
        believes=believes,
    )
    return Actor(
        own.init,
        own.act,
        params,
        remembers=remembers,
        follows=remembers,
        draws=not greedy,
        value=own.value if policy.has_critic else None,
    )


class _ArrayActor(NamedTuple):
    """The options of `array_actor`. masks: it chooses among legal actions only."""

    policy: Policy
    greedy: bool
    masks: bool
    records: bool
    anchor: str | None
    world: World | None
    asks: bool
    believes: bool

    def init(self, batch, agents):
        memory = self.policy.memory(batch * agents)
        return jax.tree.map(lambda x: x.reshape(batch, agents, *x.shape[1:]), memory)

    def act(self, params, memory, view: View, key):
        shape, head = view.agent.shape, self.policy.head
        observation, before = flat(view.observation), flat(memory)
        legal = flat(view.legal) if self.masks else None
        outputs, value, after = self.policy.step(params, before, observation, flat(view.agent))
        action = head.best(outputs, legal) if self.greedy else head.draw(outputs, legal, key)

        def apart(x):
            return x.reshape(*shape, *x.shape[1:])

        if not self.records:
            return Decision(apart(action)), jax.tree.map(apart, after)
        logp = head.log_prob(outputs, legal, action)
        action = apart(action)
        record = ArrayRecord(view.observation, view.legal if self.masks else None, action)
        if self.asks:
            record = record._replace(**self.beliefs(params, before, view))
        seen = _anchor(view, self.anchor, self.world)
        decision = Decision(action, apart(logp), apart(value), record, seen)
        return decision, jax.tree.map(apart, after)

    def beliefs(self, params, memory, view):
        """What agents are asked and believe: fields of `ArrayRecord`."""
        asked, answer = self.world.vmap(self.world.env.belief_question)(view.state)
        answer, belief = jnp.broadcast_to(answer[:, None], asked.shape), None
        if self.believes:
            seen = jax.tree.map(lambda x: x[:, None], flat(view.observation))
            start = jnp.zeros((asked.size, 1), bool)
            logits = self.policy.answer(params, memory, seen, start)[:, 0]
            logits = logits.reshape(*asked.shape, -1)
            belief = jnp.exp(losses.categorical_log_prob(logits, answer))
        return {"asked": asked, "answer": answer, "belief": belief}

    def value(self, params, memory, view: View):
        before, observation = flat(memory), flat(view.observation)
        _, value, _ = self.policy.step(params, before, observation, flat(view.agent))
        return value.reshape(view.agent.shape)


def _anchor(view: View, anchor: str | None, world: World | None) -> jax.Array | None:
    """Fingerprints u32[B, S, 2] of what each agent sees, or of the state for it."""
    if anchor == "state":
        assert world is not None  # it is given with this anchor
        return world.vmap(lambda s, agent, p: world.env.fingerprint(s, p, of="state")[agent])(
            view.state, view.agent
        )
    if anchor == "observation":
        return jax.vmap(jax.vmap(envs.fingerprint))(view.observation)
    return None
