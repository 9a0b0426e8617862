"""A critic of tokens end to end: its values are annotations, its targets are of each token."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl import advantages, losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.token_values import token_values


def config_of(**changes):
    config = tiny.talk_config(warm_start__updates=0, objective__kl__weight=0.0)
    config.policy.critic = "shared"
    config.rollout.update(num_groups=2, group_size=2)
    config.advantage = section(advantages.token_gae, gamma=1.0, lam=1.0)
    config.components.token_values = section(token_values)
    config.objective.value = term(losses.token_value_loss, weight=0.5)
    return tiny.changed(config, changes)


def test_targets_of_tokens_are_returns_to_go():
    experiment = build(config_of())
    state = jax.jit(experiment.init)(jnp.int32(0))
    batch = jax.jit(experiment.batches)(state)["rollout"]
    streams, rows, credit = batch.streams, batch.rows, batch.credit
    written = np.asarray(rows.loss_mask)
    value = np.where(written, batch.notes["token_value"].values, 0)
    assert credit.target.values.shape == written.shape and np.ptp(value[written]) > 0
    reward = np.where(streams.mask, streams.reward, 0) + 0.0
    # Episodes that a limit cut end in the critic's own value of what followed.
    last = np.asarray(streams.mask) & ~np.pad(np.asarray(streams.mask)[:, 1:], ((0, 0), (0, 1)))
    cut = last & ~np.asarray(streams.terminated)
    reward = reward + np.where(cut, streams.bootstrap, 0)
    to_go = np.cumsum(reward[:, ::-1], axis=1)[:, ::-1]
    at = np.asarray(rows.stream)[:, None], np.maximum(np.asarray(rows.turn), 0)
    np.testing.assert_allclose(credit.target.values, np.where(written, to_go[at], 0), atol=1e-5)
    # Tokens of one turn have advantages of their own.
    np.testing.assert_allclose(
        credit.advantage.values, np.where(written, to_go[at] - value, 0), atol=1e-5
    )


def test_what_is_missing_is_said():
    config = config_of()
    config.policy.critic = "none"
    with pytest.raises(ValueError, match="token_values.* needs a critic .config.policy.critic"):
        build(config)
    config = config_of()
    del config.components.token_values
    with pytest.raises(ValueError, match="token_value"):
        build(config)
