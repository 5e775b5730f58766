#!/usr/bin/env bash
# Builds packages for Debian: toy, libtoy0, libtoy-dev and, where MPI is, toy-mpi, with a list of what they are made of
# (SPDX). The last lines of stdout are their paths.
#
#   scripts/package.sh
#
# Uses the build of toy in ${TOY_BUILD:-build/release}, which it builds first where it is this default. The same sources give
# the same bytes. Needs dpkg-dev. Log: build/package.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
case ${1:-} in
  "") ;;
  -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "package: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
esac

log=build/package.log
mkdir -p build
: > "$log"
say() { echo "package: $*" >&2; }
fail() { say "$1; the end of $log:"; tail -n 15 "$log" >&2; exit "${2:-1}"; }
command -v dpkg-shlibdeps > /dev/null || { say "dpkg-shlibdeps is missing (Debian: apt-get install dpkg-dev)"; exit 77; }

# Times of files in the packages: the latest commit's, or of a tarball its changelog's.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
umask 022
build=${TOY_BUILD:-}
if [[ -z $build ]]; then
  build=build/release
  say "building toy in $build"
  cmake --preset release >> "$log" 2>&1 || fail "configuring failed"
  cmake --build --preset release --target toy toy_c toy_manual toy_schema toy_libraries -j "${TOY_JOBS:-$(nproc)}" >> "$log" 2>&1 \
    || fail "building failed"
fi
rm -rf "$build/packages" "$build/_CPack_Packages"
find "$build/manual" -name '*.1' -exec gzip -9nf {} +
say "packing"
(cd "$build" && cpack -G DEB) >> "$log" 2>&1 || fail "packing failed"
find "$build/manual" -name '*.1.gz' -exec gunzip -f {} +
python3 scripts/sbom.py "$build/packages/toy.spdx.json" >> "$log" 2>&1 || fail "writing the SBOM failed"
find "$build/packages" -maxdepth 1 -name '*.deb' | sort
