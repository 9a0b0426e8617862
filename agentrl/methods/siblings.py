"""Learning from trees of turns: pairs of turns that left the same node, and turns learnt from once.

Letters: G trees of E streams each, T turns, N = G * E; P pairs per tree.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.checks import check_range
from agentrl.learner.component import Batches, Component, Context, Setup, Source
from agentrl.methods.by_turn import bare, rows_of_turns
from agentrl.methods.tree_values import tree_values
from agentrl.rewards.returns import discounted_return
from agentrl.streams import PerTurn, Rows, Streams


def check_tree(setup: Setup, name: str) -> None:
    """ValueError unless the rollout grows trees."""
    if "prefix" not in setup.rollout.provides:
        raise ValueError(
            f"component {name!r} needs trees of turns: set config.rollout to "
            "section(agentrl.methods.trees.trees)"
        )


def next_values(streams: Streams, gamma: float) -> jax.Array:
    """r_t + gamma V(s_{t+1}) by the critic, f32[N, T]; 0 where nobody acted.

    V is 0 behind a terminal state, and `bootstrap` where the episode was cut.
    """
    mask, truncated = streams.mask, streams.truncated
    assert streams.value is not None and streams.bootstrap is not None  # there is a critic
    assert truncated is not None  # of every rollout
    goes_on = jnp.pad(mask[:, 1:], ((0, 0), (0, 1)))
    later = jnp.where(truncated, streams.bootstrap, 0.0)
    later = jnp.where(goes_on, jnp.roll(streams.value, -1, axis=1), later)
    return jnp.where(mask, streams.reward + gamma * later, 0.0)


def sibling_pairs(
    prefix: jax.Array, mask: jax.Array, score: jax.Array, size: int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """All pairs of different turns from the same node: (better, worse, turn, gap).

    prefix: i32[N, T], see `Streams`. mask: bool[N, T]. score: f32[N, T]. size: E. The pairs are
    [G, E (E - 1) / 2]: streams i32, their turn i32, and the difference of the scores f32, which is
    -1 where two streams are no such pair. A turn that several streams took is the first one's.
    """
    one, other = np.triu_indices(size, 1)
    tree = np.arange(prefix.shape[0] // size)[:, None] * size
    one, other = jnp.asarray(tree + one), jnp.asarray(tree + other)
    both = mask[one] & mask[other]
    same = jnp.sum(both & (prefix[one] == prefix[other]), axis=2)
    turn = jnp.minimum(same, mask.shape[1] - 1)
    at_turn = jnp.take_along_axis(both, turn[..., None], axis=2)[..., 0] & (same < mask.shape[1])
    first = (prefix[one, turn] == one) & (prefix[other, turn] == other)
    gap = score[one, turn] - score[other, turn]
    better, worse = jnp.where(gap > 0, one, other), jnp.where(gap > 0, other, one)
    return better, worse, turn, jnp.where(at_turn & first, jnp.abs(gap), -1.0)


class Hooks(NamedTuple):
    """The hooks of `siblings`, with what they are made of; size: E."""

    size: int
    alpha: float
    threshold: float
    pairs: int
    gamma: float
    ties: bool

    def make(self, context: Context, sources: Batches) -> tuple[Streams, Rows]:
        """Streams and rows of the turns of drawn pairs, the better sibling first."""
        streams, rows = sources["rollout"]
        assert streams is not None  # of the rollout
        mask, shape = streams.mask, streams.mask.shape
        found = tree_values(streams.reward, mask, streams.group, streams.prefix, gamma=self.gamma)
        score = found.turn
        if self.alpha < 1:
            score = self.alpha * score + (1 - self.alpha) * next_values(streams, self.gamma)
        better, worse, turn, gap = sibling_pairs(streams.prefix, mask, score, self.size)
        chance = jax.random.uniform(context.key, gap.shape)
        wanted = (gap > self.threshold) | (self.ties & (gap == 0))
        drawn, index = jax.lax.top_k(jnp.where(wanted, chance, -1.0), self.pairs)
        better, worse, turn = (jnp.take_along_axis(x, index, axis=1) for x in (better, worse, turn))
        stream = jnp.stack([better, worse], axis=2).reshape(-1)
        at, learnt = (jnp.repeat(x.reshape(-1), 2) for x in (turn, drawn >= 0))
        rows = rows_of_turns(rows, shape, stream, at)
        rows = rows.replace(loss_mask=rows.loss_mask & learnt[:, None])
        return jax.tree.map(lambda x: x[stream], bare(streams)), rows

    def annotate(self, context: Context, streams: Streams, rows: Rows) -> dict[str, PerTurn]:
        """`turn_return` f32[N, T]: the discounted return from each turn on."""
        del context, rows
        goes = discounted_return(streams.reward, streams.mask, gamma=self.gamma)
        return {"turn_return": PerTurn(goes)}


def siblings(
    setup: Setup,
    *,
    alpha: float = 1.0,
    threshold: float = 0.1,
    pairs: int = 4,
    gamma: float = 1.0,
    ties: bool = False,
) -> Component:
    """Source of its own name: in turn the better and the worse of two turns from the same node.

      Q = alpha Q_tree + (1 - alpha) Q_critic,

    Q_tree the mean return to go of the leaves below the turn, Q_critic = r + gamma V of what
    followed. Of all pairs of a tree whose Q differ by more than `threshold`, `pairs` are drawn
    without replacement; fewer if there are fewer. Only the two turns are learnt from. For terms
    with source="siblings": `losses.behaviour_dpo` (Agent Q), `losses.dpo` with a reference, or
    `losses.refuel`, for which it supplies `turn_return` f32[N, T], the streams' returns to go.

    Two turns with the same action and another outcome are a pair, too, without a gradient: it
    happens in environments with chance.

    Args:
      alpha: in [0, 1]; below 1 the policy has a critic. Agent Q, whose critic is the model ranking
        its own proposals, has 0.5 (recalled).
      threshold: at least 0.
      pairs: P, per tree, from 1 to E (E - 1) / 2. Agent Q takes all.
      gamma: discount per turn, in [0, 1].
      ties: pairs of equal Q, too, whatever the threshold; in either order.

    Raises:
      ValueError: a rollout without trees, no critic, rows of several turns without one per stream,
        or an option outside its range.

    References:
      Putta et al. (2024), Agent Q, https://arxiv.org/abs/2408.07199 (recalled, no code was read).
      Gao et al. (2024), REFUEL, https://arxiv.org/abs/2410.04612.
    """
    hooks = Hooks(
        _checked(setup, alpha, threshold, pairs, gamma), alpha, threshold, pairs, gamma, ties
    )
    source = Source(hooks.make, unit=2, reads=("rollout",))
    if "turn_return" not in setup.reads:
        return Component(source=source)
    return Component(source=source, annotate=hooks.annotate, fills=("turn_return",))


def _checked(setup: Setup, alpha: float, threshold: float, pairs: int, gamma: float) -> int:
    """E; raises the errors of `siblings`."""
    check_tree(setup, "siblings")
    name, rollout = "config.components.siblings", setup.rollout
    size = rollout.num_streams // rollout.units[0]
    check_range(f"{name}.alpha", alpha, 0.0, 1.0)
    check_range(f"{name}.threshold", threshold, 0.0)
    check_range(f"{name}.gamma", gamma, 0.0, 1.0)
    check_range(f"{name}.pairs", pairs, 1, size * (size - 1) // 2)
    if alpha < 1 and not setup.policy.has_critic:
        raise ValueError(
            f"{name}.alpha={alpha}: the rest is of a critic; set config.policy.critic, or alpha=1"
        )
    if rollout.num_rows not in (rollout.num_streams, rollout.num_streams * rollout.turns):
        raise ValueError(
            f"component 'siblings' with {rollout.num_rows} rows for {rollout.num_streams} streams "
            f"of {rollout.turns} turns: use a context without summaries ('whole', 'window')"
        )
    return size


def positives(setup: Setup, *, threshold: float = 0.5, gamma: float = 1.0) -> Component:
    """Weights of 1 for the turns of a tree that mostly lead to success, for supervised steps.

    Supplies `imitation_weight` f32[N, T] for `losses.weighted_imitation`: 1 where the mean return
    to go of all leaves below the turn is at least `threshold`, in the first stream that took it; 0
    elsewhere. In a team on one transcript (`envs.wrappers.OneTranscript`) it is MALT's value
    iteration: a refinement's value is its reward, a verification's the mean of its refinements, an
    answer's the mean of its verifications, and the turns of each role at or above the threshold are
    its positives; its pairs for DPO are `siblings`.

    Args:
      threshold: of mean returns, at least 0. MALT has 0.5 with rewards 0 and 1 (recalled).
      gamma: discount per turn, in [0, 1].

    Raises:
      ValueError: a rollout without trees, or an option outside its range.

    References:
      Motwani et al. (2024), MALT, https://arxiv.org/abs/2412.01928 (from notes, in part recalled;
      no code was read). There every role is a model of its own, learns once, and off-policy.
    """
    check_tree(setup, "positives")
    check_range("config.components.positives.threshold", threshold, 0.0)
    check_range("config.components.positives.gamma", gamma, 0.0, 1.0)

    def annotate(context, streams, rows):
        del context, rows
        found = tree_values(
            streams.reward, streams.mask, streams.group, streams.prefix, gamma=gamma
        )
        own = streams.prefix == jnp.arange(streams.mask.shape[0])[:, None]
        good = own & streams.mask & (found.turn >= threshold)
        return {"imitation_weight": PerTurn(good * 1.0)}

    return Component(annotate=annotate, fills=("imitation_weight",))


def own_turns(setup: Setup) -> Component:
    """Learns each turn of a tree once, in the stream that sampled it.

    What a branch shares with its parent is taken out of the branch's rows. With
    `advantages.shared_prefix` as a reweighting the parent's turn has the mean advantage of all that
    share it. Terms that count positions or turns then count those that were sampled.

    Raises:
      ValueError: a rollout whose episodes do not branch.
    """
    if "call_turn" not in setup.rollout.provides:
        raise ValueError(
            "component 'own_turns' needs episodes that branch: set config.rollout to "
            "section(agentrl.methods.trees.trees)"
        )

    def amend(context, streams, rows):
        del context
        copied = rows.turn < streams.call_turn[rows.stream][:, None]
        return streams, rows.replace(loss_mask=rows.loss_mask & ~copied), {}

    return Component(amend=amend)
