"""Agent-R: where failures are cut and joined to successes, and what of a splice is learnt."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import own_pieces
import pytest
from experiments import lake, train_and_resume
from tiny import talk_config

from agentrl import advantages, losses, rollout
from agentrl.config import section, term
from agentrl.config.build import build
from agentrl.learner.component import Context
from agentrl.methods.agent_r import agent_r, error_turns, revision_rows, splices
from agentrl.methods.by_turn import returns_of
from agentrl.methods.trees import trees
from agentrl.streams import Rows, Streams

GROUPS, SIZE, TURNS = 3, 8, 6


def tree(**fields):
    """One tree of four episodes of at most four turns; NaN where nobody acts.

    0: a b c, solved. 1: a d e f, failed; 2: a d g, solved; 3: h i j k, failed. States by number:
    behind h stands state 7, in which 0 stood before its last turn.
    """
    prefix = np.array([[0, 0, 0, -1], [0, 1, 1, 1], [0, 1, 2, -1], [3, 3, 3, 3]])
    mask = prefix >= 0
    reward = np.where(mask, 0.0, np.nan).astype(np.float32)
    reward[0, 2] = reward[2, 2] = 1.0
    state = np.array([[1, 2, 7, 99], [1, 2, 3, 4], [1, 2, 3, 7], [1, 7, 8, 9]], np.uint32)
    return Streams(
        reward=reward,
        mask=mask,
        group=np.zeros(4, np.int32),
        prefix=prefix,
        anchor=np.stack([state, state], axis=-1),
        judgement=np.where(mask, [[1, 1, 1, -9]] + [[1, 1, -1, -1]] * 2 + [[0, -1, 1, 1]], -9.0),
        **fields,
    )


def test_first_errors_worked_example():
    """Values: root 0.5, a 2/3 and h 0; behind a: b 1, d 0.5; behind d: e 0, g 1."""
    find = functools.partial(error_turns, tree())
    np.testing.assert_array_equal(find("value", 0.1), [4, 1, 1, 0])
    # d is 1/6 worse than its node; e 1/2, h 1/2.
    np.testing.assert_array_equal(find("value", 0.2), [4, 2, 4, 0])
    np.testing.assert_array_equal(find("judgement", 0.1), [4, 2, 2, 1])
    np.testing.assert_array_equal(find("end", 0.1), [1, 2, 1, 2])
    np.testing.assert_array_equal(find("none", 0.1), [-1] * 4)


def found(**options):
    """{(good, bad): (cut, join)} of the usable pairs."""
    got = jax.tree.map(np.asarray, splices(tree(), 4, **options))
    assert got.good.shape == (1, 16)
    return {
        (int(g), int(b)): (int(c), int(j))
        for g, b, c, j, u in zip(*(x[0] for x in got), strict=True)
        if u
    }


def test_cuts_and_joins_worked_example():
    # 2 shares d with the failure 1, and goes on behind it: this splice is 2 itself. 0 and 3 have
    # nothing in common: all of 0 behind h.
    assert found() == {(0, 1): (1, 1), (2, 1): (1, 2), (0, 3): (0, 0), (2, 3): (0, 0)}
    # Behind d there is state 3, in which only 2 stood; behind h state 7, in which 0 stood.
    assert found(joins="state") == {(2, 1): (1, 2), (0, 3): (0, 2)}
    # Five turns do not fit into four: 1 is cut behind its third, 0 has two more from the branch.
    assert found(cut="end") == {(2, 1): (2, 2)}
    assert found(drop=0.2) == {(2, 1): (2, 2), (0, 3): (0, 0), (2, 3): (0, 0)}
    assert found(cut="none") == {(0, 0): (-1, 0), (2, 2): (-1, 0)}
    assert found(least=1.5) == found(margin=1.0) == {}


def test_padding_is_not_read():
    """Nor a state, a judgement or a prefix where nobody acted."""
    one = tree()
    other = one.replace(
        anchor=np.where(one.mask[..., None], one.anchor, np.uint32(7)),
        judgement=np.where(one.mask, one.judgement, -5.0),
        prefix=np.where(one.mask, one.prefix, 0),
        reward=np.where(one.mask, one.reward, 9.0),
    )
    for cut in ("value", "judgement", "end"):
        for joins in ("branch", "state"):
            a, b = (splices(x, 4, cut=cut, joins=joins) for x in (one, other))
            used = np.asarray(a.usable)
            np.testing.assert_array_equal(used, b.usable)
            for x, y in zip(a[:4], b[:4], strict=True):
                np.testing.assert_array_equal(np.asarray(x)[used], np.asarray(y)[used])


def test_rows_worked_example():
    """An observation and a reply per turn; 10 s + p is position p of stream s."""
    turn = jnp.array([[0, 0, 1, 1, 2, 2, -1, -1], [0, 0, 0, 1, 1, -1, -1, -1]])
    replies = jnp.array([[0, 1, 0, 1, 0, 1, 0, 0], [0, 1, 1, 0, 1, 0, 0, 0]], bool)
    rows = Rows(
        tokens=jnp.where(turn >= 0, 10 * jnp.arange(2)[:, None] + jnp.arange(8), -7),
        loss_mask=replies,
        stream=jnp.arange(2),
        turn=turn,
        behaviour_logp=jnp.zeros((2, 8)),
    )
    # Behind turn 0 of stream 1, and its next observation: 0 from its turn 1, and from its turn 2.
    good, bad, cut = jnp.array([0, 0, 0]), jnp.array([1, 1, 0]), jnp.array([0, 0, -1])
    made = revision_rows(rows, good, bad, cut, jnp.array([1, 2, 0]))
    np.testing.assert_array_equal(
        made.tokens, [[10, 11, 12, 13, 3, 4, 5, -7], [10, 11, 12, 13, 5, -7, -7, 0], rows.tokens[0]]
    )
    np.testing.assert_array_equal(
        made.loss_mask, [[0, 0, 0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0, 0], replies[0]]
    )
    np.testing.assert_array_equal(
        made.turn, [[0, 0, 0, 1, 1, 2, 2, -1], [0, 0, 0, 1, 1, -1, -1, -1], turn[0]]
    )
    np.testing.assert_array_equal(made.stream, [0, 1, 2])


def config_of(**options):
    config = talk_config(log_every=1, warm_start__updates=0, policy__constrained=True)
    config.env.update(slippery=False, max_steps_in_episode=TURNS)
    config.rollout = section(
        trees, num_groups=GROUPS, group_size=SIZE, rule="uniform", together=2, anchor="state"
    )
    config.advantage = section(advantages.grpo)
    config.objective.policy.weight = config.objective.kl.weight = 0.0
    config.learner.minibatches = 1
    config.components.agent_r = section(agent_r, **options)
    config.objective.imitation = term(losses.behaviour_cloning, source="agent_r", during="rl")
    return config


@functools.cache
def batches_of(**options):
    """(a first batch's streams and rows, those of the source)."""
    config = config_of(**options)
    config.components.witness = section(own_pieces.witness)
    experiment = build(config)
    setup, state = own_pieces.SETUPS.pop(), jax.jit(experiment.init)(0)

    @jax.jit
    def make(params, key):
        _, *batch, _ = setup.rollout.collect(params, None, jax.random.key(4))
        context = Context(setup, (), params, key)
        source = experiment.components["agent_r"].source
        return batch, source.make(context, {"rollout": batch})[1]

    return jax.device_get(make(state.params, jax.random.key(7)))


@pytest.mark.parametrize("joins", ["branch", "state"])
def test_spliced_rows_are_of_a_failure_and_a_success(joins):
    (streams, rows), made = batches_of(joins=joins, per_group=16)
    pairs = jax.tree.map(np.asarray, splices(streams, SIZE, joins=joins))
    learnt = made.loss_mask.any(axis=1)
    expected = np.minimum(pairs.usable.sum(axis=1), 16)
    np.testing.assert_array_equal(learnt.reshape(GROUPS, -1).sum(axis=1), expected)
    assert learnt.any()
    returns, known = np.asarray(returns_of(streams)), {}
    for g, b, c, j in zip(*(x[pairs.usable] for x in pairs[:4]), strict=True):
        assert returns[g] == 1 and returns[b] == 0
        known[g, b] = (c, j)
    for tokens, mask in zip(made.tokens[learnt], made.loss_mask[learnt], strict=True):
        first = mask.argmax()

        def fits(pair, tokens=tokens, mask=mask, first=first):
            g, b = pair
            c, j = known[pair]
            end = (rows.loss_mask[b] & (rows.turn[b] == c + 1)).argmax()
            begin = (rows.loss_mask[g] & (rows.turn[g] == j)).argmax()
            size = (rows.turn[g] >= 0).sum() - begin
            same = (tokens[:end] == rows.tokens[b][:end]).all() and first == end
            return same and (tokens[end : end + size] == rows.tokens[g][begin:][:size]).all()

        assert any(fits(pair) for pair in known)
    if joins == "state":
        for (g, b), (c, j) in known.items():
            read = [
                rows.tokens[s][(rows.turn[s] == t) & ~rows.loss_mask[s]]
                for s, t in ((g, j), (b, c + 1))
            ]
            # The first observation of a row has the rows' opening in front.
            size = min(map(len, read))
            np.testing.assert_array_equal(read[0][-size:], read[1][-size:])


def test_without_a_cut_it_is_cloning_of_good_episodes():
    (streams, rows), made = batches_of(cut="none", per_group=SIZE)
    good = np.asarray(returns_of(streams)) >= 0.5
    learnt = made.loss_mask.any(axis=1)
    assert good.any() and learnt.sum() == good.sum()

    def sorted_rows(rows, which):
        order = np.lexsort(rows.tokens[which].T)
        return jax.tree.map(lambda x: x[which][order], rows.replace(stream=None))

    own = rows.replace(loss_mask=rows.loss_mask & good[rows.stream][:, None])
    for one, other in zip(
        jax.tree.leaves(sorted_rows(made, learnt)), jax.tree.leaves(sorted_rows(own, good)),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(one, other)


def test_it_learns_resumes_and_is_traced_once(tmp_path):
    config = config_of()
    config.components.good = section(agent_r, cut="none")
    config.objective.cloning = term(losses.behaviour_cloning, source="good", during="rl")
    _, _, metrics = train_and_resume(config, tmp_path)
    assert all(np.isfinite(told["loss/imitation"]) for told in metrics)
    assert any(told.get("agent_r/pairs", 0) > 0 for told in metrics)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"cut": "judgement"}, "nothing judges turns"),
        ({}, {"cut": "first"}, "expected one of"),
        ({}, {"per_group": 65}, "per_group"),
        ({"context": rollout.contexts.window}, {}, "has to be in its row"),
        ({"rollout": rollout.episodes}, {}, "trees of turns"),
    ],
)
def test_refusals(change, options, message):
    config = config_of(**options)
    for name, function in change.items():
        sizes = {"num_groups": 4, "group_size": 4} if name == "rollout" else {}
        config[name] = section(function, **sizes)
    with pytest.raises(ValueError, match=message):
        build(config)


def test_a_policy_over_arrays_needs_memory():
    config = lake()
    config.components.agent_r = section(agent_r, cut="none")
    config.objective.imitation = term(losses.behaviour_cloning, source="agent_r", during="rl")
    with pytest.raises(ValueError, match="has to be in its row"):
        build(config)
