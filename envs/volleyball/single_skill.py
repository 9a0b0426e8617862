"""VolleyballSkill-v1: one drone learns to go to a place, or to hit the ball to one."""

import dataclasses
from types import ModuleType
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.volleyball import ball as balls
from envs.volleyball import flight, planar, quadrotor, rules, skills
from envs.volleyball.ball import Ball
from envs.volleyball.env import PlanarVolleyball, Volleyball
from envs.volleyball.flight import Order, Sight
from envs.volleyball.rules import Match
from envs.volleyball.vectors import along, norm, scale, sub

# Limit of the match that a start is taken from, less one.
EVENTS = 6


@struct.dataclass
class SkillState(EnvState):
    """State of one attempt.

    kind: i32[], index in `kinds`. sight, order: `envs.volleyball.flight`. held: i32[], steps
    at the place.
    struck, fallen: bool[], the ball was hit; the drone or the ball came down, or the drone strayed.
    miss: f32[], distance in m from the target at which the ball comes down to the target's height.
    """

    kind: jax.Array
    sight: Sight
    order: Order
    held: jax.Array
    struck: jax.Array
    fallen: jax.Array
    miss: jax.Array


@struct.dataclass
class SkillParams(EnvParams):
    """Success criteria and start distribution.

    hold: control steps (0.02 s) to stay within `near` m of the place. within: tolerance of a hit,
    in m.
    spread: distance in m of the initial drone and ball from the usual places. farthest: largest
    distance in m from the place.
    """

    max_steps_in_episode: int = 200
    hold: int = 25
    near: float = 0.2
    within: float = 0.75
    spread: float = 0.6
    farthest: float = 4.0


@dataclasses.dataclass(frozen=True)
class VolleyballSkill(Environment):
    """One drone of `teams` "plane", "1v1" or "3v3" at a `skill`: "goto" or "hit".

    An order is one of the skills of the roles of that game (`envs.volleyball.skills`), its
    target moved a little: the `kinds`. `only` names one of them ("set"), or in 3v3 one of HCSP's
    eleven ("receive_hover") or all of them of the same skill ("hcsp"). goto: fly from a start
    nearby to the order's place and stay there. hit: the ball comes in over a point near the place;
    the drone must hit it at the order's height so that it comes down at the target. Frames are the
    team's.

    Starts are drawn around those at which planners hand over: places within `spread` of the usual,
    speeds, tilts and spins of a moving drone. With `starts` "matches" they are states of a drone
    with this skill in a match of scripted teams after up to 5 events (`handed_over`).

    Observation: `volleyball_flight.features`, f32[37], or f32[19] in the plane. Actions: f32[4] or
    f32[2] in [-1, 1], "rates" or "rotors" as of `Volleyball`, of 0.02 s each. With `residual` > 0
    they are multiplied by it and added to the scripted controllers' command: 0 is the scripted
    skill.
    Reward, goto: half of the reduction of the distance in metres (a cost of the distance itself
    would make an early fall cheap), 1 for holding, -1 for falling below 0.3 m or straying 4 m. hit:
    each step 0.01 / (1 + (distance of ball and drone)^2); when it is hit, which ends the episode,
    0.5 + 1 / (1 + miss^2), and 1 for success; -1 when drone or ball come down. Limit 4 s. Success:
    held; or hit to within 0.75 m of the target, over the net if it is in between. Expert: the
    scripted controllers. Ours, after thu-uav/HCSP's first stage (read): two conditioned skills for
    its eleven.
    """

    skill: str = "hit"
    teams: str = "1v1"
    actions: str = "rates"
    only: str = ""
    residual: float = 0.0
    starts: str = "near"

    continuous: ClassVar[bool] = True
    # A limit of 200 control steps of 0.02 s, which are four seconds.
    default_params: ClassVar[SkillParams] = SkillParams()

    def __post_init__(self):
        for name, known in (
            ("skill", ("goto", "hit")),
            ("teams", tuple(skills.GAMES)),
            ("actions", ("rates", "rotors")),
            ("starts", ("near", "matches")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected {', '.join(known)}")
        if self.residual < 0 or (self.residual and self.actions != "rates"):
            raise ValueError(
                f"residual={self.residual} with actions={self.actions!r}: expected at least 0, and "
                "more than 0 with actions='rates' only, the scripted controllers' commands"
            )
        if self.only and self.starts == "matches":
            raise ValueError(
                f"only={self.only!r} with starts='matches': planners choose there, leave it out"
            )
        if not self._known:
            names = dataclasses.replace(self, only="").kinds
            raise ValueError(f"only={self.only!r}: expected '' or one of {', '.join(names)}")

    @property
    def _known(self) -> tuple[skills.Skill, ...]:
        """The skills that orders come from."""
        game = skills.GAMES[self.teams]
        known = [s for role in (*game.roles, game.serves) for s in role]
        hits = self.skill == "hit"
        if self.only and self.teams == "3v3" and self.only not in {s.name for s in known}:
            known = [s._replace(name=name) for name, (_, s) in skills.NAMED.items()]
            if self.only == "hcsp":
                return tuple(s for s in known if (s.target is not None) == hits)
        known = [s for s in known if s.target is not None or not hits]
        return tuple(s for s in known if self.only in ("", s.name))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the skills that orders come from."""
        return tuple(dict.fromkeys(skill.name for skill in self._known))

    def kind_of(self, state: SkillState, params: SkillParams) -> jax.Array:
        """Index of the order's skill; -1 for a start from a match."""
        return state.kind

    @property
    def body(self) -> ModuleType:
        """Module with the drone's dynamics: `planar` in the plane, else `quadrotor`."""
        return planar if self.teams == "plane" else quadrotor

    @property
    def action_names(self) -> tuple[str, ...]:
        if self.actions == "rates":
            return self.body.COMMANDS
        return tuple(f"rotor {i}" for i in range(self.body.ROTORS))

    @property
    def costly_reset(self) -> bool:
        """Whether starts come from matches, which are simulated for it."""
        return self.starts == "matches"

    def initial(self, key: jax.Array, params: SkillParams) -> SkillState:
        """A skill, a drone near its place and an incoming ball; or a start from a match."""
        if self.starts == "near":
            return self._near(key, params)
        match_key, key = jax.random.split(key)
        state, fits = self._of_match(match_key)
        return jax.tree.map(lambda a, b: jnp.where(fits, a, b), state, self._near(key, params))

    def _of_match(self, key: jax.Array) -> tuple[SkillState, jax.Array]:
        """State that scripted teams hand over to a drone at this skill, and whether they do."""
        base = PlanarVolleyball() if self.teams == "plane" else Volleyball(teams=self.teams)
        params = base.default_params
        start_key, event_key, drone_key = jax.random.split(key, 3)

        def decide(match):
            return skills.planned(base.game, match)

        def advance(_, match):
            return base.until_event(match, decide(match), params, base.controller(params))

        match = base.initial(start_key, params).match
        events = jax.random.randint(event_key, (), 0, EVENTS)
        match = jax.lax.fori_loop(0, events, advance, match)
        order = base.orders(match, decide(match))
        fits = flight.in_use(base.sight(match), order) == (self.skill == "hit")
        fits &= ~match.over
        drone = jax.random.categorical(drone_key, jnp.where(fits, 0.0, -jnp.inf))
        order = order._replace(hit=jnp.full_like(order.hit, self.skill == "hit"))
        return self.handed_over(match, order, drone), jnp.any(fits)

    def _near(self, key: jax.Array, params: SkillParams) -> SkillState:
        dims = len(skills.GAMES[self.teams].server)
        choice_key, key = jax.random.split(key)
        known = self._known
        choice = jax.random.randint(choice_key, (1,), 0, len(known))
        order = jax.tree.map(lambda x: x[0], skills.looked_up(choice, [known]))
        order = order._replace(hit=jnp.full((), self.skill == "hit"))
        draw = jax.random.uniform(key, (8, 3), minval=-1.0)

        def near(place, row, size):
            return tuple(x + size * draw[row, i] for i, x in enumerate(place))

        spread = params.spread
        order = order._replace(target=(*near(order.target, 0, 0.3)[:-1], order.target[-1]))
        place = near(order.place, 1, spread * (2.5 if self.skill == "goto" else 0.5))
        place = (*place[:-1], jnp.maximum(place[-1], 0.8))
        drone = self.body.hovering(place)
        aim = (*scale(draw[2, : dims - 1], 0.3), jnp.ones(()))
        drone = self.body.tilted(drone, scale(aim, 1 / norm(aim)))
        drone = drone._replace(velocity=near(drone.velocity, 3, 0.5), spin=near(drone.spin, 4, 0.5))
        # The point at which the ball should be hit, and from there back along its parabola.
        point = (*near(order.place, 5, spread)[:-1], order.height)
        seconds = 0.95 + 0.35 * draw[6, 0]
        falling = -3.5 + 1.5 * (draw[6, 1] - seconds)
        arriving = (*(scale(draw[7, : dims - 1], 2.5)), falling)
        ball = balls.after(Ball(point, arriving), -seconds)
        return SkillState(
            time=jnp.zeros((), jnp.int32),
            kind=jnp.asarray([self.kinds.index(s.name) for s in known], jnp.int32)[choice[0]],
            sight=Sight(drone, ball, jnp.ones((), bool)),
            order=order,
            held=jnp.zeros((), jnp.int32),
            struck=jnp.zeros((), bool),
            fallen=jnp.zeros((), bool),
            miss=jnp.zeros(()),
        )

    def handed_over(self, match: Match, order: Order, drone: int) -> SkillState:
        """The start that a match gives one of its drones under its order; batch axes as the
        match's."""
        sight = Sight(match.drones, rules.seen(match), ~match.touched)
        sight, order = jax.tree.map(lambda x: x[drone], (sight, order))
        nothing = jnp.zeros_like(match.ticks)
        return SkillState(
            time=nothing,
            kind=nothing - 1,
            sight=sight,
            order=order,
            held=nothing,
            struck=nothing > 0,
            fallen=nothing > 0,
            miss=nothing * 0.0,
        )

    def transition(
        self, key: jax.Array, state: SkillState, action: jax.Array, params: SkillParams
    ) -> tuple[SkillState, jax.Array]:
        body, court, order = self.body, skills.GAMES[self.teams].court, state.order
        drone, ball = state.sight.drone, state.sight.ball
        if self.residual:
            action = self.scripted(state) + self.residual * jnp.clip(action, -1.0, 1.0)
        command = tuple(jnp.moveaxis(action, -1, 0))
        dt = rules.STEP_SECONDS / rules.SUBSTEPS
        struck = state.struck
        for _ in range(rules.SUBSTEPS):
            rotors = body.rotors_of(drone, command) if self.actions == "rates" else command
            before = sub(ball.position, drone.position)
            drone, ball = body.step(drone, rotors, dt, quadrotor.lag(dt)), balls.fly(ball, dt)
            met = balls.bounce(body, before, ball, drone)
            ball = ball._replace(velocity=along(ball.velocity, met.normal, met.push))
            struck |= met.hit
        landed = balls.after(ball, balls.seconds_to(ball, order.target[-1])).position
        miss = norm(sub(landed, order.target)[:-1])
        # A ball that has to cross the net must be above its top there.
        away = ball.velocity[0] < 0
        passing = balls.after(ball, jnp.where(away, ball.position[0] / -ball.velocity[0], 0.0))
        blocked = (order.target[0] < 0) & (passing.position[-1] < court.net)
        miss = jnp.where(blocked, miss + 2.0, miss)
        error = norm(sub(order.place, drone.position))
        held = jnp.where(error < params.near, state.held + 1, 0)
        fallen = (drone.position[-1] < court.ground) | (error > params.farthest)
        if self.skill == "hit":
            fallen |= ball.position[-1] < court.ground
            close = norm(sub(ball.position, drone.position))
            reward = 0.01 / (1 + close**2)
            aimed = 0.5 + 1 / (1 + miss**2) + (miss < params.within)
            reward = jnp.where(struck, aimed, reward)
        else:
            struck = state.struck
            was = norm(sub(order.place, state.sight.drone.position))
            reward = 0.5 * (was - error) + (held >= params.hold)
        reward = jnp.where(fallen & ~struck, -1.0, reward)
        state = state.replace(
            sight=Sight(drone, ball, state.sight.free),
            held=held,
            struck=struck,
            fallen=fallen,
            miss=miss,
        )
        return state, reward

    def observe(self, state: SkillState, params: SkillParams) -> jax.Array:
        return jnp.stack(flight.features(self.body, state.sight, state.order), axis=-1)

    def is_terminated(self, state: SkillState, params: SkillParams) -> jax.Array:
        """Fallen, struck, or held for long enough."""
        held = state.held >= params.hold
        return state.fallen | (state.struck if self.skill == "hit" else held)

    def is_success(self, state: SkillState, params: SkillParams) -> jax.Array:
        if self.skill == "hit":
            return state.struck & (state.miss < params.within)
        return (state.held >= params.hold) & ~state.fallen

    def scripted(self, state: SkillState) -> jax.Array:
        """The scripted controllers' command, f32[commands]."""
        command = flight.scripted(self.body, state.sight, state.order)
        if self.actions == "rotors":
            command = self.body.rotors_of(state.sight.drone, command)
        return jnp.clip(jnp.stack(command, axis=-1), -1.0, 1.0)

    def expert(self, state: SkillState, params: SkillParams) -> jax.Array:
        """The scripted controllers' command; with a residual, zeros."""
        command = self.scripted(state)
        return jnp.zeros_like(command) if self.residual else command

    def render(self, state: SkillState, params: SkillParams) -> str:
        """Positions of drone, ball and target, in m."""

        def shown(place):
            return " ".join(f"{float(x):.2f}" for x in np.asarray(place))

        goal = state.order.target if self.skill == "hit" else state.order.place
        drone, ball = state.sight.drone.position, state.sight.ball.position
        return f"drone {shown(drone)} | ball {shown(ball)} | {self.skill} {shown(goal)}"
