"""Filters of single turns: those that an update learns from, bool[N, T].

Those that read the estimator's advantage act after it; others before it or after it, as a config
says.
"""

import jax
import jax.numpy as jnp

from agentrl.advantages.weighting import kept_by_entropy
from agentrl.checks import check_range, check_streams
from agentrl.declarations import assumes


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


@assumes("whole_episodes")
def arrived_turns(
    mask: jax.Array, duration: jax.Array, *, deadline: float, longest: float = 0.0
) -> jax.Array:
    """Turns to keep, bool[N, T]: those that ended before a deadline of the stream's own clock.

    e[i, t] = sum of d[i, s] over the turns s <= t where mask is True; turn t is kept where
    e <= deadline and e - d <= deadline - longest. What a learner has that begins all its workers
    anew at each update, and takes what they ended by the deadline: of quick actions more than were
    chosen among slow ones, since the last of each worker is lost, and that is more often a slow
    one. Let c(a) be the expected number of turns that begin at deadline - d(a) or before; then
    action a arrives pi(a) c(a) times. With a deadline of D, the longest duration, and a policy that
    is always quick (d), c is D / d for the quick action and 1 for the slow one, which is what
    `duration_aware` takes back; for a policy that is always slow both are 1, and nothing is to be
    taken back.

    Args:
      mask: bool[N, T], the agent acted.
      duration: f32[N, T], time of each turn; not negative.
      deadline: time of an update, above 0, in the unit of the durations.
      longest: with the longest duration of any action, turns count that would have arrived whatever
        was chosen, so that actions are seen as often as they are chosen; 0: all that arrived.

    Returns:
      bool[N, T]. Durations of whole numbers are summed exactly, others to float32's rounding.

    Raises:
      ValueError: an option outside its range, or arrays of other shapes or types.

    References:
      Yang et al. (2025), https://arxiv.org/abs/2509.01684 (from notes): distributed actors, and
      gradients of what has arrived. The deadline, and `longest`, are ours.
    """
    check_range("arrived_turns deadline", deadline, 0.0, above=True)
    check_range("arrived_turns longest", longest, 0.0, deadline)
    check_streams("arrived_turns", mask, numbers={"duration": duration})
    time = jnp.where(mask, jnp.asarray(duration, jnp.float32), 0.0)
    ended = jnp.cumsum(time, axis=1)
    return mask & (ended <= deadline) & (ended - time <= deadline - longest)


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
