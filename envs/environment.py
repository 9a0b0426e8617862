"""Base class of all environments: gymnax's protocol plus legality, fingerprints and experts.

A subclass writes the rules (`initial`, `transition`, `observe`, `is_terminated`). The base class
enforces three invariants once for all: terminal states absorb, illegal actions cost what the
environment states and change nothing else, and `step` resets as gymnax does.
"""

import dataclasses
import functools
import importlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.agents import Agents, Outcome
from envs.fingerprint import fingerprint
from envs.text.view import Text, View, command_fragments, packed

if TYPE_CHECKING:
    from envs.hosted import Hosted

# An environment in the graph or in Python.
AnyEnvironment: TypeAlias = "Environment | Hosted"
# What an action is, of environments whose agents look things up (`call_kind`).
NO_CALL, SEARCH, PAGE = range(3)


@struct.dataclass
class EnvState:
    """State of one episode. `time` i32[]: steps taken so far."""

    time: jax.Array


@struct.dataclass
class EnvParams:
    """Traced parameters; a new value does not trigger compilation.

    max_steps_in_episode: the episode is truncated when `time` reaches it.
    illegal_reward: reward of a step whose action was illegal.
    """

    max_steps_in_episode: int = 100
    illegal_reward: float = 0.0


@dataclasses.dataclass(frozen=True)
class Environment(Agents):
    """Base class of the environments; its fields are the static options (they shape the arrays).

    A subclass is a frozen dataclass, so two environments with the same options are equal and share
    compiled functions. It defines

    * `default_params` and `action_names`: class attributes, or properties if they depend on fields
      (`observation_shape` is derived, and defined only where the rules themselves read it);
    * `num_codes`: observations are uint8 codes below it, or None for float32 observations;
    * `initial(key, params) -> state`: draws a task from the key;
    * `transition(key, state, action, params) -> (state, reward)`: called for legal actions of
      running episodes; `time` is counted by the base class;
    * `observe(state, params) -> observation`: what the agent sees, never the time;
    * `is_terminated(state, params)` and `is_success(state, params)`, bool[];
    * optionally `legal(state, params) -> bool[num_actions]` (default: all actions),
      `rejected(state, params) -> state` (the effect of an illegal action; default: none),
      `expert(state, params) -> action`, `render(state, params) -> str` on the host;
    * if actions are `continuous`, one word per component as `action_names`; an action is then
      f32[num_actions], clipped to [-1, 1] by the environment and legal if it is finite;
    * for a planner and an executor (`envs.planned.env`): `subgoal_names`, `reached` and `subgoal`;
    * for text, `wordings`: a module with one function per wording, (env) -> `envs.text.View`.

    wording: which text view `describe` and `commands` use; arrays do not depend on it. "compact"
    states the same as "faithful" (the original's words) more briefly.
    """

    wording: str = dataclasses.field(default="compact", kw_only=True)

    in_python: ClassVar[Literal[False]] = False
    wordings: ClassVar[str | None] = None
    num_codes: ClassVar[int | None] = None
    # Whether `is_success` is defined; if not, metrics omit the success rate.
    has_success: ClassVar[bool] = True
    # Actions are f32[num_actions] in [-1, 1] instead of discrete: see `action_shape`.
    continuous: ClassVar[bool] = False
    # Names of the kinds of task, for success rates per kind: see `kind_of`.
    kinds: ClassVar[tuple[str, ...]] = ()
    # Drawing a task costs much more than a step: rollouts draw tasks ahead and reuse them.
    costly_reset: ClassVar[bool] = True
    # Most commands that the expert writes in a reply that may have several, with the fragment "||"
    # of the lexicon in between; 0: always one. With more, `foreseen` is defined.
    foresees: ClassVar[int] = 0

    def undefined(self, name: str) -> NotImplementedError:
        """The error of a member that a subclass has to define."""
        return NotImplementedError(
            f"{self.name} does not define {name!r}: what an environment defines is listed in the "
            "docstring of envs.Environment (of a game: in those of envs/game.py)"
        )

    @property
    def name(self) -> str:
        """The class's name, for messages; the registered name has a version behind it."""
        return type(self).__name__

    @property
    def default_params(self) -> EnvParams:
        """The parameters that `envs.make` returns where no options change them."""
        raise self.undefined("default_params")

    @property
    def action_names(self) -> tuple[str, ...]:
        """One word per action, in action order."""
        raise self.undefined("action_names")

    @property
    def num_actions(self) -> int:
        """Number of discrete actions, or of components of a continuous action."""
        return len(self.action_names)

    @property
    def role_actions(self) -> tuple[tuple[int, int] | None, ...]:
        """Per agent the actions that it can ever take, (first, count); None: the action space.

        Discrete actions of one agent among continuous ones of others are their number, in
        component 0.
        """
        return (None,) * self.num_agents

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one agent's action: () for a discrete one (i32), (num_actions,) if continuous
        (f32)."""
        return (self.num_actions,) if self.continuous else ()

    @functools.cached_property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of what one agent observes, without an axis of agents.

        Traced from `reset_env` with `default_params` at the first access, which computes nothing. A
        subclass declares it, as a property or class attribute, if its own rules read it.

        Raises:
          NotImplementedError: the rules read it, and no class declares it.
        """

        def first(seed, params):
            return self.reset_agents(jax.random.key(seed), params)[0]

        try:
            return jax.eval_shape(first, 0, self.default_params).shape[1:]
        except RecursionError:
            raise self.undefined("observation_shape") from None

    @property
    def observation_dtype(self) -> Any:
        """uint8 for codes, else float32."""
        return jnp.float32 if self.num_codes is None else jnp.uint8

    # Written by a subclass.

    def initial(self, key: jax.Array, params: EnvParams) -> EnvState:
        """State at the start of an episode; the task is a function of the key."""
        raise self.undefined("initial")

    def transition(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[EnvState, jax.Array]:
        """Next state and reward of a legal action in a running episode."""
        raise self.undefined("transition")

    def observe(self, state: EnvState, params: EnvParams) -> jax.Array:
        """The observation of a state, [*observation_shape]; games have `observe_as` for each
        agent."""
        raise self.undefined("observe")

    def is_terminated(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Whether the rules have ended the episode, bool[]; the time limit does not count."""
        raise self.undefined("is_terminated")

    def is_success(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Whether the task is solved, bool[]."""
        raise self.undefined("is_success")

    def legal(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Legal actions of the single agent, bool[num_actions]."""
        return jnp.ones(self.num_actions, bool)

    def is_legal(self, state: EnvState, action: jax.Array, params: EnvParams) -> jax.Array:
        """Whether one action is legal, bool[]. Override it if actions contain free text."""
        if self.continuous:
            return jnp.all(jnp.isfinite(action))
        # A comparison with every action instead of an index: no gather under vmap.
        chosen = jnp.arange(self.num_actions) == action
        return jnp.any(chosen & self.legal(state, params))

    def rejected(self, state: EnvState, params: EnvParams) -> EnvState:
        """State after an illegal action, apart from `time`; used to tell the agent about it."""
        return state

    def expert(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Action of the scripted policy named in the environment's docstring, i32[]."""
        raise NotImplementedError(f"{self.name} has no expert")

    def foreseen(self, state: EnvState, action: jax.Array) -> tuple[EnvState, jax.Array]:
        """(state after an action of the expert, whether it can act on that without seeing what
        happens, bool[])."""
        raise NotImplementedError(f"{self.name} foresees nothing")

    def kind_of(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Index into `kinds` of the task's kind, i32[]; -1 for none of them."""
        raise NotImplementedError(f"{self.name} has no kinds of tasks")

    @property
    def subgoal_names(self) -> tuple[str, ...]:
        """Names of the subgoals that a planner can set; empty unless the rules define some."""
        return ()

    def reached(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Which subgoals hold, bool[G]; the others can be set. In a running episode at least one
        does not hold."""
        raise NotImplementedError(f"{self.name} has no subgoals")

    def subgoal(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Index of the expert's current subgoal, i32[]; it is not reached yet."""
        raise NotImplementedError(f"{self.name} has no subgoals")

    def render(self, state: EnvState, params: EnvParams) -> str:
        """Drawing of the state as text, rows separated by newlines. Runs on the host."""
        raise NotImplementedError(f"{self.name} has no drawing")

    # Text.

    @property
    def view(self) -> View:
        """The text view in this wording, cached for equal environments. ValueError if there is
        none."""
        return _view(self)

    def describe(self, state: EnvState, params: EnvParams) -> Text:
        """What each agent reads: fragments i32[num_agents, K], length i32[num_agents]."""
        view = self.view
        text = packed(view, view.describe(state, params))
        return jax.tree.map(lambda x: x[None], text)

    def commands(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Text of each action in this state, fragments i32[num_actions, C], 0 for none."""
        view = self.view
        return command_fragments(view, view.slots(state, params))

    # The protocol.

    def is_truncated(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Whether the time limit is reached, bool[]."""
        return state.time >= params.max_steps_in_episode

    def acting(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Which agents choose an action now, bool[num_agents]; the others' is ignored."""
        return jnp.ones(self.num_agents, bool)

    def side_of(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Index into `sides` of each seat's side, i32[A]; constant during an episode.

        By default the sides of `one_team` are its roles: one can learn beside another player, and
        all win together.
        """
        if self.one_team and len(self.sides) == self.num_roles:
            return jnp.asarray(self.roles_of_seats, jnp.int32)
        raise NotImplementedError(f"{self.name} has no sides")

    def belief_question(self, state: EnvState, params: EnvParams) -> tuple[jax.Array, jax.Array]:
        """Which agents are asked for their belief now, bool[A], and the true answer, i32[].

        Only members of the first of the `sides` are asked; the other sides benefit if they are
        wrong. For simultaneous games: in turn-based ones the policy is not evaluated for every
        agent at every turn. Training may use the answer; no player sees it.
        """
        raise NotImplementedError(f"{self.name} has no belief question")

    def legal_actions(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Legal actions of each agent, bool[num_agents, num_actions]."""
        return self.legal(state, params)[None]

    def fingerprint(
        self, state: EnvState, params: EnvParams, *, of: str = "observation"
    ) -> jax.Array:
        """Anchor of each agent, u32[num_agents, 2]; the step counter is left out.

        of: "observation" (what GiGPO's code base groups by: what the agent sees) or "state" (all
        that the future depends on). Where observations hide part of the state, "observation" merges
        turns that "state" keeps apart.
        """
        if of == "observation":
            return fingerprint(self.observe(state, params))[None]
        if of == "state":
            return fingerprint(state.replace(time=jnp.zeros((), jnp.int32)))[None]
        raise ValueError(f"fingerprint of {of!r}: expected 'observation' or 'state'")

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[jax.Array, EnvState]:
        """Draws a task from the key: (observation, state) before the first step. Not compiled."""
        state = self.initial(key, params)
        return self.observe(state, params), state

    def step_env(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """One step without reset: (observation, state, reward, terminated, info).

        A finished episode (terminated or truncated) absorbs: same state, reward 0. An illegal
        action, or one out of range, gives `params.illegal_reward` and only time passes.
        info: `valid` (the action was legal), `success`, `discount` (0 after termination).
        """
        ended = self.is_terminated(state, params) | self.is_truncated(state, params)
        valid = self.is_legal(state, action, params)
        following, reward = self.transition(key, state, action, params)
        refused = self.rejected(state, params)
        following = jax.tree.map(lambda new, old: jnp.where(valid, new, old), following, refused)
        following = following.replace(time=state.time + 1)
        following = jax.tree.map(lambda new, old: jnp.where(ended, old, new), following, state)
        reward = jnp.where(valid, reward, params.illegal_reward)
        reward = jnp.where(ended, 0.0, reward).astype(jnp.float32)
        terminated = self.is_terminated(following, params)
        info = {
            "valid": valid,
            "success": self.is_success(following, params),
            "discount": jnp.where(terminated, 0.0, 1.0),
        }
        return self.observe(following, params), following, reward, terminated, info

    def reset_agents(self, key: jax.Array, params: EnvParams) -> tuple[chex.ArrayTree, EnvState]:
        """`reset_env` with the axis of agents: (observation [A, ...], state)."""
        observation, state = self.reset_env(key, params)
        return self.per_agent(observation), state

    def step_agents(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[chex.ArrayTree, EnvState, Outcome]:
        """`step_env` with the axis of agents: (observation [A, ...], state, Outcome).

        action: [A, ...]; those of agents that do not act are ignored.
        """
        observation, state, reward, terminated, info = self.step_env(
            key, state, self.joint(action), params
        )
        truncated = self.is_truncated(state, params) & ~terminated
        reward, valid, success, observation = self.per_agent(
            (reward, info["valid"], info["success"], observation)
        )
        offender = jnp.where(terminated, info.get("offender", -1), -1)
        seconds = info.get("seconds")
        outcome = Outcome(reward, terminated, truncated, valid, success, offender, seconds, info)
        return observation, state, outcome

    @functools.partial(jax.jit, static_argnames=("self",))
    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[jax.Array, EnvState]:
        """Starts an episode of a task that the key draws: (observation, state). params:
        default_params if None. As gymnax's, compiled."""
        return self.reset_env(key, self.default_params if params is None else params)

    @functools.partial(jax.jit, static_argnames=("self",))
    def step(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams | None = None
    ) -> tuple[jax.Array, EnvState, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """gymnax 1.0's step: (observation, state, reward, terminated, truncated, info).

        When the episode ends, observation and state are already those of a new one and
        `info["final_observation"]` is the last one of the old. This draws a task at every step;
        `envs.vector` resets many episodes at a fraction of that cost.
        """
        params = self.default_params if params is None else params
        step_key, reset_key = jax.random.split(key)
        last, ended_state, reward, terminated, info = self.step_env(step_key, state, action, params)
        truncated = self.is_truncated(ended_state, params)
        done = terminated | truncated
        first, new_state = self.reset_env(reset_key, params)
        observation, state = jax.tree.map(
            lambda new, old: jnp.where(done, new, old), (first, new_state), (last, ended_state)
        )
        info = info | {
            "terminated": terminated,
            "truncated": truncated,
            "final_observation": last,
        }
        return observation, state, reward, terminated, truncated, info

    # gymnax's spaces and older names, for code written against gymnax.

    def action_space(self, params: EnvParams | None = None) -> Any:
        """gymnax `Discrete(num_actions)`, or `Box` of continuous actions."""
        from gymnax.environments import spaces  # slow to import; only foreign code needs it

        if self.continuous:
            return spaces.Box(-1.0, 1.0, self.action_shape, jnp.float32)
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: EnvParams | None = None) -> Any:
        """gymnax's `Box` of an observation: 0 to `num_codes` - 1, or unbounded numbers."""
        from gymnax.environments import spaces

        low, high = (0, self.num_codes - 1) if self.num_codes else (-np.inf, np.inf)
        return spaces.Box(low, high, self.observation_shape, self.observation_dtype)

    def get_obs(self, state: EnvState, params: EnvParams | None = None, key: Any = None) -> Any:
        """gymnax's older name for `observe`."""
        return self.observe(state, self.default_params if params is None else params)

    def is_terminal(self, state: EnvState, params: EnvParams) -> jax.Array:
        """gymnax's older name for `is_terminated`."""
        return self.is_terminated(state, params)

    def discount(self, state: EnvState, params: EnvParams) -> jax.Array:
        """Factor on the value of a state, f32[]: 0 after termination, not truncation; else 1."""
        return jnp.where(self.is_terminated(state, params), 0.0, 1.0)


@functools.lru_cache(maxsize=64)
def _view(env: Environment) -> View:
    if env.wordings is None:
        raise ValueError(f"{env.name} has no text view")
    module = importlib.import_module(env.wordings)
    if env.wording not in module.WORDINGS:
        raise ValueError(
            f"{env.name} wording={env.wording!r}: expected one of {', '.join(module.WORDINGS)}"
        )
    return module.WORDINGS[env.wording](env)
