"""Volleyball-v1 and PlanarVolleyball-v1: teams of drones, by decisions or by commands."""

import dataclasses
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.game import GameParams, GameState, SimultaneousGame, opening
from envs.volleyball import observations, planar, quadrotor, rules, skills
from envs.volleyball.ball import Ball
from envs.volleyball.flight import Order, Sight, scripted
from envs.volleyball.rules import Match
from envs.volleyball.vectors import Vector, turned

# (sight, order) -> command by rates, components [D, ...]: flies the drones between decisions.
Controller = Callable[[Sight, Order], Vector]


@struct.dataclass
class VolleyballState(GameState):
    """match: `envs.volleyball.rules.Match`."""

    match: Match


@struct.dataclass
class VolleyballParams(GameParams):
    """Traced parameters of a match.

    max_seconds: a longer match is truncated, a draw. longest_decision: control steps (0.02 s) after
    which teams decide again even without an event. touch_reward: reward of a team for each of its
    touches, for shaping; without it the game is zero-sum. noise: of the initial places, in m.
    """

    illegal_reward: float = 0.0
    max_seconds: float = 15.0
    longest_decision: int = 75
    touch_reward: float = 0.0
    noise: float = 0.05


@dataclasses.dataclass(frozen=True)
class _Volleyball(SimultaneousGame):
    """Shared by both games.

    actions: "skills" (agents are the two teams, a step lasts to the next event) or "rates" or
    "rotors" (agents are the drones, a step is one control step of 0.02 s).
    """

    actions: str = "skills"

    body: ClassVar[ModuleType]
    timed: ClassVar[bool] = True

    def __post_init__(self):
        if self.actions not in ("skills", "rates", "rotors"):
            raise ValueError(f"actions={self.actions!r}: expected 'skills', 'rates' or 'rotors'")

    @property
    def game(self) -> skills.Game:
        """The court, the skills of each role and how serves are drawn."""
        raise NotImplementedError

    @property
    def players(self) -> int:
        """Number of drones per team."""
        return len(self.game.roles)

    @property
    def continuous(self) -> bool:
        """Whether an action is a vector of commands to the drone instead of the index of a
        skill."""
        return self.actions != "skills"

    @property
    def num_agents(self) -> int:
        """Number of teams, or of drones: those of team 0, then those of team 1."""
        return 2 * self.players if self.continuous else 2

    @property
    def sides_of_seats(self) -> tuple[int, ...]:
        return tuple(np.repeat((0, 1), self.num_agents // 2).tolist())

    @property
    def default_params(self) -> VolleyballParams:
        """64 decisions, or 750 control steps."""
        return VolleyballParams(max_steps_in_episode=750 if self.continuous else 64)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Components of a command, or joint choices of a team (the last drone's runs fastest)."""
        if self.actions == "rates":
            return self.body.COMMANDS
        if self.actions == "rotors":
            return tuple(f"rotor {i}" for i in range(self.body.ROTORS))
        names = [[skill.name for skill in role] for role in self.game.roles]
        return tuple(" / ".join(choice) for choice in itertools.product(*names))

    def initial(self, key: jax.Array, params: VolleyballParams) -> VolleyballState:
        """All drones at their first places, a team drawn at random serves."""
        side_key, noise_key = jax.random.split(key)
        serving = jax.random.bernoulli(side_key).astype(jnp.int32)
        return VolleyballState(**opening(), match=self.serve(noise_key, serving, params))

    def serve(self, key: jax.Array, serving: jax.Array, params: VolleyballParams) -> Match:
        """A match before the serve of a team."""
        game, players = self.game, self.players
        dims = len(game.server)
        noise = params.noise * jax.random.uniform(key, (dims, 2 * players + 1), minval=-1.0)
        homes = np.float32([role[0].place for role in game.roles] * 2).T
        server = np.arange(2 * players) == serving * players
        places = jnp.where(server, np.float32(game.server)[:, None], homes) + noise[:, 1:]
        drop = tuple(jnp.float32(x) + n for x, n in zip(game.drop, noise[:, 0], strict=True))
        still = tuple(jnp.zeros(dims))
        ball = Ball(turned(drop, 1 - 2 * serving.astype(jnp.float32)), still)
        return rules.start(self.body.hovering(tuple(places)), ball, serving)

    def legal_actions(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        return jnp.ones((self.num_agents, self.num_actions), bool)

    def transition(
        self, key: jax.Array, state: VolleyballState, action: jax.Array, params: VolleyballParams
    ) -> tuple[VolleyballState, jax.Array]:
        """To the next event, or one control step."""
        before = state.match
        if self.continuous:
            command = tuple(jnp.moveaxis(action, -1, 0))
            match = self.tick(before, command)
        else:
            choice = self.choices(action)
            match = self.until_event(before, choice, params, self.controller(params))
        return state.replace(match=match), self.reward(before, match, params)

    # For rollouts outside `step`: all of these take matches with any batch axes behind the
    # first.

    def controller(self, params: VolleyballParams) -> Controller:
        """The controller that flies the drones between decisions; scripted by default. To be
        overridden."""
        return lambda sight, order: scripted(self.body, sight, order)

    def choices(self, action: jax.Array) -> jax.Array:
        """Skills of all drones i32[D, ...] from the teams' actions i32[2, ...]."""
        both = skills.choices_of(action, self.game.counts)
        return jnp.moveaxis(both, 1, 0).reshape(2 * self.players, *action.shape[1:])

    def orders(self, match: Match, choice: jax.Array) -> Order:
        """Orders to the drones now under skills i32[D, ...]."""
        return skills.orders(self.game, match, choice)

    def sight(self, match: Match) -> Sight:
        """The drones, the ball, and which drones may touch it, bool[D], for the controllers."""
        return Sight(match.drones, rules.seen(match), ~match.touched)

    def tick(self, match: Match, command: Vector) -> Match:
        """One control step; see `envs.volleyball.rules.tick`. Finished matches continue."""
        rates = self.actions != "rotors"
        return rules.tick(match, command, self.game.court, self.body, rates=rates)

    def until_event(
        self, match: Match, choice: jax.Array, params: VolleyballParams, controller: Controller
    ) -> Match:
        """The match at the next decision. In a batch, matches that have reached theirs wait."""
        step, start = self._stepping(match, choice, params, controller)
        return jax.lax.while_loop(lambda carry: jnp.any(carry[1]), step, start)[0]

    def flight(self, state: VolleyballState, action: jax.Array, params: VolleyballParams) -> Match:
        """States during a step by decisions, for drawings: the match after each control step.

        Leaves are [longest_decision, ...]; after the event the match stands still.
        """
        choice, controller = self.choices(action), self.controller(params)
        step, start = self._stepping(state.match, choice, params, controller)

        def following(carry, _):
            carry = step(carry)
            return carry, carry[0]

        return jax.lax.scan(following, start, length=int(params.longest_decision))[1]

    def _stepping(self, match, choice, params, controller):
        """Loop body of one control step on (match, whether it continues), and the initial carry."""
        last = jnp.minimum(match.ticks + params.longest_decision, _ticks(params.max_seconds))

        def step(carry):
            match, running = carry
            command = controller(self.sight(match), self.orders(match, choice))
            following = rules.tick(match, command, self.game.court, self.body)
            match = jax.tree.map(lambda new, old: jnp.where(running, new, old), following, match)
            return match, running & ~match.event & ~match.over & (match.ticks < last)

        start = match._replace(hit=jnp.zeros_like(match.hit), crossed=jnp.zeros_like(match.crossed))
        return step, (start, ~match.over & (match.ticks < last))

    def reward(self, before: Match, after: Match, params: VolleyballParams) -> jax.Array:
        """Reward of each agent, f32[A, ...]: 1 and -1 for winning and losing, and for touches."""
        lost = after.lost.astype(jnp.float32) - before.lost.astype(jnp.float32)
        outcome = lost[::-1] - lost
        touches = jnp.sum(after.hit.reshape(2, self.players, *after.hit.shape[1:]), axis=1)
        reward = outcome + params.touch_reward * touches
        return jnp.repeat(reward, self.players, axis=0) if self.continuous else reward

    def features(self, match: Match) -> jax.Array:
        """Observations of all agents, features first: f32[F, A, ...]."""
        listed = observations.of_drones if self.continuous else observations.of_teams
        return jnp.stack(listed(match, self.body))

    def observe(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        return jnp.moveaxis(self.features(state.match), 0, -1)

    def observe_as(
        self, state: VolleyballState, agent: jax.Array, params: VolleyballParams
    ) -> jax.Array:
        return self.observe(state, params)[agent]

    def is_truncated(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        """At the limit of steps or of seconds."""
        late = state.match.ticks >= _ticks(params.max_seconds)
        return super().is_truncated(state, params) | late

    def is_over(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        return state.match.over

    def won(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        """The team whose opponents alone have lost."""
        lost = state.match.lost
        won = lost[::-1] & ~lost
        return jnp.repeat(won, self.players, axis=0) if self.continuous else won

    def expert(self, state: VolleyballState, params: VolleyballParams) -> jax.Array:
        """The scripted planner's choices, or the corresponding scripted controllers' commands."""
        choice = skills.planned(self.game, state.match)
        if not self.continuous:
            teams = jnp.moveaxis(choice.reshape(2, self.players), 1, 0)
            return skills.action_of(tuple(teams), self.game.counts)
        order = self.orders(state.match, choice)
        command = scripted(self.body, self.sight(state.match), order)
        if self.actions == "rotors":
            command = self.body.rotors_of(state.match.drones, command)
        return jnp.clip(jnp.stack(command, axis=-1), -1.0, 1.0)

    def step_env(
        self, key: jax.Array, state: VolleyballState, action: jax.Array, params: VolleyballParams
    ) -> tuple[jax.Array, VolleyballState, jax.Array, jax.Array, dict[str, jax.Array]]:
        """As in all games; info also has `hit` bool[D], `crossed` and `seconds` of the step."""
        observation, following, reward, terminated, info = super().step_env(
            key, state, action, params
        )
        ticks = following.match.ticks - state.match.ticks
        happened = {
            "hit": following.match.hit & (ticks > 0),
            "crossed": following.match.crossed & (ticks > 0),
            "seconds": ticks * rules.STEP_SECONDS,
        }
        return observation, following, reward, terminated, info | happened

    def render(self, state: VolleyballState, params: VolleyballParams) -> str:
        """From the side, half a metre per character: 0, 1 .. the drones, o the ball, | the net."""
        return rules.side_view(state.match, self.game.court)


def _ticks(seconds: jax.Array) -> jax.Array:
    return jnp.round(seconds / rules.STEP_SECONDS).astype(jnp.int32)


@dataclasses.dataclass(frozen=True)
class Volleyball(_Volleyball):
    """Two teams of quadrotors play one rally of volleyball; `teams` "1v1" or "3v3".

    Drones are underactuated rigid bodies with a thrust of 1.61 times their weight. They hit a ball
    of 5 g, which only bounces, with a racket on top (`envs.volleyball.quadrotor`, `ball`); rules in
    `envs.volleyball.rules`. 3v3 is on a court of 12 x 6 m, 1v1 on 6 x 3 m, with a net of 2.43 m. A
    team drawn at random serves; the ball falls onto its first drone.

    `actions` "skills": agents are the teams. An action is a joint choice of a skill for each drone
    (4 in 1v1: home, hit left, right or short; 6 x 3 x 4 in 3v3, `envs.volleyball.skills`),
    which low-level controllers (`controller`, here scripted) fly until the next event: a touch, the
    ball crossing the net, or `longest_decision` control steps. Before its serve the server serves,
    whatever the choice.
    "rates": agents are the drones, actions f32[A, 4] in [-1, 1]: collective thrust from zero to its
    maximum and the body's rates; "rotors": the thrust of each rotor.

    Observation, in the frame of the agent's team, whose side is x > 0. Skills: own drones by role,
    then the opponents', 13 each (position, attitude, velocity, spin), ball 6, and one-hot: last
    toucher in this possession (own, theirs), its side, serve or rally: 40 or 100 numbers. Rates and
    rotors: the drone itself first, then its team mates and opponents in order, the same of the
    ball, its own throttles, the ball relative to it, its role.

    Reward: 1 for the winners, -1 for the losers, plus `touch_reward`; a draw (both lose in one
    control step, or 15 s have passed, which truncates) is 0. Expert: a rule-based planner over the
    scripted controllers. info: `hit` bool[D], `crossed`, `seconds`.
    Source: thu-uav/HCSP (read; deviations in the rules). Ours: the 1v1 skills, 50 Hz with two
    substeps where its games run at 100 Hz, no downwash, no collisions between drones, no wind.
    """

    teams: str = "1v1"

    body: ClassVar[ModuleType] = quadrotor

    def __post_init__(self):
        super().__post_init__()
        if self.teams not in ("1v1", "3v3"):
            raise ValueError(f"teams={self.teams!r}: expected '1v1' or '3v3'")

    @property
    def game(self) -> skills.Game:
        """Court, skills of each role and serves of `teams`."""
        return skills.GAMES[self.teams]


@dataclasses.dataclass(frozen=True)
class PlanarVolleyball(_Volleyball):
    """`Volleyball` one against one in a vertical plane: the fast test case.

    Drones with two rotors and one angle on a court of 6 m with a net of 1.5 m. Skills: home, hit
    short, hit deep, front. Commands: thrust and pitch rate, or the two rotors. Observation
    (skills): both drones, 7 numbers each (position, up, velocity, spin), ball 4, one-hot flags 8:
    26 numbers. Otherwise as `Volleyball`. Ours.
    """

    body: ClassVar[ModuleType] = planar

    @property
    def game(self) -> skills.Game:
        """Court, skills and serves in the plane."""
        return skills.GAMES["plane"]
