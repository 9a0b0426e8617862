r"""Compiles a config for a machine that is not at hand, and prints the memory that it needs there.

    python -m launchers.compile --config=configs/words/household.py:gigpo --target=v5e:2x2
    python -m launchers.compile --config=configs/published/qwen_household_gigpo.py:DIRECTORY \
        --target=h100:8 --config.mesh.fsdp=8

Nothing is run and no weights are read: config.json and tokenizer.json of a published model suffice.
For GPUs this needs XLA's compiler for CUDA (pip install 'jax[cuda12]'), for TPUs that of libtpu
(pip install 'jax[tpu]'), and neither a GPU nor a TPU. Without --target: for this machine.

Memory is per device, as the compiler lays it out: arguments (the training state), results and
temporaries; the largest program decides. The exit code is 1 if a program needs more than a device
has.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import config_flags

from launchers import cli

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Config file, for example configs/credit/coin.py."
)
_TARGET = flags.DEFINE_string("target", None, "h100, h200:8, v5e:2x4, ...; default: this machine.")
PROGRAMS = ("init", "warm_start", "restart", "train", "evaluate")
_PROGRAMS = flags.DEFINE_list("programs", ["train"], f"Which to compile: {', '.join(PROGRAMS)}.")

# Unless configured, libtpu queries the network for the TPU that this machine belongs to, and
# requires to be the only process that uses it.
ALONE = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}

COLUMNS = (
    ("program", ""),
    ("given_mib", ",.0f"),
    ("returned_mib", ",.0f"),
    ("between_mib", ",.0f"),
    ("sum_mib", ",.0f"),
    ("compile_seconds", ".0f"),
)


def _row(name: str, program: Any, *args: Any, options: dict[str, Any]) -> dict[str, Any]:
    before = time.perf_counter()
    m = program.lower(*args).compile(options).memory_analysis()
    parts = {
        "given_mib": m.argument_size_in_bytes / 2**20,
        # A flag that is given here takes no argument of its own.
        "returned_mib": (m.output_size_in_bytes - m.alias_size_in_bytes) / 2**20,
        "between_mib": m.temp_size_in_bytes / 2**20,
    }
    seconds = time.perf_counter() - before
    return {"program": name, **parts, "sum_mib": sum(parts.values()), "compile_seconds": seconds}


def measure(
    config: Any, names: Sequence[str], target: Any = None, prefix: str = ""
) -> Iterator[dict[str, Any]]:
    r"""Compiles programs of a config and returns the memory of each.

    target: `agentrl.devices.targets.Target`; None: this machine. prefix: of the programs' names.

    Raises:
      ValueError: the config cannot be used on the target.
    """
    from agentrl.config.build import build
    from agentrl.run import mesh
    from agentrl.run.programs import compile_programs

    bound = build(config)
    if not bound.rollout.runner.traced:
        raise ValueError(
            f"config.rollout.name={config.rollout.name!r} collects in Python: there is no "
            "program to compile"
        )
    device_mesh = mesh.make_mesh(config, bound, target)
    # Triton selects kernels for products by timing them; without timing, some choices are
    # invalid.
    on_gpu = target is not None and target.devices[0].platform == "gpu"
    options = {"xla_gpu_enable_triton_gemm": False} if on_gpu else {}
    with mesh.use(device_mesh):
        programs = compile_programs(bound, config, device_mesh)
        args = {"init": programs.seeds, "evaluate": programs.shapes.params}
        of_name = {
            "init": programs.init,
            "warm_start": programs.train.get("warm_start"),
            "restart": programs.restart,
            "train": programs.train.get("rl"),
            "evaluate": programs.evaluate,
        }
        for name in names:
            program = of_name[name]
            if program is None:
                what = "warm start" if name == "warm_start" else "updates after its warm start"
                raise ValueError(f"--programs={name}: this config has no {what}; leave it out")
            yield _row(prefix + name, program, args.get(name, programs.shapes), options=options)


def too_large(rows: Sequence[Mapping[str, Any]], memory: int) -> str | None:
    """Advice if the largest program needs more bytes than this."""
    most = max(rows, key=lambda row: row["sum_mib"])
    if most["sum_mib"] * 2**20 <= memory:
        return None
    return (
        f"{most['program']} does not fit: raise config.mesh.fsdp, lower config.learner.microbatch "
        "or the rollout's groups, or set config.policy.remat=True"
    )


def main(argv: list[str]) -> None:
    """Checks everything, then compiles."""
    if len(argv) > 1:
        cli.fail(f"{argv[1]!r} is not a flag; write --config=... --target=... --config.key=value")
    config, name = cli.given(_CONFIG.value), _TARGET.value
    programs = cli.named("programs", _PROGRAMS.value, "init,train")
    if unknown := sorted(set(programs) - set(PROGRAMS)):
        cli.fail(f"--programs={','.join(unknown)}: expected some of {', '.join(PROGRAMS)}")
    import jax

    if name is not None:
        jax.config.update("jax_platforms", "cpu")  # used for tracing
        os.environ.update(ALONE)
    from agentrl.devices import targets
    from launchers.benchmarks.tables import table

    rows = []
    try:
        target = None if name is None else targets.find(name)
        stages = config.stages if "stages" in config else {"": config}
        for stage, part in stages.items():
            prefix = f"{stage}: " if stage else ""
            rows.extend(measure(part, programs, target, prefix))
    except ValueError as error:
        cli.fail(error)
    title = f"Memory of one device of {name or 'this machine'}"
    if target is not None:
        title += f", which has {target.memory / 2**20:,.0f} MiB"
    print(table(title, COLUMNS, rows))
    if target is not None and (error := too_large(rows, target.memory)):
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    cli.run(main)
