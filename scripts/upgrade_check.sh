#!/usr/bin/env bash
# Proves the Debian packages where nothing of toy is: apt installs them in a bare Debian over older ones, which are the same
# with a lower version. All work, and purging leaves nothing.
#
#   scripts/upgrade_check.sh [FOLDER]    # with the packages of scripts/package.sh (default: build/release/packages)
#
# scripts/bare_root.sh says what it needs; exit code 77 where that is not here. Log: build/upgrade_check.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
case ${1:-} in
  -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  -*) echo "upgrade_check: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
esac
mkdir -p build
log=$root/build/upgrade_check.log
: > "$log"
say() { echo "upgrade_check: $*" >&2; }
fail() { say "FAILED: $1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }
packages=${1:-${TOY_BUILD:-build/release}/packages}
compgen -G "$packages/toy_*.deb" > /dev/null || { say "$packages has no package (scripts/package.sh)"; exit 77; }
source scripts/bare_root.sh
# shellcheck disable=SC2034,SC2154
stage=$work/bare folder=/root user=root:root
new_root "$stage"
in_bare() { say "$*"; inside "$@" >> "$log" 2>&1 || fail "$*"; }

# The same packages with a lower version, which is what their dependencies on each other name, too.
mkdir "$stage/root/old" "$stage/root/new"
cp "$packages"/*.deb "$stage/root/new/"
names=()
for deb in "$stage"/root/new/*.deb; do
  names+=("$(dpkg-deb -f "$deb" Package)")
  version=$(dpkg-deb -f "$deb" Version)
  rm -rf "$work/open"
  dpkg-deb -R "$deb" "$work/open" >> "$log"
  sed -i "s/\b${version//./\\.}\b/0.0.1/g" "$work/open/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone -b "$work/open" "$stage/root/old/${deb##*/}" >> "$log"
done
files() {  # but for what apt and dpkg keep of all that they did
  (cd "$stage" && find . -xdev \( -path ./root -o -path ./proc -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/log \
    -o -path ./var/cache \) -prune -o -print | sort)
}
proves() {  # VERSION
  # shellcheck disable=SC2016  # dpkg-query reads it
  [[ $(inside dpkg-query -W -f '${Version}' toy) == "$1" ]] || fail "version $1 is not installed"
  in_bare toy --version
  in_bare toy help packages.md
  in_bare python3 -c 'import toy; assert toy.__version__'
  in_bare sh -c 'echo "#include <toy/c/toy.h>
int main(void) { return toy_abi() != TOY_ABI; }" > c.c && cc -std=c99 c.c -ltoy -o c && ./c'
}
install=(apt-get install -y --no-install-recommends)
in_bare apt-get update
# What they depend on stays, so it is not in the comparison.
in_bare "${install[@]}" gcc libc6-dev
in_bare sh -c "${install[*]} /root/old/*.deb"
proves 0.0.1
in_bare apt-get purge -y "${names[@]}"
files > "$work/before"
! grep -iE '/[^/]*toy[^/]*$' "$work/before" >&2 || fail "purging leaves files"
in_bare sh -c "${install[*]} /root/old/*.deb"
in_bare sh -c "${install[*]} /root/new/*.deb"
proves "$version"
[[ -z $(inside dpkg --audit) ]] || fail "dpkg --audit finds something"
[[ -z $(inside dpkg --verify "${names[@]}") ]] || fail "dpkg --verify finds something"
in_bare apt-get purge -y "${names[@]}"
files | diff "$work/before" - || fail "purging leaves files"
say "installed, upgraded and purged in a bare Debian: ${names[*]}"
