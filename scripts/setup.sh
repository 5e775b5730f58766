#!/usr/bin/env bash
# Installs what building and testing need, by apt. Only what is missing is installed; with everything there it takes
# a fraction of a second and changes nothing.
#
#   scripts/setup.sh          # to build, run and test
#   scripts/setup.sh --dev    # also clang and clang-format (fuzzing, formatting), shellcheck, oneDNN (a yardstick)
#   scripts/setup.sh --docs   # also doxygen (scripts/docs.sh)
#   scripts/setup.sh --cross  # also clang, the compiler for 64-bit Arm and qemu-user (scripts/portability.sh)
#
# Without apt or without the right to install it says which command to run. apt's own output goes to build/setup.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log=$root/build/setup.log

# name:command is also there when the command is, however it was installed. docs/dependencies.md says what each is for.
packages=(
  cmake:cmake ninja-build:ninja g++:g++ pkg-config:pkg-config python3:python3
  libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev libsentencepiece-dev libgtest-dev
)
optional=(ccache:ccache strace:strace)  # makes the second build fast; shows a test the order of fsyncs. Nothing fails without
# The sanitizers' runtime is only recommended by Debian's clang, and clang 14 is the version of Debian 12.
dev=(clang:clang++ clang-format:clang-format libclang-rt-14-dev shellcheck:shellcheck libdnnl-dev)
docs=(doxygen:doxygen)
cross=(clang:clang++ g++-aarch64-linux-gnu:aarch64-linux-gnu-g++ qemu-user:qemu-aarch64)

say() { echo "setup: $*" >&2; }

case ${1:-} in
  "") ;;
  --dev) packages+=("${dev[@]}") ;;
  --docs) packages+=("${docs[@]}") ;;
  --cross) packages+=("${cross[@]}") ;;
  *) say "unknown argument '$1' (known: --dev, --docs, --cross)"; exit 2 ;;
esac

installed() {  # NAME[:COMMAND]
  local name=${1%%:*} command=${1#*:}
  [[ $1 == *:* ]] && command -v "$command" > /dev/null && return 0
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2> /dev/null) == installed ]]
}

if ! command -v dpkg-query > /dev/null; then
  # Not Debian: package names mean nothing here. The tools can be checked, and CMake names a library that is missing.
  for tool in cmake ninja g++ pkg-config python3; do
    command -v "$tool" > /dev/null || { say "$tool is missing; install it with this system's package manager"; exit 1; }
  done
  say "not a Debian system: CMake will say which library is missing, if one is (docs/dependencies.md lists them)"
  exit 0
fi

needed=() extra=()
for p in "${packages[@]}"; do installed "$p" || needed+=("${p%%:*}"); done
for p in "${optional[@]}"; do installed "$p" || extra+=("${p%%:*}"); done
missing=("${needed[@]}" "${extra[@]}")
if ((${#missing[@]} == 0)); then
  say "everything is installed"
  exit 0
fi

command_line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
give_up() {
  if ((${#needed[@]} == 0)); then
    say "$1; going on without ${extra[*]}"
    exit 0
  fi
  say "$1. Run as root:"
  say "  $command_line"
  exit 1
}

command -v apt-get > /dev/null || give_up "missing: ${missing[*]}, and there is no apt-get here"
as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null || give_up "missing: ${missing[*]}, and installing needs root"
  # Ask for a password only where somebody can answer.
  if [[ -t 0 && -t 2 ]]; then sudo -v || give_up "missing: ${missing[*]}, and sudo was refused"
  else sudo -n true 2> /dev/null || give_up "missing: ${missing[*]}, and sudo asks for a password"
  fi
  as_root=(sudo)
fi

mkdir -p "$(dirname "$log")"
: > "$log"
say "installing ${missing[*]} (log: $log)"
apt() {  # waits for another apt to finish, asks nothing
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >> "$log" 2>&1 < /dev/null
}
failed() {
  say "$1; the end of $log:"
  tail -n 15 "$log" >&2
  give_up "installing failed"
}
# One unreachable source makes update fail although the packages can be had: installing decides.
apt update || say "apt-get update reported errors, trying to install all the same"
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  # An optional package that this release does not have must not keep the others out.
  ((${#extra[@]} > 0 && ${#needed[@]} > 0)) || failed "apt-get install failed"
  apt install -y --no-install-recommends "${needed[@]}" || failed "apt-get install failed"
fi
say "done"
