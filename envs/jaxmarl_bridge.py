"""JaxMARL's environments under our protocol, in the graph: `envs.make("jaxmarl:NAME", **options)`.

    env, params = envs.make("jaxmarl:MPE_simple_spread_v3", num_agents=5)
    env, params = envs.make("jaxmarl:HeuristicEnemySMAX", scenario="2s3z")

Options are JaxMARL's own (`layout` of overcooked and `scenario` of SMAX by name),
`max_steps_in_episode` and `illegal_reward` of `envs.EnvParams`, and `cooperative`: JaxMARL does not
say which games have one goal for all; with it the agents are one team, which is measured together
and not beside random players. Needs the package jaxmarl (extra
`jaxmarl`).
"""

import dataclasses
import functools
import inspect
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import EnvParams
from envs.game import GameState, SimultaneousGame, opening

# Out of reach: JaxMARL's count of steps is an i32.
_ENDLESS = 2**30
# JaxMARL compares the number of steps before this one with its limit, so one step more is taken.
_ONE_MORE = ("jaxmarl.environments.mpe.", "jaxmarl.environments.smax.")
# Hanabi's rules end it long before: at most 40 cards are drawn and some 60 clues given.
_LONGEST = 200


@struct.dataclass
class JaxMARLState(GameState):
    """JaxMARL's state, and who is done.

    inner: JaxMARL's. seen: f32[A, *observation_shape], only where JaxMARL's `get_obs` needs more
    than the state (Hanabi), else None. done: bool[A]. over: bool[], the rules have ended the
    episode.
    """

    inner: Any
    seen: jax.Array | None
    done: jax.Array
    over: jax.Array


@dataclasses.dataclass(frozen=True)
class JaxMARLEnvironment(SimultaneousGame):
    """An environment of JaxMARL: all agents act at once.

    Rules, rewards and observations are JaxMARL's, with the same keys step by step. What differs:

    * JaxMARL's `dones` do not tell ends by the rules from the limit of steps. Here an environment
      with `max_steps` steps with that limit out of reach (what ends it are its rules), is observed
      with it (overcooked shows that the end is near), and is truncated at it. Where the length is
      fixed (coin_game) every end is a truncation; Hanabi has no limit of JaxMARL's.
    * Nothing resets by itself; ended episodes absorb.
    * Observations are float32. Vectors of different lengths are padded with zeros at the end.
    * Discrete actions: the number is the largest of any agent; others are illegal for those that
      have fewer. Continuous ones are in [-1, 1], scaled to each agent's bounds; an agent with fewer
      components takes the first.
    * Legal actions are those of `get_avail_actions` or `get_legal_moves`. An illegal action is
      replaced by the agent's first legal one. An agent that is done, or has one legal action, does
      not act (SMAX's dead units, Hanabi's players out of turn).
    * Agents whose names differ in their number alone have one role (MPE's adversaries, SMAX's
      allies). JaxMARL's `agent_classes` leave out some of MPE's agents.
    * There are no words, no expert, no drawing and no success.
    """

    identifier: str
    env: Any
    cooperative: bool = False  # type: ignore[misc]  # a ClassVar of other games

    has_success: ClassVar[bool] = False
    costly_reset: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.identifier

    @property
    def num_agents(self) -> int:
        return self.env.num_agents

    @property
    def default_params(self) -> EnvParams:
        return EnvParams(max_steps_in_episode=_limit(self.env) or _LONGEST)

    @property
    def _spaces(self) -> list[Any]:
        return [self.env.action_space(agent) for agent in self.env.agents]

    @property
    def continuous(self) -> bool:
        """Whether JaxMARL's action spaces are continuous."""
        return not hasattr(self._spaces[0], "n")

    @property
    def _counts(self) -> tuple[int, ...]:
        """Number of actions, or of components, of each agent."""
        return tuple(int(s.shape[0] if self.continuous else s.n) for s in self._spaces)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Indices: JaxMARL does not name its actions."""
        return tuple(map(str, range(max(self._counts))))

    @property
    def role_actions(self) -> tuple[tuple[int, int] | None, ...]:
        most = max(self._counts)
        return tuple(None if count == most else (0, count) for count in self._counts)

    @property
    def roles_of_seats(self) -> tuple[int, ...]:
        """One role for agents whose names differ in their number alone: adversary_0, _1, ..."""
        stems = [agent.rpartition("_")[0] or agent for agent in self.env.agents]
        return tuple(list(dict.fromkeys(stems)).index(stem) for stem in stems)

    @functools.cached_property
    def _rules(self) -> Any:
        """JaxMARL's environment with its limit of steps out of reach."""
        return _endless(self.env)

    @functools.cached_property
    def _observed(self) -> bool:
        """Whether JaxMARL's `get_obs` is a function of the state alone."""
        from jaxmarl.environments import MultiAgentEnv

        get_obs = type(self.env).get_obs
        return (
            get_obs is not MultiAgentEnv.get_obs and len(inspect.signature(get_obs).parameters) == 2
        )

    def _stacked(self, seen: dict[str, jax.Array]) -> jax.Array:
        rows = [jnp.asarray(seen[agent], jnp.float32) for agent in self.env.agents]
        longest = max(x.shape[0] for x in rows)
        return jnp.stack([jnp.pad(x, [(0, longest - x.shape[0])] + [(0, 0)] * (x.ndim - 1))
                          for x in rows])  # fmt: skip

    def initial(self, key: jax.Array, params: EnvParams) -> JaxMARLState:
        seen, inner = self.env.reset(key)
        return JaxMARLState(
            **opening(),
            inner=jax.tree.map(lambda x: jnp.asarray(x, jnp.asarray(x).dtype), inner),
            seen=None if self._observed else self._stacked(seen),
            done=jnp.zeros(self.num_agents, bool),
            over=jnp.zeros((), bool),
        )

    def observe(self, state: JaxMARLState, params: EnvParams) -> jax.Array:
        return self._stacked(self.env.get_obs(state.inner)) if self._observed else state.seen

    def is_over(self, state: JaxMARLState, params: EnvParams) -> jax.Array:
        return state.over

    def won(self, state: JaxMARLState, params: EnvParams) -> jax.Array:
        """False for all agents, bool[num_agents]: JaxMARL does not report who wins."""
        return jnp.zeros(self.num_agents, bool)

    def acting(self, state: JaxMARLState, params: EnvParams) -> jax.Array:
        acts = self.is_running(state, params) & ~state.done
        if self.continuous:
            return acts
        return acts & (jnp.sum(self.legal_actions(state, params), axis=1) > 1)

    def legal_actions(self, state: JaxMARLState, params: EnvParams) -> jax.Array:
        most, legal = self.num_actions, _legal_moves(self.env)
        own = jnp.arange(most) < jnp.array(self._counts)[:, None]
        if legal is None or self.continuous:
            return own
        given = legal(state.inner)
        rows = (jnp.asarray(given[agent]) > 0 for agent in self.env.agents)
        return own & jnp.stack([jnp.pad(x, (0, most - x.shape[0])) for x in rows])

    def play(
        self, key: jax.Array, state: JaxMARLState, action: jax.Array, params: EnvParams
    ) -> tuple[JaxMARLState, jax.Array, jax.Array]:
        """All agents' actions in one step; an illegal one is replaced by the first legal one."""
        acts = self.acting(state, params)
        if self.continuous:
            valid = jnp.all(jnp.isfinite(action), axis=-1)
            action = jnp.where((valid & acts)[:, None], action, 0.0)
        else:
            legal = self.legal_actions(state, params)
            valid = jnp.any((jnp.arange(self.num_actions) == action[:, None]) & legal, axis=-1)
            action = jnp.where(valid & acts, action, jnp.argmax(legal, axis=1))
        following, reward = self.transition(key, state, action, params)
        reward = reward + jnp.where(acts & ~valid, params.illegal_reward, 0.0)
        return following, reward, valid | ~acts

    def transition(
        self, key: jax.Array, state: JaxMARLState, action: jax.Array, params: EnvParams
    ) -> tuple[JaxMARLState, jax.Array]:
        agents, chosen = self.env.agents, list(action)
        if self.continuous:
            chosen = [_between(s, x) for s, x in zip(self._spaces, chosen, strict=True)]
        chosen = dict(zip(agents, chosen, strict=True))
        seen, inner, reward, dones, _ = self._rules.step_env(key, state.inner, chosen)
        # A fixed length is a limit: see the class.
        over = jnp.zeros((), bool) if _length(self.env) else jnp.asarray(dones["__all__"], bool)
        following = state.replace(
            inner=jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), inner, state.inner),
            seen=None if self._observed else self._stacked(seen),
            done=jnp.stack([jnp.asarray(dones[agent], bool) for agent in agents]),
            over=over,
        )
        return following, jnp.stack([jnp.asarray(reward[agent]) for agent in agents])


def _between(space: Any, action: jax.Array) -> jax.Array:
    """Components in [-1, 1] scaled to a `Box`, of which an agent has the first."""
    share = (jnp.clip(action[: space.shape[0]], -1.0, 1.0) + 1) / 2
    return space.low + share * (space.high - space.low)


def _shapes(env: Any) -> list[tuple[int, ...]]:
    """Shapes of what the agents observe."""
    seen, _ = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0)))
    return [seen[agent].shape for agent in env.agents]


def _length(env: Any) -> int | None:
    """Steps of an environment whose length is fixed, None for others."""
    if not hasattr(env, "num_outer_steps"):
        return None
    return env.num_inner_steps * env.num_outer_steps


def _limit(env: Any) -> int | None:
    """Steps after which JaxMARL ends an episode; None: it has no limit."""
    if hasattr(env, "max_steps"):
        return int(env.max_steps) + type(env).__module__.startswith(_ONE_MORE)
    return _length(env)


def _endless(env: Any) -> Any:
    """A copy with the limit `max_steps` out of reach; the same where there is no such limit."""
    if not hasattr(env, "max_steps"):
        return env
    # Not copy.copy: environments that pass attributes on (EnemySMAX) would recurse in it.
    other = object.__new__(type(env))
    vars(other).update(vars(env))
    if "_env" in vars(env):
        other._env = _endless(env._env)
    else:
        other.max_steps = _ENDLESS
    return other


def _legal_moves(env: Any) -> Any:
    """The function of a state that gives each agent's legal actions, None if there is none."""
    from jaxmarl.environments import MultiAgentEnv

    if hasattr(env, "get_legal_moves"):
        return env.get_legal_moves
    own = type(env).get_avail_actions is not MultiAgentEnv.get_avail_actions
    return env.get_avail_actions if own else None


def make(name: str, **options: Any) -> tuple[JaxMARLEnvironment, EnvParams]:
    """The environment of a JaxMARL id, without "jaxmarl:", as `envs.make` returns it.

    One object per id and options, so that compiled code is shared.

    Raises:
      ValueError: the package is missing, there is no such environment or option, or it does not fit
        our protocol; the message says why.
    """
    own = {f.name for f in dataclasses.fields(EnvParams)}
    changes = {key: options.pop(key) for key in list(options) if key in own}
    cooperative = bool(options.pop("cooperative", False))
    env = _load(name, cooperative, tuple(sorted(options.items())))
    params = env.default_params.replace(**changes)
    length = _length(env.env)
    if length is not None and params.max_steps_in_episode > length:
        raise ValueError(
            f"environment jaxmarl:{name} max_steps_in_episode={params.max_steps_in_episode}: "
            f"expected at most {length}, its num_inner_steps times num_outer_steps"
        )
    return env, params


@functools.cache
def _load(name: str, cooperative: bool, options: tuple[tuple[str, Any], ...]) -> JaxMARLEnvironment:
    try:
        import jaxmarl
    except ImportError as error:
        raise ValueError(
            f"jaxmarl:{name} needs the package jaxmarl ({error}): pip install jaxmarl"
        ) from None
    if name not in jaxmarl.registered_envs:
        raise ValueError(
            f"environment jaxmarl:{name} does not exist; JaxMARL has "
            f"{', '.join(jaxmarl.registered_envs)}"
        )
    try:
        env = jaxmarl.make(name, **_named(name, dict(options)))
    except (TypeError, ImportError, AssertionError, ValueError, KeyError) as error:
        # A missing package, or an option that its constructor does not take.
        raise ValueError(f"environment jaxmarl:{name} {dict(options)}: {error}") from None
    _check(name, env)
    return JaxMARLEnvironment(f"jaxmarl:{name}", env, cooperative)


def _named(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options with JaxMARL's objects in place of their names."""
    if isinstance(options.get("scenario"), str):
        from jaxmarl.environments.smax import map_name_to_scenario

        options["scenario"] = map_name_to_scenario(options["scenario"])
    if name == "overcooked" and isinstance(options.get("layout"), str):
        from jaxmarl.environments.overcooked import overcooked_layouts

        layout = options["layout"]
        if layout not in overcooked_layouts:
            raise ValueError(f"layout={layout!r}: expected one of {', '.join(overcooked_layouts)}")
        options["layout"] = overcooked_layouts[layout]
    return options


def _check(name: str, env: Any) -> None:
    """ValueError if an environment does not fit our protocol."""
    what = f"environment jaxmarl:{name}"
    if env.num_agents < 2:
        raise ValueError(f"{what} has one agent; expected several (gymnax has those of one)")
    seen, _ = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0)))
    arrays = seen if isinstance(seen, dict) else {}
    if not all(hasattr(arrays.get(agent), "shape") for agent in env.agents):
        raise ValueError(f"{what}: expected one array per agent as observation")
    shapes = set(_shapes(env))
    if len(shapes) > 1 and any(len(shape) != 1 for shape in shapes):
        raise ValueError(f"{what} has observations of shapes {sorted(shapes)}; expected the same")
    spaces = [env.action_space(agent) for agent in env.agents]
    discrete = {hasattr(space, "n") for space in spaces}
    bounded = all(
        hasattr(s, "n") or (len(s.shape) == 1 and np.all(np.isfinite([s.low, s.high])))
        for s in spaces
    )  # fmt: skip
    if len(discrete) > 1 or not bounded:
        kinds = sorted({type(space).__name__ for space in spaces})
        raise ValueError(
            f"{what} has actions of types {', '.join(kinds)}; expected Discrete for all agents, or "
            "vectors with finite bounds for all"
        )
    if _limit(env) is None and name != "hanabi":
        raise ValueError(f"{what}: JaxMARL does not say what ends it, its rules or a limit")
