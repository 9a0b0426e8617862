#!/usr/bin/env bash
# Installs into .venv; a transformer learns a household in words: warm start, GiGPO, report.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
if [ ! -x .venv/bin/python ]; then "$python" -m venv .venv; fi
.venv/bin/python -m pip install --quiet --upgrade pip
.venv/bin/python -m pip install --quiet --editable .
runs="${1:-runs/quickstart}"
.venv/bin/python -m launchers.train --config=configs/household.py:gigpo --workdir="$runs/household"
.venv/bin/python -m launchers.evaluate --workdir="$runs/household"
.venv/bin/python -m launchers.report --workdirs="$runs/household" --out="$runs/report.html"
echo "open $runs/report.html"
