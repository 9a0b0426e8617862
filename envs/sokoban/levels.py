"""Rooms for Sokoban, generated as in gym-sokoban: by playing backwards from a solved room.

Read in: gym-sokoban 0.0.6 `room_utils`. Its stages are kept: a random walk digs the floor (`dig`),
player and targets are put on random floor cells (`furnish`), reverse play pulls the boxes off their
targets (`reverse_play`), and a room whose best score is 0 is drawn again (`generate`).

The deviation is the search in reverse play. The reference goes depth first through up to 300,000
states; here parallel random walks of pulls keep the best state on their path, which has fixed
shapes and stores no states. Fewest moves that solve a room, over 1536 of our rooms (288 at 10 x 10)
and 600, 1500 and 96 of the reference's, by the optimal solver:

    room, boxes   source      mean +- standard error   quantiles .1 .25 .5 .75 .9   largest
    6 x 6, 1      ours         3.24 +- 0.06             1  1  2  5  6                15
                  reference    3.16 +- 0.09             1  1  2  5  6                13
    7 x 7, 2      ours         9.86 +- 0.12             4  6  9 13 16                31
                  reference   11.06 +- 0.15             4  7 10 14 19                40
    10 x 10, 3    ours        20.1  +- 0.4             11 14 20 24 30                47
                  reference   26.2  +- 1.1             14 18 25 33 42                60

With one box the rooms are as hard as the reference's. With two they are 11 % and with three 23 %
shorter: the upper tail is missing, presumably because random walks seldom find the long exact
sequences (two boxes swapping places) that a systematic search finds. Longer walks, four times as
many walks, and a depth-first search of equal cost did not close the gap.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from envs.sokoban.rules import Board, at, opposite, union, where

TURN_PROBABILITY = 0.35
# Cells that one step of the digger opens: around it, itself in the middle.
STAMPS = np.array(
    [
        [[0, 0, 0], [1, 1, 1], [0, 0, 0]],
        [[0, 1, 0], [0, 1, 0], [0, 1, 0]],
        [[0, 0, 0], [1, 1, 0], [0, 1, 0]],
        [[0, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[0, 0, 0], [0, 1, 1], [0, 1, 0]],
    ],
    bool,
)
# Pulls of one walk. One box has few states, which two walks exhaust; more boxes need more walks.
PULLS = 25
WALKS_ONE_BOX = 2
WALKS = 12
# With more boxes solvable rooms are too rare: 20 rooms per second with 8 at 10 x 10.
MAX_BOXES = 5
# Odd multipliers that turn one random word into one random number per choice.
_MIXERS = (
    np.random.default_rng(0).integers(2**31, size=4 * MAX_BOXES, dtype=np.uint32) * np.uint32(2) | 1
)


def dig(key: jax.Array, shape: tuple[int, int]) -> Board:
    """Floor opened by a random walk of int(1.7 (rows + cols)) steps; it is always connected.

    At each step the digger takes a random direction with probability 0.35, moves one cell (not
    beyond the interior) and opens one of five stamps around itself.
    """
    h, w = shape
    steps = int(1.7 * (h + 2 + w + 2))
    # One array of random words for everything, split by hand: the main cost of random numbers
    # is the time to compile each call.
    words = jax.random.bits(key, (steps + 1,), jnp.uint32)
    turns = words >> 16 < round(TURN_PROBABILITY * 2**16)
    directions = (words % 4).astype(jnp.int32)
    stamps = (words % 2**16 // 4 % len(STAMPS)).astype(jnp.int32)
    # The reference may start one cell beyond the last row or column; the first step brings it
    # back.
    row = (words[0] % 2**16 // 4 % (h + 1)).astype(jnp.int32)
    col = (words[0] // 2**16 % (w + 1)).astype(jnp.int32)

    def step(carry, draws):
        row, col, direction, stamped = carry
        turn, new, stamp = draws
        direction = jnp.where(turn, new, direction)
        row = jnp.clip(row + (direction == 1) - (direction == 0), 0, h - 1)
        col = jnp.clip(col + (direction == 3) - (direction == 2), 0, w - 1)
        digger = at(row * w + col, shape)
        stamped = tuple(
            where(stamp == kind, cells | digger, cells) for kind, cells in enumerate(stamped)
        )
        return (row, col, direction, stamped), None

    cell = at(jnp.int32(0), shape)
    carry = (row, col, directions[0], (cell - cell,) * len(STAMPS))
    *_, stamped = jax.lax.scan(step, carry, (turns[1:], directions[1:], stamps[1:]))[0]
    floor = cell - cell
    for cells, stamp in zip(stamped, STAMPS, strict=True):
        lines = (cells.shift(0), cells, cells.shift(1))
        around = [(line.shift(2), line, line.shift(3)) for line in lines]
        floor = floor | union(around[row][col] for row, col in np.argwhere(stamp))
    return floor


def furnish(key: jax.Array, floor: Board, count: int) -> tuple[Board, tuple[Board, ...], jax.Array]:
    """(player, targets, valid): distinct random floor cells for the player and `count` targets.

    valid, bool[]: a free cell is left, and each target has two floor cells in a line next to it,
    which a box needs to leave it.
    """
    cells = floor.cells()[1:-1, 1:-1].ravel()
    noise = jnp.where(cells, jax.random.uniform(key, cells.shape), -1.0)
    picks = []
    for _ in range(count + 1):
        pick = jnp.argmax(noise)
        noise = jnp.where(np.arange(noise.size) == pick, -1.0, noise)
        picks.append(at(pick, floor.shape))
    beside = [floor.shift(d) for d in range(4)]
    movable = union(beside[d] & beside[d].shift(d) for d in range(4))
    valid = jnp.any(noise >= 0) & ~(union(picks) - floor).any()
    return picks[0], tuple(picks[1:]), valid & ~(union(picks[1:]) - movable).any()


def reverse_play(
    words: jax.Array, floor: Board, player: Board, targets: Sequence[Board]
) -> tuple[Board, Board, jax.Array]:
    """Best (boxes, player, score i32[]) on a random walk of pulls from the solved room.

    words: random u32[pulls], one for each step. A step pulls a random box in a random direction
    among the pulls that the player can reach, and reverses the last pull only if there is no other.
    The score of a state is the number of pulls so far times the sum of the boxes' Manhattan
    distances from their own targets, and 0 while a box or the player stands on a target. (The
    reference calls the first factor box swaps, but counts every pull.)
    """
    count, goal = len(targets), union(targets)
    choices = [(box, direction) for box in range(count) for direction in range(4)]

    def step(carry, word):
        player, boxes, offsets, pulls, last, best = carry
        free = floor - union(boxes)
        near = _reachable(player, free)
        ends = []
        chosen = jnp.int32(-1)
        for i, (box, direction) in enumerate(choices):
            nearer = boxes[box].shift(direction)
            ends.append((nearer, nearer.shift(direction)))
            possible = (nearer & near).any() & (ends[i][1] & free).any()
            noise = (word * _MIXERS[i] >> 16).astype(jnp.int32)
            back = last == 4 * box + opposite(direction)
            rank = jnp.where(back, 0, noise + 1) * len(choices) + i
            chosen = jnp.maximum(chosen, jnp.where(possible, rank, -1))
        pulled = chosen >= 0
        last = jnp.where(pulled, chosen % len(choices), -1)
        boxes, offsets = list(boxes), list(offsets)
        for i, (box, _) in enumerate(choices):
            boxes[box] = where(last == i, ends[i][0], boxes[box])
            player = where(last == i, ends[i][1], player)
        for box, (down, right) in enumerate(offsets):
            up_down, left_right = 4 * box, 4 * box + 2
            down = down + (last == up_down + 1) - (last == up_down)
            right = right + (last == left_right + 1) - (last == left_right)
            offsets[box] = (down, right)
        pulls = pulls + pulled
        distance = sum(jnp.abs(down) + jnp.abs(right) for down, right in offsets)
        standing = union(boxes)
        score = jnp.where(((standing | player) & goal).any(), 0, pulls * distance)
        better = score > best[2]
        best = jax.tree.map(
            lambda new, old: jnp.where(better, new, old), (standing, player, score), best
        )
        return (player, tuple(boxes), tuple(offsets), pulls, last, best), None

    zero = jnp.int32(0)
    carry = (player, tuple(targets), ((zero, zero),) * count, zero, zero - 1, (goal, player, zero))
    return jax.lax.scan(step, carry, words)[0][-1]


def _reachable(player: Board, free: Board) -> Board:
    """Free cells that the player can walk to.

    At fixed cost: a sweep spreads by one cell in each of the four directions in turn. The far end
    of a very winding path may be missed, which only omits some pulls.
    """

    def spread(_, reached: Board) -> Board:
        for direction in range(4):
            reached = reached | (reached.shift(direction) & free)
        return reached

    return jax.lax.fori_loop(0, sum(free.shape) // 2 + 1, spread, player)


def generate(
    key: jax.Array, shape: tuple[int, int], count: int
) -> tuple[Board, Board, Board, Board]:
    """Draws a solvable room (floor, targets, boxes, player) in which no target is covered.

    shape: (h, w) of the interior; count: number of boxes.
    """
    walks = WALKS_ONE_BOX if count == 1 else WALKS

    def furnished(room):
        key, floor_key, furnish_key = jax.random.split(room[0], 3)
        floor = dig(floor_key, shape)
        return key, floor, *furnish(furnish_key, floor, count)

    def draw(carry):
        # Under vmap a loop runs until its slowest lane is done: invalid rooms are dropped
        # in a loop of their own, before the expensive search.
        key, floor, player, targets, _ = jax.lax.while_loop(
            lambda room: ~room[-1],
            furnished,
            (carry[0], empty, empty, (empty,) * count, jnp.array(False)),
        )
        key, play_key = jax.random.split(key)
        boxes, player, score = jax.vmap(reverse_play, in_axes=(0, None, None, None))(
            jax.random.bits(play_key, (walks, PULLS), jnp.uint32), floor, player, targets
        )
        best = jnp.argmax(score)
        boxes, player = jax.tree.map(lambda x: x[best], (boxes, player))
        return key, (floor, union(targets), boxes, player), score[best]

    # Both loops start with empty rooms of score 0 that are not valid: each body is compiled
    # only once.
    cell = at(jnp.int32(0), shape)
    empty = cell - cell
    return jax.lax.while_loop(
        lambda carry: carry[-1] == 0, draw, (key, (empty,) * 4, jnp.int32(0))
    )[1]
