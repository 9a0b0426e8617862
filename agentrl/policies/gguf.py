"""GGUF files, the format of llama.cpp, to Hugging Face's: read, dequantised, written.

A GGUF file holds metadata (sizes, RoPE, the tokenizer, a chat template) and tensors, mostly
quantised in blocks. `write` converts one to config.json, safetensors and tokenizer.json, which
`agentrl.policies.huggingface` and transformers load. Needs the package `gguf`, which knows the
binary layout and the block formats; `agentrl.policies.gguf_families` has the names and options of
architectures, `agentrl.policies.gguf_tokenizer` the tokenizer.
"""

import math
import os
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from agentrl.policies import gguf_families, gguf_tokenizer, huggingface, tensor_files

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType

# Numbers that are dequantised at a time: 16 MiB as float32.
_BLOCK = 2**22


class Tensor(NamedTuple):
    """Where a tensor lies in the file: its type (such as "Q4_1"), shape, and bytes per row."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    row_bytes: int


class File(NamedTuple):
    """A GGUF file: metadata and the places of its tensors; no tensor is in memory."""

    path: pathlib.Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def _package() -> Any:
    """The package gguf. ValueError if it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise ValueError(
            f"reading GGUF files needs the package gguf ({error}): pip install 'agentrl[gguf]'"
        ) from None
    return gguf


def read(path: str | os.PathLike) -> File:
    """Metadata and tensor table of a file.

    Raises:
      ValueError: not a GGUF file, truncated, one part of several, or with a type of tensors that
        the installed package gguf does not know.
    """
    path, gguf = pathlib.Path(path), _package()
    if not path.is_file():
        raise ValueError(f"{path}: no such file; expected a model's .gguf file")
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise ValueError(f"{path} is not a GGUF file: it begins with {magic!r}, expected b'GGUF'")
    try:
        reader = gguf.GGUFReader(path)
        metadata = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # numpy's and Python's, by what the missing bytes break first
        if unknown := re.search(r"(\d+)\)? is not a valid GGMLQuantizationType", str(error)):
            raise ValueError(
                f"{path}: a tensor is of type {unknown[1]}, which the installed package gguf does "
                "not know; upgrade gguf, or take a file with another quantisation, such as Q8_0 "
                "or F16"
            ) from None
        if "appears to be version" in str(error):
            raise ValueError(f"{path}: {error}; convert it again with a newer llama.cpp") from None
        raise ValueError(
            f"{path} is truncated or damaged ({type(error).__name__}: {error}); fetch it again"
        ) from None
    if reader.byte_order != "I":
        raise ValueError(f"{path} is in big-endian byte order: expected little-endian")
    parts = metadata.get("split.count", 1)
    if parts > 1:
        raise ValueError(
            f"{path} is one of {parts} parts: expected one file; join them with llama.cpp's "
            "gguf-split --merge"
        )
    tensors = {}
    for entry in reader.tensors:
        shape = tuple(int(size) for size in reversed(entry.shape))
        rows = math.prod(shape[:-1])
        tensors[entry.name] = Tensor(
            entry.tensor_type.name, shape, int(entry.data_offset), int(entry.n_bytes) // rows
        )
    return File(path, metadata, tensors)


def check_kinds(file: File) -> None:
    """ValueError unless the package gguf can dequantise every tensor of the file."""
    gguf = _package()
    for name, tensor in file.tensors.items():
        kind = gguf.GGMLQuantizationType[tensor.kind]
        try:
            gguf.dequantize(np.zeros((1, tensor.row_bytes), np.uint8).view(_stored(kind)), kind)
        except NotImplementedError:
            raise ValueError(
                f"{file.path}: tensor {name!r} is of type {tensor.kind}, which the installed "
                "package gguf cannot dequantise; upgrade gguf, or take a file with another "
                "quantisation, such as Q8_0 or F16"
            ) from None


def _stored(kind: "GGMLQuantizationType") -> type[np.generic]:
    """The dtype in which the package gguf wants a tensor of this type: blocks as bytes."""
    return {"F32": np.float32, "F16": np.float16}.get(kind.name, np.uint8)


def dequantised(
    file: File, name: str, *, heads: int = 0, shift: float = 0.0, dtype: str = "float32"
) -> np.ndarray:
    """A tensor as plain numbers, of blocks of rows that are read one after the other.

    Args:
      heads: undo the permutation of query or key rows of this many heads (`paired_to_halves`); 0:
        there is none.
      shift: added to every number, in float32.
      dtype: "float32", "bfloat16" or "float16".
    """
    gguf, tensor = _package(), file.tensors[name]
    kind = gguf.GGMLQuantizationType[tensor.kind]
    count, width = math.prod(tensor.shape[:-1]), tensor.shape[-1]
    out = np.empty((count, width), jnp.dtype(dtype))
    with file.path.open("rb") as stream:
        stream.seek(tensor.offset)
        size = max(1, _BLOCK // width)
        for start in range(0, count, size):
            rows = min(size, count - start)
            # Read rather than mapped: mapped pages would count as memory of the process.
            data = np.fromfile(stream, np.uint8, rows * tensor.row_bytes)
            data = data.reshape(rows, tensor.row_bytes).view(_stored(kind))
            out[start : start + rows] = gguf.dequantize(data, kind) + np.float32(shift)
    out = out.reshape(tensor.shape)
    return paired_to_halves(out, heads) if heads else out


def paired_to_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Query or key rows in Hugging Face's order.

    RoPE turns pairs of coordinates. llama.cpp's Llama takes neighbours (0, 1), (2, 3), ..., as in
    Meta's files; Hugging Face's takes coordinate i of the first and of the second half of a head.
    The converter to GGUF interleaves the halves, which this undoes.
    """
    size = rows.shape[0] // heads
    pairs = rows.reshape(heads, size // 2, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def write(
    directory: str | os.PathLike,
    path: str | os.PathLike,
    *,
    dtype: str = "float32",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a GGUF file's model as Hugging Face's files; returns the fields of its config.json.

    The directory appears when it is complete on disk. The host holds one tensor at a time.

    Args:
      dtype: of the weights in the files: "float32" (exact for every quantisation), "bfloat16" or
        "float16".
      overwrite: replace a directory that holds a model.

    Raises:
      ValueError: the file is damaged, or its architecture, an option of it, its tensors, their
        quantisation or its tokenizer are not supported. Nothing is written.
      FileExistsError: the directory is not empty, and overwrite is False or it contains other
        files.
    """
    if dtype not in huggingface.PARAM_DTYPES:
        expected = ", ".join(huggingface.PARAM_DTYPES)
        raise ValueError(f"dtype={dtype!r}: expected one of {expected}")
    file = read(path)
    where = str(file.path)
    shapes = {name: tensor.shape for name, tensor in file.tensors.items()}
    factors = None
    if gguf_families.ROPE_FACTORS in shapes:
        factors = dequantised(file, gguf_families.ROPE_FACTORS).reshape(-1)
    fields = gguf_families.config(file.metadata, shapes, factors, where)
    sources = gguf_families.sources(fields)
    gguf_families.check_shapes(sources, shapes, where)
    check_kinds(file)
    tokenizer = gguf_tokenizer.tokenizer(file.metadata, where)
    companions = {
        "config.json": {**fields, "torch_dtype": dtype},
        "generation_config.json": gguf_tokenizer.generation_config(file.metadata),
        "tokenizer_config.json": gguf_tokenizer.tokenizer_config(file.metadata, where),
    }
    itemsize = jnp.dtype(dtype).itemsize
    sizes = {name: itemsize * math.prod(source.shape) for name, source in sources.items()}

    def read_tensor(name: str) -> np.ndarray:
        source = sources[name]
        return dequantised(file, source.name, heads=source.heads, shift=source.shift, dtype=dtype)

    with tensor_files.replacing(pathlib.Path(directory), overwrite, huggingface._is_ours) as fresh:
        for name, content in companions.items():
            tensor_files.write_json(fresh / name, content)
        gguf_tokenizer.save(tokenizer, fresh / "tokenizer.json")
        tensor_files.write_tensors(fresh, sizes, read_tensor, tensor_files.SHARD_BYTES)
    return fields
