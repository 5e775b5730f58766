#!/usr/bin/env bash
# The Python package as it is installed, against the program. Skipped where the wheel cannot be built.
#   python_test.sh TOY_BINARY BUILD_FOLDER
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
for test in python_test graph_test; do
  mkdir "$work/$test"
  PYTHONPATH=$work/site "$python" "$here/$test.py" "$toy" "$work/$test" "$PWD"
done
mkdir "$work/examples"
PYTHONPATH=$work/site bash "$here/examples_test.sh" "$python" "$toy" "$work/examples" "$PWD/examples/python"
