"""The pool of frozen opponents: who joins, who goes, who is drawn, and what is counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from agentrl.config.build import build
from agentrl.learner.component import InitInputs, Setup, UpdateResult
from agentrl.learner.components import opponent_pool as pools
from agentrl.learner.state import TrainState
from agentrl.learner.train_step import carried
from agentrl.rollout.seating import Slots
from agentrl.selfplay import pfsp
from agentrl.streams import Streams


class Played:
    """What the pool reads of a rollout: 8 matches of 2 seats, 4 slots."""

    slots = Slots(blocks=1, members=4, width=2)
    agents = 2


class Env:
    """What the pool reads of an environment."""

    def __init__(self, cooperative):
        self.cooperative = cooperative


def pool_of(cooperative=False, **options):
    """The component."""
    setup = Setup(
        envs={"game": (Env(cooperative), None)},
        policy=None,
        rollout=Played,
        seed=0,
        num_seeds=1,
        updates=(0, 100),
        log_every=1,
        microbatch=None,
    )
    return pools.opponent_pool(setup, **{"capacity": 3, "every": 2, **options})


def outcome_of(params, who, streams, update, finite=True):
    """An update by which the parameters became these, against these members."""
    before = TrainState(None, None, None, None, jnp.int32(update), {})
    return UpdateResult(
        before=before,
        params=params,
        trained=params,
        streams=streams,
        rows=None,
        credit=None,
        inputs={"drawn": who},
        notes={},
        finite=jnp.bool_(finite),
    )


def filled(games, score, since):
    """A pool whose members are the numbers 0, 1, 2."""
    record = pfsp.Record(jnp.array([games], jnp.float32), jnp.array([score], jnp.float32))
    # Each beats the next one, in a circle; 0 beats 1 by twice as much.
    between = jnp.array([[0.5, 0.9, 0.3], [0.1, 0.5, 0.7], [0.7, 0.3, 0.5]])
    return pools.OpponentPool({"w": jnp.arange(3.0)}, jnp.array(since, jnp.int32), record, between)


def drawn(component, pool, draws=400):
    keys = jax.random.split(jax.random.key(0), draws)
    inputs = jax.vmap(lambda key: component.before(pool, None, key).arrays)(keys)
    # The opponents are the members that were drawn.
    np.testing.assert_array_equal(inputs["opponents"]["w"], inputs["drawn"])
    return np.asarray(inputs["drawn"])


@pytest.mark.parametrize(
    ("options", "since", "chance"),
    [
        ({"draw": "latest"}, [4, 6, 2], [0, 1, 0]),
        ({"draw": "uniform"}, [4, 6, 2], [1 / 3, 1 / 3, 1 / 3]),
        ({"draw": "uniform"}, [0, 2, -1], [1 / 2, 1 / 2, 0]),
        # Win rates 1/5, 3/5 and 1/2, the last one never met: (16, 4, 6.25) / 25.
        ({}, [4, 6, 2], [16 / 26.25, 4 / 26.25, 6.25 / 26.25]),
        ({"weighting": "linear"}, [4, 6, -1], [4 / 6, 2 / 6, 0]),
        # Nine tenths by the equilibrium (1/4, 1/4, 1/2), or all of them for the stronger of two.
        ({"draw": "nash"}, [4, 6, 2], [0.1 / 3 + 0.9 / 4, 0.1 / 3 + 0.9 / 4, 0.1 / 3 + 0.9 / 2]),
        ({"draw": "nash"}, [4, 6, -1], [0.05 + 0.9, 0.05, 0]),
    ],
)
def test_members_are_drawn_by_the_rule(options, since, chance):
    who = drawn(pool_of(**options), filled([10, 5, 0], [2, 3, 0], since))
    assert who.shape == (400, 4) and who.dtype == np.int32
    share = np.stack([(who == m).mean(axis=1) for m in range(3)])
    # Of four slots each member has its share, but for less than one slot, in every draw.
    assert (abs(share - np.array(chance)[:, None]) < 1 / 4).all()
    np.testing.assert_allclose(share.mean(axis=1), chance, atol=0.03)


def streams_of(returns, played=None):
    """8 matches in which the policy, in seat i % 2, earns `returns` at its second turn."""
    returns = np.asarray(returns, np.float32)
    own = np.arange(8) * 2 + np.arange(8) % 2
    reward, mask = np.zeros((16, 3), np.float32), np.zeros((16, 3), bool)
    mask[own, :2] = True if played is None else np.asarray(played)[:, None]
    reward[own, 1] = returns
    # What stands outside of the mask is never read.
    reward[:, 2] = 7
    return Streams(
        reward=jnp.asarray(reward),
        mask=jnp.asarray(mask),
        success=jnp.asarray(mask),
        task=jnp.zeros(16, jnp.int32),
    )


def test_results_are_counted_for_the_member_that_was_met():
    """Slots (0, 1), (2, 3), ...: the first two meet member 1, the third 0, the fourth none."""
    component = pool_of(every=100)
    pool = filled([0, 0, 0], [0, 0, 0], [0, 2, 4])
    who = jnp.array([1, 1, 0, 2], jnp.int32)
    streams = streams_of([1, 2, 0, -1, -3, 0.5, 9, 9], [1, 1, 1, 1, 1, 1, 0, 0])
    outcome = outcome_of({"w": jnp.float32(9)}, who, streams, 5)
    after, metrics = component.after(pool, outcome)
    d = 0.99
    games = [1 + d, 1 + d + d**2 + d**3, 0]
    # Won, won, drawn, lost; lost, won.
    score = [1, 0.5 * d + d**2 + d**3, 0]
    np.testing.assert_allclose(after.record.games[0], games, rtol=1e-6)
    np.testing.assert_allclose(after.record.score[0], score, rtol=1e-6)
    np.testing.assert_array_equal(after.members["w"], pool.members["w"])
    assert float(metrics["pool_size"][0]) == 3
    assert float(metrics["pool_age"][0]) == np.mean([3, 3, 5, 1])
    together, _ = pool_of(every=100, cooperative=True).after(pool, outcome)
    np.testing.assert_allclose(together.record.score, together.record.games)


def test_the_oldest_member_goes():
    components = {"pool": pool_of()}
    start = InitInputs({"w": jnp.float32(0)}, jax.random.key(0), jnp.int32(0), jnp.int32(0))
    pool = components["pool"].init(start)
    who, streams = jnp.zeros(4, jnp.int32), streams_of(np.ones(8))
    seen = []
    for update in range(8):
        # An update that was rejected changes nothing.
        rejected = outcome_of({"w": jnp.float32(jnp.nan)}, who, streams, update, finite=False)
        kept, _ = carried(components, {"pool": pool}, rejected)
        jax.tree.map(np.testing.assert_array_equal, kept["pool"], pool)
        outcome = outcome_of({"w": jnp.float32(update + 1)}, who, streams, update)
        pool = carried(components, {"pool": pool}, outcome)[0]["pool"]
        seen.append(
            [float(w) for w, s in zip(pool.members["w"], pool.since, strict=True) if s >= 0]
        )
        np.testing.assert_array_equal(
            pool.since >= 0, [True] * len(seen[-1]) + [False] * (3 - len(seen[-1]))
        )
    assert seen == [[0], [0, 2], [0, 2], [0, 2, 4], [0, 2, 4], [6, 2, 4], [6, 2, 4], [6, 8, 4]]
    # Nobody has met the newcomer.
    assert float(pool.record.games[0, 1]) == 0 and float(pool.record.games[0, 0]) > 0
    # The member of update 8, second place, won all its matches against that of 6 in the first; the
    # others have not met since these joined.
    np.testing.assert_allclose(pool.between, [[0.5, 0, 0.5], [1, 0.5, 0.5], [0.5, 0.5, 0.5]])


def test_members_are_earlier_parameters_and_never_change():
    config = tiny.matches_config(log_every=1)
    experiment = build(config)
    train = jax.jit(tiny.train_of(experiment))
    state = jax.jit(experiment.init)(0)
    history = {0: state.params}
    for update in range(1, 9):
        state, metrics = train(state)
        history[update] = state.params
        pool = state.carry["pool"]
        for place, since in enumerate(np.asarray(pool.since)):
            if since >= 0:
                member = jax.tree.map(lambda x, p=place: x[p], pool.members)
                jax.tree.map(np.testing.assert_array_equal, member, history[since])
        assert float(metrics["pool_size"][0]) == min(3, 1 + (update - 1) // 2)
        assert 0 <= float(metrics["pool_age"][0]) < 8
    assert sorted(np.asarray(pool.since)) == [4, 6, 8]
    # Of each match the policy has one seat; the member in the other one is not learnt from.
    streams = jax.jit(experiment.batches)(state)["rollout"].streams
    assert not np.asarray(streams.mask)[1::4].any()


def test_training_begins_with_what_the_warm_start_taught():
    experiment = build(tiny.matches_config())
    state = jax.jit(experiment.init)(0)
    taught = state.replace(params=jax.tree.map(lambda x: x + 1, state.params), update=jnp.int32(4))
    begun = jax.jit(experiment.restart)(taught).carry["pool"]
    jax.tree.map(lambda m, p: np.testing.assert_array_equal(m[0], p), begun.members, taught.params)
    np.testing.assert_array_equal(begun.since, [4, -1, -1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rollout__opponent": "self", "rollout__members": None},
            "config.pool.capacity=3 is not used by anything: set config.rollout.opponent='pool'",
        ),
        ({"pool__capacity": 0}, "config.pool.capacity=0 with config.rollout.opponent='pool'"),
        ({"pool__every": 0}, "config.pool.every=0 with"),
        ({"pool__draw": "newest"}, "expected one of 'latest', 'uniform', 'prioritised'"),
        ({"pool__weighting": "soft"}, "expected one of 'linear', 'hard', 'variance'"),
        ({"rollout__members": 3}, "expected a multiple of members"),
    ],
)
def test_what_does_not_fit_is_said(changes, message):
    with pytest.raises(ValueError, match=message):
        build(tiny.matches_config(**changes))
