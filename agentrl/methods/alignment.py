"""M-GRPO: a fixed number of sub-agents' trajectories per query, dropped or repeated at random."""

import jax.numpy as jnp

from agentrl import advantages
from agentrl.checks import check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.streams import PerTurn


def alignment(setup: Setup, *, target: int) -> Component:
    """Supplies `copies` f32[N, T] for reweighting `as_often`: see `agentrl.advantages.aligned`.

    For games with a planner that calls others, such as Research-v1.

    Metrics (Episodes):
      alignment/dropped: Sub-trajectories dropped [share]; sub-agents' trajectories that do not
        count.
      alignment/repeated: Sub-trajectories repeated [share]; repetitions, of those that count.

    Args:
      target: sub-agents' trajectories per group, at least 1.

    Raises:
      ValueError: a target below 1, or a game in which nobody calls anybody.

    References:
      Hong et al. (2025), M-GRPO, https://arxiv.org/abs/2511.13288, from notes.
    """
    check_range("config.components.alignment.target", target, 1)
    env, _ = required(setup, "alignment", None, one_environment=True, whole_episodes=True)
    if env.callers is None:
        raise ValueError(
            f"config.components.alignment: in {env.name} nobody calls anybody; it is for games "
            "with a planner, such as Research-v1"
        )

    def annotate(context, streams, rows):
        mask, parent = streams.mask, streams.parent
        copies = advantages.aligned(context.key, mask, streams.group, parent, target=target)
        sub = jnp.any(mask, axis=1) & (parent >= 0)
        total = jnp.sum(jnp.where(sub, copies, 0)) * 1.0
        dropped, kept = jnp.sum(sub & (copies == 0)) * 1.0, jnp.sum(sub & (copies > 0)) * 1.0
        told = {
            "alignment/dropped": jnp.stack([dropped, jnp.sum(sub) * 1.0]),
            "alignment/repeated": jnp.stack([total - kept, total]),
        }
        whole = jnp.where(mask, copies[:, None], 0).astype(jnp.float32)
        return {"copies": PerTurn(whole)}, told

    return Component(annotate=annotate, fills=("copies",))
