"""STARE's controller: weights of surprising positions that follow the policy's entropy."""

import jax
import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.methods.by_turn import entropies
from agentrl.streams import PerPosition, Shared


def controlled(
    weights: jax.Array,
    entropy: jax.Array,
    *,
    target: float,
    step: float = 0.0,
    largest: float = 1.5,
    smallest: float = 0.5,
) -> tuple[jax.Array, jax.Array]:
    """(new weights f32[2] of gains and losses, gate bool[]) at a mean entropy f32[].

    Below the target the gate is open, gains grow and losses shrink by `step`; above it is shut and
    they go back, within [1, largest] and [smallest, 1]. Exactly at the target nothing moves.
    """
    move = step * jnp.sign(target - entropy)
    gain = jnp.clip(weights[0] + move, 1.0, largest)
    loss = jnp.clip(weights[1] - move, smallest, 1.0)
    return jnp.stack([gain, loss]), entropy < target


def stare_weights(
    setup: Setup,
    *,
    target: float = 0.3,
    gain: float = 1.1,
    loss: float = 1.0,
    step: float = 0.0,
    largest: float = 1.5,
    smallest: float = 0.5,
) -> Component:
    """Supplies `surprising_gain` and `surprising_loss` f32[R, L] for reweighting `stare`.

    The controller moves once per update, before the loss, by the mean entropy of the policy that
    sampled, which takes a forward pass over the rows.

    Metrics (Credit):
      stare_gain: Weight of surprising gains; STARE.
      stare_gate: Gate of the weights [share]; STARE: updates in which they move.

    Args:
      target: entropy in nats; above it all weights are 1.
      gain, loss: weights at first, of positions with positive and negative advantage (released: 1.1
        and, in variant C2, 0.9; variant O1 has 1).
      step: by which they follow the entropy, see `controlled`; 0: they stay (released), otherwise
        0.01.
      largest, smallest: bounds of the two, at least 1 and in [0, 1].

    Raises:
      ValueError: an option outside its range.

    References:
      STARE, code hp-luo/STARE bffb9e7 (read).
    """
    for name, value in (("target", target), ("gain", gain), ("loss", loss), ("step", step)):
        check_range(f"config.components.stare_weights.{name}", value, 0.0)
    check_range("config.components.stare_weights.largest", largest, 1.0)
    check_range("config.components.stare_weights.smallest", smallest, 0.0, 1.0)
    bounds = {"target": target, "step": step, "largest": largest, "smallest": smallest}

    def annotate(context, streams, rows):
        entropy = entropies(setup.policy, context.params, rows, setup.microbatch)
        count = jnp.maximum(jnp.sum(rows.loss_mask), 1)
        mean = jnp.sum(jnp.where(rows.loss_mask, entropy, 0.0)) / count
        weights, gate = controlled(context.value, mean, **bounds)
        up, down = jnp.where(gate, weights, 1.0)
        notes = {
            "surprising_gain": PerPosition(jnp.full(rows.tokens.shape, up)),
            "surprising_loss": PerPosition(jnp.full(rows.tokens.shape, down)),
            "stare_weights": Shared(weights),
        }
        one = jnp.ones(())
        metrics = {
            "stare_gain": jnp.stack([weights[0], one]),
            "stare_gate": jnp.stack([gate * 1.0, one]),
        }
        return notes, metrics

    def after(value, outcome):
        return outcome.notes["stare_weights"].values, {}

    return Component(
        init=lambda start: jnp.array([gain, loss]),
        annotate=annotate,
        after=after,
        fills=("surprising_gain", "surprising_loss"),
    )
