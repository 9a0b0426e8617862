"""Volleyball's strategy: decisions at events, of two teams, learnt by self-play."""

import jax
import numpy as np
import pytest

from agentrl.config.build import build
from configs.hierarchy import volleyball


@pytest.fixture(scope="module")
def batch():
    """Streams, rows and credit of short matches in the plane against a pool."""
    config = volleyball.get_config("plane")
    config.rollout.num_groups = 16
    config.rollout.opponent = "pool"
    config.rollout.members = 2
    config.pool.capacity = 2
    config.learner.update(minibatches=1, microbatch=None)
    config.env.max_seconds = 3.0
    config.env.max_steps_in_episode = 8
    experiment = build(config)
    state = experiment.init(0)
    return jax.jit(experiment.batches)(state)["rollout"][:3]


def test_a_batch_holds_the_decisions_of_the_policys_teams(batch):
    streams, _, credit = batch
    reward, mask = np.asarray(streams.reward), np.asarray(streams.mask)
    # Against a pool the policy is team i % 2 of match i, and its team alone is learnt from.
    played = mask.any(axis=1).reshape(16, 2)
    np.testing.assert_array_equal(played, np.arange(2) == np.arange(16)[:, None] % 2)
    assert mask.sum(axis=1)[played.reshape(-1)].mean() > 2
    # Nothing but the end pays, and a draw at the limit of seconds is cut, not ended.
    paid = np.where(mask, reward, 0)
    assert set(np.unique(paid)) <= {-1.0, 0.0, 1.0} and (np.abs(paid).sum(axis=1) <= 1).all()
    ended, cut = (np.asarray(x) & mask for x in (streams.terminated, streams.truncated))
    assert not (ended & cut).any()
    np.testing.assert_array_equal((ended | cut).any(axis=1), played.reshape(-1))
    assert ended.any() and not paid[~ended].any()
    assert np.isfinite(np.asarray(credit.advantage.values)).all()


@pytest.mark.parametrize("game, agents, actions", [("plane", 2, 4), ("1v1", 2, 4), ("3v3", 2, 72)])
def test_presets_are_the_teams_games(game, agents, actions):
    env = build(volleyball.get_config(game)).env
    assert (env.num_agents, env.num_actions) == (agents, actions)


def test_there_is_no_other_game():
    with pytest.raises(ValueError, match="2v2.*expected one of plane, 1v1, 3v3"):
        volleyball.get_config("2v2")
