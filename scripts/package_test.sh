#!/usr/bin/env bash
# Proves the Debian packages: two builds have the same bytes, lintian finds nothing, and in an
# empty root file system they install, are replaced and leave nothing when they are purged.
#
#   scripts/package_test.sh       # builds them with scripts/package.sh; exit code 77 where dpkg is not here
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
say() { echo "package_test: $*" >&2; }
fail() { say "FAILED: $1"; exit 1; }
command -v dpkg > /dev/null || { say "dpkg is missing; there is nothing to test"; exit 77; }
((EUID == 0)) || command -v fakeroot > /dev/null || { say "neither root nor fakeroot; packages cannot be installed"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${TOY_BUILD:-build/release}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || stat -c %Y CHANGELOG.md)}
for copy in one two; do
  mkdir "$work/$copy"
  code=0
  bash scripts/package.sh > "$work/list" || code=$?
  ((code == 0)) || exit "$code"
  cp "$build"/packages/*.deb "$build"/packages/*.spdx.json "$work/$copy"
done
(cd "$work/one" && sha256sum -- *) > "$work/sums"
(cd "$work/two" && sha256sum --quiet -c "$work/sums") || fail "two builds differ"
say "two builds have the same bytes"
python3 - "$work"/one/*.spdx.json << 'END' || fail "the SBOM is not as SPDX wants it"
import json, sys
sbom = json.load(open(sys.argv[1]))
ids = [p["SPDXID"] for p in sbom["packages"]]
assert len(ids) == len(set(ids)) > 5, ids
assert all(r["relatedSpdxElement"] in ids for r in sbom["relationships"])
END

if command -v lintian > /dev/null; then
  lintian --no-tag-display-limit --fail-on none "$work"/one/*.deb 2> /dev/null | grep -E '^[EW]:' > "$work/lintian" || true
  [[ ! -s $work/lintian ]] || { cat "$work/lintian" >&2; fail "lintian"; }
  say "lintian finds nothing"
else
  say "no lintian (Debian: apt-get install lintian)"
fi

as_root=()
((EUID == 0)) || as_root=(fakeroot)
bare=$work/root
mkdir -p "$bare"/var/lib/dpkg/{updates,info,triggers}
touch "$bare"/var/lib/dpkg/{status,available}
in_root() {
  "${as_root[@]}" dpkg --root="$bare" --force-depends --force-not-root --force-script-chrootless "$@" >> "$work/dpkg.log" 2>&1 \
    || { cat "$work/dpkg.log" >&2; fail "dpkg $1"; }
}
files() { (cd "$bare" && find . -path ./var/lib/dpkg -prune -o -print | sort); }
files > "$work/before"
in_root --install "$work"/one/*.deb
files > "$work/installed"
"$bare/usr/bin/toy" --version || fail "the installed program does not run"
[[ -s $bare/usr/share/man/man1/toy-train-lora.1.gz ]] || fail "no manual page of a command"
in_root --install "$work"/two/*.deb
files | diff "$work/installed" - || fail "replacing the packages changes what is installed"
mapfile -t names < <(for deb in "$work"/one/*.deb; do dpkg-deb -f "$deb" Package; done)
in_root --purge "${names[@]}"
files | diff "$work/before" - || fail "purging leaves files"
say "installed, replaced and purged: ${names[*]}"
