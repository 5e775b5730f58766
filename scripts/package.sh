#!/usr/bin/env bash
# Builds packages for Debian: toy, libtoy0, libtoy-dev, where MPI is toy-mpi, and python3-toy for Debian's own Python, with a
# list of what they are made of (SPDX). The last lines of stdout are their paths.
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
  cmake --build --preset release --target toy toy_c toy_bind toy_manual toy_schema toy_libraries -j "${TOY_JOBS:-$(nproc)}" >> "$log" 2>&1 \
    || fail "building failed"
fi
rm -rf "$build/packages" "$build/_CPack_Packages" "$build/python3-toy"
components=$(sed -n 's/^set(CPACK_COMPONENTS_ALL "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")

# The module for Debian's own Python, where it can be built.
python=/usr/bin/python3 module="" code=0
say "building the module for $python"
wheel=$(PYTHON=$python TOY_BUILD=$build TOY_WHEEL_VENV=build/package-venv bash scripts/wheel.sh --system | tail -n 1) || code=$?
if ((code == 0)); then
  "$python" -m zipfile -e "$wheel" "$build/python3-toy"
  rm -rf "$build"/python3-toy/*.data "$build"/python3-toy/*.dist-info/{RECORD,WHEEL,licenses}
  chmod 644 "$build"/python3-toy/toy/*
  components+=";python3-toy"
  module=$("$python" -c 'import sys; v = sys.version_info; print(f"python3 (>= 3.{v[1]}), python3 (<< 3.{v[1] + 1}~), python3-numpy")')
elif ((code == 77)); then
  say "without python3-toy: its tools are not here (scripts/wheel.sh)"
else
  fail "building the module failed"
fi

# Libraries go to the folder of the architecture. A build that is installed otherwise keeps its own.
libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
install_into() { cmake -B "$build" -DCMAKE_INSTALL_LIBDIR:STRING="$1" >> "$log" 2>&1; }
trap 'install_into "$libdir"; find "$build/manual" -name "*.1.gz" -exec gunzip -f {} +' EXIT
install_into "lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" || fail "configuring failed"
find "$build/manual" -name '*.1' -exec gzip -9nf {} +
say "packing"
(cd "$build" && cpack -G DEB -D CPACK_COMPONENTS_ALL="$components" -D CPACK_DEBIAN_PYTHON3-TOY_PACKAGE_DEPENDS="$module") \
  >> "$log" 2>&1 || fail "packing failed"
# CPack calls ldconfig from scripts. The trigger of libtoy0 does that, and the plugin of toy-mpi needs none.
for deb in "$build"/packages/libtoy0_*.deb "$build"/packages/toy-mpi_*.deb; do
  [[ -e $deb ]] || continue
  dpkg-deb -R "$deb" "$build/packages/open" >> "$log" 2>&1 || fail "unpacking $deb failed"
  rm -f "$build"/packages/open/DEBIAN/{postinst,postrm}
  dpkg-deb --root-owner-group -Zxz -b "$build/packages/open" "$deb" >> "$log" 2>&1 || fail "packing $deb again failed"
  rm -rf "$build/packages/open"
done
python3 scripts/sbom.py "$build/packages/toy.spdx.json" >> "$log" 2>&1 || fail "writing the SBOM failed"
find "$build/packages" -maxdepth 1 -name '*.deb' | sort
