"""PlannedVolleyball-v1: planners choose skills at events, drones fly them; all can be trained."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment
from envs.game import Form, GameParams, GameState, SimultaneousGame, bin_centre, bin_index, opening
from envs.volleyball import flight, rules, skills
from envs.volleyball.env import PlanarVolleyball, Volleyball, VolleyballParams, VolleyballState
from envs.volleyball.rules import Match

SKILLS = ("goto", "hit")


@struct.dataclass
class LevelsState(GameState):
    """State of a match on two levels.

    match: `envs.volleyball.rules.Match`. choice: i32[D], the current skills. planning: bool[], it
    is the planners' turn. since: i32[], ticks of the match at the last one.
    """

    match: Match
    choice: jax.Array
    planning: jax.Array
    since: jax.Array


@dataclasses.dataclass(frozen=True)
class PlannedVolleyball(SimultaneousGame):
    """`Volleyball-v1` (or `PlanarVolleyball-v1`) of `teams` "plane", "1v1" or "3v3" on two levels.

    Agents, team after team: the team's planner, then its drones. Planners act all at once, in turns
    of zero duration, when teams decide in those games: at the start, at touches, when the ball
    crosses the net, and after `longest_decision` control steps without an event. The other turns
    are the drones', of one control step each. With commands of the scripted controllers a match is
    therefore identical to one of those games.

    Actions: f32[commands] in [-1, 1]. A planner's first component encodes the index of its team's
    joint choice (`envs.game.bin_index`); the others are ignored. A drone's action is a command by
    rates; with `residual` > 0 it is multiplied by it and added to the scripted controllers'
    command, so that 0 is the scripted skill.

    Observation: 1 for planners; the skill in use, one-hot of "goto" and "hit" (0 for planners);
    then the team's observation in those games, or the drone's `volleyball_flight.features`, padded
    with zeros. A drone with the order to hit does so while it is allowed to and the ball comes down
    on its side; otherwise it goes to the order's place.

    Reward of all agents of a team, end, success and limits: those of the teams in those games; the
    step limit includes the planners' turns. Expert: the scripted planner and controllers.

    Without a residual, all policies of the match can play each other in it (`form_of`): two-level
    ones with any residual, teams by decisions over the scripted skills, and drones by rates without
    a planner. Source: thu-uav/HCSP's third stage (read), where planner and skills learn together.
    """

    teams: str = "plane"
    residual: float = 0.0

    continuous: ClassVar[bool] = True
    timed: ClassVar[bool] = True
    # 15 s of control steps, plus the planners' turns.
    default_params: ClassVar[VolleyballParams] = VolleyballParams(max_steps_in_episode=820)

    def __post_init__(self):
        if self.teams not in skills.GAMES:
            raise ValueError(f"teams={self.teams!r}: expected {', '.join(skills.GAMES)}")
        if self.residual < 0:
            raise ValueError(f"residual={self.residual}: expected at least 0")

    @property
    def base(self) -> Volleyball | PlanarVolleyball:
        """The same game with one action per decision: a skill of each drone."""
        return PlanarVolleyball() if self.teams == "plane" else Volleyball(teams=self.teams)

    @property
    def players(self) -> int:
        """Number of drones per team."""
        return self.base.players

    @property
    def num_agents(self) -> int:
        """Two planners and all drones."""
        return 2 * (1 + self.players)

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        return (0,) * (1 + self.players) + (1,) * (1 + self.players)

    @property
    def callers(self) -> tuple[int, ...]:
        """Drones are called by their team's planner."""
        each = 1 + self.players
        return tuple(-1 if a % each == 0 else a - a % each for a in range(self.num_agents))

    @property
    def layout(self) -> dict[str, object]:
        """Layout of observations and actions for `agentrl.policies.composed`."""
        dims = len(self.base.game.server)
        return {
            "skills": SKILLS,
            "choices": self.base.game.counts,
            "planner_features": self.base.observation_shape[0],
            "skill_features": 19 if dims == 2 else 37,
        }

    @property
    def action_names(self) -> tuple[str, ...]:
        return self.base.body.COMMANDS

    def initial(self, key: jax.Array, params: VolleyballParams) -> LevelsState:
        """The match's start, at the planners' turn."""
        state = self.base.initial(key, params)
        return LevelsState(
            **opening(),
            match=state.match,
            choice=jnp.zeros(2 * self.players, jnp.int32),
            planning=jnp.ones((), bool),
            since=jnp.zeros((), jnp.int32),
        )

    def acting(self, state: LevelsState, params: GameParams) -> jax.Array:
        planner = np.array(self.callers) < 0
        return jnp.where(state.planning, planner, ~planner) & self.is_running(state, params)

    def legal_actions(self, state: LevelsState, params: GameParams) -> jax.Array:
        return jnp.ones((self.num_agents, self.num_actions), bool)

    def transition(
        self, key: jax.Array, state: LevelsState, action: jax.Array, params: VolleyballParams
    ) -> tuple[LevelsState, jax.Array]:
        """The planners' choices, or one control step."""
        base, before = self.base, state.match
        by_team = action.reshape(2, 1 + self.players, -1)
        number = bin_index(by_team[:, 0, 0], base.num_actions)
        planned = state.replace(
            choice=base.choices(number), planning=jnp.zeros((), bool), since=before.ticks
        )
        match = base.tick(before, tuple(self.commands(state, action).T))
        late = match.ticks - state.since >= params.longest_decision
        flown = state.replace(match=match, planning=match.event | late)
        following = jax.tree.map(lambda a, b: jnp.where(state.planning, a, b), planned, flown)
        reward = jnp.where(state.planning, 0.0, base.reward(before, match, params))
        return following, jnp.repeat(reward, 1 + self.players)

    def commands(self, state: LevelsState, action: jax.Array) -> jax.Array:
        """Commands of the drones, f32[D, commands], from the actions of all agents."""
        command = action.reshape(2, 1 + self.players, -1)[:, 1:].reshape(2 * self.players, -1)
        if self.residual:
            command = self.scripted(state) + self.residual * jnp.clip(command, -1.0, 1.0)
        return command

    def form_of(self, other: Environment) -> Form | None:
        """The same match with another residual, by decisions, or by rates; see the class."""
        if self.residual:
            return None
        if other == dataclasses.replace(self, residual=getattr(other, "residual", 0.0)):

            def two_levels(state, action):
                plan = action.reshape(2, 1 + self.players, -1)[:, 0]
                return self._joined(plan, other.commands(state, action))

            return Form(lambda state: state, two_levels)
        base = self.base

        def there(state):
            return VolleyballState(**opening(), match=state.match)

        def by_decisions(state, action):
            return self._joined(self._plan(action), self.scripted(state))

        def by_rates(state, action):
            return self._joined(self._plan(jnp.zeros(2)), action)

        forms = {"skills": by_decisions, "rates": by_rates}
        for actions, act in forms.items():
            if other == dataclasses.replace(base, actions=actions):
                return Form(there, act)
        return None

    def _plan(self, number: jax.Array) -> jax.Array:
        """The planners' actions f32[2, K] that encode joint choices [2]."""
        first = bin_centre(number, self.base.num_actions)
        return jnp.zeros((2, self.num_actions)).at[:, 0].set(first)

    def _joined(self, plan: jax.Array, command: jax.Array) -> jax.Array:
        """Actions of all agents from those of the planners [2, K] and of the drones [D, K]."""
        command = command.reshape(2, self.players, -1)
        return jnp.concatenate([plan[:, None], command], axis=1).reshape(self.num_agents, -1)

    def step_env(
        self, key: jax.Array, state: LevelsState, action: jax.Array, params: VolleyballParams
    ) -> tuple[jax.Array, LevelsState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """As in all games; info also has the `seconds` of the step."""
        *stepped, info = super().step_env(key, state, action, params)
        ticks = stepped[1].match.ticks - state.match.ticks
        return *stepped, info | {"seconds": ticks * rules.STEP_SECONDS}

    def scripted(self, state: LevelsState) -> jax.Array:
        """The scripted controllers' commands, f32[D, commands]."""
        base = self.base
        command = flight.scripted(
            base.body, base.sight(state.match), base.orders(state.match, state.choice)
        )
        return jnp.clip(jnp.stack(command, axis=-1), -1.0, 1.0)

    def observe(self, state: LevelsState, params: GameParams) -> jax.Array:
        base = self.base
        sight, order = base.sight(state.match), base.orders(state.match, state.choice)
        team = jnp.moveaxis(base.features(state.match), 0, -1)
        team = jnp.concatenate([jnp.ones((2, 1)), jnp.zeros((2, len(SKILLS))), team], axis=-1)
        own = jnp.stack(flight.features(base.body, sight, order), axis=-1)
        skill = jax.nn.one_hot(flight.in_use(sight, order), len(SKILLS))
        own = jnp.concatenate([jnp.zeros((own.shape[0], 1)), skill, own], axis=-1)
        width = max(team.shape[1], own.shape[1])

        def padded(x):
            return jnp.pad(x, ((0, 0), (0, width - x.shape[1])))

        own = padded(own).reshape(2, self.players, width)
        return jnp.concatenate([padded(team)[:, None], own], axis=1).reshape(-1, width)

    def observe_as(self, state: LevelsState, agent: jax.Array, params: GameParams) -> jax.Array:
        return self.observe(state, params)[agent]

    def is_truncated(self, state: LevelsState, params: VolleyballParams) -> jax.Array:
        """At the limit of steps or of seconds."""
        return super().is_truncated(state, params) | self.base.is_truncated(
            state.replace(time=jnp.zeros((), jnp.int32)), params
        )

    def is_over(self, state: LevelsState, params: GameParams) -> jax.Array:
        return state.match.over

    def won(self, state: LevelsState, params: GameParams) -> jax.Array:
        """All agents of the team whose opponents alone have lost."""
        return jnp.repeat(self.base.won(state, params), 1 + self.players)

    def expert(self, state: LevelsState, params: GameParams) -> jax.Array:
        """The scripted planner's choices, and the scripted commands."""
        command = jnp.zeros((2 * self.players, self.num_actions))
        if not self.residual:
            command = self.scripted(state)
        return self._joined(self._plan(self.base.expert(state, params)), command)

    def render(self, state: LevelsState, params: GameParams) -> str:
        """From the side, with the current skills."""
        roles = self.base.game.roles
        chosen = [
            roles[i % self.players][int(choice)].name for i, choice in enumerate(state.choice)
        ]
        return f"{self.base.render(state, params)}\n{' / '.join(chosen)}"
