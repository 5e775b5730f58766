#!/usr/bin/env bash
# Checks that the sources work with another compiler and on other processors. Correctness only; speed means nothing here.
#
#   scripts/portability.sh                 # all of it
#   scripts/portability.sh clang           # builds everything with clang, runs the label unit
#   scripts/portability.sh baseline        # the kernels and ops on x86-64 processors without AVX, under qemu-user
#   scripts/portability.sh arm64           # the same on 64-bit Arm (NEON), cross-compiled, under qemu-user
#
# scripts/setup.sh --cross installs the packages. Debian's libraries for Arm are unpacked into build/arm64-sysroot, not
# installed. The kernel tests loop over the machine's instruction sets (tests/backend/kernel_test_util.h), so together
# they cover every target of src/backend/cpu. Takes about half an hour on 2 cores. Environment: TOY_JOBS.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
exec < /dev/null

jobs=${TOY_JOBS:-$(nproc 2> /dev/null || echo 1)}
sysroot=$root/build/arm64-sysroot
logs=$root/build/portability
# These run under qemu: everything below the models, and one complete model.
folders=(base tensor backend ops runtime)
say() { echo "portability: $*"; }

# Core 2 has SSSE3 and nothing newer. Nehalem adds SSE4.2, which Highway targets and toy does not.
x86_cpus=(Conroe Nehalem)

run() {  # NAME COMMAND...: output to a log, its end on failure
  local name=$1 log=$logs/${1//[^a-zA-Z0-9]/-}.log begin=$SECONDS code=0
  shift
  "$@" > "$log" 2>&1 || code=$?
  if ((code)); then
    say "$name: exit code $code; the end of $log:"
    tail -n 30 "$log" | sed 's/^/  /'
    failed+=("$name")
    return 1
  fi
  say "$name: ok, $((SECONDS - begin)) s$(sed -nE 's/^\[  PASSED  \] ([0-9]+ tests?).*/, \1/p' "$log")"
}

build() {  # PRESET TARGET...
  run "configure $1" cmake --preset "$1" && run "build $1" cmake --build --preset "$1" -j "$jobs" --target "${@:2}"
}

clang() {
  build clang all || return
  run "clang: unit tests" ctest --test-dir build/clang -L '^unit$' -j "$jobs" --timeout 900 --output-on-failure
}

# The program must work on the processor: it trains a model and generates.
program() {  # NAME LAUNCHER... -- BINARY
  local name=$1 launch=() text=$logs/text.txt out=$logs/$1-model
  shift
  while [[ $1 != -- ]]; do launch+=("$1"); shift; done
  head -c 20000 README.md > "$text"
  run "$name: toy train" "${launch[@]}" "$2" train from-scratch --corpus "$text" --size tiny --batch 2 --tokens 32 \
    --steps 5 --threads 2 --out "$out" || return
  run "$name: toy infer" "${launch[@]}" "$2" infer "$out/model.gguf" --prompt "The " --n 20
}

# A processor without SSSE3 gets a message and exit code 2, and the reference device works on it.
below_baseline() {
  local code=0 call=(qemu-x86_64 -cpu qemu64 build/release/toy infer tests/golden/llama_tied.model.gguf --prompt-ids "1,2")
  "${call[@]}" --n 3 || code=$?
  ((code == 2)) || { echo "exit code $code, expected 2"; return 1; }
  "${call[@]}" --n 3 --device reference
}

baseline() {
  build release toy "${folders[@]/#/test_}" || return
  run "a processor below the baseline" below_baseline || true
  for cpu in "${x86_cpus[@]}"; do
    for folder in "${folders[@]}"; do
      run "$cpu: $folder" qemu-x86_64 -cpu "$cpu" "build/release/tests/test_$folder" || true
    done
    program "$cpu" qemu-x86_64 -cpu "$cpu" -- build/release/toy || true
  done
}

unpack_sysroot() {
  local apt=$root/build/arm64-apt packages=(libhwy-dev libfmt-dev libgtest-dev libsentencepiece-dev
                                            nlohmann-json3-dev libcli11-dev)
  [[ -f $sysroot/.complete ]] && return
  rm -rf "$sysroot" "$apt"
  mkdir -p "$sysroot" "$apt/lists/partial" "$apt/cache/archives/partial"
  touch "$apt/status"
  cat > "$apt/apt.conf" << EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOF
  export APT_CONFIG=$apt/apt.conf
  apt-get update || echo "apt-get update reported errors; trying anyway"
  apt-get install -y --download-only --no-install-recommends "${packages[@]}"
  unset APT_CONFIG
  # The C and C++ libraries are the cross compiler's own.
  for deb in "$apt"/cache/archives/*.deb; do
    case ${deb##*/} in
      libc6_* | libgcc-s1_* | libstdc++6_* | gcc-*) ;;
      *) dpkg -x "$deb" "$sysroot" ;;
    esac
  done
  touch "$sysroot/.complete"
  rm -rf "$apt"
}

arm64() {
  run "libraries for arm64" unpack_sysroot || return
  build arm64 toy "${folders[@]/#/test_}" || return
  local launch=(qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu")
  for folder in "${folders[@]}"; do
    run "arm64: $folder" "${launch[@]}" "build/arm64/tests/test_$folder" || true
  done
  program arm64 "${launch[@]}" -- build/arm64/toy || true
}

parts=("$@")
((${#parts[@]})) || parts=(clang baseline arm64)
for part in "${parts[@]}"; do
  case $part in
    clang | baseline | arm64) ;;
    -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "portability: unknown part '$part' (--help shows all)" >&2; exit 2 ;;
  esac
done

bash scripts/setup.sh --cross
mkdir -p "$logs"
failed=()
for part in "${parts[@]}"; do "$part" || true; done
if ((${#failed[@]})); then
  say "${#failed[@]} failed: $(IFS=';'; echo "${failed[*]}")"
  exit 1
fi
say "all passed"
