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

    def init(key):
        keys = jax.random.split(key, len(parts))
        return {name: part.policy.init(k) for name, part, k in zip(names, parts, keys, strict=True)}

    def memory(batch):
        each = {name: part.policy.memory(batch) for name, part in zip(names, parts, strict=True)}
        return None if all(one is None for one in each.values()) else each

    def outputs(role, found):
        if role is None:
            raise ValueError(
                f"policy 'by_role' ({', '.join(names)}) was called without `role`, the agent that "
                "acts; what calls it needs one network for all roles, such as policy 'mlp'"
            )
        role = jnp.asarray(number)[role]
        value = _select(role, [value for _, value in found])
        return _Outputs(role, tuple(out for out, _ in found)), value

    def step(params, memory, observation, role=None):
        found, after = [], {}
        for name, part in zip(names, parts, strict=True):
            own = None if memory is None else memory[name]
            out, value, after[name] = part.policy.step(params[name], own, observation, role)
            found.append((out, value))
        return *outputs(role, found), None if memory is None else after

    def unroll(params, memory, observation, start, role=None):
        found = []
        for name, part in zip(names, parts, strict=True):
            own = None if memory is None else memory[name]
            found.append(part.policy.unroll(params[name], own, observation, start, role))
        return outputs(role, found)

    return Policy(
        init,
        memory,
        step,
        unroll,
        any(part.policy.has_critic for part in parts),
        _head(parts),
        frozen=tuple(name for name in names if name not in train),
    )


def _select(role: jax.Array, values: list[jax.Array]) -> jax.Array:
    """values[role], element by element; role [...], values [..., *rest] each."""
    chosen = values[0]
    for k, value in enumerate(values[1:], 1):
        flags = (role == k).reshape(*role.shape, *[1] * (value.ndim - role.ndim))
        chosen = jnp.where(flags, value, chosen)
    return chosen


def _head(parts: tuple[Network, ...]) -> Head:
    """The distribution over the environment's actions: of each position, its network's."""
    discrete = all(part.policy.head.discrete for part in parts)
    width = max(part.count for part in parts if not part.policy.head.discrete or discrete)

    def own_legal(part, legal):
        if legal is None or not part.policy.head.discrete:
            return None
        return legal[..., part.first : part.first + part.count]

    def lifted(part, action):
        """A network's action as the environment's."""
        if part.policy.head.discrete and not discrete:
            zeros = jnp.zeros((*action.shape, width))
            return zeros.at[..., 0].set(action)
        return action + part.first if part.policy.head.discrete else action

    def lowered(part, action):
        """The environment's action as the network's; of other networks' actions anything."""
        if not part.policy.head.discrete:
            return action
        action = action if discrete else action[..., 0].astype(jnp.int32)
        return jnp.clip(action - part.first * discrete, 0, part.count - 1)

    def each(function):
        return [function(k, part, part.policy.head) for k, part in enumerate(parts)]

    def draw(out, legal, key):
        def one(k, part, head):
            own = jax.random.fold_in(key, k)
            return lifted(part, head.draw(out.each[k], own_legal(part, legal), own))

        return _select(out.role, each(one))

    def best(out, legal):
        return _select(
            out.role,
            each(lambda k, p, head: lifted(p, head.best(out.each[k], own_legal(p, legal)))),
        )

    def log_prob(out, legal, action):
        def one(k, part, head):
            return head.log_prob(out.each[k], own_legal(part, legal), lowered(part, action))

        return _select(out.role, each(one))

    def entropy(out, legal):
        return _select(
            out.role, each(lambda k, p, head: head.entropy(out.each[k], own_legal(p, legal)))
        )

    def kl(out, reference, legal):
        def one(k, part, head):
            return head.kl(out.each[k], reference.each[k], own_legal(part, legal))

        return _select(out.role, each(one))

    return Head(discrete, draw, best, log_prob, entropy, kl)
