"""Meta-solvers: from a payoff tensor to a joint distribution over the players' strategies.

payoff f64[N, K_1, ..., K_N] is the payoff of each of N players for every combination of strategies;
a solver returns sigma f64[K_1, ..., K_N]. `repeats`, counts i32[K_p] per player, is the
multiplicity of each strategy in the population: a solution is then a distribution over the whole
population, with equal members added up.

Lanctot et al. (2017), https://arxiv.org/abs/1711.00832; Marris et al. (2021),
https://arxiv.org/abs/2106.09435. Read and executed: OpenSpiel 2.0.2.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from agentrl.selfplay import correlated

Repeats = Sequence[Sequence[int]] | None


def _checked(payoff, repeats: Repeats) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    payoff = np.asarray(payoff, np.float64)
    if payoff.ndim < 2 or payoff.shape[0] != payoff.ndim - 1 or payoff.size == 0:
        raise ValueError(
            f"payoff of shape {payoff.shape}: expected [N, K_1, ..., K_N], one tensor per "
            "player with one axis per player's strategies"
        )
    if not np.all(np.isfinite(payoff)):
        raise ValueError("payoff has entries that are not finite; play the missing pairs first")
    if repeats is None:
        return payoff, tuple(np.ones(k, int) for k in payoff.shape[1:])
    counts = tuple(np.asarray(r, int) for r in repeats)
    if tuple(len(r) for r in counts) != payoff.shape[1:] or any(np.any(r < 1) for r in counts):
        raise ValueError(
            f"repeats={repeats}: expected for each player one count of at least 1 per strategy, "
            f"{payoff.shape[1:]} of them"
        )
    return payoff, counts


def _outer(marginals: Sequence[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.multiply.outer, marginals)


def uniform(payoff: np.ndarray, *, repeats: Repeats = None) -> np.ndarray:
    """All members of the populations with equal probability, independently: fictitious play's
    average."""
    _, counts = _checked(payoff, repeats)
    return _outer([r / r.sum() for r in counts])


def nash(payoff: np.ndarray, *, repeats: Repeats = None) -> np.ndarray:
    """A Nash equilibrium of a two-player constant-sum game, by linear programming.

    max v subject to sum_i x_i G_0[i, j] >= v for all j, and the same for the other player. If there
    are several equilibria, the solver's vertex is returned, independently of the repeats.
    """
    payoff, _ = _checked(payoff, repeats)
    if len(payoff) != 2:
        raise ValueError(f"nash: {len(payoff)} players, expected 2; use mgce, mgcce or prd")
    total = payoff[0] + payoff[1]
    if np.ptp(total) > 1e-6 * max(1.0, np.max(np.abs(payoff))):
        raise ValueError(
            f"nash: the players' payoffs sum to {total.min():.6g} up to {total.max():.6g}; "
            "expected a constant-sum game, use mgce, mgcce or prd"
        )
    return _outer([_maximin(payoff[0]), _maximin(payoff[1].T)])


def _maximin(game: np.ndarray) -> np.ndarray:
    """The mixture of rows that maximises the smallest payoff."""
    rows, columns = game.shape
    result = scipy.optimize.linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-game.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
    )
    if result.x is None:
        raise RuntimeError(f"linear program of the matrix game failed: {result.message}")
    mixture = np.maximum(result.x[:-1], 0)
    return mixture / mixture.sum()


def prd(
    payoff: np.ndarray,
    *,
    repeats: Repeats = None,
    floor: float = 1e-6,
    rate: float = 1e-3,
    iterations: int = 100_000,
) -> np.ndarray:
    """Projected replicator dynamics from the uniform mixture, averaged over time.

    x_p <- P[x_p + rate x_p (u_p(., x_-p) - u_p(x))] for all players at once, where P is the
    Euclidean projection onto the simplex with at least `floor` on each strategy (OpenSpiel's
    defaults). Returns the product of the players' averages. In a symmetric game the start can lie
    between the basins of two equilibria; the outcome then depends on rounding.
    """
    payoff, counts = _checked(payoff, repeats)
    for p, r in enumerate(counts):
        payoff = np.repeat(payoff, r, axis=p + 1)
        if floor * r.sum() > 1:
            raise ValueError(f"floor={floor} on {r.sum()} strategies: expected at most 1 in all")
    with jax.enable_x64(True):
        averages = jax.device_get(_replicate(payoff, floor, rate, iterations))
    starts = [np.concatenate([[0], np.cumsum(r)[:-1]]) for r in counts]
    return _outer([np.add.reduceat(x, at) for x, at in zip(averages, starts, strict=True)])


@jax.jit
def _replicate(payoff, floor, rate, iterations):
    def gains(p, mixtures):
        game = payoff[p]
        for q in reversed(range(len(mixtures))):
            if q != p:
                game = jnp.tensordot(game, mixtures[q], axes=(q, 0))
        return game - game @ mixtures[p]

    def project(x):
        n = x.shape[0]
        place = jnp.arange(1, n + 1)
        high = jnp.sort(x)[::-1]
        shift = (1 - jnp.cumsum(high) - (n - place) * floor) / place
        kept = jnp.sum(high + shift > floor)
        return jnp.maximum(x + shift[kept - 1], floor)

    def step(_, carry):
        mixtures, sums = carry
        mixtures = [project(x * (1 + rate * gains(p, mixtures))) for p, x in enumerate(mixtures)]
        return mixtures, [s + x for s, x in zip(sums, mixtures, strict=True)]

    start = [jnp.full(k, 1.0 / k, payoff.dtype) for k in payoff.shape[1:]]
    _, sums = jax.lax.fori_loop(0, iterations, step, (start, start))
    return [s / (iterations + 1) for s in sums]


def mgce(payoff: np.ndarray, *, repeats: Repeats = None, epsilon: float | str = 0.0) -> np.ndarray:
    """Maximum-Gini correlated equilibrium; equations and method in `correlated`.

    epsilon: allowed gain of a deviation, possibly negative; "min" trades it off against impurity, 1
    - sum sigma^2 / w - 2 epsilon with epsilon <= 0, after removing strictly dominated strategies,
    which are in no equilibrium but would exclude epsilon < 0. A large epsilon gives the uniform
    mixture.
    """
    payoff, counts = _checked(payoff, repeats)
    if epsilon != "min":
        return _max_gini(correlated.ce_constraints, payoff, counts, epsilon)
    kept = _undominated(payoff)
    sigma = np.zeros(payoff.shape[1:])
    sigma[np.ix_(*kept)] = _max_gini(
        correlated.ce_constraints,
        payoff[np.ix_(range(len(payoff)), *kept)],
        tuple(r[k] for r, k in zip(counts, kept, strict=True)),
        epsilon,
    )
    return sigma


def mgcce(payoff: np.ndarray, *, repeats: Repeats = None, epsilon: float | str = 0.0) -> np.ndarray:
    """Maximum-Gini coarse correlated equilibrium; arguments as for `mgce`, with all strategies
    kept."""
    payoff, counts = _checked(payoff, repeats)
    return _max_gini(correlated.cce_constraints, payoff, counts, epsilon)


def _max_gini(constraints_of, payoff, counts, epsilon) -> np.ndarray:
    constraints = constraints_of(payoff, counts)
    weight = _outer([r.astype(float) for r in counts]).reshape(-1)
    if epsilon == "min":
        sigma = correlated.min_epsilon_max_gini(constraints, weight)
    elif isinstance(epsilon, str):
        raise ValueError(f"epsilon={epsilon!r}: expected a number or 'min'")
    else:
        sigma, _ = correlated.max_gini(constraints, weight, epsilon)
    return sigma.reshape(payoff.shape[1:])


def _undominated(payoff: np.ndarray) -> list[np.ndarray]:
    """Strategies left after iterated elimination of strictly dominated pure strategies."""
    kept = [np.arange(k) for k in payoff.shape[1:]]
    while True:
        before = [len(k) for k in kept]
        for p in range(len(payoff)):
            own = np.moveaxis(payoff[p][np.ix_(*kept)], p, 0).reshape(len(kept[p]), -1)
            worse = np.any(np.all(own[:, None] < own, axis=2), axis=1)
            kept[p] = kept[p][~worse]
        if before == [len(k) for k in kept]:
            return kept


SOLVERS: dict[str, Callable[..., np.ndarray]] = {
    "uniform": uniform,
    "nash": nash,
    "prd": prd,
    "mgce": mgce,
    "mgcce": mgcce,
}


def solver(name: str) -> Callable[..., np.ndarray]:
    """The meta-solver of that name in `SOLVERS`.

    Raises:
      ValueError: there is none.
    """
    if name not in SOLVERS:
        raise ValueError(f"no meta-solver {name!r}; there are {', '.join(sorted(SOLVERS))}")
    return SOLVERS[name]
