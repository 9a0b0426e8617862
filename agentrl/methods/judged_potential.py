"""A potential of histories from a judge's scores, for potential-based shaping."""

import jax.numpy as jnp

from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.pairs import check_judged
from agentrl.streams import PerTurn


def judged_potential(setup: Setup, *, scale: float = 1.0) -> Component:
    """Supplies `potential` and `final_potential`, f32[N, T] each, for reward term
    `potential_shaping`: what config.rollout.judge has said of the turns before.

    phi_t = scale sum_{k < t} j_k,

    with j the judgement of a turn. phi is 0 where an episode begins. With gamma = 1 a turn is paid
    scale j_t, and a terminal one what takes all of it back: a whole episode has its own return, a
    cut one scale sum_k j_k more. With judge="progress" phi is the number of turns towards success
    less those away from it; with "critic" it is V of the state and the rewards so far, less V of
    the first one.

    Metrics (Credit):
      final_potential: Potential at the end; phi at the last turn, mean over episodes.

    Args:
      scale: above 0; what one unit of judgement is worth.

    Raises:
      ValueError: a scale that is not above 0, segments instead of whole episodes, or nothing that
        judges turns.

    References:
      Devlin and Kudenko (2012), Dynamic potential-based reward shaping, AAMAS: a potential that
      depends on more than the state leaves optimal policies as they were, too.
    """
    check_range("config.components.judged_potential.scale", scale, 0.0, above=True)
    required(setup, "judged_potential", None, whole_episodes=True)
    check_judged(setup, "component 'judged_potential'")

    def annotate(context, streams, rows):
        said = jnp.where(streams.mask, scale * streams.judgement, 0.0)
        final, present = jnp.sum(said, axis=1), jnp.any(streams.mask, axis=1)
        notes = {
            "potential": PerTurn(jnp.cumsum(said, axis=1) - said),
            "final_potential": PerTurn(jnp.broadcast_to(final[:, None], said.shape)),
        }
        return notes, {"final_potential": jnp.stack([jnp.sum(final), jnp.sum(present) * 1.0])}

    return Component(annotate=annotate, fills=("potential", "final_potential"))
