#!/usr/bin/env bash
# Installs into .venv and runs a first experiment, evaluates it, writes a report.
#   bash launchers/quickstart.sh        a transformer in a household: SFT on an expert's episodes, then
#                                       GiGPO and GRPO from the same parameters
#   bash launchers/quickstart.sh coin   GiGPO beside GRPO on Coin-v1, policies over arrays
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-household}"
case "$what" in
  coin|household) ;;
  *) echo "quickstart.sh: $what is neither household nor coin" >&2; exit 2 ;;
esac
python="${PYTHON:-python3}"
if [ ! -x .venv/bin/python ]; then "$python" -m venv .venv; fi
.venv/bin/python -m pip install --quiet --upgrade pip
.venv/bin/python -m pip install --quiet --editable .
runs="${2:-runs/quickstart_$what}"
train() {
  .venv/bin/python -m launchers.train --config="configs/$1" --workdir="$runs/$2" "${@:3}"
  .venv/bin/python -m launchers.evaluate --workdir="$runs/$2"
}
if [ "$what" = coin ]; then
  for method in gigpo grpo; do
    train "credit/coin.py:$method" "$method" --config.rollout.anchor=state
  done
else
  train words/household.py:sft taught
  for method in gigpo grpo; do
    train "words/household.py:$method" "$method" --config.init_from="$runs/taught" \
      --config.warm_start.updates=0 --config.updates=80
  done
fi
.venv/bin/python -m launchers.report --workdirs="$runs/gigpo,$runs/grpo" --out="$runs/report.html"
echo "open $runs/report.html"
