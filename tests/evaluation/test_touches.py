"""Who touches the ball when, counted by hand and over matches of the scripted planner."""

from xml.etree import ElementTree

import jax
import numpy as np
import pytest

import envs
from agentrl.evaluation import touches
from agentrl.players import scripted


@pytest.fixture(scope="module")
def planned():
    env, params = envs.make("Volleyball-v1", teams="3v3", max_seconds=8.0, max_steps_in_episode=20)
    players = [scripted("expert", env, params)] * 2
    return touches.record(players, env, params, jax.random.key(0), matches=16)


def test_the_planner_passes_sets_and_attacks(planned):
    """Its roles are fixed: every turn is one drone's, and most possessions are 1-2-3."""
    for team in planned:
        assert team.counts.sum() == len(team.places) == len(team.drone) > 16
        np.testing.assert_array_equal(team.counts[1:] > 0, np.eye(3, dtype=bool))
        np.testing.assert_array_equal(team.entropy, 0)
        assert team.switched == 0 and next(iter(team.passages))[0] == (0, 1, 2)
        # In the team's own frame.
        assert (team.places[:, 0] > 0).all()


def test_counts_by_hand():
    """Team 0: drone 1 sends the serve over, later drones 2 and 0 touch it and lose it."""
    env, _ = envs.make("Volleyball-v1", teams="3v3")
    hit, crossed = np.zeros((5, 1, 6), bool), np.zeros((5, 1), bool)
    served = np.array([[False], [True], [True], [True], [True]])
    hit[0, 0, 3] = crossed[1, 0] = True
    hit[2, 0, 1] = crossed[2, 0] = True
    hit[3, 0, 2] = hit[4, 0, 0] = True
    place = np.arange(5 * 6 * 2, dtype=np.float32).reshape(5, 1, 6, 2)
    team = touches._counted(env, 0, hit, crossed, served, place)
    assert team.counts.tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert team.passages == {((1,), True): 1, ((2, 0), False): 1}
    assert team.switched == 1 and team.entropy[:3].tolist()[1:] == [1, 0]
    assert np.isnan(team.entropy[[0, 3]]).all()
    np.testing.assert_array_equal(team.places, [[26, 27], [40, 41], [48, 49]])
    other = touches._counted(env, 1, hit, crossed, served, place)
    assert other.counts.sum() == 1 and other.counts[0, 0] == 1 and not other.passages


def test_the_section_is_well_formed(planned):
    text = touches.section([("planner & co", planned[0]), ("others", planned[1])])
    root = ElementTree.fromstring(f"<div>{text}</div>")
    assert len([svg for svg in root.iter("svg") if svg.get("role") == "img"]) == 2
    assert "1-2-3 over" in text


def test_what_cannot_be_counted():
    env, params = envs.make("PlanarVolleyball-v1")
    with pytest.raises(ValueError, match="expected Volleyball by decisions"):
        touches.record([], env, params, jax.random.key(0), matches=2)
