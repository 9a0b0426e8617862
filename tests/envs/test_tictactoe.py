"""TicTacToe: SPIRAL's recorded games, and the expert."""

import jax
import jax.numpy as jnp
import numpy as np
import recorded

import envs
from envs.tictactoe import rules

ENV, PARAMS = envs.make("TicTacToe-v1")
STEP = jax.jit(ENV.step_env)
KEY = jax.random.key(0)


def test_spirals_rules_for_illegal_moves_are_params():
    params = PARAMS.replace(illegal_allowance=0, illegal_reward=-1.5, illegal_other_reward=0.5)
    for game in recorded.games("spiral", "TicTacToe-v0"):
        _, state = ENV.reset(KEY, params)
        total = np.zeros(2)
        for step in game["steps"]:
            legal = step["action"] in step["parser_actions"]
            action = recorded.tictactoe(ENV, step["action"]) if legal else -1
            _, state, reward, terminated, _ = STEP(KEY, state, jnp.int32(action), params)
            total += reward
        assert bool(terminated)
        assert total.tolist() == game["spiral_rewards"]


def test_the_expert_never_loses_and_punishes_mistakes():
    """Against every line of play, from both seats."""
    table, lines = rules.best_moves(), np.asarray(rules.has_line(jnp.arange(512)))

    def worst(own, other, ours):
        """Outcome for the expert; own and other are of who is to move."""
        if lines[other]:
            return -1 if ours else 1
        if own | other == rules.FULL:
            return 0
        if ours:
            best = int(table[own, other])
            return worst(other, own | (best & -best), False)
        free = [1 << s for s in range(9) if not (own | other) >> s & 1]
        return min(worst(other, own | square, True) for square in free)

    assert worst(0, 0, True) == 0 and worst(0, 0, False) == 0
    # Two in a row and a free third: taken, and blocked.
    assert table[0b000000011, 0b000011000] == 0b000000100
    assert table[0b100000000, 0b000000011] & 0b000000100
