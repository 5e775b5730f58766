#!/usr/bin/env bash
# The Python package as it is installed, against the program. Skipped where the wheel cannot be built.
#   python_test.sh TOY_BINARY BUILD_FOLDER          # 6 interrupts of a run, 100 rounds of bad input
#   python_test.sh TOY_BINARY BUILD_FOLDER --slow   # 50 interrupts, 3000 rounds, what a call costs
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toy=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0
wheel=$(TOY_BUILD=$2 bash "$here/../../scripts/wheel.sh" | tail -n 1) || code=$?
if ((code == 77)); then echo "no wheel: its tools are not here and cannot be had (scripts/wheel.sh)"; exit 77; fi
((code == 0)) || exit "$code"
cd "$here/../.."
python=${TOY_WHEEL_VENV:-build/wheel-venv}/bin/python
python=$(cd "$(dirname "$python")" && pwd)/python
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$work/site" "$wheel"
export PYTHONPATH=$work/site
# A test, and at the interpreter's end no leak that nanobind reports.
run() {  # NAME WORDS...
  mkdir "$work/$1"
  "$python" "$here/$1.py" "$toy" "$work/$1" "$PWD" "${@:2}" 2>&1 | tee "$work/said"
  if grep -q 'nanobind: leaked' "$work/said"; then echo "$1: nanobind reports leaks" >&2; exit 1; fi
}
if [[ ${3:-} == --slow ]]; then
  run interrupt_test 50
  run hostile_test 3000 2
  run cost_test
  exit 0
fi
run python_test
run files_test
run graph_test
run hostile_test 100
run interrupt_test 6
mkdir "$work/examples"
bash "$here/examples_test.sh" "$python" "$toy" "$work/examples" "$PWD/examples/python"
