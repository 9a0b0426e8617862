"""Arrays for every function of the mathematics, by the names of its parameters.

Shapes and types of arrays that are not fields of streams or rows are those of the function's own
docstring (`name: f32[N, T]`), so a new function needs no entry here.
"""

import inspect
import re

import numpy as np

from agentrl.learner.function import inputs_of, optional_inputs, options_of

# Streams: a planner and the worker that it calls, in two matches of each of three tasks, and a
# match in which nobody acted. One row for each stream, two positions for each turn.
MATCHES, TURNS, ROLES = 7, 5, 2
STREAMS = ROWS = MATCHES * ROLES
POSITIONS = 2 * TURNS
SIZES = {"N": STREAMS, "T": TURNS, "R": ROWS, "L": POSITIONS, "tasks": 2, "roles": ROLES}
# Options without a default.
OPTIONS = {
    "gamma": 0.9,
    "lam": 0.8,
    "roles": (0,),
    "keep": 2,
    "coefficient": 0.1,
    "limit": 0.6,
    "buffer": 0.3,
    "thresholds": (0.1, 0.5),
    "amount": 0.1,
    "deadline": 2.0,
    "clip": 0.2,
    "cap": 2.0,
    "estimator": "k3",
    "web": (1,),
}
_DECLARED = re.compile(r"^\s+(\w+(?:, \w+)*): (f32|i32|u32|bool)\[([^\]]*)\]", re.MULTILINE)
_TYPES = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "bool": np.bool_}


def declared(function):
    """{array: (type, names of its axes)}, as the docstring says it."""
    found = {}
    for names, kind, axes in _DECLARED.findall(inspect.getdoc(function)):
        for name in names.split(", "):
            found[name] = (kind, tuple(axis.strip() for axis in axes.split(",") if axis.strip()))
    return found


def options_for(function):
    """The options that have no default; AssertionError for one without a value here."""
    needed = [k for k, x in options_of(function).items() if x.default is inspect.Parameter.empty]
    unknown = [name for name in needed if name not in OPTIONS]
    assert not unknown, f"{function.__name__}: give {unknown} a value in {__file__}"
    return {name: OPTIONS[name] for name in needed}


def streams(seed):
    """Fields of streams and rows by name; arrays of turns are zero where nobody acted."""
    rng = np.random.default_rng(seed)
    match, role = np.divmod(np.arange(STREAMS, dtype=np.int32), ROLES)
    # In one match turns and ends are the same for both, as in a team.
    length = rng.integers(1, TURNS + 1, MATCHES)
    length[rng.integers(MATCHES)] = 0
    mask = np.arange(TURNS) < length[match][:, None]
    last = np.arange(TURNS) == length[match][:, None] - 1
    solved = rng.random(MATCHES) < 0.5
    reward = np.where(last & solved[match][:, None], 1.0, 0.0)
    reward += np.where(mask, 0.25 * rng.integers(0, 3, (MATCHES, TURNS))[match], 0.0)
    first = match * ROLES
    stream = np.arange(ROWS, dtype=np.int32)
    turn = np.where(np.repeat(mask, 2, axis=1), np.repeat(np.arange(TURNS), 2), -1)
    written = (turn >= 0) & (np.arange(POSITIONS) % 2 == rng.integers(0, 2, (ROWS, 1)))
    ends = rng.random(MATCHES) < 0.7
    return {
        "reward": reward.astype(np.float32),
        "mask": mask,
        "group": match // 2,
        "episode": match,
        "role": role,
        "task": match % 2,
        "anchor": rng.integers(0, 3, (STREAMS, TURNS, 2)).astype(np.uint32),
        "terminated": last & ends[match][:, None],
        "truncated": last & ~ends[match][:, None],
        "success": last & solved[match][:, None],
        "parent": np.where(role == 0, -1, first).astype(np.int32),
        "call_turn": np.where(role == 0, -1, 0).astype(np.int32),
        "loss_mask": written,
        "stream": stream,
        "turn": turn.astype(np.int32),
    }


def arrays_for(function, seed):
    """Every array that a function of credit takes, needed or optional, by name."""
    return _filled(function, np.random.default_rng(seed + 1000), streams(seed), ("N", "T"))


def positions_for(function, seed):
    """Every array that a loss takes, by name; `mask` is of the positions it is averaged over."""
    known = streams(seed)
    known = {name: known[name] for name in ("loss_mask", "turn")} | {"mask": known["loss_mask"]}
    return _filled(function, np.random.default_rng(seed + 1000), known, ("R", "L"))


def _filled(function, rng, known, usual):
    """usual: the axes of an array of which the docstring does not say them."""
    shapes, found = declared(function), {}
    where = {"N": known["mask"], "R": known["loss_mask"]}
    for name in (*inputs_of(function), *optional_inputs(function)):
        kind, axes = shapes.get(name, ("f32", usual))
        if name in known and (name not in shapes or len(axes) == known[name].ndim):
            found[name] = known[name]
            continue
        shape = tuple(int(axis) if axis.isdigit() else SIZES.get(axis, 3) for axis in axes)
        if kind == "bool":
            found[name] = rng.random(shape) < 0.6
        elif kind in ("i32", "u32"):
            found[name] = rng.integers(0, 3, shape).astype(_TYPES[kind])
        else:
            found[name] = rng.uniform(0.1, 1.0, shape).astype(np.float32)
            found[name] *= -1.0 if name.endswith("logp") else 1.0
        if axes[:2] in (("N", "T"), ("R", "L")):
            there = where[axes[0]].reshape(*shape[:2], *(1,) * (len(shape) - 2))
            found[name] = np.where(there, found[name], 0).astype(found[name].dtype)
    return found
