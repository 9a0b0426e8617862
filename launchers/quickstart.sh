#!/usr/bin/env bash
# Installs into .venv and runs a first experiment, evaluates it, writes a report.
#   bash launchers/quickstart.sh            GiGPO beside GRPO on Coin-v1, policies over arrays
#   bash launchers/quickstart.sh household  a transformer that reads and writes: warm start, GiGPO
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-coin}"
case "$what" in
  coin|household) ;;
  *) echo "quickstart.sh: $what is neither coin nor household" >&2; exit 2 ;;
esac
python="${PYTHON:-python3}"
if [ ! -x .venv/bin/python ]; then "$python" -m venv .venv; fi
.venv/bin/python -m pip install --quiet --upgrade pip
.venv/bin/python -m pip install --quiet --editable .
runs="${2:-runs/quickstart}"
if [ "$what" = coin ]; then
  workdirs="$runs/gigpo,$runs/grpo"
  for method in gigpo grpo; do
    .venv/bin/python -m launchers.train --config="configs/coin.py:$method" \
      --workdir="$runs/$method" --config.rollout.anchor=state
    .venv/bin/python -m launchers.evaluate --workdir="$runs/$method"
  done
else
  workdirs="$runs/household"
  .venv/bin/python -m launchers.train --config=configs/household.py:gigpo --workdir="$workdirs"
  .venv/bin/python -m launchers.evaluate --workdir="$workdirs"
fi
.venv/bin/python -m launchers.report --workdirs="$workdirs" --out="$runs/report.html"
echo "open $runs/report.html"
