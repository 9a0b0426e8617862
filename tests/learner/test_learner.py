"""The numbers of a learner: which there are, and others in their place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages, losses, rewards
from agentrl.learner.credit import Recipe
from agentrl.learner.function import Function
from agentrl.learner.learner import Learner
from agentrl.learner.objective import Term
from agentrl.learner.optimizer import Optimizer, UpdateOptions

LEARNER = Learner(
    Recipe(
        Function(advantages.gigpo, {"gamma": 0.9, "normalize": "std"}),
        reward={"step": Function(rewards.step_penalty, {"amount": 0.1})},
        before={"short": Function(advantages.dynamic_sampling, {})},
        reweighting={"tail": Function(advantages.uncertain_turns, {"share": 0.5})},
    ),
    {
        "policy": Term(Function(losses.clipped_surrogate, {"clip_low": 0.2, "dual_clip": None})),
        "entropy": Term(Function(losses.negative_entropy, {}), weight=0.1, final_weight=0.01),
    },
    UpdateOptions(epochs=2, max_kl=0.5),
    Optimizer(10, {"learning_rate": 0.5}, {"critic": {"learning_rate": 0.25}}),
)


def test_numbers_are_the_real_ones_at_their_paths_in_the_config():
    assert LEARNER.numbers == {
        "reward.step.amount": 0.1,
        "advantage.gamma": 0.9,
        "reweighting.tail.share": 0.5,
        "objective.policy.weight": 1.0,
        "objective.policy.clip_low": 0.2,
        "objective.entropy.weight": 0.1,
        "objective.entropy.final_weight": 0.01,
        "learner.max_kl": 0.5,
        "optimizer.learning_rate": 0.5,
        "optimizers.critic.learning_rate": 0.25,
    }


@pytest.mark.parametrize("path", LEARNER.numbers)
def test_one_number_changes_alone(path):
    changed = LEARNER.at(path, 7.0)
    assert changed.numbers == LEARNER.numbers | {path: 7.0}
    assert changed.at(path, LEARNER.numbers[path]) == LEARNER
    # Terms are summed, and rewards change, in the config's order.
    assert list(changed.terms) == list(LEARNER.terms)


def test_what_is_not_there():
    with pytest.raises(KeyError, match="learner.epochs"):
        LEARNER.at("learner.epochs", 3)


def test_traced_numbers_are_numbers():
    @jax.jit
    def weight(start, final):
        learner = LEARNER.at("objective.entropy.weight", start)
        learner = learner.at("objective.entropy.final_weight", final)
        return learner.terms["entropy"].weight_at(jnp.float32(0.5))

    np.testing.assert_allclose(weight(0.4, 0.1), 0.2, rtol=1e-6)
