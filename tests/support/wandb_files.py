"""Reads what Weights & Biases writes without network: `run-ID.wandb`.

The format is LevelDB's log: after a header of 7 bytes, blocks of 32 KiB of parts with checksum,
length and kind (1 whole, 2 first, 3 middle, 4 last); what they make up is a protobuf Record.
"""

import json
import pathlib
import struct
from collections.abc import Iterator

BLOCK = 32768


def records(path: pathlib.Path) -> Iterator:
    """The records of a file."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def logged(directory: pathlib.Path, name: str) -> tuple[dict, list[dict]]:
    """(config, lines of the history) of the one run of a name; numbers of W&B's own left out."""
    (path,) = directory.glob(f"wandb/offline-run-*-{name}/*.wandb")
    config, history = {}, []
    for record in records(path):
        if record.WhichOneof("record_type") == "run":
            config = {u.key: json.loads(u.value_json) for u in record.run.config.update}
        if record.WhichOneof("record_type") == "history":
            line = {
                ".".join(i.nested_key) or i.key: json.loads(i.value_json)
                for i in record.history.item
            }
            step = line.pop("_step")
            own = {key: x for key, x in line.items() if not key.startswith("_")}
            history.append({"update": step, **own})
    return config, history
