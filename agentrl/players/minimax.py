"""Exhaustive search of deterministic turn-based games, exact over all positions or to a depth.

For two agents with opposed rewards, with u the return of the current player of s from there on,

    u(s) = max_a r(s, a) + u(s')  where the same agent moves in s',  max_a r(s, a) - u(s')  else,

r the reward of the current player of s, and u = 0 when the game is over.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from agentrl.players.search import any_best, check_searchable
from envs.environment import Environment
from envs.game import GameParams, GameState, TurnGame

# Positions stepped together; maximum for an exact search; maximum per move for a limited depth.
_CHUNK = 1024
_MOST = 100_000
_MOST_AHEAD = 20_000


class Positions(NamedTuple):
    """P positions of a game, on the host.

    state: leaves [P, ...]. mark: u64[P], fingerprints that leave the time out. mover: i32[P].
    legal: bool[P, num_actions], all False when the game is over. running: bool[P].
    cut: bool[P], a limit of steps ends the game. success: bool[P, A]. offender: i32[P].
    """

    state: chex.ArrayTree
    mark: np.ndarray
    mover: np.ndarray
    legal: np.ndarray
    running: np.ndarray
    cut: np.ndarray
    success: np.ndarray
    offender: np.ndarray

    def __getitem__(self, index: Any) -> "Positions":
        return jax.tree.map(lambda x: x[index], self)


def in_chunks(function: Callable, size: int, *arrays: chex.ArrayTree) -> chex.ArrayTree:
    """function over arrays [P, ...], `size` at a time, the last ones padded: one program."""
    count = jax.tree.leaves(arrays)[0].shape[0]
    parts = []
    for first in range(0, count, size):
        part = jax.tree.map(lambda x, first=first: np.asarray(x)[first : first + size], arrays)
        here = jax.tree.leaves(part)[0].shape[0]
        index = np.minimum(np.arange(size), here - 1)
        done = function(*jax.tree.map(lambda x, index=index: x[index], part))
        parts.append(jax.tree.map(lambda x, here=here: np.asarray(x)[:here], done))
    return jax.tree.map(lambda *xs: np.concatenate(xs), *parts)


def _facts(env: TurnGame, env_params: GameParams, state: GameState) -> Positions:
    running = env.is_running(state, env_params)
    return Positions(
        state,
        env.fingerprint(state, env_params, of="state")[0],
        env.mover(state, env_params),
        env.legal(state, env_params) & running,
        running,
        ~running & ~env.is_terminated(state, env_params),
        env.is_success(state, env_params),
        state.offender,
    )


@functools.partial(jax.jit, static_argnums=0)
def _start(env, env_params):
    state = jax.vmap(env.initial, in_axes=(0, None))(
        jax.random.split(jax.random.key(0), 1), env_params
    )
    return jax.vmap(lambda one: _facts(env, env_params, one))(state)


@functools.partial(jax.jit, static_argnums=0)
def _step(env, env_params, state, action):
    def one(state, action):
        _, state, reward, _, _ = env.step_env(jax.random.key(0), state, action, env_params)
        return reward, _facts(env, env_params, state)

    return jax.vmap(one)(state, action)


def _on_host(facts: Positions) -> Positions:
    mark = np.asarray(facts.mark).astype(np.uint64)
    facts = facts._replace(mark=(mark[:, 0] << np.uint64(32)) | mark[:, 1])
    return jax.tree.map(np.asarray, facts)


def start(env: TurnGame, env_params: GameParams) -> Positions:
    """The initial position of a deterministic game, P = 1."""
    return _on_host(_start(env, env_params))


def follow(
    env: TurnGame, env_params: GameParams, positions: Positions, action: np.ndarray
) -> tuple[np.ndarray, Positions]:
    """Rewards f32[P, A] of an action i32[P] in each position, and the next positions."""
    step = functools.partial(_step, env, env_params)
    reward, facts = in_chunks(step, _CHUNK, positions.state, action.astype(np.int32))
    return reward, _on_host(facts)


def check_exhaustible(env: Environment, what: str) -> None:
    """ValueError unless the game is deterministic, with perfect information and two agents."""
    check_searchable(env, what)
    if not env.deterministic:
        raise ValueError(f"{what} with {env.name}: expected a game without chance; use mcts")
    if env.num_agents != 2:
        raise ValueError(f"{what} with {env.name}: expected 2 agents, it has {env.num_agents}")


class Solution(NamedTuple):
    """All positions reachable by legal play, the initial one first.

    value: f64[P], return of the current player under optimal play. best: bool[P, num_actions], all
    moves that achieve it; none when the game is over.
    """

    positions: Positions
    value: np.ndarray
    best: np.ndarray


def solve(env: TurnGame, env_params: GameParams) -> Solution:
    """Solves a game exactly, over all its positions.

    Positions are identified by the fingerprints of their states, without the time.

    Raises:
      ValueError: a game that has chance, hidden information, other than two opposed agents, whose
        limit of steps cuts some games, whose positions come again, or that has more than 100,000.
    """
    check_exhaustible(env, "minimax")
    layers = [start(env, env_params)]
    number, edges = {int(layers[0].mark[0]): 0}, []
    while layers[-1].legal.any():
        layer = layers[-1]
        source, action = np.nonzero(layer.legal)
        reward, reached = follow(env, env_params, layer[source], action)
        _check_edges(env, reward, reached)
        new = []
        for i, mark in enumerate(reached.mark.tolist()):
            if mark not in number:
                number[mark] = len(number)
                new.append(i)
        if len(number) > _MOST:
            raise ValueError(
                f"minimax with {env.name}: more than {_MOST:,} positions; give a depth, for "
                "example minimax:4, or use mcts"
            )
        mover = layer.mover[source]
        own, same = reward[np.arange(len(mover)), mover], mover == reached.mover
        edges.append((layer.mark[source], reached.mark, action, own, same))
        layers.append(reached[np.array(new, int)])
    positions = jax.tree.map(lambda *xs: np.concatenate(xs), *layers)

    *marks, action, own, same = (np.concatenate(xs) for xs in zip(*edges, strict=True))
    source, target = (np.array([number[mark] for mark in of.tolist()], int) for of in marks)
    sign = np.where(same, 1.0, -1.0)
    value = np.zeros(len(number))
    # A position may be reached in games of several lengths: repeated until nothing changes, which
    # takes as many rounds as the longest game has moves.
    for _ in range(int(env_params.max_steps_in_episode) + 1):
        worth = own + sign * value[target]
        top = np.full(len(number), -np.inf)
        np.maximum.at(top, source, worth)
        before, value = value, np.where(positions.running, top, 0.0)
        if np.array_equal(before, value):
            best = np.zeros(positions.legal.shape, bool)
            best[source, action] = worth == value[source]
            return Solution(positions, value, best)
    raise ValueError(f"minimax with {env.name}: positions come again; give a depth, or use mcts")


def _check_edges(env: TurnGame, reward: np.ndarray, reached: Positions) -> None:
    if np.any(np.abs(reward.sum(axis=1)) > 1e-6):
        raise ValueError(f"minimax with {env.name}: expected rewards that add up to 0")
    if np.any(reached.cut):
        raise ValueError(f"minimax with {env.name}: max_steps_in_episode cuts games; raise it")


def make_minimax(
    env: TurnGame, env_params: GameParams, *, depth: int | None
) -> Callable[..., jax.Array]:
    """(state, wanted bool[], key) -> action i32[]: a random one of the current player's best moves.

    depth: search depth in moves, beyond which values are 0; None for the whole game, which is
    solved once on the host.

    Raises:
      ValueError: as `solve`, or more than 20,000 positions per move.
    """
    if depth is None:
        return _make_exact(env, env_params)
    check_exhaustible(env, f"minimax:{depth}")
    if env.num_actions**depth > _MOST_AHEAD:
        raise ValueError(
            f"minimax:{depth} with {env.name}: {env.num_actions} moves to the power of {depth} is "
            f"more than {_MOST_AHEAD:,} positions a move; take a smaller depth, or use mcts"
        )

    def choose(state, wanted, key):
        worth = _worths(env, env_params, state, depth)
        return any_best(worth, env.legal(state, env_params), key)

    return choose


def _worths(env: TurnGame, env_params: GameParams, state: GameState, depth: int) -> jax.Array:
    """Values of actions f32[num_actions] in a running game; of illegal ones they mean nothing."""

    def worth(action):
        mover = env.mover(state, env_params)
        _, after, reward, _, _ = env.step_env(jax.random.key(0), state, action, env_params)
        if depth == 1:
            return reward[mover]
        worths = _worths(env, env_params, after, depth - 1)
        following = jnp.where(env.legal(after, env_params), worths, -jnp.inf)
        sign = jnp.where(env.mover(after, env_params) == mover, 1.0, -1.0)
        running = env.is_running(after, env_params)
        return reward[mover] + jnp.where(running, sign * jnp.max(following), 0.0)

    return jax.vmap(worth)(jnp.arange(env.num_actions, dtype=jnp.int32))


def _make_exact(env: TurnGame, env_params: GameParams) -> Callable[..., jax.Array]:
    solution = solve(env, env_params)
    order = np.argsort(solution.positions.mark)
    marks, best = solution.positions.mark[order], solution.best[order]
    high, low = (marks >> np.uint64(32)).astype(np.uint32), marks.astype(np.uint32)

    def choose(state, wanted, key):
        one, two = env.fingerprint(state, env_params, of="state")[0]
        place = jnp.int32(0)
        # The last mark that is not larger, bit by bit of its number.
        for bit in reversed(range(len(marks).bit_length())):
            there = jnp.minimum(place + (1 << bit), len(marks) - 1)
            larger = (jnp.asarray(high)[there] > one) | (
                (jnp.asarray(high)[there] == one) & (jnp.asarray(low)[there] > two)
            )
            place = jnp.where(larger | (place + (1 << bit) >= len(marks)), place, there)
        return any_best(jnp.asarray(best)[place], env.legal(state, env_params), key)

    return choose
