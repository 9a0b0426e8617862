"""Writes a trained language model as Hugging Face's files, which transformers can load.

    python -m launchers.export --workdir=runs/qwen --out=models/trained

The tokenizer, config.json and licence are those of the directory that training started from;
adapters are merged. If each role has an adapter of its own, --role selects one.
"""

import pathlib

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
    """Restores, writes."""
    if len(argv) > 1 or _WORKDIR.value is None or _OUT.value is None:
        cli.fail("give --workdir=, the directory of a run, and --out=, the directory to write")
    import jax

    from agentrl.policies import huggingface
    from agentrl.run import checkpoint, restored

    try:
        run = restored.load(pathlib.Path(_WORKDIR.value), _UPDATE.value)
        config = run.config
        if config.policy.name.rpartition(".")[2] != "pretrained" or config.policy.rehearsal:
            raise ValueError(
                f"{_WORKDIR.value} has no published model to export (policy "
                f"{config.policy.name!r}); expected policy 'pretrained', not a rehearsal"
            )
        seed = config.seed if _SEED.value is None else _SEED.value
        if not 0 <= seed - config.seed < config.num_seeds:
            last = config.seed + config.num_seeds - 1
            raise ValueError(f"--seed={seed}: the run has seeds {config.seed} to {last}")
        params = jax.tree.map(lambda x: x[seed - config.seed], run.state.params)
        huggingface.save(
            _OUT.value,
            run.experiment.policy.config,
            params,
            source=config.policy.directory,
            dtype=_DTYPE.value,
            overwrite=_OVERWRITE.value,
            role=_ROLE.value,
        )
    except (ValueError, OSError, restored.RunError, checkpoint.CheckpointError) as error:
        cli.fail(str(error).replace("overwrite=True", "--overwrite"))
    print(f"{_OUT.value}: update {run.update}, seed {seed}")


if __name__ == "__main__":
    cli.run(main)
