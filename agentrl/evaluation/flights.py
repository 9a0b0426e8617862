"""Matches of drone volleyball, recorded at every control step and drawn from the side and above."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor
from agentrl.evaluation import figures
from agentrl.evaluation.markup import Markup, tag
from agentrl.rollout.types import Seating
from agentrl.rollout.unroll import fresh, unroll
from envs.vector import World
from envs.volleyball.env import PlanarVolleyball, Volleyball, VolleyballParams
from envs.volleyball.rules import STEP_SECONDS, Court

# Width of a picture in units; metres shown around the court, and above the ground.
_WIDTH, _AROUND, _TOP = 640, 1.0, 5.5
_BALL = 4


@dataclasses.dataclass(frozen=True)
class Flight:
    """One match of T control steps; D drones, those of team 0 first; x, (y,) z in m.

    drones: f32[T, D, dims] and ball f32[T, dims], both in the frame of team 0, whose side is x > 0.
    hits: bool[T, D], touches. crossed: bool[T], the ball has crossed the net. end: the result.
    """

    court: Court
    drones: np.ndarray
    ball: np.ndarray
    hits: np.ndarray
    crossed: np.ndarray
    end: str


def record(
    players: Sequence[Actor],
    env: Volleyball | PlanarVolleyball,
    env_params: VolleyballParams,
    key: jax.Array,
) -> Flight:
    """Plays one match, player i as team i.

    env: `envs.volleyball.env.Volleyball` or `PlanarVolleyball`. key: for the task and all
      randomness.

    Raises:
      ValueError: its actions are commands, not decisions; or the number of players is wrong.
    """
    if env.continuous:
        raise ValueError(f"actions={env.actions!r}: expected 'skills', matches by decisions")
    if len(players) != env.num_agents:
        raise ValueError(f"{len(players)} players: expected {env.num_agents}, one per team")

    def keep(notes, turn):
        def passed(state, action):
            return env.flight(state, action, env_params)

        flown = jax.vmap(passed)(turn.before.state, turn.action)
        ticks = turn.after.state.match.ticks - turn.before.state.match.ticks
        return notes, (flown, ticks)

    @jax.jit
    def play(key):
        task_key, key = jax.random.split(key)
        world = World(env, env_params)
        seating = jnp.arange(env.num_agents, dtype=jnp.int32)[None]
        trajectory = unroll(
            world,
            players,
            Seating(seating, seating == 0),
            fresh(world, task_key[None]),
            key,
            length=int(env_params.max_steps_in_episode),
            early_exit=True,
            keep=keep,
        )
        first, final = trajectory.first.state, trajectory.final.state
        return jax.tree.map(lambda x: x[0], (first, final)), trajectory.turns

    (first, state), (flown, ticks) = jax.device_get(play(key))
    parts = [jax.tree.map(lambda x: x[None], first.match)]
    for t, steps in enumerate(ticks[:, 0]):
        parts.append(jax.tree.map(lambda x, t=t, n=steps: x[t, 0, :n], flown))
    match = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    # Drones are in their own team's frame: rotated by 180 degrees about the vertical.
    drones = np.stack(match.drones.position, axis=-1)
    drones[:, drones.shape[1] // 2 :, :-1] *= -1
    won = np.flatnonzero(np.asarray(env.won(state, env_params)))
    return Flight(
        court=env.game.court,
        drones=drones,
        ball=np.stack(match.ball.position, axis=-1),
        hits=match.hit,
        crossed=match.crossed,
        end=f"team {won[0]} wins" if len(won) else "a draw",
    )


def figure(flight: Flight, title: str) -> Markup:
    """The match as SVG: from the side and, where the court has a width, from above.

    The ball's line gets fainter with each later crossing of the net; touches are numbered dots in
    the colour of their team, and a ring marks the end of the ball's path.
    """
    views = [_view(flight, title, "from the side", -1)]
    if flight.ball.shape[1] > 2:
        views.append(_view(flight, title, "from above", 1))
    seconds, touches = (len(flight.ball) - 1) * STEP_SECONDS, int(flight.hits.sum())
    told = f"{flight.end} after {seconds:.1f} s and {touches} touch{'es' * (touches != 1)}"
    caption = tag("figcaption", tag("b", title), tag("span", told, class_="note"))
    return tag("figure", caption, *views, class_="chart flight")


def section(flown: Sequence[tuple[str, Flight]]) -> Markup:
    """Matches with their titles, and a legend of the lines."""
    styles = (("team 0", 0), ("team 1", 1), ("ball", _BALL))
    told = (
        "Lines are what drones and ball flew, small dots where drones ended, the ring where the "
        "ball did; numbered dots are touches. The ball's line is the fainter the longer ago."
    )
    return tag(
        "div",
        tag("p", told),
        figures.legend([(figures.style(number), name) for name, number in styles]),
        tag("div", *[figure(flight, title) for title, flight in flown], class_="charts"),
    )


def _court_lines(court: Court, axis: int) -> tuple[Any, Any]:
    """The ground and the net as (places along x, places along the vertical axis), in m."""
    length, width = court.length, court.width
    if axis == -1:
        ground, net = ([-length, length], [0, 0]), [0, court.net]
    else:
        around = [-length, length, length, -length, -length]
        ground, net = (around, [-width, -width, width, width, -width]), [-width, width]
    return ground, ([0, 0], net)


def _view(flight: Flight, title: str, name: str, axis: int) -> Markup:
    """Horizontal axis along x, vertical axis the height (axis -1) or the width (axis 1)."""
    court, across = flight.court, flight.court.length + _AROUND
    scale = _WIDTH / (2 * across)
    low, top = (0.0, _TOP) if axis == -1 else (-court.width - _AROUND, court.width + _AROUND)

    def at(x, v) -> tuple[np.ndarray, np.ndarray]:
        return (np.asarray(x) + across) * scale, (top - np.asarray(v)) * scale

    def line(xs, vs, class_, label=None, **attributes):
        places = zip(*at(xs, vs), strict=True)
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        inside = None if label is None else tag("title", label)
        return tag("path", inside, class_=class_, d=path, fill="none", **attributes)

    ground, net = _court_lines(court, axis)
    parts = [line(*ground, "axis"), line(*net, "axis", "net")]
    ball = flight.ball
    passes = np.cumsum(flight.crossed)
    for number in range(passes[-1] + 1):
        here = np.flatnonzero(passes == number)
        # Up to and including the next crossing, so that lines connect.
        here = np.append(here, min(here[-1] + 1, len(ball) - 1))
        faint = f"{max(0.25, 0.8 ** (passes[-1] - number)):.2f}"
        style = f"line {figures.style(_BALL)}"
        parts.append(line(ball[here, 0], ball[here, axis], style, "ball", opacity=faint))
    drones = flight.drones.shape[1]
    teams = [2 * drone // drones for drone in range(drones)]
    for drone, team in enumerate(teams):
        place = flight.drones[:, drone]
        label = f"drone {drone % (drones // 2) + 1} of team {team}"
        parts.append(line(place[:, 0], place[:, axis], f"line {figures.style(team)}", label))
        x, y = (f"{float(v):.1f}" for v in at(place[-1, 0], place[-1, axis]))
        parts.append(tag("circle", class_=f"dot {figures.style(team)}", cx=x, cy=y, r=4))
    for number, (step, drone) in enumerate(np.argwhere(flight.hits), start=1):
        x, y = (f"{float(v):.1f}" for v in at(ball[step, 0], ball[step, axis]))
        said = tag("title", f"touch {number}, {step * STEP_SECONDS:.2f} s")
        class_ = f"dot {figures.style(teams[drone])}"
        parts.append(tag("circle", said, class_=class_, cx=x, cy=y, r=9))
        parts.append(tag("text", number, class_="mark middle", x=x, y=f"{float(y) + 4:.1f}"))
    x, y = (f"{float(v):.1f}" for v in at(ball[-1, 0], ball[-1, axis]))
    parts.append(tag("circle", class_="axis", fill="none", cx=x, cy=y, r=7))
    label = f"{title}, {name}: {flight.end}"
    return tag(
        "svg",
        tag("title", label),
        *parts,
        viewBox=f"0 0 {_WIDTH} {(top - low) * scale:.1f}",
        role="img",
        aria_label=label,
    )
