"""The optimiser of a config."""

import optax


def optimizer(
    total_steps: int,
    *,
    learning_rate: float = 2.5e-4,
    schedule: str = "constant",
    max_grad_norm: float = 0.5,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-5,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """AdamW on gradients clipped to a global norm.

    schedule: "constant", or "linear" to 0 over `total_steps` gradient steps.
    """
    if schedule not in ("constant", "linear"):
        raise ValueError(
            f"config.optimizer.schedule={schedule!r}: expected one of 'constant', 'linear'"
        )
    rate = learning_rate
    if schedule == "linear":
        rate = optax.linear_schedule(learning_rate, 0.0, total_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        optax.adamw(rate, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay),
    )
