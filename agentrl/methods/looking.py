"""Video-MTR: rewards of turns that look at a better part of a long input than the turn before."""

import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.by_turn import to_turns
from agentrl.streams import PerTurn


def looking(
    setup: Setup,
    *,
    bonus: float = 0.5,
    margin: float = 0.001,
    explore: float = 0.0,
    explore_below: float = 0.5,
) -> Component:
    """Supplies `turn_reward` f32[N, T] for reward term `gated_turn_rewards`: see `retrieval_gain`.

    A turn that looks has the gain of what it shows over what was shown before it, and, while less
    than `explore_below` of the batch's turns look, `explore` besides.

    For environments with `frames_shown(action) -> bool[..., F]`, none for actions that are no look,
    -1 for what is shown at the start, and `relevant_frames(state, params) -> bool[F]`, such as
    Video-v1, and policies over arrays, whose actions are numbers.

    Metrics: looks, share of turns that look; looks/gain, mean gain of a look.

    Args:
      bonus, margin: see `agentrl.rewards.retrieval_gain`.
      explore: at least 0. explore_below: in [0, 1].

    Raises:
      ValueError: another environment, policy or rollout, or an option outside its range.

    References:
      Video-MTR (2025), https://arxiv.org/abs/2508.20478; code Xyuan13/Video-MTR (read), the bonus
      for exploration from notes on the paper.
    """
    check_range("config.components.looking.explore", explore, 0.0)
    check_range("config.components.looking.explore_below", explore_below, 0.0, 1.0)
    members = "frames_shown", "relevant_frames"
    env, env_params = required(
        setup, "looking", "arrays", *members, example="Video-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    def annotate(context, streams, rows):
        mask = streams.mask
        shown = env.frames_shown(to_turns(rows.tokens, rows, mask.shape))
        shown &= mask[..., None]
        looks = jnp.any(shown, axis=-1)
        relevant = jax.vmap(env.relevant_frames, in_axes=(0, None))(streams.first_state, env_params)
        first = jnp.broadcast_to(env.frames_shown(jnp.int32(-1)), relevant.shape)
        # What turn t shows is seen in front of turn t + 1.
        seen = jnp.concatenate([first[:, None], shown], axis=1)
        gain = rewards.retrieval_gain(seen, relevant, bonus=bonus, margin=margin)[:, 1:]
        gain = jnp.where(looks, gain, 0.0)
        count, turns = jnp.sum(looks) * 1.0, jnp.sum(mask) * 1.0
        few = count / jnp.maximum(turns, 1) < explore_below
        more = jnp.where(looks & few, explore, 0.0)
        metrics = {
            "looks": jnp.stack([count, turns]),
            "looks/gain": jnp.stack([jnp.sum(gain), count]),
        }
        return {"turn_reward": PerTurn(gain + more)}, metrics

    return Component(annotate=annotate, fills=("turn_reward",))
