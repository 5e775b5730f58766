#!/usr/bin/env bash
# The Python package with PyTorch, and its types under mypy.
#   python_package_test.sh TOY_BINARY BUILD_FOLDER
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
root=$(cd "$here/../.." && pwd)
code=0
wheel=$(TOY_BUILD=$2 PYTHON=$python bash "$root/scripts/wheel.sh" | tail -n 1) || code=$?
if ((code == 77)); then echo "no wheel: its tools are not here and cannot be had (scripts/wheel.sh)"; exit 77; fi
((code == 0)) || exit "$code"
cd "$root"
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target "$work/site" "$wheel"
"$toy" corpus stories --bytes 60000 --seed 1 --out "$work/book.txt" > /dev/null
"$toy" train from-scratch --corpus "$work/book.txt" --size tiny --tokenizer spm:300 --steps 3 --out "$work/run" > /dev/null 2>&1
PYTHONPATH=$work/site:$root/tests/python "$python" "$here/python_package.py" "$work/run"
if "$python" -c 'import mypy' 2> /dev/null; then
  MYPYPATH=$work/site "$python" -m mypy --strict --cache-dir "$work/mypy" tests/python/typed.py examples/python/*.py
else
  echo "no mypy; scripts/peers.sh installs it"
fi
