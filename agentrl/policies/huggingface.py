"""Weights of published models: read from Hugging Face's safetensors, and written back.

Families: see `agentrl.policies.families`. Only local files are read, config.json and safetensors
alone, and no code in them is run.
"""

import fnmatch
import math
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import decoder, families, lora, tensor_files
from agentrl.policies.decoder import DecoderConfig, Params
from agentrl.policies.tensor_files import WeightsError

PARAM_DTYPES = ("float32", "bfloat16", "float16")
# Files besides the weights that a serving program reads.
_COMPANIONS = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "LICENSE*",
    "NOTICE*",
)
# Buffers in old files, which follow from config.json.
_DERIVED = re.compile(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")
# Bytes of a file that are read at a time, for comparison or conversion.
_BLOCK = 2**24

Sharding = Callable[[str, tuple[int, ...]], jax.sharding.Sharding]


def _name(path: tuple[str, ...]) -> str:
    """Hugging Face's name of a parameter: ("layers", "0", "mlp", "up_proj", "kernel"), ..."""
    *modules, leaf = path
    prefix = () if path[0] == "lm_head" else ("model",)
    return ".".join((*prefix, *modules, "weight" if leaf == "kernel" else leaf))


def _leaves(config: DecoderConfig) -> Iterator[tuple[tuple[str, ...], jax.ShapeDtypeStruct]]:
    """(path, shape) of every parameter except the value heads, in the order of the layers."""
    shapes = jax.eval_shape(lambda: decoder.init(jax.random.key(0), config))

    def walk(node, path):
        if not isinstance(node, dict):
            yield path, node
            return
        for name in sorted(node, key=lambda n: (n.isdigit(), int(n) if n.isdigit() else 0, n)):
            yield from walk(node[name], (*path, name))

    for name in ("embed_tokens", "layers", "norm", "lm_head"):
        if name in shapes:
            yield from walk(shapes[name], (name,))


def _is_transposed(path: tuple[str, ...]) -> bool:
    return path[-1] == "kernel"


def _file_shape(path: tuple[str, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if _is_transposed(path) else shape


def read_config(directory: str | os.PathLike, *, dtype: str = "float32") -> DecoderConfig:
    """Decoder configuration of a directory's config.json; dtype: of activations. Errors as
    `load`."""
    path = tensor_files.inside(pathlib.Path(directory), "config.json")
    return families.read(tensor_files.read_json(path), dtype=dtype, where=str(path))


def load(
    directory: str | os.PathLike,
    *,
    dtype: str = "float32",
    param_dtype: str = "float32",
    sharding: Sharding | None = None,
) -> tuple[DecoderConfig, Params]:
    """Reads (config, params) of a model in a directory: config.json and safetensors.

    Tensors are read one at a time, each device's shard separately and in blocks, so the host holds
    one tensor and a block besides the devices' arrays.

    Args:
      dtype: of activations, "float32" or "bfloat16".
      param_dtype: of parameters, whatever the file's dtype (F32, F16 or BF16): "float32",
        "bfloat16" or "float16".
      sharding: (path as "layers/0/mlp/up_proj/kernel", shape) -> sharding of the parameter.
        Default: on the first device.

    Raises:
      WeightsError (a ValueError): a file or tensor is missing, damaged, of another shape or dtype
        than config.json implies, unexpected, or outside of the directory; or the weights have
        another format.
      ValueError: the decoder does not support the model. Both name the file and the tensor.
    """
    directory = pathlib.Path(directory)
    if param_dtype not in PARAM_DTYPES:
        raise ValueError(f"param_dtype={param_dtype!r}: expected one of {', '.join(PARAM_DTYPES)}")
    config = read_config(directory, dtype=dtype)
    params: Params = {}
    with tensor_files.Tensors(directory) as tensors:
        leaves = list(_leaves(config))
        tied_head = config.tie_embeddings and "lm_head.weight" in tensors.where
        tensors.check(
            {_name(path): _file_shape(path, leaf.shape) for path, leaf in leaves},
            lambda name: bool(_DERIVED.fullmatch(name)) or (tied_head and name == "lm_head.weight"),
        )
        if tied_head:
            _check_tied(tensors, directory, config)
        for path, leaf in leaves:
            node = params
            for part in path[:-1]:
                node = node.setdefault(part, {})
            where = None if sharding is None else sharding("/".join(path), leaf.shape)
            node[path[-1]] = _read(tensors, path, leaf.shape, jnp.dtype(param_dtype), where)
    return config, params


def _read(tensors, path, shape, dtype, where) -> jax.Array:
    name, transposed = _name(path), _is_transposed(path)

    def part(index: tuple[slice, ...]) -> np.ndarray:
        bounds = [range(*cut.indices(size)) for cut, size in zip(index, shape, strict=True)]
        out = np.empty([len(bound) for bound in bounds], dtype)
        there, bounds = (out.T, bounds[::-1]) if transposed else (out, bounds)
        rows, *others = (slice(bound.start, bound.stop) for bound in bounds)
        # As float32, whose size no file's dtype exceeds.
        for at in _blocks(rows.stop - rows.start, 4 * math.prod(there.shape[1:])):
            cut = slice(rows.start + at.start, rows.start + at.stop)
            there[at] = tensors.read(name, (cut, *others))
        return out

    if where is None:
        where = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    # Waiting keeps one tensor on the host instead of all that are being transferred.
    return jax.block_until_ready(jax.make_array_from_callback(shape, where, part, dtype=dtype))


def _blocks(rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices of rows with at most _BLOCK bytes, and at least one row."""
    size = max(1, _BLOCK // row_bytes)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _check_tied(tensors, directory, config) -> None:
    """A head besides a tied embedding must be the same matrix; otherwise the file is ambiguous."""
    for at in _blocks(config.vocab_size, 4 * config.width):
        rows = (at, slice(0, config.width))
        head, table = (
            tensors.read(name, rows) for name in ("lm_head.weight", "model.embed_tokens.weight")
        )
        if head.shape != table.shape or not np.array_equal(head, table):
            raise WeightsError(
                f"{directory / tensors.where['lm_head.weight']}: lm_head.weight is not "
                "model.embed_tokens.weight, though config.json ties them; set tie_word_embeddings "
                "to false there if the head is its own"
            )


def save(
    directory: str | os.PathLike,
    config: DecoderConfig,
    params: Params,
    *,
    source: str | os.PathLike | None = None,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    shard_bytes: int = 5 * 10**9,
    overwrite: bool = False,
    role: int | None = None,
) -> None:
    """Writes a model for transformers and compatible servers: the inverse of `load`.

    The directory appears when it is complete on disk. Adapters are merged into their matrices.
    Value heads are left out: published models have none.

    Args:
      source: directory of the model that training started from. Its config.json, tokenizer,
        generation_config.json and licence are kept; ValueError if it is a different model.
      fields: more of config.json, such as max_position_embeddings, bos_token_id, eos_token_id.
      dtype: of the weights in the files; default: unchanged.
      shard_bytes: largest size of a file, unless one tensor is larger. The host holds one tensor at
        a time.
      overwrite: replace a directory that holds a model. (For a moment between two renamings its
        only name is .NAME.PID.old.)
      role: the role whose adapters are merged, if each has its own.

    Raises:
      ValueError: parameters do not match the config, or no family has such a config.
      FileExistsError: the directory is not empty, and overwrite is False or it contains other
        files.
    """
    directory = pathlib.Path(directory)
    if dtype is not None and dtype not in PARAM_DTYPES:
        raise ValueError(f"dtype={dtype!r}: expected one of {', '.join(PARAM_DTYPES)}")
    config, params = lora.merge(params, config, role)
    content = _config_fields(config, source) | dict(fields or {})
    leaves = {}
    for path, shape in _leaves(config):
        leaf = params
        for part in path:
            leaf = leaf.get(part, {}) if isinstance(leaf, Mapping) else {}
        if getattr(leaf, "shape", None) != shape.shape:
            raise ValueError(
                f"parameter {'/'.join(path)} has shape {getattr(leaf, 'shape', None)}, the config "
                f"needs {shape.shape}"
            )
        leaves[_name(path)] = (path, leaf)
    count = sum(1 for _ in jax.tree.leaves({k: v for k, v in params.items() if k != "value_head"}))
    if count != len(leaves):
        raise ValueError(
            f"parameters: {count} arrays, the config has {len(leaves)} besides value heads; merge "
            "or remove the others"
        )
    kinds = {dtype} if dtype else {str(leaf.dtype) for _, leaf in leaves.values()}
    # Of several dtypes the widest is the file's; programs read each tensor by its own.
    content["torch_dtype"] = max(kinds, key=lambda kind: jnp.dtype(kind).itemsize)

    def read(name: str) -> np.ndarray:
        path, leaf = leaves[name]
        value = np.asarray(leaf)
        value = value.T if _is_transposed(path) else value
        return np.ascontiguousarray(value, dtype=jnp.dtype(dtype or leaf.dtype))

    sizes = {
        name: leaf.size * jnp.dtype(dtype or leaf.dtype).itemsize
        for name, (_, leaf) in leaves.items()
    }
    with tensor_files.replacing(directory, overwrite, _is_ours) as fresh:
        tensor_files.write_json(fresh / "config.json", content)
        tensor_files.write_tensors(fresh, sizes, read, shard_bytes)
        if source is not None:
            for path in sorted(pathlib.Path(source).iterdir()):
                if any(fnmatch.fnmatch(path.name, form) for form in _COMPANIONS):
                    shutil.copyfile(
                        tensor_files.inside(pathlib.Path(source), path.name), fresh / path.name
                    )


def _config_fields(config: DecoderConfig, source: str | os.PathLike | None) -> dict[str, Any]:
    if source is None:
        return families.write(config)
    path = tensor_files.inside(pathlib.Path(source), "config.json")
    content = tensor_files.read_json(path)
    wrong = families.differences(config, families.read(content, where=str(path)))
    if wrong:
        raise ValueError(
            f"source={str(source)!r} is a different model than the config (ours, the source's: "
            f"{'; '.join(wrong)})"
        )
    # Only the dtype written here is valid; the field's other name would contradict it.
    return {name: value for name, value in content.items() if name != "dtype"}


def _is_ours(name: str) -> bool:
    forms = ("config.json", "*.safetensors", tensor_files.INDEX, *_COMPANIONS)
    return any(fnmatch.fnmatch(name, form) for form in forms)
