"""Exploration bonuses: global and episodic novelty, and the reward term that adds them."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range, check_streams
from agentrl.declarations import breaks

Episodic = Literal["none", "first", "elliptical"]


@breaks("team")
def novelty_bonus(
    reward: jax.Array, mask: jax.Array, novelty: jax.Array, *, coefficient: float = 1.0
) -> jax.Array:
    """reward + coefficient * novelty; metrics and filters keep reading the environment's reward.

    Args:
      reward: f32[N, T].
      mask: bool[N, T], the agent acted.
      novelty: f32[N, T], intrinsic reward of the turn; `agentrl.methods.curiosity` fills it.
      coefficient: >= 0 (1 in the released runs).

    Returns:
      f32[N, T], 0 where mask is False.

    Raises:
      ValueError: a negative coefficient, or arrays of other shapes or types.
    """
    check_range("novelty_bonus coefficient", coefficient, 0.0)
    check_streams("novelty_bonus", mask, numbers={"reward": reward, "novelty": novelty})
    return jnp.where(mask, reward + coefficient * jax.lax.stop_gradient(novelty), 0.0)


def of_next_turn(values: jax.Array, mask: jax.Array, ended: jax.Array) -> jax.Array:
    """Values of the state that a turn led to, f32[N, T]: those of the stream's next turn.

    0 after the last turn of an episode, whose final state no turn is acted from.

    Args:
      values: [N, T], of what each turn was acted from.
      mask: bool[N, T], the agent acted. ended: bool[N, T], the episode ended at this turn.
    """

    def backward(following, turn):
        value, acted, end = turn
        out = jnp.where(acted & ~end, following, 0.0)
        return jnp.where(acted, value, following), out

    nothing = jnp.zeros(values.shape[0])
    columns = (jnp.where(mask, values, 0.0).T, mask.T, ended.T)
    _, out = jax.lax.scan(backward, nothing, columns, reverse=True)
    return out.T


def novelty_gain(after: jax.Array, before: jax.Array, *, scale: float = 0.1) -> jax.Array:
    """NovelD: relu(e(s') - scale e(s)), the bonus for crossing into what is less known.

    Args:
      after, before: prediction errors e of the state that a turn led to, and was acted from.
      scale: >= 0; 0 is random network distillation's own bonus, e(s').
    """
    check_range("novelty_gain scale", scale, 0.0)
    return jax.nn.relu(after - scale * before)


def first_visits(anchor: jax.Array, mask: jax.Array, ended: jax.Array) -> jax.Array:
    """Whether a turn is acted from something for the first time in its episode, bool[N, T].

    Args:
      anchor: u32[N, T, 2], fingerprints of what was acted from.
      mask: bool[N, T], the agent acted. ended: bool[N, T], the episode ended at this turn.
    """
    episode = jnp.cumsum(ended, axis=1) - ended
    same = jnp.all(anchor[:, :, None] == anchor[:, None], axis=-1)
    same &= (episode[:, :, None] == episode[:, None]) & mask[:, None]
    earlier = jnp.arange(mask.shape[1])[:, None] > jnp.arange(mask.shape[1])
    return mask & ~jnp.any(same & earlier, axis=2)


def elliptical_novelty(
    features: jax.Array, mask: jax.Array, ended: jax.Array, *, ridge: float = 0.1
) -> jax.Array:
    """E3B's episodic bonus b = phi' C^-1 phi, before phi joins C; C = ridge I at episode starts.

    Args:
      features: f32[N, T, D], phi of what each turn was acted from.
      mask: bool[N, T], the agent acted. ended: bool[N, T], the episode ended at this turn.
      ridge: > 0.

    Returns:
      f32[N, T], 0 where mask is False. The first turn of an episode has |phi|^2 / ridge; the
      released code sets it to 0.

    Raises:
      ValueError: ridge is not above 0.

    References:
      Henaff et al. (2022), E3B, https://arxiv.org/abs/2210.05805; global and episodic bonuses
      together: Henaff et al. (2023), https://arxiv.org/abs/2306.03236 (code facebookresearch/e3b
      edd2cce read).
    """
    check_range("elliptical_novelty ridge", ridge, 0.0, above=True)
    count, _, size = features.shape
    fresh = jnp.broadcast_to(jnp.eye(size) / ridge, (count, size, size))

    def forward(inverse, turn):
        phi, acted, end = turn
        u = jnp.einsum("nij,nj->ni", inverse, phi)
        bonus = jnp.sum(u * phi, axis=1)
        after = inverse - u[:, :, None] * u[:, None] / (1 + bonus)[:, None, None]
        # Rounding must not make it unsymmetric.
        after = (after + jnp.swapaxes(after, 1, 2)) / 2
        after = jnp.where(acted[:, None, None], after, inverse)
        return jnp.where(end[:, None, None], fresh, after), jnp.where(acted, bonus, 0.0)

    columns = (jnp.swapaxes(features, 0, 1), mask.T, ended.T)
    return jax.lax.scan(forward, fresh, columns)[1].T


def episodic_novelty(
    kind: Episodic,
    features: jax.Array,
    anchor: jax.Array | None,
    mask: jax.Array,
    ended: jax.Array,
    *,
    ridge: float = 0.1,
) -> jax.Array:
    """The factor f32[N, T] of an episodic bonus: 1, first visits, or `elliptical_novelty`."""
    check_choice("episodic", kind, get_args(Episodic))
    if kind == "first" and anchor is not None:
        return first_visits(anchor, mask, ended) * 1.0
    if kind == "elliptical":
        return elliptical_novelty(features, mask, ended, ridge=ridge)
    return mask * 1.0
