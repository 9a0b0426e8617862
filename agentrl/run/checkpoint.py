"""Checkpoints of the whole training state, through Orbax."""

import functools
import itertools
import json
import os
import pathlib
import sys
import time
import types
from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax

from agentrl.run import checksums, processes
from agentrl.run.files import steps

# What Orbax leaves in each checkpoint, of which one is enough to know it by.
_MARKS = ("_CHECKPOINT_METADATA", "commit_success.txt", "default")


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used; the message gives reason and remedy. Files are
    unchanged."""


def _manager(directory: pathlib.Path, keep: int | None, create: bool) -> Any:
    import orbax.checkpoint as ocp  # a second to import; a short run saves only at its end

    return ocp.CheckpointManager(
        directory.absolute(),
        options=ocp.CheckpointManagerOptions(
            max_to_keep=keep,
            create=create,
            # The state's buffers are donated to the next update, so they must be on disk before it.
            enable_async_checkpointing=False,
        ),
    )


def save(directory: pathlib.Path, step: int, state: chex.ArrayTree, keep: int) -> None:
    """Saves the state under its update number; older ones beyond `keep` are deleted.

    Orbax writes into a temporary directory and renames it when complete, so killing the process
    does not damage earlier checkpoints. Checksums follow; a checkpoint that was left without them
    is restored unchecked.
    """
    import orbax.checkpoint as ocp

    with _manager(directory, keep, create=True) as manager:
        manager.save(step, args=ocp.args.StandardSave(state))
    # All processes have written: Orbax waits for them.
    if processes.is_first():
        checksums.write(directory / str(step))


# The last commit whose language policies have an entry per layer, params["layers"]["0"], ...
_UNSTACKED = "d6b663a"


def check(directory: pathlib.Path) -> None:
    """CheckpointError for a folder that looks like a checkpoint and is none, and for a decoder
    whose layers are not stacked arrays."""
    for step in steps(directory):
        path = directory / str(step)
        if not any((path / name).exists() for name in _MARKS):
            raise CheckpointError(
                f"{path} has the name of a checkpoint and holds none (no {_MARKS[0]}): with it "
                "there nothing would be saved; move it away, or use another --workdir"
            )
        try:
            content = json.loads((path / "default" / "_METADATA").read_text())
        except (OSError, ValueError):  # damaged, which restoring tells
            continue
        names = content.get("tree_metadata", {}) if isinstance(content, dict) else {}
        if any("'layers', '0', " in name for name in names):
            raise CheckpointError(
                f"checkpoint {path} has a decoder from before layers were stacked arrays: read it "
                f"with git checkout {_UNSTACKED}, whose launchers.export writes it for policy "
                "'pretrained'; or use another --workdir"
            )


def _whole(directory: pathlib.Path, found: Sequence[int]) -> int:
    """The last of these updates whose checkpoint is as it was saved. The first process looks at the
    files, and says which are damaged.

    Raises:
      CheckpointError: none is.
    """
    chosen, wrong = -1, []
    for step in reversed(found) if processes.is_first() else ():
        damage = checksums.damage(directory / str(step))
        if damage is None:
            chosen = step
            break
        wrong.append(damage)
    chosen = processes.from_first(chosen)
    if chosen < 0:
        others = [step for step in steps(directory) if step not in found]
        none = f"; none of {len(found)} checkpoints is whole" if len(found) > 1 else ""
        remedy = f"name another update ({', '.join(map(str, others))})" if others else ""
        raise CheckpointError(
            f"{wrong[0] if wrong else directory / str(found[-1])}{none}; "
            f"{remedy or 'use another --workdir'}, or put a copy of it back; without "
            f"{checksums.NAME} a checkpoint is read unchecked"
        )
    for damage in wrong:
        print(f"warning: {damage}; taking the checkpoint of update {chosen}", file=sys.stderr)
    return chosen


def set_aside(directory: pathlib.Path, update: int) -> None:
    """Renames the checkpoints after an update, which are damaged, N.damaged: a run that goes on
    from there saves its own under their names."""
    for step in steps(directory):
        if step > update:
            names = (f"{step}.damaged{i or ''}" for i in itertools.count())
            free = next(name for name in names if not os.path.lexists(directory / name))
            (directory / str(step)).rename(directory / free)


def restore(
    directory: pathlib.Path, like: chex.ArrayTree, step: int | None = None
) -> tuple[int, Any]:
    """Restores (update, state), the newest that is whole unless `step` is given.

    A damaged one that is left out is told on stderr. Each file is hashed at most once.

    like: the state's structure as arrays or `jax.ShapeDtypeStruct`s, with shardings if they differ
    from those at saving.

    Raises:
      CheckpointError: no checkpoint there, unreadable, or of another model or algorithm.
    """
    import orbax.checkpoint as ocp

    found = steps(directory)
    if not found:
        raise CheckpointError(
            f"no checkpoint in {directory}; train first, or name the run's own directory"
        )
    if step is not None and step not in found:
        raise CheckpointError(
            f"no checkpoint of update {step} in {directory}; there are {', '.join(map(str, found))}"
        )
    check(directory)
    step = _whole(directory, found if step is None else [step])
    shown = sys.unraisablehook, sys.excepthook
    sys.unraisablehook = functools.partial(_but_of_readers, sys.unraisablehook)
    sys.excepthook = functools.partial(_but_of_late_readers, sys.excepthook)
    try:
        with _manager(directory, None, create=False) as manager:
            state = manager.restore(step, args=ocp.args.StandardRestore(like))
        sys.unraisablehook, sys.excepthook = shown
    except Exception as error:  # Orbax raises whatever its readers raise
        time.sleep(0.5)  # for those that read on: at the end of the process nothing silences them
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        earlier = [s for s in found if s < step]
        remedy = "use another --workdir, or the version that wrote it (provenance.json, git.commit)"
        if earlier:
            remedy += f", or move {directory / str(step)} away to go on from update {earlier[-1]}"
        raise CheckpointError(
            f"checkpoint {directory / str(step)} is damaged, or of another experiment or version "
            f"of agentrl ({reason[:200]}); {remedy}"
        ) from error
    wanted = jax.tree_util.tree_flatten_with_path(like)[0]
    for (path, want), got in zip(wanted, jax.tree.leaves(state), strict=True):
        if want.shape != got.shape or want.dtype != got.dtype:
            raise CheckpointError(
                f"checkpoint {directory / str(step)}: {jax.tree_util.keystr(path)} is "
                f"{got.dtype}{list(got.shape)}, this config needs "
                f"{want.dtype}{list(want.shape)}; use the run's own config"
            )
    return step, state


# Orbax starts many readers per checkpoint. When the first fails the others are cancelled, and
# Python would print a traceback for each that is garbage-collected or still running in a thread,
# before or after our own message.


def _but_of_readers(show: Callable[..., None], unraisable: "sys.UnraisableHookArgs") -> None:
    """Shows an error that cannot be raised, unless it is a cancelled reader's."""
    code = getattr(unraisable.object, "cr_code", None)
    if code is None or "orbax" not in code.co_filename:
        show(unraisable)


def _but_of_late_readers(
    show: Callable[..., None],
    kind: type[BaseException],
    error: BaseException,
    trace: types.TracebackType | None,
) -> None:
    """Shows an uncaught error, unless it is a reader's whose event loop is closed."""
    if kind is not RuntimeError or str(error) != "Event loop is closed":
        show(kind, error, trace)
