"""Games of several agents: who moves, what each agent sees, what an illegal action costs.

The protocol is `Environment`'s with a leading axis of A agents: observations [A, ...], actions
i32[A] (those of agents who do not act are not read), rewards f32[A], `info["valid"]` and
`info["success"]` bool[A]. `terminated` stays one for all.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from envs.agents import AgentViews
from envs.environment import Environment, EnvParams, EnvState
from envs.fingerprint import fingerprint
from envs.text.view import Text, packed


@struct.dataclass
class GameState(EnvState):
    """errors: i32[], illegal actions in a row of the agent whose turn it is.

    offender: i32[], the agent whose illegal action ended the game; -1 for none.
    """

    errors: jax.Array
    offender: jax.Array


@struct.dataclass
class GameParams(EnvParams):
    """What illegal actions cost, in games in turns.

    illegal_allowance: how many in a row are forgiven: the same agent moves again.
    illegal_reward: of the agent whose illegal action is not; the game ends with it.
    illegal_other_reward: of each other agent then.

    The defaults are TextArena's (0.7.4, read). Its version 0.6.4 gives the others 0; SPIRAL's
    driver forgives none and gives -1.5 and 0.5; MARSHAL gives the offender the stake and 10 more
    off, the others 0.
    """

    illegal_reward: float = -1.0
    illegal_other_reward: float = 1.0
    illegal_allowance: int = 1


class Form(NamedTuple):
    """How who plays another form of a game plays it in this one, by functions of one match.

    state: (state here) -> what it is there. action: (state here, actions there) -> actions here;
    of agents that do not act now anything.
    """

    state: Callable[[Any], Any]
    action: Callable[[Any, jax.Array], jax.Array]


def number_of(component: jax.Array, count: int) -> jax.Array:
    """The number in [0, count) that a component in [-1, 1] of a continuous action stands for.

    The interval is cut into `count` equal parts, so that what is uniform is uniform. For games of
    continuous actions in which some agents choose among numbered ones.
    """
    share = (jnp.clip(component, -1.0, 1.0) + 1) / 2
    return jnp.minimum(jnp.floor(share * count), count - 1).astype(jnp.int32)


def number_to(number: jax.Array, count: int) -> jax.Array:
    """The middle of the part of [-1, 1] that stands for a number: the inverse of `number_of`."""
    return (2 * number + 1) / count - 1.0


def opening() -> dict[str, jax.Array]:
    """The fields of `GameState` at the start of a game."""
    return {
        "time": jnp.zeros((), jnp.int32),
        "errors": jnp.zeros((), jnp.int32),
        "offender": jnp.full((), -1, jnp.int32),
    }


@dataclasses.dataclass(frozen=True)
class Game(Environment):
    """Base class of all games. A game derives from `TurnGame` or `SimultaneousGame`, and writes

    * of `Environment`: `default_params`, `action_names`, `observation_shape`, `num_codes`,
      `initial`, and if it has them `expert`, `render`, `wordings`;
    * `observe_as(state, agent, params) -> observation`: what one agent sees, agent i32[];
    * `is_over(state, params) -> bool[]`: the rules have ended the game;
    * `won(state, params) -> bool[A]`: who has won a game that is over, nobody in a draw; where all
      play together, whether they reached the goal.

    A view of a game takes the agent as third argument: describe(state, params, agent) and
    slots(state, params, agent).
    """

    num_agents: ClassVar[int] = 2
    # The agent that the others act for, where there is one: their streams are called by its.
    planner: ClassVar[int | None] = None

    @property
    def callers(self) -> tuple[int, ...] | None:
        """The agent that each one acts for, -1 for who acts for itself; None where all do."""
        if self.planner is None:
            return None
        return tuple(-1 if a == self.planner else self.planner for a in range(self.num_agents))

    def observe_as(self, state: GameState, agent: jax.Array, params: GameParams) -> jax.Array:
        """What one agent sees, [*observation_shape]."""
        raise NotImplementedError

    def is_over(self, state: GameState, params: GameParams) -> jax.Array:
        """Whether the rules have ended the game, bool[]."""
        raise NotImplementedError

    def won(self, state: GameState, params: GameParams) -> jax.Array:
        """Who has won, bool[A]."""
        raise NotImplementedError

    def side_of(self, state: GameState, params: GameParams) -> jax.Array:
        """Which of the `sides` each seat is on, i32[A]; the same from start to end."""
        raise NotImplementedError(f"{self.name} has no sides")

    def belief_question(self, state: GameState, params: GameParams) -> tuple[jax.Array, jax.Array]:
        """Who is asked now what they believe, bool[A], and the true answer, i32[].

        Asked are members of the first of the `sides`; the others gain where these are wrong. For
        simultaneous games: in others not everybody is looked at.
        Training may use it, no player sees it.
        """
        raise NotImplementedError(f"{self.name} asks nobody for beliefs")

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """Next state, rewards f32[A] and whose actions were legal bool[A], in a running game."""
        raise NotImplementedError

    def is_running(self, state: GameState, params: GameParams) -> jax.Array:
        """Neither over nor at the limit of steps, bool[]."""
        return ~(self.is_terminated(state, params) | self.is_truncated(state, params))

    @property
    def _agents(self) -> jax.Array:
        return jnp.arange(self.num_agents, dtype=jnp.int32)

    def observe(self, state: GameState, params: GameParams) -> jax.Array:
        """What every agent sees, [A, *observation_shape]."""
        return jax.vmap(self.observe_as, in_axes=(None, 0, None))(state, self._agents, params)

    def is_terminated(self, state: GameState, params: GameParams) -> jax.Array:
        """By the rules, or by an illegal action that was not forgiven."""
        return self.is_over(state, params) | (state.offender >= 0)

    def is_success(self, state: GameState, params: GameParams) -> jax.Array:
        """Who has won by the rules, bool[A]: nobody where an illegal action ended the game."""
        ended = self.is_over(state, params) & (state.offender < 0)
        return self.won(state, params) & ended

    def fingerprint(
        self, state: GameState, params: GameParams, *, of: str = "observation"
    ) -> jax.Array:
        """Anchor of each agent, u32[A, 2]."""
        if of == "observation":
            return jax.vmap(fingerprint)(self.observe(state, params))
        whole = super().fingerprint(state, params, of=of)
        return jnp.broadcast_to(whole, (self.num_agents, 2))

    def describe(self, state: GameState, params: GameParams) -> Text:
        """What each agent reads: fragments i32[A, K], length i32[A]."""
        return jax.vmap(self.describe_as, in_axes=(None, 0, None))(state, self._agents, params)

    def commands(self, state: GameState, params: GameParams) -> jax.Array:
        """How each agent writes each action now, fragments i32[A, num_actions, C]."""
        return jax.vmap(self.commands_as, in_axes=(None, 0, None))(state, self._agents, params)

    def per_agent(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """What `step_env` returns has the axis of agents already."""
        return tree

    def joint(self, action: jax.Array) -> jax.Array:
        """`step_env` takes the actions of all agents."""
        return action

    def describe_as(self, state: GameState, agent: jax.Array, params: GameParams) -> Text:
        """What an agent reads: fragments i32[K], length i32[]."""
        return packed(self.view, self.view.describe(state, params, agent))

    def slots_as(self, state: GameState, agent: jax.Array, params: GameParams) -> Any:
        """The slots of an agent's command templates."""
        return self.view.slots(state, params, agent)

    def step_env(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[jax.Array, GameState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """One step without reset: (observation, state, reward, terminated, info).

        action: i32[A], or i32[] for all alike; f32[A, num_actions] where actions are continuous.
        A game that has ended absorbs: same state, rewards 0.
        info: `valid`, `success` bool[A], `offender` i32[], `discount`.
        """
        action = jnp.broadcast_to(action, (self.num_agents, *self.action_shape))
        ended = ~self.is_running(state, params)
        following, reward, valid = self.play(key, state, action, params)
        following = following.replace(time=state.time + 1)
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        terminated = self.is_terminated(following, params)
        info = {
            "valid": valid | ended,
            "success": self.is_success(following, params),
            "offender": following.offender,
            "discount": jnp.where(terminated, 0.0, 1.0),
        }
        reward = jnp.where(ended, 0.0, reward).astype(jnp.float32)
        return self.observe(following, params), following, reward, terminated, info


@dataclasses.dataclass(frozen=True)
class TurnGame(Game):
    """A game in turns. It writes besides

    * `mover(state, params) -> i32[]`: whose turn it is;
    * `legal(state, params) -> bool[num_actions]`: what that agent may do;
    * `transition(key, state, action, params) -> (state, reward f32[A])`: a legal action of that
      agent, i32[]; `time`, `errors` and `offender` are counted here;
    * `expert(state, params) -> i32[]`: for the agent whose turn it is.
    """

    in_turns: ClassVar[bool] = True

    def mover(self, state: GameState, params: GameParams) -> jax.Array:
        """Whose turn it is, i32[]."""
        raise NotImplementedError

    def views(
        self, state: GameState, observation: chex.ArrayTree, params: GameParams, *, everyone=False
    ) -> AgentViews:
        """The view of the agent whose turn it is, S = 1, or of `everyone`.

        Legality is computed for that agent only, and its observation is chosen by comparisons: on a
        CPU, two gathers by agent take longer than all else in a step of poker.
        """
        if everyone:
            return super().views(state, observation, params)
        agent, acting = self.mover(state, params), self.is_running(state, params)

        def own(x):
            chosen = x[0]
            for other in range(1, self.num_agents):
                chosen = jnp.where(agent == other, x[other], chosen)
            return chosen[None]

        legal = self.legal(state, params) | ~acting
        return AgentViews(agent[None], acting[None], jax.tree.map(own, observation), legal[None])

    def legal_as(self, state: GameState, agent: jax.Array, params: GameParams) -> jax.Array:
        """Legal actions of an agent, bool[num_actions]; none unless it is its turn."""
        return self.legal(state, params) & (agent == self.mover(state, params))

    def acting(self, state: GameState, params: GameParams) -> jax.Array:
        """The one whose turn it is, bool[A]; nobody once the game has ended."""
        return (self._agents == self.mover(state, params)) & self.is_running(state, params)

    def legal_actions(self, state: GameState, params: GameParams) -> jax.Array:
        """bool[A, num_actions]; nothing for those whose turn it is not."""
        mine = self._agents == self.mover(state, params)
        return mine[:, None] & self.legal(state, params)[None]

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """The move of the agent whose turn it is; an illegal one is forgiven or ends the game."""
        mine = self._agents == self.mover(state, params)
        move = jnp.sum(jnp.where(mine, action, 0))
        valid = self.is_legal(state, move, params)
        following, reward = self.transition(key, state, move, params)
        following = following.replace(errors=jnp.zeros((), jnp.int32))
        ends = state.errors >= params.illegal_allowance
        refused = self.rejected(state, params).replace(
            errors=state.errors + 1,
            offender=jnp.where(ends, self.mover(state, params), state.offender),
        )
        following = jax.tree.map(lambda a, b: jnp.where(valid, a, b), following, refused)
        penalty = jnp.where(mine, params.illegal_reward, params.illegal_other_reward)
        reward = jnp.where(valid, reward, jnp.where(ends, penalty, 0.0))
        return following, reward, valid | ~mine


@dataclasses.dataclass(frozen=True)
class SimultaneousGame(Game):
    """A game in which all who can act at once. It writes besides

    * `acting(state, params) -> bool[A]`, unless all act until the end;
    * `legal_actions(state, params) -> bool[A, num_actions]`;
    * `transition(key, state, action, params) -> (state, reward f32[A])`, action i32[A], all legal
      (where `continuous`, f32[A, num_actions]);
    * `idle`: the action, or every component, that stands for an illegal one, and for that of who
      does not act;
    * `expert(state, params) -> i32[A]`.

    An illegal action costs `params.illegal_reward` (default of these games: 0) and ends nothing.
    """

    idle: ClassVar[int] = 0

    def expert_as(self, state: GameState, agent: jax.Array, params: GameParams) -> jax.Array:
        """Action of the expert for an agent, [*action_shape]."""
        return self.expert(state, params)[agent]

    def acting(self, state: GameState, params: GameParams) -> jax.Array:
        """Everyone, until the end."""
        return jnp.broadcast_to(self.is_running(state, params), (self.num_agents,))

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """All moves at once."""
        if self.continuous:
            valid = jnp.all(jnp.isfinite(action), axis=-1)
        else:
            legal = self.legal_actions(state, params)
            chosen = jnp.arange(self.num_actions) == action[:, None]
            valid = jnp.any(chosen & legal, axis=-1)
        acts = self.acting(state, params)
        taken = (valid & acts).reshape(-1, *[1] * len(self.action_shape))
        following, reward = self.transition(key, state, jnp.where(taken, action, self.idle), params)
        reward = reward + jnp.where(acts & ~valid, params.illegal_reward, 0.0)
        return following, reward, valid | ~acts
