"""Several networks in one policy: one per role, with actions of its own."""

from collections.abc import Mapping
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies.actor_critic import Policy
from agentrl.policies.heads import Head


class Network(NamedTuple):
    """A role's network. agents: who acts by it. first, count: its actions are first to first +
    count - 1 of the environment's, of a discrete network."""

    policy: Policy
    agents: tuple[int, ...]
    first: int
    count: int


class _Outputs(NamedTuple):
    """role: i32[...], number of the network that counts. each: the outputs of all networks."""

    role: jax.Array
    each: tuple[chex.ArrayTree, ...]


def by_role(networks: Mapping[str, Network], *, train: tuple[str, ...]) -> Policy:
    """A policy whose agents act by different networks; `params` are {name: the network's}.

    Every network is computed for every position and the agent's own is selected. With an optimizer
    per name (config.optimizers) and `train`, networks learn at different rates or stay as they are.
    A network has as many outputs as its role has actions. Where the environment's actions are
    continuous, a discrete network's action is its number in component 0.

    Args:
      networks: by name; the agents of all of them are those of the environment.
      train: names of the networks that are trained.

    Raises:
      ValueError: agents that are in no network or in several, unknown names to train.
    """
    names, parts = tuple(networks), tuple(networks.values())
    agents = sorted(agent for part in parts for agent in part.agents)
    if agents != list(range(len(agents))):
        raise ValueError(
            f"policy 'by_role' has networks for agents {agents}: expected every agent of the "
            "environment once"
        )
    unknown = [name for name in train if name not in names]
    if unknown or not train:
        raise ValueError(
            f"policy train={tuple(train)}: expected one or more of the networks {', '.join(names)}"
        )
    number = np.zeros(len(agents), np.int32)
    for k, part in enumerate(parts):
        number[list(part.agents)] = k

    own = _Networks(names, parts, number)
    head = _OfParts(parts, all(part.policy.head.discrete for part in parts))
    return Policy(
        own.init,
        own.memory,
        own.step,
        own.unroll,
        any(part.policy.has_critic for part in parts),
        Head(head.discrete, head.draw, head.best, head.log_prob, head.entropy, head.kl),
        frozen=tuple(name for name in names if name not in train),
    )


class _Networks(NamedTuple):
    """The networks by their names. number: i32[A], that of each agent's."""

    names: tuple[str, ...]
    parts: tuple[Network, ...]
    number: np.ndarray

    def init(self, key):
        keys = jax.random.split(key, len(self.parts))
        drawn = [part.policy.init(k) for part, k in zip(self.parts, keys, strict=True)]
        return dict(zip(self.names, drawn, strict=True))

    def memory(self, batch):
        each = [part.policy.memory(batch) for part in self.parts]
        return None if all(x is None for x in each) else dict(zip(self.names, each, strict=True))

    def step(self, params, memory, observation, role=None):
        found, after = [], {}
        for name, part in zip(self.names, self.parts, strict=True):
            own = None if memory is None else memory[name]
            out, value, after[name] = part.policy.step(params[name], own, observation, role)
            found.append((out, value))
        return *self.outputs(role, found), None if memory is None else after

    def unroll(self, params, memory, observation, start, role=None):
        found = []
        for name, part in zip(self.names, self.parts, strict=True):
            own = None if memory is None else memory[name]
            found.append(part.policy.unroll(params[name], own, observation, start, role))
        return self.outputs(role, found)

    def outputs(self, role, found):
        """Of the (outputs, value) of all networks those that count."""
        if role is None:
            raise ValueError(
                f"policy 'by_role' ({', '.join(self.names)}) was called without `role`, the agent "
                "that acts; what calls it needs one network for all roles, such as policy 'mlp'"
            )
        role = jnp.asarray(self.number)[role]
        value = _select(role, [value for _, value in found])
        return _Outputs(role, tuple(out for out, _ in found)), value


def _select(role: jax.Array, values: list[jax.Array]) -> jax.Array:
    """values[role], element by element; role [...], values [..., *rest] each."""
    chosen = values[0]
    for k, value in enumerate(values[1:], 1):
        flags = (role == k).reshape(*role.shape, *[1] * (value.ndim - role.ndim))
        chosen = jnp.where(flags, value, chosen)
    return chosen


class _OfParts(NamedTuple):
    """The distribution over the environment's actions: of each position, its network's."""

    parts: tuple[Network, ...]
    discrete: bool

    def draw(self, out, legal, key):
        each = [
            self.lifted(
                part,
                part.policy.head.draw(own, _own_legal(part, legal), jax.random.fold_in(key, k)),
            )
            for k, (part, own) in enumerate(zip(self.parts, out.each, strict=True))
        ]
        return _select(out.role, each)

    def best(self, out, legal):
        each = [
            self.lifted(part, part.policy.head.best(own, _own_legal(part, legal)))
            for part, own in zip(self.parts, out.each, strict=True)
        ]
        return _select(out.role, each)

    def log_prob(self, out, legal, action):
        each = [
            part.policy.head.log_prob(own, _own_legal(part, legal), self.lowered(part, action))
            for part, own in zip(self.parts, out.each, strict=True)
        ]
        return _select(out.role, each)

    def entropy(self, out, legal):
        each = [
            part.policy.head.entropy(own, _own_legal(part, legal))
            for part, own in zip(self.parts, out.each, strict=True)
        ]
        return _select(out.role, each)

    def kl(self, out, reference, legal):
        each = [
            part.policy.head.kl(own, other, _own_legal(part, legal))
            for part, own, other in zip(self.parts, out.each, reference.each, strict=True)
        ]
        return _select(out.role, each)

    def lifted(self, part, action):
        """A network's action as the environment's."""
        if part.policy.head.discrete and not self.discrete:
            width = max(x.count for x in self.parts if not x.policy.head.discrete)
            return jnp.zeros((*action.shape, width)).at[..., 0].set(action)
        return action + part.first if part.policy.head.discrete else action

    def lowered(self, part, action):
        """The environment's action as the network's; of other networks' actions anything."""
        if not part.policy.head.discrete:
            return action
        action = action if self.discrete else action[..., 0].astype(jnp.int32)
        return jnp.clip(action - part.first * self.discrete, 0, part.count - 1)


def _own_legal(part: Network, legal: jax.Array | None) -> jax.Array | None:
    if legal is None or not part.policy.head.discrete:
        return None
    return legal[..., part.first : part.first + part.count]
