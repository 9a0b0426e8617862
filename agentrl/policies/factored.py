"""An actor that makes several independent choices at once."""

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
    """`mlp` whose action is a tuple of independent choices; the last one's index runs fastest.

    Logits of an action are the sum of those of its parts, so that

        pi(a_1, .., a_P | s) = prod_i softmax(head_i(s))_{a_i}

    exactly: sum(choices) outputs for prod(choices) actions, and each part learns independently of
    the others' choices. Log-probabilities and entropies add up. HCSP's planner has this form, one
    skill for each of three drones: (6, 3, 4) for its 72 joint actions.

    choices: number of options of each part. Other options as for `mlp`.

    Raises:
      ValueError: the product of choices is not the number of actions, or actions are continuous.
    """
    choices = tuple(int(n) for n in choices)
    if continuous or min(choices, default=0) < 1 or int(np.prod(choices)) != num_actions:
        kind = "continuous" if continuous else f"{num_actions}"
        raise ValueError(
            f"policy option choices={choices} with {kind} actions: expected choices "
            "whose product is the number of actions; or use policy 'mlp'"
        )
    first = np.cumsum((0, *choices[:-1]))
    # The output of each part for each action, [P, A].
    parts = np.indices(choices).reshape(len(choices), -1) + first[:, None]
    # As a product with zeros and ones, which is faster on a CPU than a gather.
    spread = np.float32(parts[..., None] == np.arange(sum(choices))).sum(axis=0).T
    options = {"hidden": hidden, "activation": activation, "critic": critic}
    inner = mlp(observation_shape, num_codes, sum(choices), **options)

    def step(params, memory, observation, role=None):
        del role
        logits, value, memory = inner.step(params, memory, observation)
        return logits @ spread, value, memory

    def unroll(params, memory, observation, start, role=None) -> tuple[jax.Array, jax.Array]:
        logits, value = inner.unroll(params, memory, observation, start)
        return logits @ spread, value

    return inner._replace(step=step, unroll=unroll)
