#!/usr/bin/env bash
# Installs a build into a temporary folder, moves it, and uses it from outside: the program from another folder without
# a home, a project of its own that finds toy by CMake and by pkg-config, and the project that `toy new --lib` writes.
#
#   tests/consumer/build_and_run.sh BUILD-FOLDER [CXX]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "${1:?build folder}" && pwd)
cxx=${2:-c++}
model=$here/../golden/llama_tied.model.gguf
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CMAKE_GENERATOR=Ninja  # a bare Debian has no make
fail() { echo "FAILED: $*" >&2; exit 1; }

# What is installed may not remember where it was installed to: the tree is moved before it is used.
cmake --install "$build" --prefix "$tmp/first" > "$tmp/install.log"
mv "$tmp/first" "$tmp/tree"
cmp "$build/events.schema.json" "$tmp/tree/share/doc/toy/events.schema.json" || fail "the schema of logs is not installed"
mkdir "$tmp/elsewhere" "$tmp/cwd"
cd "$tmp/cwd"

echo "the program, alone in another folder, without a home"
cp "$tmp/tree/bin/toy" "$tmp/elsewhere/program"
version=$(env -i "$tmp/elsewhere/program" --version)
[[ $version =~ ^toy\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "--version printed '$version'"
there=$(env -i "$tmp/elsewhere/program" infer "$model" --prompt-ids 1,2,3 --n 4 --temperature 0 --json --threads 2)
here_too=$("$build/toy" infer "$model" --prompt-ids 1,2,3 --n 4 --temperature 0 --json --threads 2)
# Times differ between two runs; the ids may not.
ids() { python3 -c 'import json, sys; print(json.loads(sys.stdin.read())["ids"])'; }
[[ $(ids <<< "$there") == "$(ids <<< "$here_too")" ]] || fail "infer gave $there, in its own folder $here_too"
[[ -z $(ls -A) ]] || fail "the program left files in the folder it was called in: $(ls -A)"

echo "a project that calls find_package(toy)"
CXX=$cxx cmake -S "$here" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$tmp/tree" -DCMAKE_BUILD_TYPE=Debug \
  > "$tmp/configure.log" || { cat "$tmp/configure.log"; fail "the consumer was not configured"; }
cmake --build "$tmp/build" > "$tmp/build.log" || { cat "$tmp/build.log"; fail "the consumer was not built"; }
"$tmp/build/consumer" "$model"

# Another minor version is another interface: the version file must refuse it.
if cmake -S "$here/wrong_version" -B "$tmp/wrong" -DCMAKE_PREFIX_PATH="$tmp/tree" > "$tmp/wrong.log" 2>&1; then
  fail "find_package(toy 0.99) was satisfied"
fi
grep -q 'toyConfig.cmake, version' "$tmp/wrong.log" || { cat "$tmp/wrong.log"; fail "not refused for its version"; }

echo "the project that toy new --lib writes"
"$tmp/tree/bin/toy" new --lib "$tmp/mine" > "$tmp/new.log"
CXX=$cxx cmake -S "$tmp/mine" -B "$tmp/mine/build" -DCMAKE_PREFIX_PATH="$tmp/tree" > "$tmp/configure.log" \
  || { cat "$tmp/configure.log"; fail "the new project was not configured"; }
cmake --build "$tmp/mine/build" > "$tmp/build.log" || { cat "$tmp/build.log"; fail "the new project was not built"; }
(cd "$tmp/mine" && ./build/mine) > "$tmp/mine.log" || { cat "$tmp/mine.log"; fail "the new project did not learn"; }
grep -qE '^The mill (turns by day|rests by night)' "$tmp/mine.log" || { cat "$tmp/mine.log"; fail "the new project wrote something else"; }
"$tmp/tree/bin/toy" describe "$tmp/mine/model.gguf" > /dev/null

echo "a compiler call with pkg-config"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$tmp/tree" -name toy.pc)")
# shellcheck disable=SC2046  # flags are words
"$cxx" "$here/consumer.cpp" -o "$tmp/by_pkg_config" $(pkg-config --static --cflags --libs toy)
"$tmp/by_pkg_config" "$model"
# These headers are no system headers there: a strict consumer gets no warning from them.
echo '#include <toy/toy.h>' > "$tmp/strict.cpp"
# shellcheck disable=SC2046
"$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror "$tmp/strict.cpp" $(pkg-config --cflags toy) ||
  fail "the headers give warnings"
