"""Meta-solvers: reference answers, optimality conditions, invariances, errors.

normal_form.npz, exact/*: solutions of the quadratic programs to rounding, computed independently;
openspiel/*: answers of OpenSpiel 2.0.2, which are accurate to about 5e-5.
"""

import pathlib

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.selfplay import correlated, meta

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "data" / "normal_form.npz")
EXACT = sorted({k.split("/")[1] for k in VECTORS.files if k.startswith("exact/")})
OPENSPIEL = sorted({int(k.split("/")[1]) for k in VECTORS.files if k.startswith("openspiel/")})
CONSTRAINTS = {"mgce": correlated.ce_constraints, "mgcce": correlated.cce_constraints}
RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def ones(payoff):
    return tuple(np.ones(k, int) for k in payoff.shape[1:])


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("solver", CONSTRAINTS)
def test_exact_maximum_gini(name, solver):
    sigma = meta.solver(solver)(VECTORS[f"exact/{name}/payoff"])
    np.testing.assert_allclose(sigma, VECTORS[f"exact/{name}/{solver}"], atol=1e-12)


@pytest.mark.parametrize("case", OPENSPIEL)
def test_openspiel_answers(case):
    payoff, name = VECTORS[f"openspiel/{case}/payoff"], str(VECTORS[f"openspiel/{case}/solver"])
    counts = VECTORS[f"openspiel/{case}/repeats"]
    repeats = np.split(counts, np.cumsum(payoff.shape[1:])[:-1])
    options = {"epsilon": "min"} if name.startswith("min_epsilon") else {}
    sigma = meta.solver(name.removeprefix("min_epsilon_"))(payoff, repeats=repeats, **options)
    np.testing.assert_allclose(sigma, VECTORS[f"openspiel/{case}/sigma"], atol=6e-5)


def games():
    """Small games, many of them degenerate: integer payoffs, ties, common interest."""
    shape = st.lists(st.integers(1, 4), min_size=1, max_size=3)

    def draw(shape, seed, kind):
        rng = np.random.default_rng(seed)
        size = (len(shape), *shape)
        normal = rng.normal(size=size)
        return {
            "normal": normal,
            "integer": rng.integers(-1, 2, size=size).astype(float),
            "scaled": np.round(normal, 1) * 10 ** rng.uniform(-3, 4),
            "common": np.repeat(normal[:1], len(shape), 0),
        }[kind]

    kinds = st.sampled_from(["normal", "integer", "scaled", "common"])
    return st.builds(draw, shape, st.integers(0, 2**31), kinds)


@pytest.mark.parametrize("solver", CONSTRAINTS)
@settings(max_examples=60, deadline=None)
@given(payoff=games(), seed=st.integers(0, 2**31))
def test_optimality_conditions(solver, payoff, seed):
    """sigma = w max(mu - (gain - epsilon)' alpha, 0) with alpha >= 0 only on tight constraints."""
    rng = np.random.default_rng(seed)
    repeats = tuple(rng.integers(1, 4, size=k) for k in payoff.shape[1:])
    constraints = CONSTRAINTS[solver](payoff, repeats)
    weight = meta._outer([r.astype(float) for r in repeats]).reshape(-1)
    epsilon = float(rng.choice([0.0, 0.1]) * np.abs(payoff).max())
    sigma, alpha = correlated.max_gini(constraints, weight, epsilon)
    scale = max(np.abs(payoff).max(), 1e-30)
    slack = epsilon * constraints.copies - constraints.gain @ sigma
    assert sigma.sum() == pytest.approx(1, abs=1e-12) and sigma.min() >= 0
    assert slack.min(initial=0) > -1e-10 * scale
    assert np.all(alpha >= 0) and np.abs(alpha * slack).max(initial=0) < 1e-9
    cone = constraints.gain - epsilon * constraints.copies[:, None]
    left = sigma / weight + cone.T @ alpha
    mu = left[sigma > 1e-9]
    np.testing.assert_allclose(mu, mu[0], atol=1e-7)
    assert left.min() >= mu[0] - 1e-7


@pytest.mark.parametrize("solver", CONSTRAINTS)
@settings(max_examples=25, deadline=None)
@given(payoff=games(), seed=st.integers(0, 2**31))
def test_invariances(solver, payoff, seed):
    rng = np.random.default_rng(seed)
    solve = meta.solver(solver)
    sigma = solve(payoff)
    # A player's payoffs may be scaled, and shifted by what it has no influence on.
    changed = payoff * rng.uniform(0.5, 2, size=len(payoff)).reshape(-1, *[1] * (payoff.ndim - 1))
    for p in range(len(payoff)):
        shape = [1 if q == p else k for q, k in enumerate(payoff.shape[1:])]
        changed[p] += rng.normal(size=shape) * np.abs(payoff).max()
    np.testing.assert_allclose(solve(changed), sigma, atol=1e-6)
    orders = [rng.permutation(k) for k in payoff.shape[1:]]
    permuted = payoff[np.ix_(range(len(payoff)), *orders)]
    np.testing.assert_allclose(solve(permuted), sigma[np.ix_(*orders)], atol=1e-9)


@pytest.mark.parametrize("solver", [*CONSTRAINTS, "uniform", "prd"])
def test_repeats_are_equal_members_added_up(solver):
    rng = np.random.default_rng(3)
    payoff, repeats = rng.normal(size=(2, 3, 2)), ([2, 1, 3], [1, 2])
    options = {"iterations": 1000} if solver == "prd" else {}
    expanded = np.repeat(np.repeat(payoff, repeats[0], 1), repeats[1], 2)
    whole = meta.solver(solver)(expanded, **options)
    whole = np.add.reduceat(np.add.reduceat(whole, [0, 2, 3], 0), [0, 1], 1)
    sigma = meta.solver(solver)(payoff, repeats=repeats, **options)
    np.testing.assert_allclose(sigma, whole, atol=1e-10)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("solver", CONSTRAINTS)
def test_a_large_epsilon_is_uniform(name, solver):
    payoff = VECTORS[f"exact/{name}/payoff"]
    gains = CONSTRAINTS[solver](payoff, ones(payoff)).gain.mean(1)
    enough = max(gains.max(), 0)
    sigma = meta.solver(solver)(payoff, epsilon=enough + 1e-9)
    np.testing.assert_allclose(sigma, 1 / sigma.size, atol=1e-7)
    if enough > 0:
        assert np.ptp(meta.solver(solver)(payoff, epsilon=0.9 * enough)) > 1e-4


@pytest.mark.parametrize("solver", CONSTRAINTS)
def test_the_least_epsilon_is_where_equilibria_end(solver):
    payoff = VECTORS["exact/chicken/payoff"]
    least = correlated.smallest_epsilon(CONSTRAINTS[solver](payoff, ones(payoff)))
    assert least < 0
    meta.solver(solver)(payoff, epsilon=least + 1e-6)
    with pytest.raises(ValueError, match="the smallest is"):
        meta.solver(solver)(payoff, epsilon=least - 1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_nash_by_duality(seed):
    """What seat 0 secures and what seat 1 concedes are one number, and no deviation gains."""
    game = np.random.default_rng(seed).normal(size=(5, 7))
    sigma = meta.nash(np.stack([game, 3.0 - game]))
    x, y = sigma.sum(1), sigma.sum(0)
    np.testing.assert_allclose(np.outer(x, y), sigma, atol=1e-12)
    value = x @ game @ y
    assert (x @ game).min() == pytest.approx(value, abs=1e-9)
    assert (game @ y).max() == pytest.approx(value, abs=1e-9)


def test_rock_paper_scissors():
    payoff = np.stack([RPS, -RPS])
    for solver in meta.SOLVERS.values():
        np.testing.assert_allclose(solver(payoff), 1 / 9, atol=1e-12)


def test_prd_finds_the_nash_equilibrium_of_biased_rock_paper_scissors():
    payoff = VECTORS["exact/biased_rps/payoff"]
    sigma = meta.prd(payoff)
    gain = max(
        (payoff[0] @ sigma.sum(0)).max() - (payoff[0] * sigma).sum(),
        (payoff[1].T @ sigma.sum(1)).max() - (payoff[1] * sigma).sum(),
    )
    assert gain < 0.05 * np.abs(payoff).max()


def test_errors():
    with pytest.raises(ValueError, match=r"shape \(2, 3\): expected \[N, K_1"):
        meta.mgce(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="not finite"):
        meta.uniform(np.full((2, 1, 1), np.nan))
    with pytest.raises(ValueError, match="one count of at least 1"):
        meta.mgcce(np.zeros((2, 3, 3)), repeats=([1, 1], [1, 1, 1]))
    with pytest.raises(ValueError, match="nash: 3 players"):
        meta.nash(np.zeros((3, 1, 1, 1)))
    with pytest.raises(ValueError, match="expected a constant-sum game"):
        meta.nash(np.stack([RPS, RPS]))
    with pytest.raises(ValueError, match="epsilon='max'"):
        meta.mgcce(np.stack([RPS, -RPS]), epsilon="max")
    with pytest.raises(ValueError, match="at most 1 in all"):
        meta.prd(np.stack([RPS, -RPS]), floor=0.5)
    with pytest.raises(ValueError, match="no meta-solver 'alpharank'"):
        meta.solver("alpharank")


def test_linear_program_agrees_that_no_smaller_sum_of_squares_is_feasible():
    """The Gini equilibrium's own gradient, minimised over the polytope, ends at itself."""
    payoff = VECTORS["exact/random_6_5x5/payoff"]
    for name, constraints_of in CONSTRAINTS.items():
        sigma = meta.solver(name)(payoff).reshape(-1)
        constraints = constraints_of(payoff, ones(payoff))
        result = scipy.optimize.linprog(
            sigma,
            A_ub=constraints.gain,
            b_ub=np.zeros(len(constraints.gain)),
            A_eq=np.ones((1, 25)),
            b_eq=[1.0],
        )
        assert result.fun == pytest.approx(sigma @ sigma, abs=1e-9)
