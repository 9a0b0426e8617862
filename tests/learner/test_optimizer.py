"""Optimizers of entries: the adapters of one transformer, each role's with numbers of its own."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.learner.optimizer import Optimizer, adapters_of_roles, optimizer

OPTIONS = {"learning_rate": 0.1, "max_grad_norm": 0.5}
PARAMS = {
    "lora": {"q_proj": {"a": jnp.ones((2, 3, 4, 2)), "b": jnp.zeros((2, 3, 2, 4))}},
    "value_head": {"kernel": jnp.ones((4, 1))},
}


def gradients(scale):
    """Of role k those of role 0 times scale[k], different at every place."""
    rng = np.random.default_rng(0)

    def one(x):
        drawn = rng.normal(size=x.shape).astype(np.float32)
        return drawn * np.reshape(scale, (1, 3, 1, 1)) if x.ndim == 4 else drawn

    return jax.tree.map(one, PARAMS)


def moved(entries, grads, steps=2):
    transform = Optimizer(10, OPTIONS, entries, roles=3).transform()
    params, state = PARAMS, transform.init(PARAMS)
    for _ in range(steps):
        updates, state = jax.jit(transform.update)(grads, state, params)
        params = jax.tree.map(jnp.add, params, updates)
    return params


def test_a_roles_adapter_learns_as_if_it_were_alone():
    entries = {"lora_1": {"learning_rate": 0.02, "max_grad_norm": 0.1}}
    grads = gradients((1.0, 5.0, 0.0))
    out = moved(entries, grads)
    alone = {"learning_rate": 0.02, "max_grad_norm": 0.1}
    plain = optimizer(10, **alone)
    params = jax.tree.map(lambda x: x[:, 1], PARAMS["lora"])
    own, state = jax.tree.map(lambda x: x[:, 1], grads["lora"]), plain.init(params)
    for _ in range(2):
        updates, state = jax.jit(plain.update)(own, state, params)
        params = jax.tree.map(jnp.add, params, updates)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x[:, 1], y, rtol=1e-6), out["lora"], params
    )
    # A role without a gradient stays, exactly; one that is not named has the common optimizer.
    jax.tree.map(
        lambda x, y: np.testing.assert_array_equal(x[:, 2], y[:, 2]), out["lora"], PARAMS["lora"]
    )
    assert float(jnp.abs(out["lora"]["q_proj"]["a"][:, 0] - 1).mean()) > 0.1


def test_what_others_do_does_not_reach_an_adapter_of_its_own():
    """Not through the norm that gradients are clipped to, either."""
    entries = {name: {} for name in adapters_of_roles(3)}
    small, large = (
        moved(entries, gradients((1.0, 1.0, 1.0))),
        moved(entries, gradients((1.0, 1e3, 0.0))),
    )
    jax.tree.map(
        lambda x, y: np.testing.assert_array_equal(x[:, 0], y[:, 0]), small["lora"], large["lora"]
    )
    shared = [moved({"value_head": {}}, gradients((1.0, x, 0.0)), 1) for x in (1.0, 1e6)]
    first, second = (x["lora"]["q_proj"]["a"][:, 0] for x in shared)
    assert float(jnp.abs(first - second).max()) > 1e-5


def test_entries_learn_by_turns_and_the_other_one_stays_as_it_is():
    """Periods of two steps; Adam's moments, which go on, move nothing that is not to learn."""
    options = {"learning_rate": 0.1, "max_grad_norm": 1e9}
    entries = {name: {"schedule": name, "period": 2} for name in ("even", "odd")}
    transform = Optimizer(8, options, entries).transform()
    params = {"even": jnp.ones(2), "odd": jnp.ones(2)}
    state = transform.init(params)
    update = jax.jit(transform.update)
    for step in range(8):
        updates, state = update(params, state, params)
        moved = {name for name, update in updates.items() if np.any(update != 0)}
        assert moved == {"odd" if step // 2 % 2 else "even"}
