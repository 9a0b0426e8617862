"""DRAFT-RL: the worked numbers, who is selected, a reward model that learns, whose turns count."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentrl import advantages, policies, rewards, rollout
from agentrl.config import base_config, env_section, section, term
from agentrl.config.build import build
from agentrl.learner.train_step import keys_of
from agentrl.losses import behaviour_cloning
from agentrl.methods.drafts import (
    DraftScore,
    by_agent,
    draft_features,
    draft_reward,
    draft_select,
    drafts,
    pairs_in_order,
    twins,
)
from agentrl.methods.networks import descended


def test_reward_of_a_draft_and_advantages_of_an_agent():
    """Two drafts of three and two turns; values .1, .2, .3 and 0, -.1; terminal GAE."""
    reward = [
        draft_reward(jnp.array(right), jnp.array(grades), jnp.array(valid))
        for right, grades, valid in ((True, [0.8, 0.6], True), (False, [0.9], False))
    ]
    np.testing.assert_allclose(reward, [1.18, -0.94], rtol=1e-6)
    mask = jnp.array([[True, True, True], [True, True, False]])
    last = jnp.array([[0, 0, 1], [0, 1, 0]])
    value = jnp.array([[0.1, 0.2, 0.3], [0.0, -0.1, 0.0]])
    raw = advantages.gae(
        last * jnp.stack(reward)[:, None], value, mask, last > 0, 0.0, gamma=1.0, lam=1.0
    )
    np.testing.assert_allclose(raw, [[1.08, 0.98, 0.88], [-0.94, -0.84, 0.0]], rtol=1e-6)
    # Of one agent; with roles of their own each has its own mean and deviation.
    told = by_agent(raw, mask * 1.0, jnp.zeros(2, jnp.int32))
    expected = [[0.922909, 0.814075, 0.705242], [-1.275530, -1.166696, 0.0]]
    np.testing.assert_allclose(told, expected, rtol=1e-5)
    own = np.asarray(by_agent(raw, mask * 1.0, jnp.arange(2)))
    np.testing.assert_allclose(own[0], np.array([1, 0, -1]) * np.sqrt(1.5), atol=1e-5)
    same = by_agent(jnp.full((2, 3), 0.5), mask * 1.0, jnp.zeros(2, jnp.int32))
    np.testing.assert_allclose(same, 0.5 * mask)


def test_selection_is_by_eligibility_and_then_by_score():
    score = jnp.array([[[0.1, 0.9], [0.3, 0.2]]] * 3)
    eligible = jnp.array([
        [[True, False], [True, True]],
        [[False, False], [False, False]],
        [[False, False], [False, True]],
    ])  # fmt: skip
    best, own = draft_select(score, eligible)
    assert best.tolist() == [2, 1, 3]
    # An agent without an eligible draft, and one that is not selected, have a best one, too.
    assert own.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_features_of_drafts_and_their_twins():
    notes = jnp.array([[[1, 3], [3, -1]], [[-1, -1], [0, 2]]])
    answer = jnp.array([[3, 3], [1, -1]])
    grade = jnp.array([[[1.0], [0.5]], [[0.0], [0.0]]])
    told = np.asarray(draft_features(notes, answer, grade, 4))
    assert told.shape == (2, 2, 6 + 8)
    # Notes 1 and 3 and answer 3, against note 3 and answer 3: two of three in common.
    np.testing.assert_allclose(told[0, 0, :6], [1.0, 0.0, 1.0, 0.0, 1.0, 1 / 3], rtol=1e-6)
    assert told[1, :, 2].tolist() == [0.0, 0.0]  # no note, no answer
    np.testing.assert_allclose(told[1, :, 5], 1.0)
    right = answer == 3
    other = np.asarray(twins(jax.random.key(0), answer, right, jnp.int32(3), 4))
    assert ((other == 3) == ~np.asarray(right)).all()


def test_reward_model_learns_what_peers_know():
    """Grades that are right in four of five cases; with twins, which have the same grades, too."""
    rng = np.random.default_rng(0)
    count, numbers = 512, 6
    solution = rng.integers(numbers, size=(count, 1))
    right = rng.random((count, 1)) < 0.5
    answer = np.where(right, solution, (solution + 1) % numbers)
    known = right ^ (rng.random((count, 1)) < 0.2)
    notes = jnp.asarray(np.stack([answer, answer], axis=-1))[:, :, :1]
    grade = jnp.asarray(known[..., None] * 1.0)
    other = twins(jax.random.key(1), jnp.asarray(answer), right, jnp.asarray(solution), numbers)
    shown = jnp.stack([draft_features(notes, jnp.asarray(x), grade, numbers) for x in
                       (answer, other)])  # fmt: skip
    label, network = jnp.stack([right, ~right]) * 1.0, DraftScore()
    adamw = optax.adamw(3e-3)
    first = network.init(jax.random.key(0), shown)

    def loss(params):
        return jnp.mean(optax.sigmoid_binary_cross_entropy(network.apply(params, shown), label))

    def auc(params):
        over, pairs = pairs_in_order(
            network.apply(params, shown[0])[:, 0], jnp.asarray(right[:, 0])
        )
        return float(over / pairs)

    params, _, losses = jax.jit(lambda p: descended(loss, adamw, p, adamw.init(p), 300))(first)
    assert losses[-1] < losses[0] and auc(params) > max(0.75, auc(first))


def small(**options):
    config = base_config()
    config.updates, config.log_every = 2, 1
    config.env = env_section("Drafts-v1", agents=2, steps=2, numbers=4)
    config.policy = section(policies.mlp, hidden=(8,), critic="shared")
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1, mask_illegal=True)
    config.advantage = section(advantages.gae, gamma=1.0, lam=1.0)
    config.components.drafts = section(drafts, **options)
    config.reward.winner = section(rewards.winner_reward)
    config.filters.winner = section(advantages.winner_turns)
    config.reweighting.by_agent = section(by_agent)
    config.objective.value.weight = 0.1
    config.objective.teacher = term(behaviour_cloning, weight=0.5, source="drafts")
    return config


def test_only_the_best_draft_of_each_agent_is_learnt_from():
    made = build(small())
    batch = jax.device_get(jax.jit(made.batches)(jax.jit(made.init)(0)))
    streams, credit = batch["rollout"].streams, batch["rollout"].credit
    notes = batch["rollout"].notes
    turns = notes["winner_turns"].values > 0
    assert (turns.sum(axis=1) >= 1).all() and (turns.sum(axis=1) <= 3).all()
    np.testing.assert_array_equal(credit.turns & streams.mask, turns)
    assert not credit.advantage.values[~turns].any()
    assert ((notes["winner_reward"].values != 0).sum(axis=1) == 1).all()
    for role in (0, 1):
        mine = credit.advantage.values[(streams.role == role)[:, None] & turns]
        np.testing.assert_allclose([mine.mean(), mine.std()], [0, 1], atol=1e-5)
    # Teachers are right; every agent has a copy.
    rows = batch["drafts"].rows
    assert rows.loss_mask.any() and len(rows.tokens) == 8 * 2 * 3
    one, other = np.split(rows.loss_mask, 2)
    np.testing.assert_array_equal(one, other)
    ((env, _),) = [(task.env, 0) for task in made.tasks.values()]
    answers = rows.tokens.reshape(2, 8, 3)[0]
    learnt = rows.loss_mask.reshape(2, 8, 3)[0]
    first = jax.tree.map(lambda x: x[::2], streams.first_state)
    for n in np.flatnonzero(learnt.any(axis=1)):
        state = jax.tree.map(lambda x, n=n: x[n], first)
        said = env.action_names[answers[n][learnt[n]][-1]]
        assert said == f"answer {int(env.solution(state))}"


def test_replies_in_words_are_read_as_the_game_reads_them():
    config = small()
    sizes = {"width": 16, "layers": 1, "heads": 2, "kv_heads": 2, "hidden": 16}
    config.policy = section(policies.transformer, critic="shared", constrained=True, **sizes)
    config.rollout = section(rollout.episodes, num_groups=8, group_size=1)
    config.context = section(rollout.contexts.window, history=0)
    made = build(config)
    state = jax.jit(made.init)(0)
    batch = jax.device_get(jax.jit(made.batches)(state))
    states = jax.jit(made.rollout.states)(state.params, state.rollout, keys_of(state)[1])
    numbers, answers = (np.asarray(x[-1]) for x in (states.numbers, states.answers))
    _, right = batch["rollout"].notes["draft_examples"].values
    np.testing.assert_array_equal(right[0], answers == numbers.max(axis=1)[:, None, None])
    assert right[0].any() and batch["drafts"].rows.loss_mask.any()


def test_options_that_do_not_fit():
    config = small()
    config.env = env_section("CheckedSum-v1")
    with pytest.raises(ValueError, match="Drafts-v1"):
        build(config)
