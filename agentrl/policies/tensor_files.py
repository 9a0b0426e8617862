"""Weights on disk: directories of safetensors, validated on reading and written atomically.

Only safetensors are read: other formats of weights can run code when they are opened.
"""

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Largest size of a written file, unless one tensor is larger.
SHARD_BYTES = 5 * 10**9
# Tensors of these types are plain numbers; integers and 8-bit floats would be quantised.
_DTYPE_NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_DTYPES = tuple(_DTYPE_NAMES.values())


class WeightsError(ValueError):
    """Weights that cannot be read; the message names the file and the tensor."""


def inside(directory: pathlib.Path, name: str) -> pathlib.Path:
    """The file of that name in a directory.

    A link may leave the directory in one case: to the blob store of the Hugging Face cache
    (`snapshots/REVISION/NAME` to `blobs/HASH` of the same model).

    Raises:
      WeightsError: the name contains a path, or leads out of the directory.
    """
    plain = isinstance(name, str) and name == pathlib.PurePath(name).name and "\\" not in name
    if not plain or name in ("", ".."):
        raise WeightsError(
            f"{directory}: file name {name!r}: expected a plain name, of a file in the directory"
        )
    path, allowed = directory / name, [directory.resolve()]
    if directory.absolute().parent.name == "snapshots":
        allowed.append((directory.absolute().parent.parent / "blobs").resolve())
    if path.resolve().parent not in allowed:
        raise WeightsError(
            f"{path} is a link to {path.resolve()}, outside of the directory; put the file itself "
            "there"
        )
    return path


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """An object from a JSON file. WeightsError if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WeightsError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{path} is not readable JSON ({error})") from None
    if not isinstance(content, dict):
        raise WeightsError(f"{path}: expected a JSON object")
    return content


def _indexed(directory: pathlib.Path) -> dict[str, str | None] | None:
    """File by tensor, from the index; None for a single file."""
    has_single, has_index = ((directory / name).exists() for name in (SINGLE, INDEX))
    if has_single and has_index:
        raise WeightsError(f"{directory} holds both {SINGLE} and {INDEX}; remove one")
    if has_single:
        return None
    if not has_index:
        found = sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []
        others = [n for n in found if n.endswith((".bin", ".pt", ".pth", ".ckpt", ".h5", ".gguf"))]
        if others:
            raise WeightsError(
                f"{directory} has its weights in {', '.join(others[:3])}: safetensors are needed, "
                "the other formats are not opened because some can run code; look for a version of "
                "the model with .safetensors files"
            )
        raise WeightsError(f"{directory} holds neither {SINGLE} nor {INDEX}")
    table = read_json(inside(directory, INDEX)).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise WeightsError(f"{directory / INDEX}: weight_map is missing or empty")
    return table


class Tensors:
    """The tensors of a directory, read by name and in parts.

    where: file of each tensor. Files stay open (mapped, not read) until the context ends.

    Parts are read through a temporary mapping: pages that a mapping has touched count as the
    process's memory until it is closed, in the end the whole file.
    """

    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        self._stack = contextlib.ExitStack()
        self._files: dict[str, Any] = {}
        self.where: dict[str, str] = {}
        table = _indexed(directory)
        names = [SINGLE] if table is None else sorted({*table.values()}, key=str)
        paths = [inside(directory, name) for name in names]
        for path in paths:
            if not path.is_file():
                raise WeightsError(f"{path} is missing, though {INDEX} names it")
        for name, path in zip(names, paths, strict=True):
            try:
                file = self._stack.enter_context(safe_open(path, framework="np"))
            except (SafetensorError, OSError) as error:
                raise WeightsError(
                    f"{path} is truncated, or not a safetensors file ({error}); fetch it again"
                ) from None
            self._files[name] = file
            for tensor in file.keys():  # noqa: SIM118 (not a dict)
                if table is not None and table.get(tensor) != name:
                    raise WeightsError(
                        f"{path} holds tensor {tensor!r}, which by {INDEX} is in "
                        f"{table.get(tensor, 'no file')!r}"
                    )
                self.where[tensor] = name
        for tensor, name in (table or {}).items():
            if tensor not in self.where:
                raise WeightsError(
                    f"{directory / INDEX}: tensor {tensor!r} is not in {name!r}, where it should be"
                )

    def __enter__(self) -> "Tensors":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def _slice(self, tensor: str) -> Any:
        return self._files[self.where[tensor]].get_slice(tensor)

    def check(self, shapes: Mapping[str, tuple[int, ...]], spare: Callable[[str], bool]) -> None:
        """WeightsError unless exactly these tensors exist, with these shapes, as floats.

        spare: names that may exist and are not read.
        """
        missing = [name for name in shapes if name not in self.where]
        if missing:
            raise WeightsError(
                f"{self.directory}: tensor {missing[0]!r} is missing"
                + (f", and {len(missing) - 1} more" if missing[1:] else "")
            )
        for tensor, file in self.where.items():
            path = self.directory / file
            if tensor not in shapes:
                if spare(tensor):
                    continue
                raise WeightsError(
                    f"{path}: tensor {tensor!r} does not belong to a model of this config.json"
                )
            part = self._slice(tensor)
            got, dtype = tuple(part.get_shape()), part.get_dtype()
            if got != shapes[tensor]:
                raise WeightsError(
                    f"{path}: tensor {tensor!r} has shape {got}, expected by config.json: "
                    f"{shapes[tensor]}"
                )
            if dtype not in _DTYPES:
                raise WeightsError(
                    f"{path}: tensor {tensor!r} is of type {dtype}: expected one of "
                    f"{', '.join(_DTYPES)} (quantised weights are not read)"
                )

    def read(self, tensor: str, index: tuple[slice, ...]) -> np.ndarray:
        """A part of a tensor, in the file's dtype; only that part is read.

        Raises:
          WeightsError: the file has changed since it was opened.
        """
        path, known = self.directory / self.where[tensor], self._slice(tensor)
        try:
            with safe_open(path, framework="np") as file:
                part = file.get_slice(tensor)
                same = part.get_shape() == known.get_shape() and part.get_dtype() == (
                    known.get_dtype()
                )
                if same:
                    return part[index]
        except (SafetensorError, OSError) as error:
            raise WeightsError(f"{path} changed while it was read ({error})") from None
        raise WeightsError(f"{path} changed while it was read: tensor {tensor!r} differs")


@contextlib.contextmanager
def replacing(directory: pathlib.Path, overwrite: bool, ours: Callable[[str], bool]) -> Iterator:
    """A directory to write in, which gets its name when all files are on disk.

    overwrite: a directory of that name may exist if all its files could be a model's according to
    `ours`; it is removed when the new one is complete.

    Raises:
      FileExistsError: it exists, and must not be removed.
    """
    directory = directory.absolute()
    found = sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []
    if directory.exists() and not directory.is_dir():
        raise FileExistsError(f"{directory} is a file; name another directory")
    if found and not overwrite:
        raise FileExistsError(
            f"{directory} is not empty; name another directory, or overwrite=True if it holds a "
            "model that can be deleted"
        )
    foreign = [n for n in found if (directory / n).is_dir() or not ours(n)]
    if foreign:
        raise FileExistsError(
            f"{directory} holds {foreign[0]!r}, not a file of a model: not overwritten"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = directory.with_name(f".{directory.name}.{os.getpid()}.new")
    old = directory.with_name(f".{directory.name}.{os.getpid()}.old")
    fresh.mkdir()
    try:
        yield fresh
        for path in (*fresh.iterdir(), fresh):
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        if found:
            os.rename(directory, old)
        os.rename(fresh, directory)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if found:
        shutil.rmtree(old)


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
    """Writes an object as indented JSON."""
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def write_tensors(
    directory: pathlib.Path,
    sizes: Mapping[str, int],
    read: Callable[[str], np.ndarray],
    shard_bytes: int,
) -> None:
    """Writes tensors (bytes by name) in files of `shard_bytes`, with one tensor in memory at a
    time."""
    shards: list[list[str]] = [[]]
    room = shard_bytes
    for name, size in sizes.items():
        if shards[-1] and size > room:
            shards.append([])
            room = shard_bytes
        shards[-1].append(name)
        room -= size
    count, table = len(shards), {}
    for i, names in enumerate(shards):
        file = SINGLE if count == 1 else f"model-{i + 1:05d}-of-{count:05d}.safetensors"
        _write_file(directory / file, {name: sizes[name] for name in names}, read)
        table |= dict.fromkeys(names, file)
    if count > 1:
        total = {"total_size": sum(sizes.values())}
        write_json(directory / INDEX, {"metadata": total, "weight_map": table})


def _write_file(
    path: pathlib.Path, sizes: Mapping[str, int], read: Callable[[str], np.ndarray]
) -> None:
    """Writes one file: the length of the header, the header as JSON, then the tensors.

    The header precedes the tensors and holds their dtypes and shapes, which are known once they
    are read; so its room is left free, filled at the end, and padded with spaces.
    """
    # Tensors whose sizes are multiples of 8 bytes come first, then of 4 and 2: each begins at a
    # multiple of its itemsize, which torch requires.
    names = sorted(sizes, key=lambda name: -min(sizes[name] & -sizes[name] or 8, 8))
    room = -(-(256 + sum(256 + len(json.dumps(name)) for name in names)) // 8) * 8
    # transformers requires the field "format", the framework that wrote the file.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    with path.open("wb") as file:
        file.seek(8 + room)
        at = 0
        for name in names:
            array = np.ascontiguousarray(read(name))
            if array.nbytes != sizes[name]:
                raise ValueError(f"{name}: {array.nbytes} bytes, announced {sizes[name]}")
            header[name] = {
                "dtype": _DTYPE_NAMES[str(array.dtype)],
                "shape": list(array.shape),
                "data_offsets": [at, at + array.nbytes],
            }
            file.write(array.reshape(-1).view(np.uint8))
            at += array.nbytes
        text = json.dumps(header).encode()
        assert len(text) <= room, (len(text), room)
        file.seek(0)
        file.write(room.to_bytes(8, "little") + text.ljust(room))
