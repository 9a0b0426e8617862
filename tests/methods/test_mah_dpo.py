"""MAH-DPO: pairs by objective, each scored by its own head, in words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments import lake, program_of, states_and_resume
from tiny import changed, talk_config

from agentrl import losses
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.pairs import pairs

OBJECTIVES = {"by_return": {"by": "return", "head": 0}, "by_turns": {"by": "turns", "head": 1}}


def config_of(objectives=OBJECTIVES, heads=2, weights=(), **changes):
    """DPO of each objective, on parameters that a run would give."""
    config = talk_config(warm_start__updates=0, objective__kl__weight=0.0, policy__constrained=True)
    config.policy.update(output_heads=heads, head_weights=weights)
    config.init_from = "somewhere"
    config.log_every, config.learner.minibatches = 1, 1
    config.env.max_steps_in_episode = 6
    config.objective.policy.weight = 0.0
    config.optimizer.learning_rate = 0.01
    for name, options in objectives.items():
        config.components[name] = section(pairs, **options)
        config.objective[name] = term(losses.dpo, source=name)
    return changed(config, changes)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    experiment = build(config_of())
    states, metrics = states_and_resume(
        program_of(experiment), experiment, tmp_path_factory.mktemp("heads"), 2
    )
    batches = jax.device_get(jax.jit(experiment.batches)(states[0]))
    return experiment, states, metrics, batches


def test_pairs_are_of_their_objective_and_head(trained):
    *_, batches = trained
    for number, name in enumerate(OBJECTIVES):
        streams, rows = batches[name].streams, batches[name].rows
        assert (rows.output_head == number).all()
        learnt = rows.loss_mask.any(axis=1)
        better = np.where(streams.mask, streams.reward, 0).sum(axis=1)
        if name == "by_turns":
            better = -streams.mask.sum(axis=1)
        chosen, other = better[0::2], better[1::2]
        np.testing.assert_array_equal(learnt[0::2], chosen > other)
        assert learnt.any()
    assert batches["rollout"].rows.output_head is None


def test_each_head_begins_at_its_reference_and_learns_its_own(trained):
    experiment, states, metrics, batches = trained
    for name in OBJECTIVES:
        np.testing.assert_allclose(metrics[0][f"loss/{name}"], np.log(2), rtol=1e-5)
    # What is sampled is scored alike.
    assert abs(metrics[0].get("kl/rollout_train", 0.0)) < 1e-5
    before, after = (state.params for state in states[:2])
    jax.tree.map(np.testing.assert_array_equal, before["embed_tokens"], after["embed_tokens"])
    assert list(states[0].carry["reference"]) == ["layers", "norm", "output_heads"]
    score = jax.jit(lambda params, rows: experiment.policy.score(params, rows).logp)
    for name in OBJECTIVES:
        rows = jax.tree.map(jnp.asarray, batches[name].rows)
        loss = losses.dpo(score(after, rows), score(before, rows), rows.loss_mask)
        learnt = np.asarray(rows.loss_mask).any(axis=1)[0::2]
        assert np.asarray(loss)[learnt].mean() < np.log(2)


def test_padding_is_not_read(trained):
    experiment, states, _, batches = trained
    rows = jax.tree.map(jnp.asarray, batches["by_turns"].rows)
    loss = jax.jit(
        lambda rows: losses.dpo(
            experiment.policy.score(states[1].params, rows).logp,
            rows.behaviour_logp,
            rows.loss_mask,
        )
    )
    last = jnp.max(jnp.where(rows.loss_mask, jnp.arange(rows.tokens.shape[1]), -1), axis=1)
    beyond = jnp.arange(rows.tokens.shape[1]) > last[:, None]
    poisoned = rows.replace(
        tokens=jnp.where(beyond, 1, rows.tokens),
        behaviour_logp=jnp.where(rows.loss_mask, rows.behaviour_logp, jnp.nan),
        output_head=jnp.where(beyond, 0, rows.output_head),
    )
    np.testing.assert_array_equal(loss(rows), loss(poisoned))


def test_one_head_is_dpo():
    """The same pairs, and the same loss and step as by the mixture of one."""
    found = []
    for head in (0, None):
        experiment = build(config_of({"pairs": {"head": head}}, heads=1))
        state, told = jax.jit(experiment.phases[-1][1])(jax.jit(experiment.init)(0))
        found.append((state.params, told["loss/pairs"]))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), *found)


def test_heads_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match=r"pairs.head=2: expected 0 to 1"):
        build(config_of({"pairs": {"head": 2}}))
    config = config_of()
    config.init_from = ""
    with pytest.raises(ValueError, match="output_heads=2 without config.init_from: heads"):
        build(config)
    config = lake()
    config.components.pairs = section(pairs, by="cost")
    config.objective.dpo = term(losses.dpo, source="pairs")
    with pytest.raises(ValueError, match="by='cost': this rollout counts none"):
        build(config)
