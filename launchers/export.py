"""Writes a run's policy as files that other programs read.

    python -m launchers.export --workdir=runs/household --out=models/household

A language policy becomes Hugging Face's files, which transformers and compatible servers load:
config.json, safetensors, tokenizer, chat template, generation_config.json. Of a published model
the tokenizer, config.json and licence are those of the directory that training started from;
adapters are merged, and if each role has one of its own, --role selects it. A policy over arrays
becomes safetensors and policy.json, which says what the tensors are.
"""

import pathlib
import sys

from absl import flags

from launchers import cli

_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_OUT = flags.DEFINE_string("out", None, "Directory to write.")
_UPDATE = flags.DEFINE_integer("update", None, "Checkpoint; the newest by default.")
_SEED = flags.DEFINE_integer("seed", None, "One of the run's seeds; the first by default.")
_ROLE = flags.DEFINE_integer("role", None, "Role whose adapters are merged, if each has its own.")
_DTYPE = flags.DEFINE_enum(
    "dtype", None, ["float32", "bfloat16", "float16"], "Dtype of the weights; unchanged by default."
)
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace a directory that holds a model.")


def main(argv: list[str]) -> None:
    """Restores the run's checkpoint, and writes its policy as files of Hugging Face."""
    if len(argv) > 1 or _WORKDIR.value is None or _OUT.value is None:
        cli.fail("give --workdir=, the directory of a run, and --out=, the directory to write")
    cli.output("out", _OUT.value, folder=True)
    from agentrl.run import checkpoint, restored
    from agentrl.trained import exported

    try:
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
        notes = exported.export(
            run,
            pathlib.Path(_OUT.value),
            seed=_SEED.value,
            dtype=_DTYPE.value,
            overwrite=_OVERWRITE.value,
            role=_ROLE.value,
        )
    except (ValueError, OSError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(str(error).replace("overwrite=True", "--overwrite"))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    seed = run.config.seed if _SEED.value is None else _SEED.value
    print(f"{_OUT.value}: update {run.update}, seed {seed}")


if __name__ == "__main__":
    cli.run(main)
