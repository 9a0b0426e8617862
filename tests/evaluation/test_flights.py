"""Matches recorded at every control step, and what is drawn of them."""

import re
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import envs
from agentrl.evaluation import flights
from agentrl.players import scripted
from envs.volleyball.skills import GAMES


@pytest.fixture(scope="module")
def planar():
    env, params = envs.make("PlanarVolleyball-v1", max_seconds=3.0)
    players = [scripted("expert", env, params)] * 2
    return flights.record(players, env, params, jax.random.key(3))


def made(steps=60, crossings=(20, 40), name="3v3"):
    """A match by hand: drones stand still, the ball flies to and fro along the side line."""
    game = GAMES[name]
    drones = 2 * len(game.roles)
    time = np.linspace(0, 1, steps)
    ball = np.stack([4 * np.cos(9 * time), 1 + 0 * time, 3 + np.sin(9 * time)], axis=-1)
    place = np.zeros((steps, drones, 3))
    place[:, :, 0] = np.where(np.arange(drones) < drones // 2, 4.0, -4.0)
    place[:, :, 2] = 1.0
    hits, crossed = np.zeros((steps, drones), bool), np.zeros(steps, bool)
    hits[10, 0] = hits[30, -1] = True
    crossed[list(crossings)] = True
    if len(game.server) == 2:
        ball, place = ball[:, ::2], place[:, :, ::2]
    return flights.Flight(game.court, place, ball, hits, crossed, "team 1 wins")


def test_a_recorded_match_is_one_line_without_jumps(planar):
    steps = len(planar.ball)
    assert planar.drones.shape == (steps, 2, 2) and planar.ball.shape == (steps, 2)
    assert (planar.drones[:, 0, 0] > 0).all() and (planar.drones[:, 1, 0] < 0).all()
    # 12 m/s is faster than anything here, in a control step of 0.02 s.
    for places in (planar.ball, planar.drones):
        assert 0 < np.abs(np.diff(places, axis=0)).max() < 0.24
    sides = np.sign(planar.ball[:, 0])
    np.testing.assert_array_equal(
        np.flatnonzero(np.diff(sides)) + 1, np.flatnonzero(planar.crossed)
    )
    assert planar.hits.any() and planar.crossed.any()
    assert planar.end == "a draw" or planar.end.endswith("wins")


@pytest.mark.parametrize("name, views", [("plane", 1), ("1v1", 2), ("3v3", 2)])
def test_drawings_are_well_formed(name, views):
    flight = made(name=name)
    text = flights.section([("a <title> & more", flight)])
    root = ElementTree.fromstring(text)
    pictures = [svg for svg in root.iter("svg") if svg.get("role") == "img"]
    assert len(pictures) == views
    for svg in pictures:
        assert "a <title> & more" in svg.get("aria-label") and "team 1 wins" in svg.get(
            "aria-label"
        )
        wide, high = map(float, svg.get("viewBox").split()[2:])
        drawn = [svg.findall("path"), svg.findall("circle")]
        told = [path.findtext("title") for path in drawn[0]]
        # Three passes of the ball, and a line for each drone.
        assert told.count("ball") == 3 and sum("drone" in (t or "") for t in told) == len(
            flight.drones[0]
        )
        numbers = [float(n) for path in drawn[0] for n in re.findall(r"[-\d.]+", path.get("d"))]
        assert min(numbers) >= 0 and max(numbers) <= max(wide, high)
        assert [t.text for t in svg.findall("text")] == ["1", "2"]
    assert "team 1 wins after 1.2 s and 2 touches" in text


def test_the_ball_is_where_it_was():
    flight = made()
    (side, above) = [svg for svg in ElementTree.fromstring(flights.figure(flight, "m")).iter("svg")]
    for svg, axis, top in ((side, 2, 5.5), (above, 1, 4.0)):
        ring = svg.findall("circle")[-1]
        scale = 640 / (2 * 7.0)
        x, v = flight.ball[-1, 0], flight.ball[-1, axis]
        assert float(ring.get("cx")) == pytest.approx((x + 7.0) * scale, abs=0.06)
        assert float(ring.get("cy")) == pytest.approx((top - v) * scale, abs=0.06)


def test_what_cannot_be_recorded():
    env, params = envs.make("PlanarVolleyball-v1", actions="rates")
    with pytest.raises(ValueError, match="actions='rates'"):
        flights.record([], env, params, jax.random.key(0))
    env, params = envs.make("PlanarVolleyball-v1")
    with pytest.raises(ValueError, match="0 players: expected 2"):
        flights.record([], env, params, jax.random.key(0))
