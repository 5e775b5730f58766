#!/usr/bin/env bash
# Makes the API reference from the public headers: build/docs/html/index.html. Installs doxygen with apt if needed.
#
#   scripts/docs.sh            # prints the path of the first page
#   scripts/docs.sh --check    # installs nothing; exit code 3 without doxygen
#
# A doxygen warning is an error, and so is an undocumented class, enumeration, or function with arguments. Fields,
# operators and plain getters need no description.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
out=build/docs

say() { echo "docs: $*" >&2; }

check=
case ${1:-} in
  "") ;;
  --check) check=1 ;;
  *) say "unknown argument '$1' (only --check is known)"; exit 2 ;;
esac

if ! command -v doxygen > /dev/null; then
  if [[ -n $check ]]; then
    say "doxygen is not installed; run bash scripts/setup.sh --docs"
    exit 3
  fi
  bash scripts/setup.sh --docs
fi

rm -rf "$out"
mkdir -p "$out"
TOY_VERSION=$(sed -nE 's/^project\(toy VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
export TOY_VERSION TOY_DOCS_OUT=$out
[[ -n $TOY_VERSION ]] || { say "no version in CMakeLists.txt"; exit 1; }
doxygen docs/Doxyfile

# Doxygen has one switch for everything undocumented; these need no description.
name_says_it=(
  -e '(variable\|typedef\|enumvalue\|friend)' -e '(enumeration) of \(struct\|class\)'
  -e '()\( const\)\?\( noexcept\)\?\( *= *\(0\|default\|delete\)\)\? (function)'  # no arguments: getters
  -e 'Member operator[^ (]*\( *\)\?('                                            # ==, [], =
  -e ' &&other) noexcept (function)'                                            # moves
)
grep 'is not documented' "$out/warnings.txt" | grep -v "${name_says_it[@]}" > "$out/errors.txt" || true
grep -v 'is not documented' "$out/warnings.txt" >> "$out/errors.txt" || true
if [[ -s $out/errors.txt ]]; then
  say "$(wc -l < "$out/errors.txt") faults in the comments of the headers:"
  sed "s|^$root/||" "$out/errors.txt" >&2
  exit 1
fi
[[ -s $out/html/index.html ]] || { say "doxygen wrote no $out/html/index.html"; exit 1; }
say "$(find include -name '*.h' | wc -l) headers, no faults"
echo "$out/html/index.html"
