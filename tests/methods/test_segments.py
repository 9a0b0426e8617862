"""Chain-of-Agents' segments: repetitions and the order of tags by hand, metrics of a rollout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from by_hand import context, setup_of

import envs
from agentrl import policies, rewards, rollout
from agentrl.learner.component import UpdateResult
from agentrl.learner.credit import Credit
from agentrl.methods.segments import repeated_calls, segments
from agentrl.rollout import contexts
from agentrl.streams import PerTurn
from configs.teams.chain_of_agents import ORDER

ENV, PARAMS = envs.make("LookupCheck-v1", entities=3, max_steps_in_episode=8)


def test_calls_repeat_within_a_part_and_tags_next_to_each_other():
    call = np.array([[-1, 3, 3, -1, 3, 4, -1, -1]])
    part = np.array([[1, 1, 1, 2, 2, 2, 2, 2]])
    alone = np.array([[0, -1, -1, 0, -1, -1, 2, 2]])
    mask = np.ones(call.shape, bool)
    expected = [[False, False, True, False, False, False, False, True]]
    np.testing.assert_array_equal(repeated_calls(call, mask, part, alone), expected)
    without_parts = repeated_calls(call, mask, 0 * part, alone)
    assert np.flatnonzero(without_parts).tolist() == [2, 4, 7]


def test_rewards_of_order_and_of_repetition():
    reward = np.float32([[0, 1, 9], [0, 0, 1]])
    mask = np.array([[True, True, False], [True, True, True]])
    flag = np.array([[False, False, True], [False, True, True]])
    paid = rewards.repetition_penalty(reward, mask, flag)
    np.testing.assert_allclose(paid, [[0, 1, 0], [0, 0, 0.5]])
    paid = rewards.order_reward(reward, mask, ~flag, format_reward=0.1)
    np.testing.assert_allclose(paid, [[0, 1.1, 0], [0, 0, 0]])


def test_segments_of_episodes_in_words():
    options = {"behaviour": ORDER, "enforce": False, "constrained": True}
    sizes = {"width": 8, "layers": 1, "heads": 1, "kv_heads": 1, "hidden": 8}
    policy = policies.transformer(ENV.view, **options, **sizes)
    read = contexts.whole()
    played = rollout.episodes(policy, ENV, PARAMS, read, num_groups=2, group_size=8)
    setup = setup_of(ENV, PARAMS)._replace(policy=policy, rollout=played, context=read)
    component = segments(setup)

    @jax.jit
    def collected(key):
        _, streams, rows, metrics = played.collect(policy.init(key), played.init(key), key)
        notes, ours = component.annotate(context(), streams, rows)
        keep = jnp.any(streams.mask, axis=1)
        advantage = PerTurn(jnp.where(streams.mask, notes["tag"].values * 1.0, 0.0))
        outcome = UpdateResult(
            None, streams=streams, rows=rows, notes=notes, credit=Credit(advantage, keep, None, {})
        )
        return streams, notes, {**metrics, **ours, **component.after((), outcome)[1]}

    streams, notes, metrics = jax.device_get(collected(jax.random.key(1)))
    means = {name: total / weight for name, (total, weight) in metrics.items() if weight}
    for number, tag in enumerate(ENV.tags):
        if means[f"tag/{tag}/share"]:
            np.testing.assert_allclose(means[f"tag/{tag}/advantage"], number, atol=1e-6)
            assert means[f"tag/{tag}/length"] >= 1
    assert sum(means[f"tag/{tag}/share"] for tag in ENV.tags) == pytest.approx(1)
    broken = np.any(streams.mask & ~notes["keeps_order"].values, axis=1)
    assert means["order_kept"] == pytest.approx(1 - broken.mean())
    assert means["order_kept"] < 1
    # A stream breaks the order once, at the turn that the sampler counts.
    turns = metrics["behaviour_violation_rate"]
    assert turns[0] == broken.sum()


def test_unknown_tags_are_an_error():
    policy = policies.transformer(ENV.view, width=8, layers=1, heads=1, kv_heads=1, hidden=8)
    setup = setup_of(ENV, PARAMS)._replace(policy=policy, context=contexts.whole())
    with pytest.raises(ValueError, match="names tags crawl: expected some of plan"):
        segments(setup, calls=("crawl",))
