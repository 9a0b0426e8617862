"""Weights of published models: read from Hugging Face's safetensors, and written back.

Families: see `agentrl.policies.families`. Only local files are read, config.json and safetensors
alone, and no code in them is run.
"""

import fnmatch
import functools
import math
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.policies import decoder, families, lora, output_heads, tensor_files
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
_ORDER = ("embed_tokens", "layers", "norm", "lm_head")
# Bytes of a file that are read at a time, for comparison or conversion.
_BLOCK = 2**24

Sharding = Callable[[str, tuple[int, ...]], jax.sharding.Sharding]


class _Leaf(NamedTuple):
    """A parameter: path ("layers", "mlp", "up_proj", "kernel"), shape, and the names of its tensors
    in the file: one per layer for stacked parameters, whose shape begins with the layers."""

    path: tuple[str, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def is_stacked(self) -> bool:
        """Whether each layer has a tensor in the file."""
        return self.path[0] == "layers"

    @property
    def is_transposed(self) -> bool:
        """Whether the file has [out, in]."""
        return self.path[-1] == "kernel"

    @property
    def file_shape(self) -> tuple[int, ...]:
        """Of each tensor in the file."""
        shape = self.shape[1:] if self.is_stacked else self.shape
        return shape[::-1] if self.is_transposed else shape


def _names(path: tuple[str, ...], layers: int) -> tuple[str, ...]:
    """Hugging Face's names of a parameter's tensors."""
    first, *modules, leaf = path
    end = [*modules, "weight" if leaf == "kernel" else leaf]
    if first == "layers":
        return tuple(".".join(["model", first, str(i), *end]) for i in range(layers))
    return (".".join([*([] if first == "lm_head" else ["model"]), first, *end]),)


def _leaves(config: DecoderConfig) -> list[_Leaf]:
    """Every parameter except the value heads."""
    shapes = jax.eval_shape(lambda: decoder.init(jax.random.key(0), config))
    out = []
    for name in (name for name in _ORDER if name in shapes):
        for path, leaf in jax.tree_util.tree_flatten_with_path(shapes[name])[0]:
            names = (name, *(entry.key for entry in path))
            out.append(_Leaf(names, leaf.shape, _names(names, config.layers)))
    return out


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
    one tensor and a block besides the devices' arrays. Those of the layers are written into their
    stacked arrays one after another.

    Args:
      dtype: of activations, "float32" or "bfloat16".
      param_dtype: of parameters, whatever the file's dtype (F32, F16 or BF16): "float32",
        "bfloat16" or "float16".
      sharding: (path as "layers/mlp/up_proj/kernel", shape) -> sharding of the parameter; stacked
        ones are not split over layers. Default: on the first device.

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
        leaves = _leaves(config)
        tied_head = config.tie_embeddings and "lm_head.weight" in tensors.where
        tensors.check(
            {name: leaf.file_shape for leaf in leaves for name in leaf.names},
            lambda name: bool(_DERIVED.fullmatch(name)) or (tied_head and name == "lm_head.weight"),
        )
        if tied_head:
            _check_tied(tensors, directory, config)
        for leaf in leaves:
            node = params
            for part in leaf.path[:-1]:
                node = node.setdefault(part, {})
            where = jax.sharding.SingleDeviceSharding(jax.devices()[0])
            if sharding is not None:
                where = sharding("/".join(leaf.path), leaf.shape)
            read = _read_stacked if leaf.is_stacked else _read
            node[leaf.path[-1]] = read(tensors, leaf, jnp.dtype(param_dtype), where)
    return config, params


def _read_stacked(tensors, leaf, dtype, where) -> jax.Array:
    """All layers' tensors of a stacked parameter, each written into its place."""
    of_layer = where
    if isinstance(where, jax.sharding.NamedSharding):
        spec = jax.sharding.PartitionSpec(*where.spec[1:])
        of_layer = jax.sharding.NamedSharding(where.mesh, spec)
    put = _put_into(where)
    out = _zeros_at(where)(leaf.shape, dtype)
    for i, name in enumerate(leaf.names):
        one = leaf._replace(shape=leaf.shape[1:], names=(name,))
        out = jax.block_until_ready(put(out, _read(tensors, one, dtype, of_layer), i))
    return out


# One jitted function for each sharding: tensors of equal shapes share their programs.
@functools.cache
def _put_into(where: jax.sharding.Sharding) -> Callable[..., jax.Array]:
    """A function that writes x into place i of a stack, whose memory it takes over."""
    return jax.jit(
        lambda stack, x, i: jax.lax.dynamic_update_index_in_dim(stack, x, i, 0),
        donate_argnums=0,
        out_shardings=where,
    )


@functools.cache
def _zeros_at(where: jax.sharding.Sharding) -> Callable[..., jax.Array]:
    """Zeros of a shape and dtype, made where they belong."""
    return jax.jit(jnp.zeros, static_argnums=(0, 1), out_shardings=where)


def _read(tensors, leaf, dtype, where) -> jax.Array:
    (name,), shape, transposed = leaf.names, leaf.shape, leaf.is_transposed

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
    companions: Mapping[str, Mapping[str, Any]] | None = None,
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
      companions: contents of further JSON files by name, such as tokenizer.json; they replace
        those of the source.

    Raises:
      ValueError: parameters do not match the config, or no family has such a config.
      FileExistsError: the directory is not empty, and overwrite is False or it contains other
        files.
    """
    directory = pathlib.Path(directory)
    if dtype is not None and dtype not in PARAM_DTYPES:
        raise ValueError(f"dtype={dtype!r}: expected one of {', '.join(PARAM_DTYPES)}")
    config, params = output_heads.merge(*lora.merge(params, config, role))
    content = _config_fields(config, source) | dict(fields or {})
    leaves = _checked(params, config)
    kinds = {dtype} if dtype else {str(value.dtype) for _, value in leaves}
    # Of several dtypes the widest is the file's; programs read each tensor by its own.
    content["torch_dtype"] = max(kinds, key=lambda kind: jnp.dtype(kind).itemsize)

    found = [(leaf, value, i) for leaf, value in leaves for i in range(len(leaf.names))]
    # Layer by layer, as other programs write them.
    found.sort(key=lambda item: (_ORDER.index(item[0].path[0]), item[2]))
    tensors = {leaf.names[i]: (leaf, value, i) for leaf, value, i in found}
    sizes = {
        name: math.prod(leaf.file_shape) * jnp.dtype(dtype or value.dtype).itemsize
        for name, (leaf, value, _) in tensors.items()
    }

    def read(name: str) -> np.ndarray:
        leaf, value, i = tensors[name]
        one = np.asarray(value[i] if leaf.is_stacked else value)
        one = one.T if leaf.is_transposed else one
        return np.ascontiguousarray(one, dtype=jnp.dtype(dtype or value.dtype))

    with tensor_files.replacing(directory, overwrite, _is_ours) as fresh:
        tensor_files.write_json(fresh / "config.json", content)
        tensor_files.write_tensors(fresh, sizes, read, shard_bytes)
        if source is not None:
            for path in sorted(pathlib.Path(source).iterdir()):
                if any(fnmatch.fnmatch(path.name, form) for form in _COMPANIONS):
                    shutil.copyfile(
                        tensor_files.inside(pathlib.Path(source), path.name), fresh / path.name
                    )
        for name, content in (companions or {}).items():
            tensor_files.write_json(fresh / name, content)


def _checked(params: Params, config: DecoderConfig) -> list[tuple[_Leaf, jax.Array]]:
    """The parameters that are written, with their arrays. ValueError unless they fit the config."""
    leaves = []
    for leaf in _leaves(config):
        value = params
        for part in leaf.path:
            value = value.get(part, {}) if isinstance(value, Mapping) else {}
        if getattr(value, "shape", None) != leaf.shape:
            raise ValueError(
                f"parameter {'/'.join(leaf.path)} has shape {getattr(value, 'shape', None)}, the "
                f"config needs {leaf.shape}"
            )
        leaves.append((leaf, value))
    count = sum(1 for _ in jax.tree.leaves({k: v for k, v in params.items() if k != "value_head"}))
    if count != len(leaves):
        raise ValueError(
            f"parameters: {count} arrays, the config has {len(leaves)} besides value heads; merge "
            "or remove the others"
        )
    return leaves


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
