"""Base classes of games: who acts, what each agent observes, what an illegal action costs.

The protocol is `Environment`'s with a leading axis of A agents: observations [A, ...], actions
i32[A] (entries of agents that do not act are ignored), rewards f32[A], `info["valid"]` and
`info["success"]` bool[A]. `terminated` is one value for all.
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
    """State of one match.

    errors: i32[], consecutive illegal actions of the current player.
    offender: i32[], the agent whose illegal action ended the game; -1 for none.
    """

    errors: jax.Array
    offender: jax.Array


@struct.dataclass
class GameParams(EnvParams):
    """Cost of illegal actions in turn-based games.

    illegal_allowance: how many consecutive ones are forgiven: the same agent moves again.
    illegal_reward: reward of the agent whose illegal action is not forgiven; it ends the game.
    illegal_other_reward: reward of each other agent in that case.

    The defaults are TextArena's (0.7.4, read). Its version 0.6.4 gives the others 0; SPIRAL's
    driver forgives none and gives -1.5 and 0.5; MARSHAL subtracts the stake plus 10 from the
    offender and gives the others 0.
    """

    illegal_reward: float = -1.0
    illegal_other_reward: float = 1.0
    illegal_allowance: int = 1


class Form(NamedTuple):
    """Lets a policy of another form of a game play in this one.

    state: (state of this game) -> state of the other form. action: (state of this game, actions in
    the other form) -> actions in this game; entries of agents that do not act now are arbitrary.
    Both are functions of one match.
    """

    state: Callable[[Any], Any]
    action: Callable[[Any, jax.Array], jax.Array]


def bin_index(component: jax.Array, count: int) -> jax.Array:
    """Index in [0, count) of the bin that a component in [-1, 1] of a continuous action falls into.

    The `count` bins are equal, so a uniform component gives a uniform index. For games with
    continuous actions in which some agents choose among discrete options.
    """
    share = (jnp.clip(component, -1.0, 1.0) + 1) / 2
    return jnp.minimum(jnp.floor(share * count), count - 1).astype(jnp.int32)


def bin_centre(number: jax.Array, count: int) -> jax.Array:
    """Centre of the bin of an index, in [-1, 1]: the inverse of `bin_index`."""
    return (2 * number + 1) / count - 1.0


def opening() -> dict[str, jax.Array]:
    """Initial values of the fields of `GameState`."""
    return {
        "time": jnp.zeros((), jnp.int32),
        "errors": jnp.zeros((), jnp.int32),
        "offender": jnp.full((), -1, jnp.int32),
    }


@dataclasses.dataclass(frozen=True)
class Game(Environment):
    """Base class of all games. A game derives from `TurnGame` or `SimultaneousGame`, and defines

    * of `Environment`: `default_params`, `action_names`, `num_codes`, `initial`, and optionally
      `expert`, `render`, `wordings`;
    * `observe_as(state, agent, params) -> observation`: what one agent sees, agent i32[];
    * `is_over(state, params) -> bool[]`: the rules have ended the game;
    * `won(state, params) -> bool[A]`: winners of a game that is over, all False in a draw; in
      cooperative games, whether the goal was reached.

    A view of a game takes the agent as third argument: describe(state, params, agent) and
    slots(state, params, agent).
    """

    num_agents: ClassVar[int] = 2
    # The agent that calls the others, if there is one: their streams have its stream as parent.
    planner: ClassVar[int | None] = None

    @property
    def callers(self) -> tuple[int, ...] | None:
        """The calling agent of each agent, -1 for none; None if there is no planner."""
        if self.planner is None:
            return None
        return tuple(-1 if a == self.planner else self.planner for a in range(self.num_agents))

    def observe_as(self, state: GameState, agent: jax.Array, params: GameParams) -> jax.Array:
        """What agent i32[] observes of a state, [*observation_shape]."""
        raise self.undefined("observe_as")

    def is_over(self, state: GameState, params: GameParams) -> jax.Array:
        """Whether the rules have ended the game, bool[]."""
        raise self.undefined("is_over")

    def won(self, state: GameState, params: GameParams) -> jax.Array:
        """Who has won in an ended game, bool[A]; all False for a draw. It may be several seats."""
        raise self.undefined("won")

    def result_of(self, state: GameState, params: GameParams) -> tuple[jax.Array, jax.Array]:
        """What an attempt came to, u32[], equal numbers for equal results, and whether there is a
        result, bool[]: for choosing among several attempts."""
        raise NotImplementedError(f"{self.name} has no results to choose among")

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """Next state, rewards f32[A] and which actions were legal bool[A], in a running game."""
        raise self.undefined("play")

    def is_running(self, state: GameState, params: GameParams) -> jax.Array:
        """Whether the game is neither over nor truncated, bool[]."""
        return ~(self.is_terminated(state, params) | self.is_truncated(state, params))

    @property
    def _agents(self) -> jax.Array:
        return jnp.arange(self.num_agents, dtype=jnp.int32)

    def observe(self, state: GameState, params: GameParams) -> jax.Array:
        """What every agent sees, [A, *observation_shape]."""
        return jax.vmap(self.observe_as, in_axes=(None, 0, None))(state, self._agents, params)

    def is_terminated(self, state: GameState, params: GameParams) -> jax.Array:
        """Ended by the rules, or by an illegal action that was not forgiven."""
        return self.is_over(state, params) | (state.offender >= 0)

    def is_success(self, state: GameState, params: GameParams) -> jax.Array:
        """Winners by the rules, bool[A]; all False if an illegal action ended the game."""
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
        """Text of each action for each agent, fragments i32[A, num_actions, C]."""
        return jax.vmap(self.commands_as, in_axes=(None, 0, None))(state, self._agents, params)

    def per_agent(self, tree: chex.ArrayTree) -> chex.ArrayTree:
        """The tree unchanged: results of `step_env` already have the axis of agents."""
        return tree

    def joint(self, action: jax.Array) -> jax.Array:
        """The actions unchanged: `step_env` takes those of all agents."""
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

        action: i32[A], or i32[] for the same action of all; f32[A, num_actions] if actions are
        continuous. A game that has ended absorbs: same state, rewards 0.
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
    """A turn-based game. It also defines

    * `mover(state, params) -> i32[]`: the current player;
    * `legal(state, params) -> bool[num_actions]`: legal actions of the current player;
    * `transition(key, state, action, params) -> (state, reward f32[A])`: a legal action of the
      current player, i32[]; `time`, `errors` and `offender` are counted by this class;
    * `expert(state, params) -> i32[]`: action of the scripted policy for the current player.
    """

    in_turns: ClassVar[bool] = True

    def mover(self, state: GameState, params: GameParams) -> jax.Array:
        """The seat whose turn it is, i32[]."""
        raise self.undefined("mover")

    def views(
        self, state: GameState, observation: chex.ArrayTree, params: GameParams, *, everyone=False
    ) -> AgentViews:
        """The view of the current player, S = 1, or with `everyone` of all agents.

        Legality is computed for that agent only, and its observation is selected by comparisons: on
        a CPU, two gathers by agent take longer than the rest of a step of poker.
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
        """Legal actions of an agent, bool[num_actions]; none for agents other than the current
        player."""
        return self.legal(state, params) & (agent == self.mover(state, params))

    def acting(self, state: GameState, params: GameParams) -> jax.Array:
        """The current player, bool[A]; all False once the game has ended."""
        return (self._agents == self.mover(state, params)) & self.is_running(state, params)

    def legal_actions(self, state: GameState, params: GameParams) -> jax.Array:
        """Legal actions, bool[A, num_actions]; none for agents other than the current player."""
        mine = self._agents == self.mover(state, params)
        return mine[:, None] & self.legal(state, params)[None]

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """The move of the current player; an illegal one is forgiven or ends the game."""
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
    """A game in which all acting agents move at once. It also defines

    * `acting(state, params) -> bool[A]`, unless all agents act until the end;
    * `legal_actions(state, params) -> bool[A, num_actions]`;
    * `transition(key, state, action, params) -> (state, reward f32[A])`, action i32[A], all legal
      (if `continuous`, f32[A, num_actions]);
    * `idle`: the action (or the value of every component) that replaces an illegal action, and the
      action of an agent that does not act;
    * `expert(state, params) -> i32[A]`.

    An illegal action costs `params.illegal_reward` (default of these games: 0) and does not end the
    game.
    """

    idle: ClassVar[int] = 0

    def expert_as(self, state: GameState, agent: jax.Array, params: GameParams) -> jax.Array:
        """Action of the expert for an agent, [*action_shape]."""
        return self.expert(state, params)[agent]

    def acting(self, state: GameState, params: GameParams) -> jax.Array:
        """All agents, until the end."""
        return jnp.broadcast_to(self.is_running(state, params), (self.num_agents,))

    def play(
        self, key: jax.Array, state: GameState, action: jax.Array, params: GameParams
    ) -> tuple[GameState, jax.Array, jax.Array]:
        """Takes the actions of all agents, [A, ...], in one step: (state, reward f32[A], valid
        bool[A]). An illegal action is replaced by `idle`."""
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
