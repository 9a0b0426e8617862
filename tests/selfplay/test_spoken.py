"""Language policies as tables: replies have the probabilities of the table, in any context."""

import jax
import numpy as np
import pytest

import envs
from agentrl import advantages, policies, rollout, selfplay
from agentrl.actors.contexts import fold, sliding, summary, whole, window
from agentrl.actors.text_source import text_agent
from agentrl.config import base_config, env_section, section
from agentrl.config.build import build
from agentrl.learner.components import exploitability
from agentrl.rollout.seating import seat_all
from agentrl.rollout.unroll import fresh, unroll
from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.neural import form_of
from agentrl.selfplay.spoken import has_table, make_spoken
from envs.vector import World

SIZES = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 2, "hidden": 32}


def policy_of(name, **options):
    env, params = envs.make(name)
    return policies.transformer(env.view, **SIZES, **options), env, params


CONTEXTS = {
    "turn": window(history=0),
    "window": window(history=1, keep_first=True),
    "whole": whole(),
    "sliding": sliding(history=1),
}


@pytest.mark.parametrize(
    ("name", "constrained"),
    [("turn", True), ("window", True), ("whole", True), ("sliding", True)]
    + [pytest.param("whole", False, marks=pytest.mark.long)],
)
def test_what_was_sampled_has_the_probability_of_the_table(name, constrained):
    """log p of each reply in Kuhn's poker: pi(a | I), times the probability of a command where
    others can be written."""
    hands, context = 512 if constrained else 24576, CONTEXTS[name]
    policy, env, params = policy_of("KuhnPoker-v1", constrained=constrained)
    world, form = World(env, params), form_of(env)
    weights = jax.jit(policy.init)(jax.random.key(1))
    if constrained:
        # Far from uniform; free replies would hardly ever be commands.
        weights = jax.jit(lambda tree: jax.tree.map(lambda x: 5.0 * x, tree))(weights)
    spoken = jax.jit(make_spoken(policy, env, params, context, form))
    table, said = jax.device_get(spoken(weights))
    actor = text_agent(policy, world, context, turns=3).actor(weights)

    def keep(notes, turn):
        state = turn.before.state
        return notes, (state.game.cards[:, 0], state.game.actions, turn, turn.decision.logp)

    @jax.jit
    def play():
        start = fresh(world, jax.random.split(jax.random.key(2), hands))
        seating = seat_all(env, hands)
        keys = jax.random.key(3)
        return unroll(world, [actor], seating, start, keys, length=3, keep=keep).turns

    cards, taken, turn, logp = jax.tree.map(np.asarray, play())
    states = selfplay.infostates("KuhnPoker-v1")
    expected, found = [], []
    for t, b in np.argwhere(turn.acting[:, :, 0] & (turn.action[:, :, 0] >= 0)):
        action, seat = turn.action[t, b, 0], turn.agent[t, b, 0]
        # After an illegal reply the seat has one more turn in its context; a command without EOS
        # is understood, too.
        lawful = turn.outcome.valid[: t + 1, b].all() and turn.decision.record.ended[t, b, 0]
        if lawful:
            history = "".join("pb"[a] for a in taken[t, b] if a >= 0)
            row = states.index(f"{cards[t, b, seat]}{history}")
            expected.append(np.log(table[row, action] * (1.0 if constrained else said[row])))
            found.append(logp[t, b, 0])
    assert len(found) > (1000 if constrained else 40)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    if constrained:
        np.testing.assert_allclose(said, 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "codec", "uniform"),
    [
        ("KuhnPoker-v1", "word", 11 / 24),
        ("KuhnPoker-v1", "byte", 11 / 24),
        ("LeducPoker-v1", "word", 2.3736),
    ],
)
def test_equal_logits_play_uniformly(name, codec, uniform):
    """Constrained to commands that differ in their first token, in both games' closed values."""
    policy, env, params = policy_of(name, constrained=True, codec=codec)
    form = form_of(env)
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    flat = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    spoken = jax.jit(make_spoken(policy, env, params, window(history=0), form))
    table, _ = jax.device_get(spoken(flat))
    np.testing.assert_allclose(sf.nash_conv(form, table) / 2, uniform, atol=1e-4)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-6)
    assert (table[~form.legal] == 0).all()


def test_a_run_reports_it():
    config = base_config()
    config.updates = config.log_every = 2
    config.mesh.data = 1
    config.env = env_section("KuhnPoker-v1")
    config.policy = section(policies.transformer, **SIZES)
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    config.context = section(rollout.contexts.whole)
    config.advantage = section(advantages.rae_by_turn)
    experiment = build(config)
    state = jax.jit(experiment.init)(0)
    ((_, train),) = experiment.phases
    state, metrics = jax.jit(train)(state)
    form = form_of(experiment.env)
    given = (experiment.policy, experiment.env, experiment.env_params, whole(), form)
    table, said = jax.device_get(jax.jit(make_spoken(*given))(state.params))
    exact = selfplay.exploitability("KuhnPoker-v1", np.asarray(table, np.float64))
    np.testing.assert_allclose(metrics["exploitability"][0], exact, atol=1e-5)
    np.testing.assert_allclose(metrics["command_probability"][0], said.mean(), atol=1e-6)


def test_prompts_or_replies_that_are_not_fixed():
    policy, *_ = policy_of("KuhnPoker-v1")
    assert has_table(policy, whole())
    assert not has_table(policy, summary(limit=64, summary_tokens=8))
    assert not has_table(policy, fold())
    for options in ({"grammar": "action"}, {"top_k": 2}, {"min_p": 0.1}):
        assert not has_table(policy_of("KuhnPoker-v1", **options)[0], whole())
    assert has_table(policy_of("KuhnPoker-v1", top_k=0, constrained=True)[0], whole())


def test_a_large_table_is_not_computed(monkeypatch):
    config = base_config()
    config.env = env_section("KuhnPoker-v1")
    config.policy = section(policies.transformer, **SIZES)
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    config.context = section(rollout.contexts.window)
    config.advantage = section(advantages.rae_by_turn)
    assert "exploitability" in build(config).components
    monkeypatch.setattr(exploitability, "_LARGEST", 100)
    assert "exploitability" not in build(config).components


def test_rows_that_are_too_short():
    policy, env, params = policy_of("KuhnPoker-v1")
    with pytest.raises(ValueError, match="one turn takes"):
        make_spoken(policy, env, params, whole(context_tokens=3), form_of(env))
