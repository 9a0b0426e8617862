"""Recorded batches of the released code of GiGPO and HGPO (tests/data/gigpo.npz), in one shape."""

import pathlib

import numpy as np

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "data" / "gigpo.npz")
# Streams and turns of the largest case: one shape for all, so that one compilation serves.
LARGEST = (12, 7)


def padded(array, shape):
    """An array of a case [..., *shape] with streams and turns that nobody acts in, up to LARGEST;
    one number a stream as it is, with a number of its own for the streams that are added."""
    if array.shape == shape[:1]:
        return np.pad(array, (0, LARGEST[0] - shape[0]), constant_values=99)
    if array.shape[-2:] != shape:
        return array
    more = [(0, most - size) for most, size in zip(LARGEST, shape, strict=True)]
    return np.pad(array, [(0, 0)] * (array.ndim - 2) + more)


def case(name):
    """Arrays of a dense case, with the int64 anchor ids split into two u32 words."""
    data = {key[4:]: VECTORS[key] for key in VECTORS.files if key.startswith(name + "_")}
    shape = data["reward"].shape
    data = {key: padded(value, shape) for key, value in data.items()}
    ids = data["anchor"].astype(np.uint64)
    data["anchor"] = np.stack([ids >> 32, ids & 0xFFFFFFFF], -1).astype(np.uint32)
    invalid = data["active"] & ~data["valid"]
    data["penalty"] = np.where(invalid, data["coef"], 7.0).astype(np.float32)
    data["penalty"][data["active"] & data["valid"]] = 0.0
    return data
