#!/usr/bin/env bash
# Installs the packages that building and testing need, with apt. Changes nothing if all are installed.
#
#   scripts/setup.sh          # to build, run and test
#   scripts/setup.sh --dev    # also clang, clang-format, shellcheck (fuzzing, formatting), oneDNN (benchmarks), PoCL (tests
#                             # of the device opencl) and MPICH (a test of the plugin; Open MPI keeps the name mpirun)
#   scripts/setup.sh --docs   # also doxygen (scripts/docs.sh)
#   scripts/setup.sh --cross  # also clang, the compiler for 64-bit Arm and qemu-user (scripts/portability.sh)
#
# Without apt, or without permission to install, it prints the command to run. apt's output goes to build/setup.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
log=$root/build/setup.log

# name:command counts as installed if the command exists. docs/dependencies.md says what each package is for.
packages=(
  cmake:cmake ninja-build:ninja g++:g++ pkg-config:pkg-config python3:python3
  libfmt-dev nlohmann-json3-dev libcli11-dev libhwy-dev libeigen3-dev libsentencepiece-dev libutf8proc-dev
  libpng-dev libjpeg62-turbo-dev libcurl4-openssl-dev libssl-dev libedit-dev libboost-dev libgtest-dev
)
# Faster rebuilds, faster links, one test of fsyncs, training with several processes; all may be missing.
optional=(ccache:ccache mold:mold strace:strace libopenmpi-dev openmpi-bin:mpirun)
# Debian's clang only recommends the sanitizers' runtime. Debian 12 has clang 14.
dev=(clang:clang++ clang-format:clang-format libclang-rt-14-dev shellcheck:shellcheck libdnnl-dev pocl-opencl-icd
     ocl-icd-libopencl1 mpich:mpiexec.hydra libmpich-dev)
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
  # Not Debian: package names mean nothing here. Check the tools; CMake names missing libraries.
  for tool in cmake ninja g++ pkg-config python3; do
    command -v "$tool" > /dev/null || { say "$tool is missing; install it with this system's package manager"; exit 1; }
  done
  say "this is not Debian; CMake names any library that is missing (docs/dependencies.md lists all)"
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
    say "$1; continuing without ${extra[*]}, which is optional"
    exit 0
  fi
  say "$1. Run as root:"
  say "  $command_line"
  exit 1
}

command -v apt-get > /dev/null || give_up "missing: ${missing[*]}, and this system has no apt-get"
as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null || give_up "missing: ${missing[*]}, and installing needs root"
  # Ask for a password only on a terminal.
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
# One unreachable source makes update fail even if the packages are available; the install decides.
apt update || say "apt-get update reported errors; trying to install anyway"
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  # A missing optional package must not prevent the others.
  ((${#extra[@]} > 0 && ${#needed[@]} > 0)) || failed "apt-get install failed"
  apt install -y --no-install-recommends "${needed[@]}" || failed "apt-get install failed"
fi
say "done"
