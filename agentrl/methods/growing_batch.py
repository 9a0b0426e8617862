"""ReST: the policy's own accepted episodes of all rounds are imitated, again and again."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import (
    Batches,
    Component,
    Context,
    InitInputs,
    Setup,
    Source,
    UpdateResult,
)
from agentrl.learner.required import required
from agentrl.methods.by_turn import collected, to_turns
from agentrl.methods.ring import Ring, drawn, empty, put, usable
from agentrl.policies.protocol import AnyPolicy
from agentrl.rollout.types import Rollout
from agentrl.streams import Rows, Streams, at_positions


def solved_turns(streams: Streams, longest: int = 0) -> jax.Array:
    """Turns of solved episodes, bool[N, T]; of trees each turn on the way to a solved end, once.

    A turn that several episodes of a tree share is that of the first one that has it, be that one
    solved or not. longest: most turns of a solved episode that counts; 0: any number.
    """
    good = jnp.any(streams.success & streams.mask, axis=1)
    if longest:
        good &= jnp.sum(streams.mask, axis=1) <= longest
    turns = streams.mask & good[:, None]
    if streams.prefix is None:
        return turns
    count, length = turns.shape
    first = jnp.where(turns, streams.prefix, count)  # dropped
    return jnp.zeros_like(turns).at[first, jnp.arange(length)].set(True, mode="drop")


def likelihood_window(
    score: jax.Array, turns: jax.Array, *, low: float = 0.0, high: float = 1.0
) -> jax.Array:
    """The turns whose score is within quantiles of the scores of all of them, bool[N, T].

    Of log-probabilities -3, -0.1, -1, -0.5 and -2 the window [0.1, 0.9] has the bounds -2.6 and
    -0.26 and keeps -2, -1 and -0.5: what is nearly certain is known already, and what is very
    unlikely is noise. Bounds interpolate linearly and count as inside, so equal scores stay or go
    together.

    Args:
      score: f32[N, T]. turns: bool[N, T], those that are compared.
      low, high: quantiles, 0 <= low < high <= 1.
    """
    quantiles = jnp.array([low, high])
    lower, upper = jnp.nanquantile(jnp.where(turns, score, jnp.nan), quantiles)
    return turns & (score >= lower) & (score <= upper)


class Hooks(NamedTuple):
    """The hooks of `growing_batch`, with what they are made of."""

    rollout: Rollout
    policy: AnyPolicy
    size: int
    rows: int
    rounds: int
    longest: int
    low: float
    high: float

    def init(self, start: InitInputs) -> Ring:
        """A ring with room for `size` rows, none of which is there yet."""
        _, like = collected(self.rollout, self.policy, start.key)
        return empty(like, self.size)

    def make(self, context: Context, sources: Batches) -> tuple[None, Rows]:
        """Rows of the rounds so far."""
        del sources
        ring = context.value
        return None, drawn(ring, usable(ring, self.rounds), self.rows, context.key)

    def after(self, ring: Ring, outcome: UpdateResult) -> tuple[Ring, dict[str, jax.Array]]:
        """The ring with the rows of the update's solved episodes."""
        streams, own = outcome.streams, outcome.rows
        tokens = to_turns(own.loss_mask.astype(jnp.float32), own, streams.mask.shape)
        solved = solved_turns(streams, self.longest) & (tokens > 0)
        kept = solved
        if self.low > 0 or self.high < 1:
            score = to_turns(own.behaviour_logp, own, streams.mask.shape)
            score = score / jnp.maximum(tokens, 1.0)
            kept = likelihood_window(score, solved, low=self.low, high=self.high)
        kept_here = at_positions(kept, own).astype(bool)
        ring = put(ring, own.replace(loss_mask=own.loss_mask & kept_here))
        count = jnp.sum(usable(ring, self.rounds), dtype=jnp.float32)
        return ring, {
            "growing_batch/rows": jnp.stack([count, jnp.ones(())]),
            "growing_batch/kept": jnp.stack([jnp.sum(kept) * 1.0, jnp.sum(solved) * 1.0]),
        }


def growing_batch(
    setup: Setup,
    *,
    size: int = 4096,
    rows: int = 256,
    rounds: int = 0,
    longest: int = 0,
    low: float = 0.0,
    high: float = 1.0,
) -> Component:
    """Source "growing_batch": rows of the rollout's solved episodes, of this and earlier updates.

    Each update is a round: what it collects is filtered and joins the rounds before, and the next
    ones learn from all. For `losses.behaviour_cloning` with source="growing_batch", beside a
    filter or none of the rollout's own rows; with rounds=1 it is rejection sampling of the update
    before. Longer rounds, with a policy of the last one that collects and a new start from the base
    model, are those of component `agentrl.methods.expert_iteration`.

    Of trees of turns (`agentrl.methods.trees`) each turn on the way to a solved end is learnt from
    once, see `solved_turns`: the (state, tactic) pairs of BFS-Prover's proofs.

    Metrics (Opponents, buffers, tasks):
      growing_batch/rows: Accepted rows [rows]; of solved episodes, that can be drawn.
      growing_batch/kept: Turns in the window [share]; of the solved turns of an update, those that
        the growing batch keeps.

    Args:
      size: M, places for rows, of which the oldest go first. rows: drawn per update; 0: all M
        places, of which empty ones count nothing.
      rounds: only rows of the last so many updates are drawn; 0: of all.
      longest: only episodes of at most so many turns are accepted; 0: of any length.
      low, high: only turns whose log-probability per token, as they were sampled, is within these
        quantiles of the update's solved turns, see `likelihood_window`. BFS-Prover-V2's cuts are
        not known.

    Raises:
      ValueError: several agents, segments, an environment in Python, or an option outside its
        range.

    References:
      Aksitov et al. (2023), ReST meets ReAct, https://arxiv.org/abs/2312.10003, from notes; no
      code. There a model ranks several samples of every step (`agentrl.methods.rise` takes the best
      of several by the environment); here the environment's success is the filter.
      Xin et al. (2025), BFS-Prover-V2, https://arxiv.org/abs/2509.06493, from notes; no code: the
      window, there by the negative log-likelihood under the policy of the round.
    """
    path = "config.components.growing_batch"
    check_range(f"{path}.size", size, 1)
    for name, value in (("rows", rows), ("rounds", rounds), ("longest", longest)):
        check_range(f"{path}.{name}", value, 0)
    check_range(f"{path}.high", high, 0.0, 1.0)
    check_range(f"{path}.low", low, 0.0, high, below=True)
    required(setup, "growing_batch", None, one_agent=True, in_graph=True, whole_episodes=True)
    hooks = Hooks(setup.rollout, setup.policy, size, rows, rounds, longest, low, high)
    return Component(
        init=hooks.init, source=Source(hooks.make, reads=("rollout",)), after=hooks.after
    )
