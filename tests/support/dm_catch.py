"""Catch for dm_env: a ball falls, and a paddle below moves left or right."""

import dm_env
import numpy as np
from dm_env import specs


class Catch(dm_env.Environment):
    """rows, columns of the board. limit: steps after which an episode is cut, 0 for none."""

    def __init__(self, rows=5, columns=3, limit=0, seed=0):
        self._rows, self._columns, self._limit = rows, columns, limit
        self._random, self._over = np.random.RandomState(seed), True

    def _seen(self):
        board = np.zeros((self._rows, self._columns), np.float32)
        board[self._ball] = 1.0
        board[-1, self._paddle] = 1.0
        return {"board": board, "row": np.array(self._ball[0])}

    def reset(self):
        self._ball = (0, self._random.randint(self._columns))
        self._paddle, self._over, self._steps = self._columns // 2, False, 0
        return dm_env.restart(self._seen())

    def step(self, action):
        if self._over:
            return self.reset()
        self._paddle = int(np.clip(self._paddle + action, 0, self._columns - 1))
        self._ball, self._steps = (self._ball[0] + 1, self._ball[1]), self._steps + 1
        if self._ball[0] == self._rows - 1:
            self._over = True
            return dm_env.termination(2.0 * (self._paddle == self._ball[1]) - 1.0, self._seen())
        if self._steps == self._limit:
            self._over = True
            return dm_env.truncation(0.0, self._seen())
        return dm_env.transition(0.0, self._seen())

    def observation_spec(self):
        board = specs.BoundedArray((self._rows, self._columns), np.float32, 0.0, 1.0)
        return {"board": board, "row": specs.BoundedArray((), np.int64, 0, self._rows - 1)}

    def action_spec(self):
        """-1, 0, 1."""
        return specs.BoundedArray((), np.int32, -1, 1)


class Push(Catch):
    """The paddle is pushed by a force from -3 to 1; below -1 and above 0 it moves."""

    def step(self, action):
        return super().step(int(action[0] > 0) - int(action[0] < -1))

    def action_spec(self):
        return specs.BoundedArray((1,), np.float64, -3.0, 1.0)
