"""Tool calls against reference calls: similarity, assignment, and a reward per call (MatchTIR)."""

from typing import Literal, get_args

import chex
import jax
import jax.numpy as jnp
import optax

from agentrl.checks import check_choice, check_range

Assignment = Literal["optimal", "greedy", "soft"]
ABSENT = -1  # a parameter that a call does not have
_TIE = 1e-4  # sums of similarities that differ by less are equal


def call_similarity(
    name: jax.Array, values: jax.Array, reference_name: jax.Array, reference_values: jax.Array
) -> jax.Array:
    """How alike each of P calls and each of G reference calls are.

    S = 0 for different tools, else (1 + J + V) / (2 + n), with n the number of the reference's
    parameters, V of those that the call has with the same value, and J the Jaccard index of the
    sets of parameters (1 if neither call has any). 1 only for equal calls.

    Args:
      name: i32[P], the tool. values: i32[P, K], of each of K possible parameters; -1 where the call
        does not have it.
      reference_name: i32[G]. reference_values: i32[G, K].

    Returns:
      f32[P, G] in [0, 1].

    References:
      Qu et al. (2026), MatchTIR, https://arxiv.org/abs/2601.10712; code f614ce1 (read). Names are
      compared as numbers here; the code compares them without regard to case.
    """
    chex.assert_rank([name, values, reference_name, reference_values], [1, 2, 1, 2])
    has, asked = (x != ABSENT for x in (values, reference_values))
    both = jnp.sum(has[:, None] & asked, axis=2)
    either = jnp.sum(has[:, None] | asked, axis=2)
    jaccard = jnp.where(either == 0, 1.0, both / jnp.maximum(either, 1))
    right = jnp.sum(asked & (values[:, None] == reference_values), axis=2)
    alike = (1.0 + jaccard + right) / (2.0 + jnp.sum(asked, axis=1))
    return jnp.where(name[:, None] == reference_name, alike, 0.0)


def matched_calls(
    similarity: jax.Array,
    call: jax.Array,
    reference: jax.Array,
    *,
    assignment: Assignment = "optimal",
    unmatched: float = 0.0,
    regularisation: float = 0.1,
    iterations: int = 200,
) -> jax.Array:
    """Reward of each call for the reference call that it is matched with.

    assignment="optimal": one to one, with the largest sum of similarities, and of sums that differ
    by less than 1e-4 that of the earlier calls (the first of equal calls is matched); "greedy": one
    to one, the most alike pair first, which is what the released code does under the name of the
    Hungarian method, and can be worse; a matched call gets its similarity, the others `unmatched`
    (a match of similarity 0 is none). "soft": entropic optimal transport with equal weights of all
    calls and of all references, sum_g plan[p, g] S[p, g]; its rewards are smaller by about the
    number of calls.

    Args:
      similarity: f32[P, G], for example from `call_similarity`.
      call: bool[P], reference: bool[G], those that exist.
      unmatched: reward of a call without a match (0 in the released configs).
      regularisation: of "soft", above 0.
      iterations: of Sinkhorn's algorithm, of "soft"; after 200 the rewards of similarities 0 and 1
        can still be off by 6e-4.

    Returns:
      f32[P], 0 where call is False; without references `unmatched` ("soft": 0).

    Raises:
      ValueError: an unknown assignment, regularisation or iterations not above 0.

    References:
      As for `call_similarity`. The optimal assignment is `optax.assignment.hungarian_algorithm`.
    """
    check_choice("assignment", assignment, get_args(Assignment))
    check_range("matched_calls regularisation", regularisation, 0.0, above=True)
    check_range("matched_calls iterations", iterations, 1)
    exists = call[:, None] & reference
    alike = jnp.where(exists, similarity, 0.0)
    if assignment == "soft":
        plan = _transport(alike, call, reference, regularisation, iterations)
        return jnp.sum(plan * alike, axis=1)
    if assignment == "optimal":
        # Of equal calls the first is the one that was needed.
        first = _TIE * (1.0 - jnp.arange(alike.shape[0]) / alike.shape[0])[:, None]
        wanted = jnp.where(alike > 0, alike + first, 0.0)
        pairs = optax.assignment.hungarian_algorithm(-wanted)
    else:
        pairs = _greedy(alike, exists)
    gained = jnp.zeros(alike.shape[0]).at[pairs[0]].add(alike[pairs])
    return jnp.where(call, jnp.where(gained > 0, gained, unmatched), 0.0)


def _greedy(alike: jax.Array, exists: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The most alike pair of those that are left, again and again."""

    def take(left, _):
        row, column = jnp.unravel_index(jnp.argmax(left), left.shape)
        # Once nothing is left, a row outside of the array stands for no pair.
        kept = jnp.where(left[row, column] > -jnp.inf, row, alike.shape[0])
        left = left.at[row].set(-jnp.inf).at[:, column].set(-jnp.inf)
        return left, jnp.stack([kept, column])

    start = jnp.where(exists, alike, -jnp.inf)
    _, pairs = jax.lax.scan(take, start, length=min(alike.shape))
    return pairs[:, 0], pairs[:, 1]


def _transport(alike, call, reference, regularisation, iterations) -> jax.Array:
    """The plan f32[P, G] of entropic optimal transport, 0 where there is no call or reference."""
    exists = call[:, None] & reference
    # In logarithms, which neither overflow nor vanish for a small regularisation; less the row's
    # largest, which changes no plan, so that they stay exact.
    highest = jnp.max(jnp.where(exists, alike, 0.0), axis=1, keepdims=True)
    scores = jnp.where(exists, (alike - highest) / regularisation, -jnp.inf)
    rows, columns = (-jnp.log(jnp.maximum(jnp.sum(x), 1.0)) for x in (call, reference))

    def total(x, there, axis):
        return jnp.where(there, jax.nn.logsumexp(jnp.where(exists, x, -jnp.inf), axis=axis), 0.0)

    def step(_, potentials):
        v = columns - total(scores + potentials[0][:, None], reference, axis=0)
        return rows - total(scores + v, call, axis=1), v

    start = (jnp.zeros(call.shape), jnp.zeros(reference.shape))
    u, v = jax.lax.fori_loop(0, iterations, step, start)
    return jnp.where(exists, jnp.exp(u[:, None] + scores + v), 0.0)
