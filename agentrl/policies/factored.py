"""An actor that chooses for several at once, each choice drawn by itself."""

from collections.abc import Sequence

import jax
import numpy as np

from agentrl.policies.actor_critic import Policy, mlp


def factored(
    observation_shape: tuple[int, ...],
    num_codes: int | None,
    num_actions: int,
    continuous: bool = False,
    *,
    choices: Sequence[int] = (),
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    critic: str = "separate",
) -> Policy:
    """`mlp` whose action is one choice for each of several, the last one's number the fastest.

    Logits of an action are the sum of those of its parts, so that

        pi(a_1, .., a_P | s) = prod_i softmax(head_i(s))_{a_i}

    exactly: sum(choices) outputs for prod(choices) actions, and what is learnt of one part holds
    whatever the others choose. Log-probabilities and entropies add up. As of HCSP's planner, which
    chooses a skill for each of three drones: (6, 3, 4) for its 72 joint actions.

    choices: how many each part has. Other options as of `mlp`.

    Raises:
      ValueError: choices whose product is not the number of actions; continuous actions.
    """
    choices = tuple(int(n) for n in choices)
    if continuous or min(choices, default=0) < 1 or int(np.prod(choices)) != num_actions:
        kind = "continuous" if continuous else f"{num_actions}"
        raise ValueError(
            f"policy option choices={choices} with {kind} actions: expected numbers of choices "
            "whose product is the number of actions; or use policy 'mlp'"
        )
    first = np.cumsum((0, *choices[:-1]))
    # The output of each part in each action, [P, A].
    parts = np.indices(choices).reshape(len(choices), -1) + first[:, None]
    # As a product with zeros and ones, which on a CPU is faster than to gather.
    spread = np.float32(parts[..., None] == np.arange(sum(choices))).sum(axis=0).T
    options = {"hidden": hidden, "activation": activation, "critic": critic}
    inner = mlp(observation_shape, num_codes, sum(choices), **options)

    def step(params, memory, observation):
        logits, value, memory = inner.step(params, memory, observation)
        return logits @ spread, value, memory

    def unroll(params, memory, observation, start) -> tuple[jax.Array, jax.Array]:
        logits, value = inner.unroll(params, memory, observation, start)
        return logits @ spread, value

    return inner._replace(step=step, unroll=unroll)
