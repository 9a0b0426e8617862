"""Rewards over counterfactual runs (`agentrl.methods.counterfactual`): what a player adds.

Letters besides N, T: E partners, K replacements. `runs` holds return, steps and success of
each partner's run, as the policy played it (0) and with each replacement (1 to K).
"""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range, check_runs, check_streams
from agentrl.declarations import assumes
from agentrl.rewards.teams import capability_gain
from agentrl.streams import last_turns


@assumes("whole_episodes")
def executor_gain(
    reward: jax.Array,
    mask: jax.Array,
    runs: jax.Array,
    *,
    alpha: float = 0.1,
    most: float | None = None,
    partners: tuple[int, ...] = (),
) -> jax.Array:
    """What a plan adds to its executors, in place of the reward (EAGLET): at the last turn the sum
    over executors of 1[planned > alone] (1 + alpha)^(alone_steps - planned_steps).

    Args:
      reward: f32[N, T], replaced.
      mask: bool[N, T], the agent acted.
      runs: f32[N, 3, E, 1 + K], see above; the first replacement is the run without the plan.
      alpha, most: see `capability_gain`.
      partners: numbers of the executors that count; (): all.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a number outside its range, or arrays of other shapes or types.

    References:
      EAGLET (2025), https://arxiv.org/abs/2510.05608, from notes; see `capability_gain`.
    """
    check_streams("executor_gain", mask, numbers={"reward": reward})
    check_runs("executor_gain", mask, runs, partners)
    runs = runs[:, :, jnp.asarray(partners)] if partners else runs
    returns, steps = runs[:, 0], runs[:, 1]
    gain = capability_gain(
        returns[..., 0], returns[..., 1], steps[..., 0], steps[..., 1], alpha=alpha, most=most
    )
    return jnp.where(last_turns(mask), gain[:, None], 0.0)


@assumes("whole_episodes")
def answer_gain(
    reward: jax.Array, mask: jax.Array, runs: jax.Array, *, offset: float = 0.5
) -> jax.Array:
    """The reward, and at the last turn offset less the mean success of the replacements
    (AI-SearchPlanner): 0.5 + s_plan - (s_direct + s_naive) / 2 less the costs that the reward has.

    What is subtracted belongs to the question alone where the baselines have many draws. It changes
    nothing for estimators that compare streams of one question, and takes the questions' own
    difficulty out of those that compare all streams.

    Args:
      reward: f32[N, T], the outcome s_plan, and costs.
      mask: bool[N, T], the agent acted.
      runs: f32[N, 3, E, 1 + K], see above; of the first partner.
      offset: of every episode.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      AI-SearchPlanner (2025), https://arxiv.org/abs/2508.20368, from notes; the form is
      reconstructed.
    """
    check_streams("answer_gain", mask, numbers={"reward": reward})
    check_runs("answer_gain", mask, runs)
    extra = offset - jnp.mean(runs[:, 2, 0, 1:], axis=1)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    return reward + jnp.where(last_turns(mask), extra[:, None], 0.0)


@assumes("whole_episodes")
def mean_of_runs(reward: jax.Array, mask: jax.Array, runs: jax.Array) -> jax.Array:
    """The mean return over the partners, at the last turn, in place of the reward: the score of
    something said to frozen solvers who are asked several times (Matryoshka,
    https://arxiv.org/abs/2410.20749).

    Args:
      reward: f32[N, T], replaced.
      mask: bool[N, T], the agent acted.
      runs: f32[N, 3, E, 1 + K], see above.

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: arrays of other shapes or types.
    """
    check_streams("mean_of_runs", mask, numbers={"reward": reward})
    check_runs("mean_of_runs", mask, runs)
    score = jnp.mean(runs[:, 0, :, 0], axis=1)
    return jnp.where(last_turns(mask), score[:, None], 0.0)


@assumes("whole_episodes")
def difference(
    reward: jax.Array, mask: jax.Array, runs: jax.Array, *, weight: float = 1.0
) -> jax.Array:
    """The reward less `weight` times the return of the first replacement, at the last turn: with 1
    the difference reward, what the team has because of this player.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      runs: f32[N, 3, E, 1 + K], see above; of the first partner and the first replacement.
      weight: at least 0.

    Returns:
      f32[N, T], 0 where mask is False. With nothing replaced and weight 1 a stream's sum is exactly
      0 where it has all of its episode's rewards.

    Raises:
      ValueError: a negative weight, or arrays of other shapes or types.

    References:
      Wolpert and Tumer (2001), Optimal payoff functions for members of collectives,
      https://arxiv.org/abs/cs/9905005.
    """
    check_range("difference weight", weight, 0.0)
    check_streams("difference", mask, numbers={"reward": reward})
    check_runs("difference", mask, runs)
    reward = jnp.where(mask, jnp.asarray(reward, jnp.float32), 0.0)
    return reward - jnp.where(last_turns(mask), weight * runs[:, 0, 0, 1][:, None], 0.0)
