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

DATA = pathlib.Path(__file__).parents[1] / "data"


@functools.cache
def games(file: str, env_id: str) -> list[dict]:
    """All recorded games of one environment."""
    with gzip.open(DATA / f"{file}.json.gz") as stream:
        return json.load(stream)["games"][env_id]


def wrapped(reply: str) -> str:
    """The reply as TextArena's games see it: one without any bracket is put into brackets."""
    return reply if "[" in reply or "]" in reply else f"[{reply}]"
