"""Configs: what is wrong is said before anything compiles, with the nearest valid name."""

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
import tiny

from agentrl import advantages, losses, policies, rewards, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.config.build import build

WRONG = {
    "unknown key": (
        lambda c: c.advantage.__setitem__("gama", 0.9),
        r"config.advantage.gama is not an option of 'gigpo' \(did you mean 'gamma'\?\)",
    ),
    "unknown top key": (
        lambda c: c.__setitem__("updatez", 3),
        r"config.updatez is not used by anything \(did you mean 'updates'\?\)",
    ),
    "key of another estimator": (
        lambda c: c.advantage.__setitem__("lam", 0.9),
        "config.advantage.lam is not an option of 'gigpo'",
    ),
    "unknown estimator": (
        lambda c: c.advantage.__setitem__("name", "gigp"),
        r"config.advantage.name='gigp' does not exist \(did you mean 'gigpo'\?\)",
    ),
    "unknown environment": (
        lambda c: c.env.__setitem__("name", "FrozenLak-v1"),
        r"environment 'FrozenLak-v1' does not exist \(did you mean 'FrozenLake-v1'\?\)",
    ),
    "unknown environment option": (
        lambda c: c.env.__setitem__("sise", 3),
        r"environment 'FrozenLake-v1' has no option 'sise' \(did you mean 'size'\?\)",
    ),
    "critic that nothing trains": (
        lambda c: c.policy.__setitem__("critic", "shared"),
        "config.policy.critic='shared', but advantage 'gigpo' does not use a critic",
    ),
    "estimator without its critic": (
        lambda c: setattr(c, "advantage", section(advantages.gae, gamma=0.9, lam=0.9)),
        "config.advantage.name='gae' needs 'value'.*config.policy.critic",
    ),
    "groups from segments": (
        lambda c: setattr(c, "rollout", section(rollout.segments)),
        "needs 'group'.*config.rollout.name='episodes'",
    ),
    "critic that no term trains": (
        lambda c: (
            c.policy.__setitem__("critic", "shared"),
            setattr(c, "advantage", section(advantages.gae, gamma=0.9, lam=0.9)),
        ),
        "config.policy.critic='shared' is not trained: set config.objective.value.weight",
    ),
    "value loss without a critic": (
        lambda c: c.objective.value.__setitem__("weight", 0.5),
        r"config.objective.value \(value_loss\) reads 'target', .*config.policy.critic",
    ),
    "value clip without a critic": (
        lambda c: setattr(c.objective, "value", term(losses.clipped_value_loss, clip=0.2)),
        r"config.objective.value \(clipped_value_loss\) reads 'old_value', .*config.policy.critic",
    ),
    "entropy that goes to nothing by a factor": (
        lambda c: c.objective.entropy.update(weight=0.1, final_weight=0.0),
        "config.objective.entropy.final_weight=0.0 with weight=0.1.*above 0",
    ),
    "unknown loss": (
        lambda c: c.objective.policy.__setitem__("name", "agentrl.losses.clipped_surogate"),
        r"config.objective.policy.name='agentrl.losses.clipped_surogate' does not exist "
        r"\(did you mean 'clipped_surrogate'\?\)",
    ),
    "unknown key of a term": (
        lambda c: c.objective.policy.__setitem__("weigth", 2.0),
        r"config.objective.policy.weigth is not an option of 'clipped_surrogate' "
        r"\(did you mean 'weight'\?\)",
    ),
    "unknown part of the run": (
        lambda c: c.objective.policy.__setitem__("during", "warmup"),
        "config.objective.policy.during='warmup'.*expected one of 'rl', 'warm_start', 'both'",
    ),
    "unknown source": (
        lambda c: c.objective.policy.__setitem__("source", "buffer"),
        "config.objective.policy.source='buffer': expected 'rollout', 'expert' or a component",
    ),
    "nothing to learn from": (
        lambda c: c.objective.policy.__setitem__("weight", 0.0),
        r"config.objective has no term for the updates 0 to 8 \(during='rl'\)",
    ),
    "a term that reads what nothing fills": (
        lambda c: setattr(c.objective, "listening", term(losses.listening_loss)),
        r"config.objective.listening \(listening_loss\) reads 'answer_logits', which nothing fills "
        "here; it needs a policy that can be asked",
    ),
    "a misspelt array of a term": (
        lambda c: c.objective.__setattr__("mine", term(own_pieces.misspelt)),
        r"config.objective.mine \(misspelt\) reads 'old_logpp' \(did you mean 'old_logp'\?\)",
    ),
    "a misspelt array of an estimator": (
        lambda c: c.__setattr__("advantage", section(own_pieces.misspelt_estimator)),
        r"needs 'rewards' \(did you mean 'reward'\?\)",
    ),
    "an annotation that is missing": (
        lambda c: setattr(c.objective, "bc", term(losses.corrected_behaviour_cloning)),
        r"config.objective.bc .* reads 'correct', which nothing fills here; it needs an "
        "annotation .*or a component",
    ),
    "filter that acts at no time": (
        lambda c: c.filters.__setitem__("dynamic_sampling", {"when": "later"}),
        "config.filters.dynamic_sampling.when='later': expected 'before' or 'after'",
    ),
    "unknown filter": (
        lambda c: c.filters.__setitem__("dynamic_samplng", {}),
        r"config.filters.dynamic_samplng.name='dynamic_samplng' does not exist "
        r"\(did you mean 'dynamic_sampling'\?\)",
    ),
    "roles of one agent": (
        lambda c: setattr(c, "advantage", section(advantages.matpo)),
        "config.advantage.name='matpo' needs 'parent', .*such as PlannedHousehold-v1",
    ),
    "unknown component": (
        lambda c: c.components.__setitem__("importanc", {"cap": 2.0}),
        "config.components.importanc.name='agentrl.learner.components.importanc.* does not exist",
    ),
    "component of a name that is taken": (
        lambda c: c.components.__setitem__("guard", {"name": "x.y"}),
        "config.components.guard: the run has a component of that name already",
    ),
    "options of a component that nothing asks for": (
        lambda c: c.reference.__setitem__("every", 3),
        "config.reference.every=3 is not used by anything: add a term that reads the reference",
    ),
    "options of an expert that no term reads": (
        lambda c: c.expert.__setitem__("noise", 0.3),
        "config.expert.noise=0.3 is not used by anything: set config.warm_start.updates, or add a "
        "term with source='expert', or leave it at 0.0",
    ),
    "a step penalty for a team": (
        lambda c: (
            setattr(c, "env", env_section("Foraging-v1", size=5, max_steps_in_episode=4)),
            c.policy.__setitem__("critic", "shared"),
            c.objective.value.__setitem__("weight", 0.5),
            setattr(c, "advantage", section(advantages.marft_by_turn)),
            c.reward.__setitem__("step_penalty", {"amount": 0.1}),
        ),
        "config.advantage.name='marft_by_turn' assumes 'team' of its streams, and reward term "
        "'step_penalty' takes that away. All .*use a penalty",
    ),
    "a rollout of episodes in segments": (
        lambda c: (
            setattr(c, "rollout", section(rollout.segments)),
            setattr(c, "advantage", section(advantages.reinforce_pp)),
        ),
        "config.advantage.name='reinforce_pp' assumes 'whole_episodes'.*collect whole episodes",
    ),
    "minibatches that do not divide": (
        lambda c: c.learner.__setitem__("minibatches", 7),
        "config.learner.minibatches=7 does not divide",
    ),
    "logging that does not divide": (
        lambda c: c.__setitem__("log_every", 3),
        "config.updates=8 is not a multiple of config.log_every=3",
    ),
    "aggregation": (
        lambda c: c.learner.__setitem__("aggregation", "tokenmean"),
        r"config.learner.aggregation='tokenmean' \(did you mean 'token_mean'\?\)",
    ),
    "cnn on features": (
        lambda c: (
            setattr(c, "policy", section(policies.cnn, critic="none")),
            setattr(c, "env", env_section("Coin-v1")),
        ),
        "policy 'cnn' needs a grid observation",
    ),
    "horizon beyond the limit": (
        lambda c: c.rollout.__setitem__("max_turns", 99),
        "rollout max_turns=99: expected 1 to the environment's own limit 6",
    ),
    "unknown reward term": (
        lambda c: c.reward.__setitem__("invalid_penalty", {"coefficient": 0.1}),
        r"config.reward.invalid_penalty.name='invalid_penalty' does not exist",
    ),
}

# Values, by their paths, that no option can have.
BEYOND = "expected an integer from -2147483647 to 2147483647"
VALUES = [
    ("seed", -1, "config.seed=-1: expected at least 0 and at most 2147483647"),
    ("seed", 2**32, f"config.seed=4294967296: {BEYOND}"),
    ("seed", 10**30, f"config.seed=10*: {BEYOND}"),
    ("updates", 10**30, f"config.updates=10*: {BEYOND}"),
    ("num_seeds", 10**8, "32 streams of 6 turns for config.num_seeds=100000000 are .* in a batch"),
    ("rollout__num_groups", 999999999999, f"config.rollout.num_groups=9*: {BEYOND}"),
    (
        "rollout__num_groups",
        10**9,
        "6 turns .* lower config.rollout.num_groups or config.num_seeds",
    ),
    ("evaluation__episodes", 0, "config.evaluation.episodes=0: expected at least 1"),
    ("evaluation__episodes", -4, "config.evaluation.episodes=-4: expected at least 1"),
    ("checkpoint__keep", 0, "config.checkpoint.keep=0: expected at least 1"),
    ("checkpoint__keep", -3, "config.checkpoint.keep=-3: expected at least 1"),
    ("policy__hidden", (0,), r"policy hidden=\(0,\): expected sizes of at least 1"),
    ("policy__hidden", (8, -3), r"policy hidden=\(8, -3\): expected sizes of at least 1"),
    (
        "policy__hidden",
        ("a",),
        r"config.policy.hidden=\('a',\): expected tuple\[int, ...\]",
    ),
    (
        "policy__hidden",
        64,
        r"hidden=64: expected tuple\[int, ...\], such as \(64, 64\)",
    ),
    ("policy__activation", 5, "config.policy.activation=5: expected str, such as 'tanh'"),
    ("env__name", "../../etc/passwd", "'../../etc/passwd' does not exist: expected a name"),
    ("env__name", 5, "config.env.name=5: expected the name of an environment"),
    ("env__slippery", float("nan"), "config.env.slippery=nan: expected a number"),
    ("advantage", {"name": 5}, "config.advantage.name=5: expected the name of a function"),
    (
        "advantage__name",
        "../../x",
        "name='../../x': expected the name of a function",
    ),
    ("advantage__step_weight", float("nan"), "config.advantage.step_weight=nan: expected a number"),
    (
        "objective__policy__weight",
        float("nan"),
        "objective.policy.weight=nan: expected",
    ),
    ("optimizer__learning_rate", -1.0, "config.optimizer.learning_rate=-1.0: expected at least 0"),
    ("optimizer__learning_rate", float("nan"), "optimizer.learning_rate=nan: expected a number"),
    ("optimizer__learning_rate", float("inf"), "learning_rate=inf: .*, and a finite number"),
    ("optimizer__max_grad_norm", 0.0, "config.optimizer.max_grad_norm=0.0: expected more than 0"),
    ("optimizer__b1", 1.0, "config.optimizer.b1=1.0: expected at least 0 and less than 1"),
    ("optimizers", {"Dense_0": {"eps": -1.0}}, "config.optimizers.Dense_0.eps=-1.0: expected at"),
    (
        "warm_start__learning_rate",
        -1.0,
        "config.warm_start.learning_rate=-1.0: expected at",
    ),
    (
        "per_seed",
        {"optimizer": {"learning_rate": (-1.0,)}},
        "seed.optimizer.learning_rate=-1.0",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), VALUES)
def test_a_value_that_no_option_can_have_is_an_error(path, value, message):
    config = tiny.groups_config()
    config.unlock()
    with config.ignore_type():
        tiny.changed(config, {path: value})
    with pytest.raises(ValueError, match=message):
        build(config)


@pytest.mark.parametrize(("option", "value"), [("hidden", 0), ("memory_size", -1)])
def test_sizes_of_other_networks_are_checked_too(option, value):
    config = tiny.segments_config()
    config.policy[option] = (value,) if option == "hidden" else value
    with pytest.raises(ValueError, match=f"policy {option}=.*expected .*at least 1"):
        build(config)


def test_what_is_large_or_has_no_end_is_no_error():
    config = tiny.groups_config(env_steps=10**12, seed=2**31 - 1, optimizer__learning_rate=0.0)
    config.optimizer.max_grad_norm = float("inf")
    build(config)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_config_is_an_error_that_names_the_remedy(name):
    change, message = WRONG[name]
    config = tiny.groups_config()
    config = config.copy_and_resolve_references()
    config.unlock()
    change(config)
    with pytest.raises(ValueError, match=message):
        build(config)


def test_base_config_names_an_environment_or_says_so():
    with pytest.raises(ValueError, match="environment '' does not exist"):
        build(base_config())


def test_terms_of_replies_work_in_segments():
    config = tiny.segments_config(log_every=1, policy=tiny.talk_config().policy)
    config.policy.critic = "shared"
    config.context = section(rollout.contexts.window, history=0)
    config.reward.format_penalty = section(rewards.format_penalty, coefficient=0.5)
    config.reward.length_penalty = section(rewards.length_penalty, limit=4.0, buffer=4.0)
    experiment = build(config)
    batch = jax.jit(experiment.batches)(jax.jit(experiment.init)(0))["rollout"]
    streams = batch.streams
    charged = rewards.format_penalty(streams.well_formed, streams.mask, coefficient=0.5)
    charged += rewards.length_penalty(streams.cost, streams.mask, limit=4.0, buffer=4.0)
    assert float(jnp.max(charged)) > 0
    expected = advantages.gae(
        streams.reward - charged, streams.value, streams.mask, streams.terminated,
        streams.bootstrap, truncated=streams.truncated, gamma=0.99, lam=0.95,
    )  # fmt: skip
    np.testing.assert_allclose(batch.credit.advantage.values, expected, atol=1e-5)


def test_a_warm_start_that_is_switched_off_keeps_its_options():
    config = tiny.groups_config()
    config.warm_start.update(updates=0, learning_rate=3e-3)
    config.expert.update(episodes=8)
    assert "expert" not in build(config).components
    config.objective.guidance = term(losses.behaviour_cloning, source="expert", weight=0.1)
    assert "expert" in build(config).components
