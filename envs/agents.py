"""Uniform access to the agents of an environment: one agent, turn-based and simultaneous games.

gymnax's protocol omits the axis of agents if there is only one. Loops over environments use the
methods here, which always have it: A agents, A >= 1, of which S can act in one step (the current
player, S = 1; in simultaneous games S = A).
"""

from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp

from envs.text.view import Text, command_fragments, packed


class AgentViews(NamedTuple):
    """Observations and legality for S agents in one state.

    agent: i32[S], indices of the agents. acting: bool[S], the agent acts now; actions of the others
    are ignored. observation: [S, ...]. legal: bool[S, num_actions]; all True for agents that do not
    act, so that a distribution over legal actions exists.
    """

    agent: jax.Array
    acting: jax.Array
    observation: chex.ArrayTree
    legal: jax.Array


class Outcome(NamedTuple):
    """Result of one step of an episode of A agents; of B episodes all arrays have the axis B first.

    reward: f32[A]. terminated, truncated: bool[], never both. valid: bool[A], the agent's action
    was legal, or ignored. success: bool[A]. offender: i32[], the agent whose illegal action ended
    the episode, -1 for none. seconds: f32[] of simulated time, or None. info: the environment's
    own.
    """

    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    valid: jax.Array
    success: jax.Array
    offender: jax.Array
    seconds: jax.Array | None
    info: Any = None


class Draft(NamedTuple):
    """One of several drafts side by side, for people to read.

    writer: who wrote it. grades: those that others gave it. formed: it may go on. right: None where
    that is not known. went_on: it was shown, or played.
    """

    writer: str
    text: str
    grades: tuple[float, ...] = ()
    formed: bool = True
    right: bool | None = None
    went_on: bool = False


class Agents:
    """The methods for one agent; `envs.game` has those for several."""

    num_agents: ClassVar[int] = 1
    # The environment runs in Python, in processes of its own (`envs.hosted`).
    in_python: ClassVar[bool] = False
    # It is made around another environment, `base`: see `envs.wrappers`.
    wraps: ClassVar[bool] = False
    # Of a wrapper: what stands before the name of an environment in Python that it is around.
    hosted: ClassVar[str] = ""
    # The agents act one at a time (`mover`, `legal`).
    in_turns: ClassVar[bool] = False
    # Cooperative: rewards are the same for all agents, or their sum is the objective.
    cooperative: ClassVar[bool] = False
    # All agents win and lose together: another player takes all seats or none.
    one_team: ClassVar[bool] = False
    # Turns take unequal time, which `info["seconds"]` of `step_env` states.
    timed: ClassVar[bool] = False
    # Perfect information: every agent sees the whole state, so search from the state is fair.
    perfect_information: ClassVar[bool] = False
    # Deterministic: every key gives the same start, and every action has one outcome.
    deterministic: ClassVar[bool] = False
    # What `fingerprint` can be of.
    anchors: ClassVar[tuple[str, ...]] = ("observation", "state")
    # It is a program that calls the model itself (`envs.hosted`).
    calls_model: ClassVar[bool] = False
    # Names of the sides that win and lose together, if the task assigns seats to sides.
    sides: ClassVar[tuple[str, ...]] = ()
    # Roles that write one transcript in turn, for `speaker`; 1: the agent is always the same.
    speakers: ClassVar[Any] = 1
    # Number of possible answers to the belief question; 0: there is none.
    num_answers: ClassVar[int] = 0
    # Their names, for text.
    answer_names: ClassVar[tuple[str, ...]] = ()
    # Actions that are messages to other agents, (first, count).
    speech: ClassVar[tuple[int, int]] = (0, 0)
    # The agent that judges the others' finished attempt, by the last two actions, yes and no, if
    # there is one; `result_of` then tells attempts apart.
    validator: ClassVar[int | None] = None

    @property
    def num_acting(self) -> int:
        """S, the number of agents that can act in one step."""
        return 1 if self.in_turns else self.num_agents

    @property
    def callers(self) -> tuple[int, ...] | None:
        """The calling agent of each agent, -1 for none; None if there are no callers."""
        return None

    @property
    def roles_of_seats(self) -> tuple[int, ...]:
        """Number of each agent's role, from 0; by default each agent has a role of its own.

        Agents of one role share a network or an adapter, and are compared with each other.
        """
        return tuple(range(self.num_agents))

    @property
    def num_roles(self) -> int:
        """One more than the largest of `roles_of_seats`."""
        return max(self.roles_of_seats) + 1

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        """Team number of each agent; by default all are of `one_team`, or each is its own."""
        return (0,) * self.num_agents if self.one_team else tuple(range(self.num_agents))

    def speaker(self, state: Any, params: Any) -> jax.Array:
        """The role whose turn it is, i32[], where several write one transcript (`speakers`)."""
        raise NotImplementedError(f"{self.name} has one speaker")

    def form_of(self, other: Any) -> Any:
        """Translation for policies trained in `other`; None if `other` is a different game."""
        return None

    @property
    def tabular(self) -> tuple[str, dict[str, Any]] | None:
        """Name and options of the game's sequence form in `agentrl.selfplay`; None without one."""
        return None

    def per_agent(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """Observation, reward or flags of `step_env`, with the axis of agents."""
        return jax.tree.map(lambda x: x[None], tree)

    def joint(self, action: jax.Array) -> jax.Array:
        """Actions [A, ...] in the form that `step_env` takes."""
        return action[0]

    def views(
        self, state: Any, observation: chex.ArrayTree, params: Any, *, everyone: bool = False
    ) -> AgentViews:
        """Views of the agents that can act in a state; with `everyone`, of all agents.

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
        """Text of each action for an agent, fragments i32[num_actions, C], 0 for none."""
        return command_fragments(self.view, self.slots_as(state, agent, params))

    def legal_as(self, state: Any, agent: jax.Array, params: Any) -> jax.Array:
        """Legal actions of an agent, bool[num_actions]."""
        return self.legal_actions(state, params)[agent]

    def expert_as(self, state: Any, agent: jax.Array, params: Any) -> jax.Array:
        """Action of the expert for an agent that acts now, [*action_shape]."""
        return self.expert(state, params)

    def drafts_of(self, state: Any, params: Any) -> tuple[Draft, ...]:
        """Drafts side by side of which one has just gone on, in a state as NumPy arrays; () in all
        other states, and in environments without drafts."""
        return ()

    def fingerprint_as(self, state: Any, agent: jax.Array, params: Any, *, of: str) -> jax.Array:
        """The hash of what one agent observes, or of the state, u32[2]; see `fingerprint`."""
        return self.fingerprint(state, params, of=of)[agent]
