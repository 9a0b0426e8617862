"""Skill-SD: the loss against enumerated divergences, the teacher against prompts by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded
from by_hand import context as given
from tiny import talk_config

from agentrl import losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.methods.prompted import first_command, with_inserted
from agentrl.methods.skill_distillation import skill_teacher
from agentrl.streams import Rows

DATA = recorded.arrays("turn_credit")


def config_of(**options):
    config = talk_config(updates=8, log_every=1, warm_start__updates=0)
    config.components.skill_teacher = section(skill_teacher, **options)
    config.objective.distillation = term(losses.skill_distillation, weight=0.001)
    config.objective.kl.weight = 0.0
    return config


def test_its_gradient_is_that_of_the_reverse_kl():
    old, teacher = jnp.log(jnp.array([0.5, 0.3, 0.2])), jnp.log(jnp.array([0.2, 0.5, 0.3]))

    def expected(logits):
        values = losses.skill_distillation(jax.nn.log_softmax(logits), old, teacher)
        return jnp.sum(jnp.exp(old) * values), values

    (value, values), gradient = jax.value_and_grad(expected, has_aux=True)(old)
    np.testing.assert_allclose(values, DATA["skillsd_k3_tokens"], atol=2e-5)
    np.testing.assert_allclose(value, DATA["skillsd_kl_exact"], atol=2e-5)
    np.testing.assert_allclose(gradient, DATA["skillsd_grad_iw"], atol=2e-5)
    np.testing.assert_allclose(gradient, DATA["skillsd_grad_reverseKL"], atol=2e-5)
    # k3 alone has the gradient of the forward KL.
    alone = jax.grad(
        lambda logits: jnp.sum(
            jnp.exp(old) * losses.kl(jax.nn.log_softmax(logits), teacher, estimator="k3")[0]
        )
    )(old)
    np.testing.assert_allclose(alone, DATA["skillsd_grad_naive_k3"], atol=2e-5)


def test_the_loss_is_bounded_and_zero_at_the_teacher():
    logp = jnp.array([[-1.0, -0.1, -2.0]])
    assert not jnp.any(losses.skill_distillation(logp, logp - 1, logp))
    near = losses.skill_distillation(logp, logp - 3, logp + 1, largest_ratio=2.0)
    np.testing.assert_allclose(near, jnp.full((1, 3), 2 * (np.e - 2)), rtol=1e-5)
    np.testing.assert_allclose(
        losses.skill_distillation(logp, logp, logp - 1), jnp.full((1, 3), np.exp(-1)), rtol=1e-5
    )


def test_what_is_inserted_is_read_and_not_trained():
    tokens = jnp.array([[1, 2, 3, 4], [5, 6, 7, 0]])
    mask = jnp.array([[False, False, True, True], [False, True, True, False]])
    turn = jnp.array([[0, 0, 0, 0], [1, 1, 1, -1]])
    rows = Rows(tokens, mask, jnp.array([0, 1]), turn, -1.0 * mask)
    skill, count = jnp.array([[20, 21], [30, 31]]), jnp.array([2, 1])
    got = with_inserted(rows, skill, count, 1)
    np.testing.assert_array_equal(got.tokens, [[1, 20, 21, 2, 3, 4], [5, 30, 6, 7, 0, 0]])
    np.testing.assert_array_equal(got.turn, [[0, -1, -1, 0, 0, 0], [1, -1, 1, 1, -1, -1]])
    expected = [[False] * 4 + [True] * 2, [False] * 2 + [True] * 2 + [False] * 2]
    np.testing.assert_array_equal(got.loss_mask, expected)
    nothing = with_inserted(rows, skill, jnp.array([0, 0]), 1)
    np.testing.assert_array_equal(nothing.tokens[:, :4], tokens)


@pytest.mark.parametrize("context", ["whole", "window"])
def test_the_teacher_scores_the_replies_after_the_skill(context):
    config = config_of()
    if context == "window":
        config.context = section(rollout.contexts.window, history=1)
    experiment = build(config)
    none = lambda state, agent, params: jnp.zeros(1, jnp.int32)  # noqa: E731
    config.components.skill_teacher = section(skill_teacher, skill=none)
    without = build(config).components["skill_teacher"].annotate
    policy, env = experiment.policy, experiment.env

    @jax.jit
    def collected(state):
        """The batch, what the teacher says without a skill, and the skills as fragments."""
        batch = experiment.batches(state)["rollout"]
        streams, rows = batch.streams, batch.rows
        command = jax.vmap(lambda s: first_command(env, s, 0, experiment.env_params))
        said = without(given((), state.params), streams, rows)["teacher_logp"].values
        return rows, batch.notes["teacher_logp"].values, said, command(streams.first_state)

    state = jax.jit(experiment.init)(0)
    rows, found, said, command = jax.tree.map(np.asarray, collected(state))
    fragments = np.asarray(policy.codec.fragments)[command]
    at, length = len(policy.codec.before), rows.tokens.shape[1]
    chosen = [r for r in range(0, rows.tokens.shape[0], 7) if rows.loss_mask[r].any()]
    skills = [fragments[rows.stream[row]].reshape(-1) for row in chosen]
    skills = [skill[skill > 0] for skill in skills]
    # Prompts by hand, one beside the other.
    tokens = np.zeros((len(chosen), length + max(map(len, skills))), np.int32)
    mask = np.zeros(tokens.shape, bool)
    for place, (row, skill) in enumerate(zip(chosen, skills, strict=True)):
        written = [*rows.tokens[row, :at], *skill, *rows.tokens[row, at:]]
        tokens[place, : len(written)] = written
        mask[place, at + len(skill) : len(written)] = rows.loss_mask[row, at:]
    zero = np.zeros(tokens.shape, np.int32)
    asked = Rows(tokens, mask, zero[:, 0], zero, 0.0 * tokens)
    logp = np.asarray(jax.jit(policy.score)(state.params, asked, mask).logp)
    assert skills and all(map(len, skills))
    for place, (row, skill) in enumerate(zip(chosen, skills, strict=True)):
        here = rows.loss_mask[row]
        expected = logp[place, len(skill) :][:length][here]
        np.testing.assert_allclose(found[row][here], expected, atol=1e-5)
    # Without a skill the teacher is the policy.
    mask = rows.loss_mask
    np.testing.assert_allclose(said[mask], rows.behaviour_logp[mask], atol=1e-4)
