"""Recorded episodes and games of other programs, and what they mean.

tests/data/textarena.json.gz: 20 games each of TextArena 0.7.4's TicTacToe, KuhnPoker,
SimpleNegotiation, ConnectFour, Nim, PigDice and LiarsDice, between random players who at times
write illegal actions. tests/data/spiral.json.gz: the same of textarena 0.6.4 under SPIRAL's driver.
Both were recorded by running those programs; `state` is the state after a step. Of the other files
each says by which program it was made.
"""

import functools
import gzip
import json
import pathlib
import re

import jax.numpy as jnp
import numpy as np

from envs.frozen_lake import rules as frozen_lake
from envs.frozen_lake.env import FrozenLakeState
from envs.nim import rules as nim_rules

DATA = pathlib.Path(__file__).parents[1] / "data"


@functools.cache
def load(file: str) -> dict:
    return json.loads(gzip.decompress((DATA / f"{file}.json.gz").read_bytes()))


def arrays(file: str):
    """The recorded arrays of tests/data/FILE.npz, by name."""
    return np.load(DATA / f"{file}.npz")


def episodes(file: str) -> list[dict]:
    return load(file)["episodes"]


def games(file: str, env_id: str) -> list[dict]:
    """All recorded games of one environment."""
    return load(file)["games"][env_id]


def lake(episode: dict) -> FrozenLakeState:
    """The first state of an episode of FrozenLake."""
    desc = np.array([list(row) for row in episode["desc"]])
    goal = jnp.int32(np.flatnonzero(desc.ravel() == "G")[0])
    holes, start = frozen_lake.pack(desc == "H"), jnp.int32(episode["obs0"])
    return FrozenLakeState(jnp.int32(0), holes, goal, start)


def room(episode: dict) -> np.ndarray:
    """The first room of an episode of Sokoban, as codes."""
    fixed, codes = np.array(episode["fixed"]), np.array(episode["state0"])
    return np.where((codes == 5) & (fixed == 2), 6, codes)


def wrapped(reply: str) -> str:
    """The reply as TextArena's games see it: one without any bracket is put into brackets."""
    return reply if "[" in reply or "]" in reply else f"[{reply}]"


# TextArena's rules: the number of a reply's action, -1 for none. `bet`: whether one was made.


def search(pattern, reply):
    return re.search(pattern, wrapped(reply), re.IGNORECASE)


def tictactoe(env, reply, bet=False):
    found = search(r"\[\s*(\d+)\s*\]", reply)
    return int(found[1]) if found and int(found[1]) < 9 else -1


def connect_four(env, reply, bet=False):
    found = search(r".*\[(?:col\s*)?(\d+)\].*", reply)
    return int(found[1]) if found and int(found[1]) < 7 else -1


def nim(env, reply, bet=False):
    found = search(r"\[\s*(\d+)\s+(\d+)\s*\]", reply)
    pair = (int(found[1]), int(found[2])) if found else None
    moves = nim_rules.pairs(env.piles)
    return moves.index(pair) if pair in moves else -1


def liars_dice(env, reply, bet=False):
    if search(r"\[call\]", reply):
        return env.num_actions - 1
    found = search(r"\[bid\s*:?\s*(\d+)[,\s]+(\d+)\]", reply)
    name = f"bid {int(found[1])} {int(found[2])}" if found else ""
    return env.action_names.index(name) if name in env.action_names else -1


def pig_dice(env, reply, bet=False):
    found = search(r"\[(roll|hold)\]", reply)
    return ("roll", "hold").index(found[1].lower()) if found else -1


def kuhn_poker(env, reply, bet=False):
    found = search(r"\[(check|bet|fold|call)\]", reply)
    legal = ["fold", "call"] if bet else ["check", "bet"]
    return legal.index(found[1].lower()) if found and found[1].lower() in legal else -1


RULES = {
    "TicTacToe-v1": tictactoe,
    "ConnectFour-v1": connect_four,
    "Nim-v1": nim,
    "LiarsDice-v1": liars_dice,
    "PigDice-v1": pig_dice,
    "KuhnPoker-v1": kuhn_poker,
}
