"""Credit as the configs put it together, and what reaches each row."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import advantages, rewards
from agentrl.learner.credit import Recipe, credit_of, group_metrics
from agentrl.learner.function import Function
from agentrl.streams import Rows, Streams, at_positions


def streams():
    rng = np.random.default_rng(0)
    mask = np.arange(5)[None] < rng.integers(1, 6, 8)[:, None]
    return Streams(
        reward=jnp.asarray(np.where(mask, rng.random((8, 5)), 0), jnp.float32),
        mask=jnp.asarray(mask),
        group=jnp.repeat(jnp.arange(2), 4),
        anchor=jnp.asarray(rng.integers(0, 3, (8, 5, 1)).repeat(2, -1), jnp.uint32),
        valid=jnp.asarray(rng.random((8, 5)) < 0.7),
        terminated=jnp.zeros((8, 5), bool),
    )


def named(functions):
    return {one.name: one for one in functions}


def plain(credit):
    """The credit with bare arrays."""
    return credit._replace(advantage=credit.advantage.values)


def make(estimator, reward=(), before=(), after=(), reweighting=(), carried=None, **options):
    """(streams) -> Credit by an estimator with these options."""
    parts = [named(functions) for functions in (before, after, reweighting)]
    recipe = Recipe(Function(estimator, options), named(reward), carried, *parts)
    return lambda streams, **carried: plain(credit_of(recipe, streams, None, carried))


def test_estimator_gets_its_fields_and_options():
    s = streams()
    ours = make(advantages.gigpo, gamma=0.8, normalize="mean")(s)
    plain = advantages.gigpo(s.reward, s.mask, s.group, s.anchor, gamma=0.8, normalize="mean")
    np.testing.assert_allclose(ours.advantage, plain, atol=1e-6)
    assert ours.target is None and bool(ours.keep.all())


def test_penalties_reach_a_turn_alone():
    s = streams()
    reward = [Function(rewards.invalid_action_penalty, {"coefficient": 0.1})]
    ours = make(advantages.grpo, reward, normalize="mean")(s).advantage
    plain = advantages.grpo(s.reward, s.mask, s.group, normalize="mean")
    invalid = s.mask & ~s.valid
    np.testing.assert_allclose(plain - ours, jnp.where(invalid, 0.1, 0.0), atol=1e-6)


def test_a_penalty_of_rae_is_charged_to_the_offending_reply_alone():
    """Two matches of three turns: seat 1 of the first errs in its second turn and loses by it."""
    mask = jnp.array([[1, 1, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0]], bool)
    outcome = jnp.array([0.5, -1.5, 1.0, -1.0])
    last = jnp.arange(3) == jnp.sum(mask, axis=1, keepdims=True) - 1
    s = Streams(
        reward=outcome[:, None] * last,
        mask=mask,
        role=jnp.array([0, 1, 0, 1]),
        task=jnp.zeros(4, jnp.int32),
        # What stands where nobody acted is not read.
        valid=mask & ~jnp.zeros_like(mask).at[1, 1].set(True),
    )
    before = jnp.array([[0.25, -0.5]])
    penalty = Function(rewards.invalid_action_penalty, {"coefficient": 0.2})
    rae = advantages.rae_by_turn
    made = make(rae, [penalty], carried="baseline")(s, baseline=before)
    plain = make(rae, carried="baseline")(s, baseline=before)
    # 0.5 - 0.25, -1.5 + 0.5, 1 - 0.25, -1 + 0.5 on every turn; 0.2 off the one reply.
    expected = np.float32(
        [[0.25, 0.25, 0], [-1, -1.2, 0], [0.75, 0.75, 0.75], [-0.5, -0.5, 0]],
    )
    np.testing.assert_allclose(made.advantage, expected, atol=1e-6)
    np.testing.assert_allclose(
        plain.advantage - made.advantage, jnp.zeros((4, 3)).at[1, 1].set(0.2), atol=1e-6
    )
    np.testing.assert_array_equal(made.carried["baseline"], plain.carried["baseline"])
    assert (np.asarray(made.carried["baseline"]) != np.asarray(before)).all()


def test_step_penalty_is_part_of_the_reward():
    s = streams()
    ours = make(advantages.rloo, [Function(rewards.step_penalty, {"amount": 0.05})])(s).advantage
    np.testing.assert_allclose(
        ours, advantages.rloo(s.reward - 0.05 * s.mask, s.mask, s.group), atol=1e-5
    )


def test_rewards_move_to_the_end_after_the_step_penalty():
    s = streams().replace(role=jnp.arange(8) % 2, task=jnp.zeros(8, jnp.int32))
    at_end, step = (
        Function(rewards.at_end, {"share": 1.0}),
        Function(rewards.step_penalty, {"amount": 0.05}),
    )
    ours = make(advantages.mars, [step, at_end])(s).advantage
    total = jnp.sum(s.reward - 0.05 * s.mask, axis=1, keepdims=True)
    last = jnp.arange(5) == jnp.sum(s.mask, axis=1, keepdims=True) - 1
    plain = advantages.mars(total * last, s.mask, s.task, s.role)
    np.testing.assert_allclose(ours, plain, atol=1e-5)


def test_dynamic_sampling_keeps_groups_with_a_signal():
    s = streams()
    s = s.replace(reward=s.reward.at[:4].set(0.0))
    credit = make(advantages.grpo, after=[Function(advantages.dynamic_sampling, {})])(s)
    np.testing.assert_array_equal(credit.keep, [False] * 4 + [True] * 4)
    shares = group_metrics(s)
    np.testing.assert_allclose(shares["frac_zero_std_groups"], [4, 8])
    spread = np.asarray(s.reward[4:].sum(1)).std(ddof=1)
    np.testing.assert_allclose(shares["group_return_std"], [4 * spread, 8], rtol=1e-5)


def test_a_filter_before_the_statistics_changes_them_and_one_after_does_not():
    s = streams()
    cut = jnp.zeros((8, 5), bool).at[1, 0].set(True)
    s = s.replace(truncated=cut)
    not_truncated = [Function(advantages.not_truncated, {})]
    before = make(advantages.grpo, before=not_truncated)(s)
    after = make(advantages.grpo, after=not_truncated)(s)
    kept = np.arange(8) != 1
    np.testing.assert_array_equal(before.keep, kept)
    np.testing.assert_array_equal(after.keep, kept)
    plain = advantages.grpo(s.reward, s.mask, s.group)
    np.testing.assert_array_equal(after.advantage, plain)
    without = advantages.grpo(s.reward, s.mask & jnp.asarray(kept)[:, None], s.group)
    np.testing.assert_array_equal(before.advantage, without)
    assert not np.asarray(before.advantage)[1].any() and (before.advantage != plain)[0].any()


def sharpened(advantage, valid, *, factor: float):
    """A reweighting: of valid turns alone."""
    return jnp.where(valid, factor * advantage, advantage)


def test_summaries_are_rows_of_one_rollout():
    """SUPO: one reward per rollout, whatever its rows; a cut one counts and is not learnt from."""
    # Rollout 0 succeeds and has 3 rows, 1 fails with one; 2 and 3 are of another task, 3 is cut.
    reward = np.zeros((4, 3), np.float32)
    reward[[0, 2], [2, 0]] = 1.0
    mask = np.array([[True] * 3, [True, False, False], [True, False, False], [True] * 3])
    truncated = np.zeros((4, 3), bool)
    truncated[3, 2] = True
    s = Streams(reward=reward, mask=mask, group=np.array([0, 0, 1, 1]), truncated=truncated)
    credit = make(advantages.grpo, after=[Function(advantages.not_truncated, {})])(s)
    stream = jnp.array([0, 0, 0, 1, 2, 3])
    turn = jnp.array([[0, 0, 1], [1, 2, 2], [2, 2, 2], [0, 0, 0], [0, 0, -1], [0, 1, 2]])
    there = turn >= 0
    rows = Rows(jnp.zeros((6, 3), int), there, stream, turn, jnp.zeros((6, 3)))
    spread = at_positions(credit.advantage, rows)
    np.testing.assert_allclose(spread[:3], np.full((3, 3), 0.7071), atol=1e-4)
    np.testing.assert_allclose(spread[3], np.full(3, -0.7071), atol=1e-4)
    np.testing.assert_allclose(spread[4], [0.7071, 0.7071, 0], atol=1e-4)
    np.testing.assert_array_equal(credit.keep, [True, True, True, False])


def test_reweighting_follows_the_estimator():
    s = streams()
    ours = make(advantages.grpo, reweighting=[Function(sharpened, {"factor": 3.0})])(s).advantage
    plain = advantages.grpo(s.reward, s.mask, s.group)
    np.testing.assert_allclose(ours, plain * np.where(s.valid, 3, 1), rtol=1e-6)


def doubled_carry(reward, mask, baseline):
    """An estimator that carries a number: (advantage, its new value)."""
    return jnp.where(mask, reward - baseline, 0.0), 2 * baseline


def test_roles_of_rows_are_not_those_of_streams():
    """A row per turn, each of a role of its own; the streams have none."""
    s = streams()
    rows = Rows(
        tokens=jnp.zeros((40, 2), jnp.int32),
        loss_mask=jnp.repeat(s.mask.reshape(-1, 1), 2, axis=1),
        stream=jnp.repeat(jnp.arange(8), 5),
        turn=jnp.tile(jnp.arange(5), 8)[:, None].repeat(2, axis=1),
        behaviour_logp=jnp.zeros((40, 2)),
        role=jnp.arange(40),
    )
    scale = named([Function(advantages.live_group_scale, {})])
    recipe = Recipe(Function(advantages.grpo, {}), reweighting=scale)
    ours, alone = (plain(credit_of(recipe, s, r, {})).advantage for r in (rows, None))
    np.testing.assert_array_equal(ours, alone)


def test_an_estimator_of_a_users_own_carries_a_number():
    s = streams()
    ours = make(doubled_carry, carried="baseline")(s, baseline=jnp.float32(0.25))
    np.testing.assert_allclose(ours.advantage, np.where(s.mask, s.reward - 0.25, 0), atol=1e-6)
    assert float(ours.carried["baseline"]) == 0.5


def rows_of(turns):
    """Two rows per stream, streams in falling order; each turn has two positions."""
    count = len(turns)
    stream = np.repeat(np.arange(count), 2)[::-1]
    turn = np.tile(np.repeat(np.arange(3), 2), (2 * count, 1))
    own = np.arange(2 * count)[:, None] % 2 == turn % 2
    return Rows(
        tokens=jnp.zeros((2 * count, 6), jnp.int32),
        loss_mask=jnp.asarray(own & (turn < np.asarray(turns)[stream][:, None])),
        stream=jnp.asarray(stream),
        turn=jnp.asarray(turn),
        behaviour_logp=jnp.zeros((2 * count, 6)),
        role=jnp.asarray(stream % 2),
    )


def per_position(reward, mask, stream, turn, loss_mask):
    """An estimator per position: the reward of the turn, less the mean over all positions."""
    each = jnp.where(loss_mask, reward[stream[:, None], jnp.maximum(turn, 0)], 0.0)
    return jnp.where(loss_mask, each - jnp.sum(each) / jnp.sum(loss_mask), 0.0)


def test_an_estimator_per_position_reads_rows_and_the_others_do_not():
    turns = [3, 2, 1, 3]
    mask = np.arange(3) < np.asarray(turns)[:, None]
    s = Streams(
        reward=jnp.where(mask, jnp.arange(12.0).reshape(4, 3), 0.0),
        mask=jnp.asarray(mask),
        group=jnp.zeros(4, jnp.int32),
        truncated=jnp.zeros((4, 3), bool).at[3, 2].set(True),
    )
    rows = rows_of(turns)
    not_truncated = [Function(advantages.not_truncated, {})]
    recipe = Recipe(Function(per_position, {}), before=named(not_truncated))
    ours = plain(credit_of(recipe, s, rows, {}))
    learnt = np.asarray(rows.loss_mask) & (np.asarray(rows.stream) != 3)[:, None]
    each = np.asarray(s.reward)[np.asarray(rows.stream)[:, None], np.asarray(rows.turn)]
    expected = np.where(learnt, each - each[learnt].mean(), 0)
    np.testing.assert_allclose(ours.advantage, expected, atol=1e-6)
    # Rows have roles and these streams have none: an estimator per turn takes none for its own.
    recipe = Recipe(Function(advantages.grpo, {}))
    ours = plain(credit_of(recipe, s, rows, {}))
    np.testing.assert_array_equal(ours.advantage, advantages.grpo(s.reward, s.mask, s.group))


def test_anchor_sizes_by_hand():
    # One group: anchors a a b | a c -> sizes 3 3 1 3 1: three turns in a group of 3, two alone.
    mask = jnp.array([[True, True, True], [True, True, False]])
    ids = jnp.array([[0, 0, 1], [0, 2, 0]], jnp.uint32)
    s = Streams(
        reward=jnp.zeros((2, 3)),
        mask=mask,
        group=jnp.zeros(2, jnp.int32),
        anchor=jnp.stack([ids, ids], -1),
    )
    out = {k: float(v[0] / v[1]) for k, v in group_metrics(s).items()}
    assert out["anchor_group_size"] == pytest.approx((3 + 3 + 1 + 3 + 1) / 5)
    assert out["frac_singleton_anchor"] == pytest.approx(2 / 5)
    assert out["anchor_size/1"] == pytest.approx(2 / 5)
    assert out["anchor_size/2_3"] == pytest.approx(3 / 5)
    assert sum(v for k, v in out.items() if k.startswith("anchor_size/")) == pytest.approx(1)


def test_dr_mas_gets_one_group_for_all_seats_of_an_episode():
    # As rollouts number them: two tasks, two episodes each, two seats; groups are never per seat.
    s = streams().replace(
        group=jnp.arange(8) // 4,
        role=jnp.arange(8) % 2,
        episode=jnp.arange(8) // 2,
    )
    for statistics in ("agent_turns", "all_turns", "episode_means", "first_turns"):
        ours = make(advantages.dr_mas, statistics=statistics)(s).advantage
        plain = advantages.dr_mas(
            s.reward, s.mask, s.group, s.role, statistics=statistics, episode=s.episode
        )
        np.testing.assert_allclose(ours, plain, atol=1e-6)


def test_each_position_gets_the_advantage_of_its_turn():
    advantage = jnp.arange(6.0).reshape(2, 3) + 1
    rows = Rows(
        tokens=jnp.zeros((2, 4), jnp.int32),
        loss_mask=jnp.ones((2, 4), bool),
        stream=jnp.array([1, 0]),
        turn=jnp.array([[0, 0, -1, 2], [1, -1, 1, -1]]),
        behaviour_logp=jnp.zeros((2, 4)),
    )
    np.testing.assert_array_equal(at_positions(advantage, rows), [[4, 4, 0, 6], [2, 0, 2, 0]])


def test_estimators_of_several_agents_get_their_fields():
    base = streams()
    rng = np.random.default_rng(1)
    s = base.replace(
        role=jnp.arange(8) % 2,
        task=jnp.zeros(8, jnp.int32),
        episode=jnp.arange(8) // 2,
        parent=jnp.where(jnp.arange(8) % 2, jnp.arange(8) - 1, -1),
        cost=jnp.asarray(rng.integers(1, 9, (8, 5)), jnp.float32),
    )

    def credit(estimator, **options):
        return make(estimator, **options)(s).advantage

    arrays = (s.reward, s.mask, s.group)
    # Episodes and costs are passed to those that can use them, though they can do without.
    np.testing.assert_array_equal(
        credit(advantages.dr_mas, statistics="episode_means"),
        advantages.dr_mas(*arrays, s.role, statistics="episode_means", episode=s.episode),
    )
    np.testing.assert_array_equal(
        credit(advantages.mars, count_by="token"),
        advantages.mars(s.reward, s.mask, s.task, s.role, count_by="token", cost=s.cost),
    )
    np.testing.assert_array_equal(credit(advantages.matpo), advantages.matpo(*arrays, s.parent))
    np.testing.assert_array_equal(credit(advantages.m_grpo), advantages.m_grpo(*arrays, s.role))
