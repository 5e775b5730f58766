#!/usr/bin/env bash
# The source package builds where there is no git: unpacked into a folder of its own, configured, compiled and installed.
# The program has no path of either folder in it, and is the same in both.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
fail() { echo "FAILED: $*" >&2; exit 1; }
code=0
package=$(bash "$root/scripts/wheel.sh" --sdist | tail -n 1) || code=$?
((code == 0)) || exit "$code"
package=$root/${package#"$root/"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_DIR=/nonexistent  # what asks git gets no answer
for folder in one another/place; do
  mkdir -p "$work/$folder"
  tar -xzf "$package" -C "$work/$folder" --strip-components 1
  cd "$work/$folder"
  cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTOY_BUILD_TESTS=OFF -DTOY_BUILD_EXAMPLES=OFF \
    -DCMAKE_INSTALL_PREFIX="$work/$folder/installed" > configure.log || { cat configure.log; fail "configuring in $folder"; }
  cmake --build build > build.log || { tail -n 30 build.log; fail "building in $folder"; }
  cmake --install build > install.log || { cat install.log; fail "installing in $folder"; }
  installed/bin/toy --version
  installed/bin/toy infer tests/golden/llama_tied.model.gguf --prompt-ids 1,2,3 --n 4 --temperature 0 --json > said.json
  [[ -s installed/share/man/man1/toy.1 ]] || fail "no manual in $folder"
done
cmp "$work/one/installed/bin/toy" "$work/another/place/installed/bin/toy" || fail "the program depends on the folder it is built in"
