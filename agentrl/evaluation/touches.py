"""Touches in volleyball by turn and drone: roles and formations over many matches."""

import collections
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.actors.types import Actor
from agentrl.evaluation import figures
from agentrl.evaluation.markup import Markup, join, table, tag
from agentrl.rollout.types import Seating
from agentrl.rollout.unroll import fresh, unroll
from envs.vector import World
from envs.volleyball.env import Volleyball, VolleyballParams
from envs.volleyball.rules import Court

_TURNS = ("serve", "first", "second", "third")
# Largest number of touches drawn, pixels per metre, metres around the court.
_DRAWN, _SCALE, _AROUND = 400, 44, 0.5


@dataclasses.dataclass(frozen=True)
class Touches:
    """Touches of one team of P drones in B matches.

    counts: i64[4, P], touches by turn within the possession (serve, first, second, third) and
    drone. passages: of each possession that sent the ball over the net or lost it, the drones that
    touched it in order and whether it went over: {((0, 1, 2), True): 31}, without serves.
    places: f32[M, 2] of the M touches, x and y in the team's frame, m; drone, turn: i64[M].
    """

    court: Court
    counts: np.ndarray
    passages: dict[tuple[tuple[int, ...], bool], int]
    places: np.ndarray
    drone: np.ndarray
    turn: np.ndarray

    @property
    def entropy(self) -> np.ndarray:
        """Entropy in bits of the touching drone, per turn, f64[4]; nan for turns without touches.

        0 if one drone always takes that turn, log2 P if all do equally often.
        """
        total = self.counts.sum(axis=1, keepdims=True)
        share = self.counts / np.where(total > 0, total, 1)
        bits = -np.sum(share * np.log2(np.where(share > 0, share, 1)), axis=1)
        return np.where(total[:, 0] > 0, bits, np.nan)

    @property
    def switched(self) -> float:
        """Share of the touches, without serves, that are not by the drone with the turn's number.

        The first touch belongs to the first drone, the second to the second, and so on.
        """
        rally = self.counts[1 : self.counts.shape[1] + 1]
        return 1 - float(np.trace(rally)) / max(int(rally.sum()), 1)


def record(
    players: Sequence[Actor],
    env: Volleyball,
    env_params: VolleyballParams,
    key: jax.Array,
    *,
    matches: int,
) -> tuple[Touches, Touches]:
    """Plays matches, player i as team i, and counts the touches of both teams.

    env: `envs.volleyball.env.Volleyball` by decisions. key: for the tasks and all randomness.

    Raises:
      ValueError: its actions are commands; the number of players is not one per team; the plane has
        no roles.
    """
    if env.continuous or len(env.game.server) < 3:
        raise ValueError(f"{env.name}, actions={env.actions!r}: expected Volleyball by decisions")
    if len(players) != env.num_agents:
        raise ValueError(f"{len(players)} players: expected {env.num_agents}, one per team")

    def keep(notes, turn):
        runs, info, after = turn.running, turn.outcome.info, turn.after.state.match
        hit, crossed = info["hit"] & runs[:, None], info["crossed"] & runs
        place = jnp.stack(after.drones.position[:2], axis=-1)
        return notes, (hit, crossed, turn.before.state.match.served, place)

    @jax.jit
    def play(key):
        task_key, key = jax.random.split(key)
        world = World(env, env_params)
        seats = jnp.arange(env.num_agents, dtype=jnp.int32)
        seating = jnp.broadcast_to(seats, (matches, env.num_agents))
        return unroll(
            world,
            players,
            Seating(seating, seating == 0),
            fresh(world, jax.random.split(task_key, matches)),
            key,
            length=int(env_params.max_steps_in_episode),
            keep=keep,
        ).turns

    happened = [np.asarray(x) for x in play(key)]
    return tuple(_counted(env, team, *happened) for team in range(2))


def _counted(env, team, hit, crossed, served, place) -> Touches:
    """Touches of one team, from the events of each decision, [T, B, ...]."""
    players = env.players
    own = slice(team * players, (team + 1) * players)
    counts = np.zeros((4, players), np.int64)
    passages: collections.Counter = collections.Counter()
    places, drones, turns = [], [], []
    for match in range(hit.shape[1]):
        touched: list[int] = []
        serving = False
        for step in range(hit.shape[0]):
            for drone in np.flatnonzero(hit[step, match, own]):
                serving = not served[step, match]
                turn = 0 if serving else min(len(touched) + 1, 3)
                if not serving:
                    touched.append(int(drone))
                counts[turn, drone] += 1
                places.append(place[step, match, own][drone])
                drones.append(int(drone))
                turns.append(turn)
            if crossed[step, match] and touched:
                passages[tuple(touched), True] += 1
                touched = []
        if touched:
            passages[tuple(touched), False] += 1
    return Touches(
        court=env.game.court,
        counts=counts,
        passages=dict(passages.most_common()),
        places=np.reshape(np.asarray(places, np.float32), (-1, 2)),
        drone=np.asarray(drones, np.int64),
        turn=np.asarray(turns, np.int64),
    )


def section(played: Sequence[tuple[str, Touches]]) -> Markup:
    """Tables and a picture from above for each team, with its name."""
    drones = played[0][1].counts.shape[1]
    head = ["team", "turn", *(f"drone {i + 1}" for i in range(drones)), "entropy, bits"]
    body, charts = [], []
    for name, touches in played:
        for turn, called in enumerate(_TURNS):
            row, bits = touches.counts[turn], touches.entropy[turn]
            if row.sum():
                cells = [name, called, *map(str, row), figures.number(float(bits))]
                body.append(tag("tr", *[tag("td", cell) for cell in cells]))
        charts.append(_picture(name, touches))
    most = [
        tag("li", f"{name}: {told(touches)}; not by the drone of its turn: {touches.switched:.0%}")
        for name, touches in played
    ]
    styles = [(figures.style(i), f"drone {i + 1}") for i in range(drones)]
    return join(
        tag("p", "Who touches the ball in which turn of a possession; where, from above."),
        table(head, body),
        tag("ul", *most),
        figures.legend(styles, swatch="area"),
        tag("div", *charts, class_="charts"),
    )


def told(touches: Touches, most: int = 5) -> str:
    """The most frequent possessions, by the drones' numbers: `1-2-3 over 80 %, 1 lost 7 %`."""
    total = max(sum(touches.passages.values()), 1)
    ranked = sorted(touches.passages.items(), key=lambda item: -item[1])[:most]
    return ", ".join(
        f"{'-'.join(str(d + 1) for d in drones)} {'over' if over else 'lost'} {count / total:.0%}"
        for (drones, over), count in ranked
    )


def _picture(name: str, touches: Touches) -> Markup:
    """The team's half from above, with the net at the left."""
    court = touches.court
    wide, high = court.length + 2 * _AROUND, 2 * (court.width + _AROUND)

    def at(x, y):
        return f"{(x + _AROUND) * _SCALE:.1f}", f"{(court.width + _AROUND - y) * _SCALE:.1f}"

    left, top = at(0, court.width)
    frame = {"width": court.length * _SCALE, "height": 2 * court.width * _SCALE}
    parts = [tag("rect", class_="axis", fill="none", x=left, y=top, **frame)]
    # Evenly over the matches, in whose order the touches are.
    count = len(touches.places)
    for i in np.unique(np.linspace(0, count - 1, min(count, _DRAWN)).astype(int)) if count else ():
        x, y = at(*map(float, touches.places[i]))
        style = figures.style(int(touches.drone[i]))
        said = tag("title", f"{_TURNS[touches.turn[i]]}, drone {touches.drone[i] + 1}")
        parts.append(tag("circle", said, class_=f"dot {style}", cx=x, cy=y, r=4))
    label = f"{name}: {told(touches)}"
    svg = tag(
        "svg",
        tag("title", label),
        *parts,
        viewBox=f"0 0 {wide * _SCALE:g} {high * _SCALE:g}",
        role="img",
        aria_label=label,
    )
    caption = tag("figcaption", tag("b", name), tag("span", told(touches), class_="note"))
    return tag("figure", caption, svg, class_="chart")
