"""Filters of single turns: those that an update learns from, bool[N, T], after the estimator."""

import jax
import jax.numpy as jnp

from agentrl.advantages.weighting import kept_by_entropy
from agentrl.checks import check_range, check_streams


def nonzero_turns(mask: jax.Array, advantage: jax.Array) -> jax.Array:
    """Turns to keep, bool[N, T]: those whose advantage is not exactly 0 (SPIRAL).

    With a baseline per role these are, before a role's first reward, the turns of drawn games, and
    later hardly any. Their policy gradient is 0 in any case; a turn that is left out counts in no
    mean either, and has no entropy bonus and no KL penalty.

    Args:
      mask: bool[N, T], the agent acted.
      advantage: f32[N, T], the estimator's.

    Returns:
      bool[N, T].

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119, code a02d0ed (read), where it is
      on by default (`filter_zero_adv`).
    """
    check_streams("nonzero_turns", mask, numbers={"advantage": advantage})
    return mask & (advantage != 0)


def high_entropy_turns(
    mask: jax.Array,
    group: jax.Array,
    turn_entropy: jax.Array,
    *,
    quantile: float = 0.2,
    role: jax.Array | None = None,
) -> jax.Array:
    """Turns to keep, bool[N, T]: those whose entropy is at least their group's quantile (DART).

    As reweighting `uncertain_turns`, but turns that are left out count in no mean either.

    Args:
      mask: bool[N, T], the agent acted. group: i32[N], any ids.
      turn_entropy: f32[N, T], mean entropy of the turn's tokens, of component
        `agentrl.methods.turn_entropy.turn_entropy`.
      quantile: share of a group's turns that is left out, in [0, 1); between two turns it is
        interpolated, as in numpy. 0 keeps all.
      role: i32[N], streams of a group are compared within their role; None: all with all.

    Returns:
      bool[N, T].

    Raises:
      ValueError: a quantile outside [0, 1), or arrays of other shapes or types.

    References:
      Li et al. (2025), DART, https://arxiv.org/abs/2509.23866, from notes; in its code
      (Computer-use-agents/dart-gui e0e606d) the mask is only there as comments.
    """
    return kept_by_entropy("high_entropy_turns", mask, group, turn_entropy, quantile, role)


def winner_turns(mask: jax.Array, winner_turns: jax.Array) -> jax.Array:
    """Turns to keep, bool[N, T]: those of each agent's best draft (DRAFT-RL).

    Args:
      mask: bool[N, T], the agent acted.
      winner_turns: f32[N, T], above 0 in these turns, of component `agentrl.methods.drafts`.

    Returns:
      bool[N, T].

    Raises:
      ValueError: arrays of other shapes or types.

    References:
      Li et al. (2025), DRAFT-RL, https://arxiv.org/abs/2511.20468; code ArthasTY 06b2bd3 (read).
    """
    check_streams("winner_turns", mask, numbers={"winner_turns": winner_turns})
    return mask & (winner_turns > 0)


def sampled_turns(
    mask: jax.Array,
    advantage: jax.Array,
    episode: jax.Array,
    lots: jax.Array,
    *,
    turns: int = 16,
    episodes: int = 1,
    zeros: bool = False,
) -> jax.Array:
    """Turns to keep, bool[N, T]: of the turns of neighbouring episodes `turns` at random (SPIRAL).

    Those of both seats are drawn together, without replacement and evenly; where there are fewer,
    all are kept. In the release an actor plays whole games until it has 16 turns whose advantage is
    not 0, and keeps 16 of them, so that long games do not outweigh short ones.

    Args:
      mask: bool[N, T], the agent acted.
      advantage: f32[N, T], the estimator's.
      episode: i32[N], number of each stream's episode.
      lots: f32[N, T], random numbers without ties; component `agentrl.methods.lots.lots`.
      turns: to keep, at least 1. episodes: how many neighbouring episodes they are of: 1, so many
        per game; those of one actor of the release otherwise.
      zeros: draw turns with an advantage of exactly 0, too; else they are left out.

    Returns:
      bool[N, T].

    Raises:
      ValueError: an option outside its range, or arrays of other shapes or types.

    References:
      Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119, code a02d0ed (read). There the
      number of games varies, so that every update has 128 turns; here the games are as many as are
      collected. Baselines see all turns in both.
    """
    check_range("sampled_turns turns", turns, 1)
    check_range("sampled_turns episodes", episodes, 1)
    numbers = {"advantage": advantage, "lots": lots}
    check_streams("sampled_turns", mask, numbers=numbers, ids={"episode": episode})
    drawn = mask if zeros else mask & (advantage != 0)
    actor = jnp.broadcast_to((episode // episodes)[:, None], mask.shape).reshape(-1)
    count = actor.shape[0]
    lot = jnp.where(drawn, lots, jnp.inf).reshape(-1)
    order = jnp.lexsort((lot, actor))
    place = jnp.arange(count, dtype=jnp.int32)
    # Numbers of episodes are only compared: the first place of each actor in the order.
    begins = jnp.pad(actor[order][1:] != actor[order][:-1], (1, 0), constant_values=True)
    first = jax.lax.cummax(jnp.where(begins, place, 0))
    rank = jnp.zeros(count, jnp.int32).at[order].set(place - first)
    return drawn & (rank < turns).reshape(mask.shape)
