"""Recorded games of two players, and what their replies mean.

tests/data/textarena.json.gz: 20 games each of TextArena 0.7.4's TicTacToe, KuhnPoker,
SimpleNegotiation, ConnectFour, Nim, PigDice and LiarsDice, between random players who at times
write illegal actions. tests/data/spiral.json.gz: the same of textarena 0.6.4 under SPIRAL's driver.
Both were recorded by running those programs; `state` is the state after a step.
"""

import functools
import gzip
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

DATA = pathlib.Path(__file__).parents[1] / "data"


@functools.cache
def games(file: str, env_id: str) -> list[dict]:
    """All recorded games of one environment."""
    with gzip.open(DATA / f"{file}.json.gz") as stream:
        return json.load(stream)["games"][env_id]


def wrapped(reply: str) -> str:
    """The reply as TextArena's games see it: one without any bracket is put into brackets."""
    return reply if "[" in reply or "]" in reply else f"[{reply}]"


def replay(env, params, step_of, game, action_of, shown) -> dict:
    """Plays a recorded TextArena game and compares all that it tells; the last step's info.

    step_of: the compiled step. action_of: reply -> action, -1 for none. shown: (state) -> dict, to
    be found in the recorded state.
    """
    key = jax.random.key(0)
    _, state = env.reset(key, params)
    total = np.zeros(2)
    for step in game["steps"]:
        assert int(env.mover(state, params)) == step["player"]
        action = jnp.int32(action_of(step["action"]))
        _, state, reward, terminated, info = step_of(key, state, action, params)
        total += reward
        seen = shown(state)
        assert {name: step["state"][name] for name in seen} == seen
        assert bool(terminated) == step["done"]
        if not step["done"]:
            assert int(state.errors) == step["error_count"]
            assert int(env.mover(state, params)) == step["next_player"]
    assert total.tolist() == game["rewards"]
    lost_by_error = any(told["invalid_move"] for told in game["game_info"].values())
    assert (int(info["offender"]) >= 0) == lost_by_error
    assert info["success"].tolist() == [r > 0 and not lost_by_error for r in game["rewards"]]
    return info
