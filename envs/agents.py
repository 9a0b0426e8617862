"""An environment as its agents meet it: one protocol for one agent, games in turns and games in
which all act at once.

gymnax's protocol leaves the axis of agents out where there is one agent. Loops over environments
use the methods here, which always have it: A agents, A >= 1, of whom S can act in one step (the
agent whose turn it is, S = 1; in simultaneous games S = A).
"""

from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from envs.text.view import Text, command_fragments, packed


class AgentViews(NamedTuple):
    """What S agents are shown of one state.

    agent: i32[S], which agents. acting: bool[S], the agent acts now; actions of the others are
    ignored. observation: [S, ...]. legal: bool[S, num_actions]; everything for agents that do not
    act, so that a distribution over legal actions exists.
    """

    agent: jax.Array
    acting: jax.Array
    observation: chex.ArrayTree
    legal: jax.Array


class Agents:
    """The methods for one agent; `envs.game` has those for several."""

    num_agents: ClassVar[int] = 1
    # The agents act one at a time (`mover`, `legal`).
    in_turns: ClassVar[bool] = False
    # All play together: rewards are the same for all, or add up to what matters.
    cooperative: ClassVar[bool] = False
    # Every agent sees all that the future depends on, so that to search from the state is fair.
    perfect_information: ClassVar[bool] = False
    # Every key gives the same start, and actions have one outcome.
    deterministic: ClassVar[bool] = False
    # Names of the sides that win and lose together, where seats are dealt to them by the task.
    sides: ClassVar[tuple[str, ...]] = ()
    # How many answers the question about beliefs has; 0: no question is asked.
    num_answers: ClassVar[int] = 0

    @property
    def num_acting(self) -> int:
        """S, how many agents can act in one step."""
        return 1 if self.in_turns else self.num_agents

    @property
    def callers(self) -> tuple[int, ...] | None:
        """The agent that each agent acts for, -1 for none; None where all act for themselves."""
        return None

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        """The team of each agent, by number; by default each agent is a team."""
        return tuple(range(self.num_agents))

    def form_of(self, other: Any) -> Any:
        """How policies trained in another environment play here; None where it is another game."""
        return None

    @property
    def tabular_name(self) -> str | None:
        """Name under which `agentrl.selfplay` has the game's sequence form; None: it has none."""
        return None

    def per_agent(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """Observation, reward or flags as `step_env` returns them, with the axis of agents."""
        return jax.tree.map(lambda x: x[None], tree)

    def joint(self, action: jax.Array) -> jax.Array:
        """Actions [A, ...] as `step_env` takes them."""
        return action[0]

    def views(
        self, state: Any, observation: chex.ArrayTree, params: Any, *, everyone: bool = False
    ) -> AgentViews:
        """What the agents that can act in a state are shown; with `everyone` what all are shown.

        observation: [A, ...], of the state.
        """
        acting = self.acting(state, params)
        legal = self.legal_actions(state, params) | ~acting[:, None]
        return AgentViews(jnp.arange(self.num_agents, dtype=jnp.int32), acting, observation, legal)

    # One agent at a time, agent i32[].

    def describe_as(self, state: Any, agent: jax.Array, params: Any) -> Text:
        """What an agent reads: fragments i32[K], length i32[]."""
        return packed(self.view, self.view.describe(state, params))

    def slots_as(self, state: Any, agent: jax.Array, params: Any) -> Any:
        """The slots of an agent's command templates (`envs.text.View.slots`)."""
        return self.view.slots(state, params)

    def commands_as(self, state: Any, agent: jax.Array, params: Any) -> jax.Array:
        """How an agent writes each action, fragments i32[num_actions, C], 0 where there is none."""
        return command_fragments(self.view, self.slots_as(state, agent, params))

    def legal_as(self, state: Any, agent: jax.Array, params: Any) -> jax.Array:
        """Legal actions of an agent, bool[num_actions]."""
        return self.legal_actions(state, params)[agent]

    def expert_as(self, state: Any, agent: jax.Array, params: Any) -> jax.Array:
        """Action of the expert for an agent that acts now, [*action_shape]."""
        return self.expert(state, params)

    def fingerprint_as(self, state: Any, agent: jax.Array, params: Any, *, of: str) -> jax.Array:
        """Anchor of an agent, u32[2]."""
        return self.fingerprint(state, params, of=of)[agent]
