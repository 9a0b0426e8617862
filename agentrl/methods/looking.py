"""Video-MTR: rewards of turns that look at a better part of a long input than the turn before."""

import jax
import jax.numpy as jnp

from agentrl import rewards
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
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

    A turn that looks has the gain of what it shows over the look before it, and, while less than
    `explore_below` of the batch's turns look, `explore` besides. Of several commands in a reply the
    last one counts.

    For environments with `frames_shown(action) -> bool[..., F]`, none for actions that are no look,
    -1 for what is shown at the start, and `relevant_frames(state, params) -> bool[F]`, such as
    Video-v1.

    Metrics (Episodes):
      looks: Looks [share]; turns in which the agent looks instead of acting.
      looks/gain: Gain of a look; mean over looks.

    Args:
      bonus, margin: see `agentrl.rewards.retrieval_gain`.
      explore: at least 0. explore_below: in [0, 1].

    Raises:
      ValueError: another environment or rollout, or an option outside its range.

    References:
      Video-MTR (2025), https://arxiv.org/abs/2508.20478; code Xyuan13/Video-MTR (read), the bonus
      for exploration from notes on the paper.
    """
    check_range("config.components.looking.explore", explore, 0.0)
    check_range("config.components.looking.explore_below", explore_below, 0.0, 1.0)
    members = "frames_shown", "relevant_frames"
    env, env_params = required(
        setup, "looking", None, *members, example="Video-v1", one_environment=True,
        whole_episodes=True,
    )  # fmt: skip

    actions_of = turn_actions(setup, "looking")

    def annotate(context, streams, rows):
        mask = streams.mask
        actions = actions_of(streams, rows)
        place = jnp.where(actions >= 0, jnp.arange(actions.shape[-1]), 0)
        last = jnp.max(place, axis=-1, keepdims=True)
        action = jnp.take_along_axis(actions, last, axis=-1)[..., 0]
        shown = env.frames_shown(jnp.maximum(action, 0)) & (action >= 0)[..., None]
        looks = jnp.any(shown, axis=-1)
        relevant = jax.vmap(env.relevant_frames, in_axes=(0, None))(streams.first_state, env_params)
        first = jnp.broadcast_to(env.frames_shown(jnp.int32(-1)), relevant.shape)
        # What turn t shows is seen in front of turn t + 1, and as long as no other look is taken,
        # as after a reply that is no command.
        seen = jnp.concatenate([first[:, None], shown], axis=1)
        number = jnp.where(jnp.pad(looks, ((0, 0), (1, 0))), jnp.arange(seen.shape[1]), 0)
        seen = jnp.take_along_axis(seen, jax.lax.cummax(number, axis=1)[..., None], axis=1)
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
