"""ConnectFour: lines, the expert, draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.connect_four import rules

ENV, PARAMS = envs.make("ConnectFour-v1")
STEP = jax.jit(ENV.step_env)
EXPERT = jax.jit(ENV.expert)
KEY = jax.random.key(0)


def packed(board):
    """u[columns] of bool[..., rows, columns], the top row first."""
    rows = board.shape[-2]
    weights = 2 ** np.arange(rows - 1, -1, -1)[:, None]
    return (board * weights).sum(-2).astype(rules.word(rows))


def lines_of(rows, columns):
    """Every line of four as bool[rows, columns]."""
    for row in range(rows):
        for column in range(columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                squares = [(row + i * down, column + i * right) for i in range(4)]
                if all(r < rows and 0 <= c < columns for r, c in squares):
                    line = np.zeros((rows, columns), bool)
                    line[tuple(zip(*squares, strict=True))] = True
                    yield line


@pytest.mark.parametrize("size", [(6, 7), (4, 4), (8, 5), (12, 15)])
def test_lines_and_squares_that_complete_them(size):
    rows, columns = size
    lines = np.array(list(lines_of(rows, columns)))
    assert len(lines) == sum(
        (rows - 3 * down) * (columns - 3 * right)
        for down, right in ((0, 1), (1, 0), (1, 1), (1, 1))
    )
    generator = np.random.default_rng(0)
    # Discs that have fallen, of two seats.
    heights = generator.integers(0, rows + 1, (400, 1, columns))
    taken = np.arange(rows - 1, -1, -1)[:, None] < heights
    own = taken & (generator.random(taken.shape) < generator.uniform(0.1, 0.7, (400, 1, 1)))
    held = (np.concatenate([lines, own])[:, None] & lines).sum((2, 3))
    lined = rules.has_line(packed(np.concatenate([lines, own])))
    np.testing.assert_array_equal(lined, np.any(held == 4, axis=1))
    assert not np.all(lined[len(lines) :])
    with_three = np.einsum("bl,lrc->brc", held[len(lines) :] == 3, lines) > 0
    found = jax.vmap(lambda board: rules.squares(rules.completing(board, rows), rows))
    np.testing.assert_array_equal(np.asarray(found(packed(own))) & ~taken, with_three & ~taken)


@pytest.mark.parametrize(
    ("played", "best"),
    [
        ((4, 0, 5, 1, 6, 2), {3}),  # wins, rather than block
        ((4, 0, 5, 0, 6), {3}),  # blocks
        ((0, 3, 0, 4, 0), {0}),
        ((3, 3, 2), {1, 4}),  # else two ends stay open
    ],
)
def test_the_expert_wins_and_blocks(played, best):
    _, state = ENV.reset(KEY, PARAMS)
    for column in played:
        _, state, *_ = STEP(KEY, state, jnp.int32(column), PARAMS)
    assert int(EXPERT(state, PARAMS)) in best


def test_a_deeper_expert_beats_a_shallower_one():
    """From each opening move, both ways round."""
    deep, flat = (dataclasses.replace(ENV, expert_depth=depth) for depth in (2, 0))

    def play(opening, deep_seat):
        _, state, *_ = ENV.step_env(KEY, ENV.initial(KEY, PARAMS), opening, PARAMS)

        def step(state, _):
            best = jnp.where(
                ENV.mover(state, PARAMS) == deep_seat,
                deep.expert(state, PARAMS),
                flat.expert(state, PARAMS),
            )
            _, state, reward, *_ = ENV.step_env(KEY, state, best, PARAMS)
            return state, reward

        return jax.lax.scan(step, state, None, length=42)[1].sum(0)[deep_seat]

    openings, seats = jnp.meshgrid(jnp.arange(7), jnp.arange(2))
    score = jax.jit(jax.vmap(play))(openings.reshape(-1), seats.reshape(-1))
    assert np.mean(np.asarray(score)) > 0.2


def test_a_draw():
    """Columns filled so that no line of four comes to be."""
    _, state = ENV.reset(KEY, PARAMS)
    for action in (0, 1) * 3 + (1, 0) * 3 + (2, 3) * 3 + (3, 2) * 3 + (4, 5) * 3 + (5, 4) * 3:
        _, state, reward, terminated, _ = STEP(KEY, state, jnp.int32(action), PARAMS)
        assert not terminated and not reward.any()
    for action in (6,) * 6:
        _, state, reward, terminated, info = STEP(KEY, state, jnp.int32(action), PARAMS)
    assert terminated and not reward.any() and not info["success"].any()
