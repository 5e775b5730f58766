#!/usr/bin/env bash
# Formats all C++ sources with clang-format 14 (Debian 12's), by .clang-format.
#
#   scripts/format.sh            # rewrites files in place
#   scripts/format.sh --check    # only lists what would change. Exit: 0 formatted, 1 not formatted, 3 cannot tell
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=14  # another version formats differently
check=
case ${1:-} in
  "") ;;
  --check) check=1 ;;
  *) echo "format: unknown argument '$1' (only --check is known)" >&2; exit 2 ;;
esac

tool=
for t in "clang-format-$version" clang-format; do
  if command -v "$t" > /dev/null && [[ $("$t" --version) == *"version $version."* ]]; then tool=$t; break; fi
done
if [[ -z $tool ]]; then
  echo "format: clang-format $version is not installed (bash scripts/setup.sh --dev)" >&2
  exit 3
fi

# By find, not git: a tarball has no .git, and a new file is not tracked.
folders=()
for f in include src tests bench examples python; do [[ -d $f ]] && folders+=("$f"); done
mapfile -d '' -t files < <(find "${folders[@]}" -type f \( -name '*.cpp' -o -name '*.h' \) -print0 | sort -z)
jobs=$(nproc 2> /dev/null || echo 1)
if [[ -z $check ]]; then
  printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$jobs" "$tool" -i
  exit 0
fi
# One process per file prints only its name: parallel diagnostics would mix.
# shellcheck disable=SC2016  # $0 and $1 belong to the inner shell
bad=$(printf '%s\0' "${files[@]}" \
  | xargs -0 -n 1 -P "$jobs" sh -c '"$0" --dry-run -Werror "$1" 2> /dev/null || echo "$1"' "$tool" | sort)
if [[ -n $bad ]]; then
  echo "not formatted; run bash scripts/format.sh:"
  while IFS= read -r file; do echo "  $file"; done <<< "$bad"
  exit 1
fi
