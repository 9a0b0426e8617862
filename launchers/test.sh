#!/usr/bin/env bash
# Installs the package (not the checkout) into .venv-test and runs the tests against it:
#   bash launchers/test.sh          the quick tier, minutes
#   bash launchers/test.sh --all    everything, as CI does
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
if [ ! -x .venv-test/bin/python ]; then "$python" -m venv .venv-test; fi
.venv-test/bin/python -m pip install --quiet --upgrade pip
.venv-test/bin/python -m pip install --quiet --upgrade --no-compile ".[dev]"
.venv-test/bin/ruff check .
.venv-test/bin/ruff format --check .
# A process of the tests compiles thousands of programs. Between allocations and frees of that many
# sizes glibc's malloc searches longer and longer: after some minutes compiling takes twice the time.
# oneTBB's allocator, a package of the extra `dev`, does not slow down.
if [ -e .venv-test/lib/libtbbmalloc_proxy.so.2 ]; then
  export LD_LIBRARY_PATH="$PWD/.venv-test/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export LD_PRELOAD="libtbbmalloc_proxy.so.2${LD_PRELOAD:+:$LD_PRELOAD}"
fi
# The tests of a file run in one process, since they share compiled programs. Files are started in
# their order, not by their number of tests, which would start the longest (notebooks) last.
# From an empty directory, so that `import agentrl` finds the installed package.
here="$PWD"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
"$here/.venv-test/bin/python" -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder --rootdir="$here" -c "$here/pyproject.toml" "$here/tests" "$@"
