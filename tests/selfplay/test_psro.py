"""PSRO and JPSRO: recorded runs of OpenSpiel round by round, and runs of our own to their end.

jpsro.json.gz: OpenSpiel 2.0.2 `jpsro.py`, seed 0; the policies that joined, by the action played in
each row (-1 where it is uniform), the repeats, and gaps and values to the accuracy of its solvers.
"""

import gzip
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import selfplay
from agentrl.selfplay import psro
from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.games import sequence_form

with gzip.open(pathlib.Path(__file__).parents[1] / "data" / "jpsro.json.gz") as f:
    RUNS = json.load(f)
    RUNS.pop("source")
GAMES = {
    "kuhn2": ("KuhnPoker-v1", {}),
    "kuhn3": ("KuhnPoker-v1", {"players": 3}),
    "trade_comm_2": ("TradeComm-v1", {}),
}
SOLVERS = {"uni": "uniform", "mgce": "mgce", "mgcce": "mgcce"}


def setup(key):
    (name, options), run = GAMES[key.split("|")[0]], RUNS[key]
    arguments = {"equilibrium": run["equilibrium"], "solver": SOLVERS[run["solver"]]}
    return name, options, run, arguments


@pytest.mark.parametrize("key", RUNS)
def test_recorded_rounds(key):
    """Gaps, values and populations of every round; each recorded answer is a best response."""
    name, options, run, arguments = setup(key)
    form = sequence_form(name, **options)
    uniform = sf.uniform(form)
    populations = [psro.Population(form, p) for p in range(form.num_players)]
    for population in populations:
        population.add(uniform)
    now = psro.play_round(form, populations, **arguments)
    for i, repeats in enumerate(run["repeats"]):
        np.testing.assert_allclose(now.gap, run["gap"][i], atol=2e-5)
        joined = {}
        for p, population in enumerate(populations):
            if len(repeats[p]) > len(population.policies):
                actions = np.array(run["actions"][p][len(population.policies) - 1])
                rows = np.flatnonzero(form.player == p)
                joined[p] = uniform.copy()
                joined[p][rows[actions >= 0]] = np.eye(uniform.shape[1])[actions[actions >= 0]]
                shortfall = falls_short(form, populations, now, p, joined[p], run["equilibrium"])
                assert shortfall == pytest.approx(0, abs=1e-6)
        for p, population in enumerate(populations):
            if p in joined:
                population.add(joined[p])
            population.repeats = list(repeats[p])
        now = psro.play_round(form, populations, **arguments)
        np.testing.assert_allclose(now.value, run["value"][i], atol=2e-5)


def falls_short(form, populations, now, player, policy, equilibrium):
    """How much less the policy earns than our answer, to the recommendation it suits best."""
    told = np.moveaxis(now.sigma, player, 0)
    told = told[told.reshape(len(told), -1).sum(1) > 0] if equilibrium == "ce" else [told.sum(0)]
    others = [np.array(q.reach) for q in populations if q.player != player]

    def reach(policy):
        alone = psro.Population(form, player)
        alone.add(policy)
        return alone.reach[0]

    short = []
    for joint, (_, response) in zip(told, now.responses[player], strict=True):
        ends = psro._joint_reach(joint, others) * form.payoff[:, player]
        short.append((reach(response) - reach(policy)) @ ends)
    return min(short)


@pytest.mark.parametrize(
    "key, rounds",
    [("kuhn2|cce|mgcce", 6), ("kuhn2|ce|mgce", 6), ("kuhn2|cce|uni", 5), ("kuhn3|cce|mgcce", 6),
     ("trade_comm_2|cce|mgcce", 9), ("trade_comm_2|ce|mgce", 5)],
)  # fmt: skip
def test_runs_of_our_own_are_the_same_until_a_tie(key, rounds):
    name, options, run, arguments = setup(key)
    result = psro.jpsro(name, rounds - 1, **arguments, **options)
    np.testing.assert_allclose(result.gap, run["gap"][:rounds], atol=2e-5)
    np.testing.assert_allclose(result.value[1:-1], run["value"][: rounds - 2], atol=2e-5)


@pytest.mark.parametrize("arguments", [{}, {"equilibrium": "ce", "solver": "mgce"}])
def test_jpsro_ends_at_an_equilibrium_of_kuhn_poker(arguments):
    result = psro.jpsro("KuhnPoker-v1", 10, **arguments)
    assert result.gap[0].sum() == pytest.approx(11 / 12)
    np.testing.assert_allclose(result.gap[-1], 0, atol=1e-9)
    np.testing.assert_allclose(result.value[-1], [-1 / 18, 1 / 18], atol=1e-9)
    assert tuple(result.size[-1]) == result.sigma.shape == result.payoff.shape[1:]
    assert [len(p) for p in result.policies] == [len(r) for r in result.repeats]


def test_double_oracle_solves_kuhn_poker():
    result = psro.psro("KuhnPoker-v1", 10)
    assert selfplay.nash_conv("KuhnPoker-v1", result.policy) == pytest.approx(0, abs=1e-9)


def test_gaps_of_psro_are_the_nash_conv_of_its_policy():
    for iterations in (0, 3):
        result = psro.psro("LeducPoker-v1", iterations)
        nash_conv = selfplay.nash_conv("LeducPoker-v1", result.policy)
        assert result.gap[-1].sum() == pytest.approx(nash_conv, abs=1e-9)


def fictitious_self_play(name, iterations):
    """(the last average policy, NashConv of the averages before each iteration and at the end):
    x_t+1 = x_t + (BR(x_t) - x_t) / (t + 2) as realisation plans, from the uniform policy."""
    form, trace = sequence_form(name), []

    @jax.jit
    def respond(plans):
        reached = sf.reach(form, plans)
        best = sf.best_responses(form, sf.others(reached))
        gap = jnp.sum(best.value - jnp.prod(reached, axis=1) @ form.payoff)
        return sf.plan(form, best.policy), gap

    with jax.enable_x64(True):
        plans = np.asarray(sf.plan(form, sf.uniform(form)))
        for t in range(iterations + 1):
            response, gap = jax.device_get(respond(plans))
            trace.append(float(gap))
            if t < iterations:
                plans = plans + (response - plans) / (t + 2)
        return np.asarray(sf.behaviour(form, plans)), trace


def test_uniform_psro_is_fictitious_self_play():
    average, trace = fictitious_self_play("KuhnPoker-v1", 12)
    result = psro.psro("KuhnPoker-v1", 12, solver="uniform")
    np.testing.assert_allclose(trace, result.gap.sum(1), atol=1e-12)
    np.testing.assert_allclose(average, result.policy, atol=1e-12)


def test_the_mixture_plays_like_the_populations():
    result = psro.psro("KuhnPoker-v1", 5)
    returns = selfplay.expected_returns("KuhnPoker-v1", result.policy)
    np.testing.assert_allclose(returns, result.value[-1], atol=1e-12)


def test_errors():
    with pytest.raises(ValueError, match="equilibrium='nash': expected 'cce' or 'ce'"):
        psro.jpsro("KuhnPoker-v1", 1, equilibrium="nash")
    with pytest.raises(ValueError, match="no meta-solver"):
        psro.psro("KuhnPoker-v1", 1, solver="best")
