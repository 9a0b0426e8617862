"""Episodes as trees of calls: the turns of a stream and of all streams that it called."""

from typing import NamedTuple

import numpy as np

from agentrl.streams import Streams


class Place(NamedTuple):
    """A turn in the tree: its number, whose it is, and how many calls deep that is."""

    turn: int
    stream: int
    depth: int


def callers(streams: Streams) -> np.ndarray:
    """The stream of the same episode that called each one, i32[N]; -1 for none.

    A branch has a parent, too, which is another episode and has not called it.
    """
    nobody = np.full(len(streams.mask), -1, np.int32)
    if streams.parent is None or streams.episode is None:
        return nobody
    parent, episode = np.asarray(streams.parent), np.asarray(streams.episode)
    return np.where((parent >= 0) & (episode[parent] == episode), parent, nobody)


def course(streams: Streams, stream: int) -> list[Place]:
    """The turns of a stream and of those that it called, directly or not, in their order."""
    caller, mask = callers(streams), np.asarray(streams.mask)
    depth, found = {stream: 0}, [stream]
    while found:
        found = [i for i in np.flatnonzero(np.isin(caller, found)).tolist() if i not in depth]
        depth |= {i: depth[int(caller[i])] + 1 for i in found}
    places = [Place(int(t), i, d) for i, d in depth.items() for t in np.flatnonzero(mask[i])]
    return sorted(places)
