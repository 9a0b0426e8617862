"""Skills of the roles, serves, and scripted planners.

Places are in the frame of the drone's team (`envs.volleyball.rules`), m; targets with x < 0 lie
across the net. Set points of three against three are thu-uav/HCSP's (read), whose eleven trained
policies are `NAMED` here: hovering or hitting with other places and targets. Those of one against
one and in the plane are ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs.volleyball import ball as balls
from envs.volleyball import rules
from envs.volleyball.ball import Ball
from envs.volleyball.flight import Order
from envs.volleyball.rules import Court, Match


class Skill(NamedTuple):
    """One skill: hover at `place`, or wait there and hit the ball to `target` over `apex`.

    target: None for hovering. height: of the ball when it is hit. within: largest distance in m
    from the target, at the target's height, at which the hit counts as successful.
    """

    name: str
    place: tuple[float, ...]
    target: tuple[float, ...] | None = None
    apex: float = 0.0
    height: float = 0.0
    within: float = 1.0


class Game(NamedTuple):
    """Court and roles. roles: the skills of each drone of a team.

    serves: skills of the first drone before its serve, one per choice, cyclically. server: its
    start; drop: start of the ball.
    """

    court: Court
    roles: tuple[tuple[Skill, ...], ...]
    serves: tuple[Skill, ...]
    server: tuple[float, ...]
    drop: tuple[float, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of skills of each role."""
        return tuple(map(len, self.roles))


def _single(name: str, target: tuple[float, ...], apex: float = 3.3) -> Skill:
    return Skill(name, _HOME, target, apex, height=1.7, within=0.75)


_HOME = (1.8, 0.0, 1.1)
_ONE = (
    Skill("home", _HOME),
    _single("hit left", (-2.4, 1.1, 0.3)),
    _single("hit right", (-2.4, -1.1, 0.3)),
    _single("hit short", (-0.9, 0.0, 0.3)),
)
# Separate from the usual hit: a dropped ball moves differently from one that was struck.
_ONE_SERVES = (
    _single("serve left", (-1.9, 0.5, 0.3), apex=3.8),
    _single("serve right", (-1.9, -0.5, 0.3), apex=3.8),
    _single("serve short", (-1.3, 0.0, 0.3), apex=3.8),
)

_PLANE_HOME = (1.6, 0.8)
_PLANE = (
    Skill("home", _PLANE_HOME),
    Skill("hit short", _PLANE_HOME, (-1.4, 0.3), 2.9, 1.4, 0.5),
    Skill("hit deep", _PLANE_HOME, (-1.9, 0.3), 2.9, 1.4, 0.5),
    Skill("front", (0.8, 1.3)),
)

SETTER, ATTACK_POINT = (1.5, -1.5, 2.2), (1.5, 1.5, 3.4)
_PASS = {"target": SETTER, "apex": 3.6, "height": 1.5}
_FIRST = (
    Skill("goto left", (4.5, -1.5, 1.0)),
    Skill("goto centre", (4.0, 0.0, 1.2)),
    Skill("goto right", (4.5, 1.5, 1.0)),
    Skill("pass left", (4.5, -1.5, 1.2), **_PASS),
    Skill("pass right", (4.5, 1.5, 1.2), **_PASS),
    Skill("hover", (4.5, 0.0, 1.5)),
)
_SECOND = (
    Skill("goto", (1.7, -1.7, 1.5)),
    Skill("set", (1.7, -1.7, 1.5), ATTACK_POINT, 4.5, 2.2),
    Skill("hover", (2.0, -2.0, 1.0)),
)
_ATTACKER = (
    Skill("goto", (2.0, 1.5, 2.5)),
    Skill("attack left", (2.0, 1.5, 2.5), (-5.0, -2.0, 0.3), 3.9, 3.4),
    Skill("attack right", (2.0, 1.5, 2.5), (-5.0, 2.0, 0.3), 3.9, 3.4),
    Skill("hover", (2.0, 0.0, 2.5)),
)
_SERVES = tuple(
    Skill(f"serve {name}", (4.5, 0.0, 1.5), (-3.5, y, 0.5), 4.2, 2.0)
    for name, y in (("left", -1.5), ("centre", 0.0), ("right", 1.5))
)

GAMES: dict[str, Game] = {
    "plane": Game(Court(3.0, 3.0, 1.5), (_PLANE,), _PLANE[1:3], _PLANE_HOME, (1.6, 3.4)),
    "1v1": Game(Court(3.0, 1.5, 2.43), (_ONE,), _ONE_SERVES, _HOME, (1.8, 0.0, 3.4)),
    "3v3": Game(
        Court(6.0, 3.0, 2.43),
        (_FIRST, _SECOND, _ATTACKER),
        _SERVES,
        (5.5, 0.0, 1.2),
        (5.5, 0.0, 4.9),
    ),
}

# HCSP's names: the role, and its equivalent here.
NAMED: dict[str, tuple[int, Skill]] = {
    "goto": (0, _FIRST[1]),
    "serve": (0, _SERVES[1]),
    "serve_hover": (0, _FIRST[5]),
    "receive": (0, Skill("receive", (4.0, 0.0, 1.2), **_PASS)),
    "receive_hover": (0, _FIRST[5]),
    "pass": (0, _FIRST[3]),
    "pass_hover": (0, _FIRST[5]),
    "set": (1, _SECOND[1]),
    "set_hover": (1, _SECOND[2]),
    "attack": (2, _ATTACKER[1]),
    "attack_hover": (2, _ATTACKER[3]),
}


def choices_of(action: jax.Array, counts: tuple[int, ...]) -> jax.Array:
    """The choice of each role, i32[P, ...], from a team's joint index (the last role fastest)."""
    digits = []
    for count in counts[::-1]:
        digits.append(action % count)
        action = action // count
    return jnp.stack(digits[::-1])


def action_of(choices: jax.Array, counts: tuple[int, ...]) -> jax.Array:
    """The team's joint index of the choices [P, ...] of its roles."""
    number = jnp.zeros_like(choices[0])
    for choice, count in zip(choices, counts, strict=True):
        number = number * count + choice
    return number


def orders(game: Game, match: Match, choice: jax.Array) -> Order:
    """Orders of all drones, components [D, ...], from the choices i32[D, ...] of their skills.

    Before a serve, the server's choice c selects serve c (cyclically) instead, as scripted in HCSP.
    """
    order = looked_up(choice, [roles for _ in range(2) for roles in game.roles])
    serves = looked_up(choice % len(game.serves), [game.serves] * choice.shape[0])
    players = len(game.roles)
    number = np.arange(choice.shape[0]).reshape(-1, *[1] * (choice.ndim - 1))
    serving = (number == match.last * players) & ~match.served
    return jax.tree.map(lambda a, b: jnp.where(serving, a, b), serves, order)


def looked_up(choice: jax.Array, tables: list[tuple[Skill, ...]]) -> Order:
    """Entries `choice` [D, ...] of the drones' tables, by comparisons instead of a gather."""
    width = len(tables[0][0].place)

    def pick(field):
        values = [[field(skill) for skill in table] for table in tables]
        most = max(map(len, values))
        values = np.array([row + row[-1:] * (most - len(row)) for row in values])
        values = values.reshape(*values.shape, *[1] * (choice.ndim - 1))
        out = jnp.broadcast_to(values[:, 0], choice.shape)
        for number in range(1, most):
            out = jnp.where(choice == number, values[:, number], out)
        return out if out.dtype == bool else out.astype(jnp.float32)

    return Order(
        hit=pick(lambda s: s.target is not None),
        place=tuple(pick(lambda s, i=i: s.place[i]) for i in range(width)),
        target=tuple(pick(lambda s, i=i: (s.target or s.place)[i]) for i in range(width)),
        apex=pick(lambda s: s.apex or s.place[-1] + 0.2),
        height=pick(lambda s: s.height or s.place[-1]),
    )


def planned(game: Game, match: Match) -> jax.Array:
    """The scripted planners' choices for all drones, i32[D, ...].

    One player: hits when the ball comes down on its side and it may, away from the opponent; else
    goes home. Three: first pass, set and attack in order, the attack to the side away from the
    opponents' first drone; drones that should not touch the ball go to their places.
    """
    ball = rules.seen(match)
    players = len(game.roles)

    def team(x):
        """[D, ...] as [2, P, ...]."""
        return x.reshape(2, players, *x.shape[1:])

    low = jax.tree.map(lambda x: team(x)[:, 0], Ball(ball.position, ball.velocity))
    landing = balls.after(low, balls.seconds_to(low, jnp.float32(1.2))).position
    near = landing[0] > 0
    serves = jnp.stack([match.last == 0, match.last == 1]) & ~match.served
    mine = near & (match.served | serves)
    touched = team(match.touched)
    # The opponents' first drone, in this team's frame.
    there = tuple(-team(x)[::-1, 0] for x in match.drones.position[:-1])
    if players == 1:
        hits, planar = mine & ~touched[:, 0], len(there) == 1
        away = jnp.where(there[0] < -1.7, 1, 2) if planar else jnp.where(there[1] > 0, 2, 1)
        return jnp.where(hits, away, 0)
    first, second, third = touched[:, 0], touched[:, 1], touched[:, 2]
    nobody = ~(first | second | third)
    passing = jnp.where(landing[1] < 0, 3, 4)
    setting = mine & first & ~second
    attacking = mine & second & ~third
    attack = jnp.where(there[1] > 0, 1, 2)
    return jnp.stack(
        [
            jnp.where(mine & nobody, passing, jnp.where(mine, 5, 1)),
            jnp.where(setting, 1, 0),
            jnp.where(attacking, attack, 0),
        ],
        axis=1,
    ).reshape(match.touched.shape)
