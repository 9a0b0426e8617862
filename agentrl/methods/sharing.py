"""Learning to Share: what an entry of a memory that parallel teams share was worth."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp

from agentrl.checks import check_choice, check_range
from agentrl.learner.component import Component, Setup
from agentrl.learner.required import required
from agentrl.methods.turn_actions import turn_actions
from agentrl.streams import PerTurn

Credit = Literal["usage", "absence"]


def bank_credit(
    setup: Setup, *, credit: Credit = "usage", bonus: float = 0.5, cost: float = 0.1
) -> Component:
    """Supplies `turn_reward` f32[N, T] for estimator `hrpo`: what it was worth to admit a result.

      "usage":    u_t = bonus 1[z_t = 1, t in U, R > 0] - cost z_t
      "absence":  u_t = bonus z_t (R - R without entry t) - cost z_t

    with z_t = 1 where the result of turn t was admitted, U the entries that another team recalled,
    and R the outcome of all teams. Usage asks whether an entry was read and the teams did not all
    fail, absence what the same teams with the same luck would have reached without it: an entry
    that misled its readers is used, and its absence would have been better.

    For environments with `results` and `bank_facts(state, admitted, params)`, such as
    SharedBank-v1, over arrays and in words.

    Metrics (Opponents, buffers, tasks):
      bank/admitted: Admitted results [share]; of all results of all teams.
      bank/used: Recalled entries [share]; of the entries, by another team.
      bank/gain: Gain by an entry [reward]; outcome less that without the entry, mean over entries.
      bank/misled: Harmful recalls [share]; of the recalled entries, without which better.

    Args:
      credit: see above.
      bonus, cost: at least 0.

    Raises:
      ValueError: an option outside its range, another environment or rollout.

    References:
      Learning to Share (2026), from a note that summarises its equations, which were not read. Of
      the note: teams in parallel, keys that all read, values that are fetched, yes or no after
      every step, normalisation over several trajectories of a question, the loss. Reconstructed:
      "usage", R + u_t with a term for sparsity; bonus and cost. There R + u_t is normalised as one
      number; `hrpo` normalises R over the group and centres u apart. "absence" is ours, the
      difference reward of Wolpert and Tumer (2001), https://arxiv.org/abs/cs/9905005.
    """
    path = "config.components.bank_credit"
    check_choice(f"{path}.credit", credit, get_args(Credit))
    check_range(f"{path}.bonus", bonus, 0.0)
    check_range(f"{path}.cost", cost, 0.0)
    env, env_params = required(
        setup, "bank_credit", None, "bank_facts", "results", example="SharedBank-v1",
        one_environment=True, in_graph=True, whole_episodes=True,
    )  # fmt: skip
    acted = turn_actions(setup, "bank_credit")

    def annotate(context, streams, rows):
        mask = streams.mask
        admitted = mask & (acted(streams, rows)[..., 0] == 1)
        # Results behind a limit on turns are not in the bank.
        bank = jnp.pad(admitted, ((0, 0), (0, env.results - mask.shape[1])))
        of_task = jax.vmap(env.bank_facts, in_axes=(0, 0, None))
        used, gain, outcome = of_task(streams.first_state, bank, env_params)
        used, gain = (x[:, : mask.shape[1]] for x in (used, gain))
        used, gain = used & admitted, jnp.where(admitted, gain, 0.0)
        worth = used & (outcome > 0)[:, None] if credit == "usage" else gain
        metrics = {
            "bank/admitted": _share(admitted, mask),
            "bank/used": _share(used, admitted),
            "bank/gain": _share(gain, admitted),
            "bank/misled": _share(used & (gain < 0), used),
        }
        return {"turn_reward": PerTurn(bonus * worth - cost * admitted)}, metrics

    return Component(annotate=annotate, fills=("turn_reward",))


def _share(values: jax.Array, among: jax.Array) -> jax.Array:
    return jnp.stack([jnp.sum(values * 1.0), jnp.sum(among * 1.0)])
