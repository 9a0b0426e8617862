"""Eight simulated devices for every test, and programs that are compiled once a run."""

import atexit
import gc
import importlib.metadata
import os
import pathlib
import shutil
import tempfile

# Compiling is most of the time here. With these kernels, and in one part (each process of the tests
# has a core), it takes less than half; what users get, with all optimisations, runs in
# launchers/test_cli.py.
_JAXLIB = tuple(int(part) for part in importlib.metadata.version("jaxlib").split(".")[:2])
_QUICK = (
    # Removed in jaxlib 0.11, which ends a process at flags that it does not know.
    *(("--xla_cpu_use_fusion_emitters=false",) if _JAXLIB < (0, 11) else ()),
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE",
)
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *_QUICK]).strip()
os.environ["JAX_PLATFORMS"] = "cpu"

# Many tests run the same small programs. A cache of one test run alone, shared by its processes and
# the commands that they start, keeps them independent of what was compiled before.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _CACHE = tempfile.mkdtemp(prefix="agentrl-tests-")
    atexit.register(shutil.rmtree, _CACHE, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ["AGENTRL_CACHE"] = _CACHE
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# Tracing is much of the time, too, and nobody reads which lines of code each operation came from.
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"

import chex  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402
import tiers  # noqa: E402

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_disable_most_optimizations", True)
# Collecting after each module is enough.
gc.set_threshold(200_000, 50, 100)

import shared_programs  # noqa: E402


def pytest_addoption(parser):
    """--all runs the full tier, too; so does naming files or tests."""
    parser.addoption(
        "--all", action="store_true", help="run the full tier, too (see tests/support/tiers.py)"
    )


HERE = pathlib.Path(__file__).parent


def is_quick(config):
    """Whether the quick tier is run: neither --all nor single files or tests are asked for."""
    asked = [pathlib.Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return not config.getoption("--all") and all(path == HERE for path in asked)


def pytest_ignore_collect(collection_path, config):
    """Files of the full tier are not imported for the quick one."""
    if collection_path.suffix == ".py" and is_quick(config):
        return tiers.is_full_file(collection_path.relative_to(HERE)) or None
    return None


def pytest_collection_modifyitems(config, items):
    """Leaves out the full tier unless it, or a file, is asked for, and what is marked without
    `-m slurm` or `-m long`; starts the longest files first, so that the processes end together."""
    for item in items:
        if tiers.is_long(item.path.relative_to(HERE), item.name):
            item.add_marker(pytest.mark.long)
    for mark in ("slurm", "long"):
        if mark not in config.getoption("markexpr"):
            marked = [item for item in items if item.get_closest_marker(mark)]
            config.hook.pytest_deselected(items=marked)
            left = set(marked)
            items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: tiers.rank(item.path.relative_to(HERE)))
    if not is_quick(config):
        return
    full = [item for item in items if tiers.is_full(item.path.relative_to(HERE), item.name)]
    config.hook.pytest_deselected(items=full)
    left_out = set(full)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session):
    """What is there by now stays: collecting after a module need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def shared():
    """Runs of a module share the programs of equal configs."""
    with pytest.MonkeyPatch.context() as patch:
        shared_programs.share(patch)
        yield


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Drops a module's compiled programs after its tests: all of them together take gigabytes.

    And the counts of traces, which chex keeps by the names of the functions on the stack: a fixture
    of the same name in another module would go on from its counts.
    """
    yield
    jax.clear_caches()
    gc.collect()
    chex.clear_trace_counter()
