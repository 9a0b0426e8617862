"""Policy-space response oracles on tabular games: PSRO and JPSRO, exact.

Every player has a population of policies. Each iteration computes the payoff tensor of all
combinations, a joint distribution sigma over them by a meta-solver, and for each player a best
response to it, which joins the population. The gain of a player's best responses is its gap,

  CCE: gap_p = max_pi u_p(pi, sigma_-p) - u_p(sigma), sigma_-p the others' joint marginal,
  CE:  gap_p = sum_k sigma(k) [max_pi u_p(pi, sigma_-p | k) - u_p(sigma | k)],

with one response per recommended policy k of positive weight. A gap of 0 means that sigma is a
(coarse) correlated equilibrium of the whole game, which does not imply high welfare: in Trade Comm
the gaps vanish long before the value is optimal.

Lanctot et al. (2017), https://arxiv.org/abs/1711.00832; Marris et al. (2021),
https://arxiv.org/abs/2106.09435; Heinrich, Lanctot, Silver (2015), Fictitious self-play in
extensive-form games. Read and executed: OpenSpiel 2.0.2 `jpsro.py`, with its defaults: populations
start from the uniform policy; all players answer the same sigma at once; at most one policy joins a
population per iteration, the new one with the largest gap (drawn at random if that is 0); if none
is new, one of them, drawn at random, is counted once more. A response is uniform in unreachable
information states, and otherwise plays the lowest of the best actions; OpenSpiel compares without
tolerance there, so rounding decides ties, and runs diverge at the first tie.
"""

from typing import NamedTuple

import jax
import numpy as np

from agentrl.selfplay import sequence_form as sf
from agentrl.selfplay.games import sequence_form
from agentrl.selfplay.meta import solver as meta_solver
from agentrl.selfplay.sequence_form import SequenceForm

# Weights and gaps below this count as 0.
_NEGLIGIBLE = 1e-8

_best_responses = jax.jit(sf.best_responses, static_argnums=0)
_plan = jax.jit(sf.plan, static_argnums=0)
_reach = jax.jit(sf.reach, static_argnums=0)


class Result(NamedTuple):
    """Result of a run of T iterations; index 0 of the traces is the start.

    policies: per player f64[K_p, I, A], 0 outside its rows; repeats: i32[K_p], how often each was a
    response. payoff f64[N, K_1, ..., K_N]; sigma f64[K_1, ..., K_N]. policy f64[I, A]: each
    player's marginal of sigma as one policy.
    value, gap: f64[T + 1, N], of sigma after each iteration. size: i32[T + 1, N], the K_p.
    """

    policies: tuple[np.ndarray, ...]
    repeats: tuple[np.ndarray, ...]
    payoff: np.ndarray
    sigma: np.ndarray
    policy: np.ndarray
    value: np.ndarray
    gap: np.ndarray
    size: np.ndarray


class Population:
    """One player's policies, their repeats, and their contributions to the reach of the ends."""

    def __init__(self, form: SequenceForm, player: int):
        self.form, self.player = form, player
        self.policies: list[np.ndarray] = []
        self.repeats: list[int] = []
        self.plans: list[np.ndarray] = []
        self.reach: list[np.ndarray] = []

    def own(self, policy: np.ndarray) -> np.ndarray:
        """The policy in the player's rows, 0 elsewhere."""
        return np.where((self.form.player == self.player)[:, None], policy, 0.0)

    def index(self, policy: np.ndarray) -> int | None:
        """Index of the member equal to this policy, or None."""
        same = [i for i, mine in enumerate(self.policies) if np.array_equal(mine, self.own(policy))]
        return same[0] if same else None

    def add(self, policy: np.ndarray) -> None:
        """Adds a new policy f64[I, A]; rows of other players are ignored."""
        self.policies.append(self.own(policy))
        self.repeats.append(1)
        with jax.enable_x64(True):
            plan = _plan(self.form, self.own(policy))
            reach = _reach(self.form, plan)
        self.plans.append(np.asarray(plan))
        self.reach.append(np.asarray(reach)[:, self.player])


class Round(NamedTuple):
    """Meta-solution of the populations, and the players' responses to it.

    payoff, sigma, value, gap as in `Result`; responses: per player (gap, policy f64[I, A]).
    """

    payoff: np.ndarray
    sigma: np.ndarray
    value: np.ndarray
    gap: np.ndarray
    responses: list[list[tuple[float, np.ndarray]]]


def psro(name: str, iterations: int, *, solver: str = "nash", seed: int = 0, **options) -> Result:
    """PSRO: best responses to the others' populations mixed by the meta-solver.

    Solver "nash" is double oracle, "uniform" fictitious self-play, "latest" plain self-play.
    """
    return jpsro(name, iterations, equilibrium="cce", solver=solver, seed=seed, **options)


def jpsro(
    name: str,
    iterations: int,
    *,
    equilibrium: str = "cce",
    solver: str = "mgcce",
    seed: int = 0,
    **options: int,
) -> Result:
    """JPSRO(CCE) or JPSRO(CE) on a tabular game by name.

    equilibrium: "cce" or "ce", the kind of responses. solver: name in `meta.SOLVERS`; the paper's
    pairs are mgcce with cce and mgce with ce. seed: for breaking ties. options: the game's.
    """
    if equilibrium not in ("cce", "ce"):
        raise ValueError(f"equilibrium={equilibrium!r}: expected 'cce' or 'ce'")
    form, rng = sequence_form(name, **options), np.random.RandomState(seed)
    populations = [Population(form, p) for p in range(form.num_players)]
    for population in populations:
        population.add(sf.uniform(form))
    trace = []
    for iteration in range(iterations + 1):
        now = play_round(form, populations, equilibrium=equilibrium, solver=solver)
        trace.append((now.value, now.gap, now.sigma.shape))
        if iteration < iterations:
            for population, responses in zip(populations, now.responses, strict=True):
                _enlarge(population, responses, rng)
    return Result(
        tuple(np.stack(p.policies) for p in populations),
        tuple(np.array(p.repeats) for p in populations),
        now.payoff,
        now.sigma,
        _marginal_policy(form, populations, now.sigma),
        *(np.array(x) for x in zip(*trace, strict=True)),
    )


def play_round(
    form: SequenceForm, populations: list[Population], *, equilibrium: str, solver: str
) -> Round:
    """Payoff tensor, meta-solution, and every player's best responses to it."""
    payoff = _payoffs(form, populations)
    sigma = meta_solver(solver)(payoff, repeats=[p.repeats for p in populations])
    sigma = np.where(sigma < _NEGLIGIBLE, 0.0, sigma)
    sigma = sigma / sigma.sum()
    responses = _responses(form, populations, payoff, sigma, equilibrium)
    return Round(
        payoff,
        sigma,
        value=np.sum(payoff * sigma, axis=tuple(range(1, payoff.ndim))),
        gap=np.array([sum(gap for gap, _ in candidates) for candidates in responses]),
        responses=responses,
    )


def _payoffs(form: SequenceForm, populations: list[Population]) -> np.ndarray:
    """Payoff tensor [N, K_1, ..., K_N]: every player's return in every combination."""
    axes = "abcdefgh"[: len(populations)]
    inputs = ",".join(f"{axis}z" for axis in axes)
    return np.einsum(
        f"zp,{inputs}->p{axes}", form.payoff, *(p.reach for p in populations), optimize=True
    )


def _joint_reach(sigma: np.ndarray, reaches: list[np.ndarray]) -> np.ndarray:
    """sum_k sigma(k_1, k_2, ...) prod_i reaches[i][k_i], [Z]."""
    total = np.tensordot(sigma, reaches[-1], axes=1)
    for reach in reversed(reaches[:-1]):
        total = np.einsum("...kz,kz->...z", total, reach)
    return total


def _responses(form, populations, payoff, sigma, equilibrium):
    """Candidates (gap, policy) of each player."""
    if equilibrium == "cce":
        # A single, uninformative recommendation.
        told = [sigma.sum(p, keepdims=True) for p in range(form.num_players)]
        earned = [(payoff[p] * sigma).sum(p, keepdims=True) for p in range(form.num_players)]
    else:
        told = [sigma] * form.num_players
        earned = [payoff[p] * sigma for p in range(form.num_players)]
    candidates = [[] for _ in populations]
    for k in range(max(told[p].shape[p] for p in range(form.num_players))):
        other, mass = np.zeros_like(form.payoff), np.zeros(form.num_players)
        for p in range(form.num_players):
            if k < told[p].shape[p]:
                joint = np.take(told[p], k, axis=p)
                mass[p] = joint.sum()
                reaches = [np.array(q.reach) for q in populations if q.player != p]
                other[:, p] = _joint_reach(joint, reaches)
        with jax.enable_x64(True):
            best = jax.device_get(_best_responses(form, other))
        policy = np.where(_reachable(form, other)[:, None], best.policy, sf.uniform(form))
        for p in np.flatnonzero(mass):
            gap = best.value[p] - np.take(earned[p], k, axis=p).sum()
            gap = 0.0 if gap < _NEGLIGIBLE * mass[p] else gap
            candidates[p].append((gap, policy))
    return candidates


def _reachable(form: SequenceForm, other: np.ndarray) -> np.ndarray:
    """Information states that the others' policies reach, bool[I]; elsewhere all responses are
    equally good."""
    states, actions = form.legal.shape
    reached = np.zeros(states * actions + form.num_players, bool)
    reached[form.sequences[other > 0]] = True
    for rows in reversed(form.levels):
        here = reached[rows[:, None] * actions + np.arange(actions)].any(1)
        np.logical_or.at(reached, form.parent[rows], here)
    return reached[: states * actions].reshape(states, actions).any(1)


def _enlarge(population: Population, candidates: list, rng: np.random.RandomState) -> None:
    """Adds one of the candidates (gap, policy) to the population."""
    known = [population.index(policy) for _, policy in candidates]
    novel = [c for c, i in zip(candidates, known, strict=True) if i is None]
    if not novel:
        population.repeats[known[rng.randint(len(known))]] += 1
        return
    gaps = [gap for gap, _ in novel]
    chosen = int(np.argmax(gaps)) if max(gaps) > 0 else rng.randint(len(novel))
    population.add(novel[chosen][1])


def _marginal_policy(form, populations, sigma) -> np.ndarray:
    """Each player's marginal of sigma, mixed as realisation plans, as one policy [I, A]."""
    plans = np.zeros(form.legal.shape)
    for p, population in enumerate(populations):
        weight = sigma.sum(tuple(q for q in range(sigma.ndim) if q != p))
        plans += np.tensordot(weight, population.plans, axes=1)
    return _behaviour(form, plans)


def _behaviour(form: SequenceForm, plans: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(sf.behaviour(form, plans))
