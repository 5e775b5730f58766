#!/usr/bin/env bash
# The tests of the Python package under AddressSanitizer and UndefinedBehaviorSanitizer: the library of the asan preset and
# the module with clang, in an interpreter that loads the sanitizer first.
#
#   scripts/python_asan.sh [ROUNDS]    # of hostile_test.py (default 300)
#
# Needs clang (scripts/setup.sh --dev) and the tools of scripts/wheel.sh; exit code 77 where they are not here. A build from
# nothing takes half an hour on two cores. Log: build/python_asan.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
rounds=300
case ${1:-} in
  "") ;;
  -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *[!0-9]*) echo "python_asan: '$1' is no number of rounds (--help shows all)" >&2; exit 2 ;;
  *) rounds=$1 ;;
esac
mkdir -p build
log=$root/build/python_asan.log
: > "$log"
say() { echo "python_asan: $*" >&2; }
fail() { say "$1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }
command -v clang++ > /dev/null || { say "clang++ is missing (scripts/setup.sh --dev)"; exit 77; }
runtime=$(clang++ -print-file-name=libclang_rt.asan-x86_64.so)
[[ $runtime == /* && -e $runtime ]] || { say "clang's sanitizers are missing (scripts/setup.sh --dev)"; exit 77; }
python=${TOY_WHEEL_VENV:-build/wheel-venv}/bin/python
if [[ ! -x $python ]]; then
  code=0
  bash scripts/wheel.sh --sdist > /dev/null || code=$?  # installs the tools
  ((code == 0)) || exit "$code"
fi
python=$(cd "$(dirname "$python")" && pwd)/python
toy=$(cd "${TOY_BUILD:-build/release}" && pwd)/toy
[[ -x $toy ]] || { say "$toy is missing; build it first"; exit 1; }

say "building the library and the module"
cmake --preset asan >> "$log" 2>&1 || fail "configuring failed"
cmake --build build/asan --target toy_bind -j "${TOY_JOBS:-$(nproc)}" >> "$log" 2>&1 || fail "building failed"
cmake -S python -B build/wheel-asan -G Ninja -DTOY_BUILD="$root/build/asan" -DPython_EXECUTABLE="$python" \
  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG" \
  -DCMAKE_MODULE_LINKER_FLAGS=-shared-libasan >> "$log" 2>&1 || fail "configuring the module failed"
cmake --build build/wheel-asan --target _toy -j "${TOY_JOBS:-$(nproc)}" >> "$log" 2>&1 || fail "building the module failed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/site"
cp -r python/toy "$work/site/"
cp build/wheel-asan/_toy*.so "$work/site/toy/"
# The program of the tests is a usual one.
printf '#!/bin/sh\nunset LD_PRELOAD\nexec "%s" "$@"\n' "$toy" > "$work/toy"
chmod +x "$work/toy"
# What Python keeps to its end is no leak of ours; nanobind's own check stays.
export PYTHONPATH=$work/site PYTHONMALLOC=malloc
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
LD_PRELOAD=$runtime "$python" python/stubs.py build/wheel-asan python/toy "$work/site/toy"
for test in python_test.py files_test.py graph_test.py "hostile_test.py $rounds"; do
  say "$test"
  read -ra words <<< "$test"
  mkdir "$work/${words[0]}"
  LD_PRELOAD=$runtime "$python" "tests/python/${words[0]}" "$work/toy" "$work/${words[0]}" "$root" "${words[@]:1}" > "$work/said" 2>&1 \
    || { cat "$work/said" >&2; fail "$test"; }
  tail -n 3 "$work/said" >&2
  ! grep -q 'nanobind: leaked' "$work/said" || { cat "$work/said" >&2; fail "nanobind reports leaks"; }
done
