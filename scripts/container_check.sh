#!/usr/bin/env bash
# Proves the Containerfile where there is no container engine: runs its steps in root file systems of a bare Debian, then
# the program as a container would start it.
#
#   scripts/container_check.sh                     # all stages: builds toy there, too
#   scripts/container_check.sh --packages FOLDER   # the packages of scripts/package.sh instead of the stage that builds
#
# Needs root and, unless TOY_BARE_ROOT is the folder or archive of a bare Debian, mmdebstrap. Exit code 77 where they or
# Debian's mirror are not here. Log: build/container_check.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
packages=""
while (($#)); do
  case $1 in
    --packages) packages=$(cd "${2:?--packages needs a folder}" && pwd); shift 2 ;;
    -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "container_check: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
  esac
done
mkdir -p build
log=$root/build/container_check.log
: > "$log"
say() { echo "container_check: $*" >&2; }
fail() { say "FAILED: $1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }
((EUID == 0)) || { say "root file systems need root"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

if [[ -z ${TOY_BARE_ROOT:-} ]]; then
  command -v mmdebstrap > /dev/null || { say "mmdebstrap is missing (Debian: apt-get install mmdebstrap)"; exit 77; }
  TOY_BARE_ROOT=$work/bare.tar
  mmdebstrap --variant=minbase bookworm "$TOY_BARE_ROOT" >> "$log" 2>&1 || { say "no Debian: its mirror is not here"; exit 77; }
fi
new_root() {  # FOLDER
  mkdir "$1"
  if [[ -d $TOY_BARE_ROOT ]]; then cp -a "$TOY_BARE_ROOT/." "$1"; else tar -xf "$TOY_BARE_ROOT" -C "$1"; fi
  cp /etc/resolv.conf "$1/etc/resolv.conf"
}
# A command in the stage's root, with its folder and user; /proc and /dev go when it ends.
inside() {  # WORD...
  # shellcheck disable=SC2016  # the inner shell reads the variables
  unshare --mount --pid --fork bash -c '
    root=$1 folder=$2 user=$3; shift 3
    mount -t proc proc "$root/proc"
    for device in null zero random urandom; do
      [[ -c $root/dev/$device ]] || : > "$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    exec chroot --userspec="$user" "$root" env -i HOME=/root DEBIAN_FRONTEND=noninteractive \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd \"$folder\" && exec \"\$@\"" sh "$@"
  ' bash "$stage" "$folder" "$user" "$@"
}
copy_sources() {  # FOLDER
  if git rev-parse --git-dir > /dev/null 2>&1; then git ls-files -z; else find . -path ./build -prune -o -type f -print0; fi \
    | tar --null -T - -c | tar -xC "$1"
}

declare -A stages=()
stage="" folder=/ user=root:root entry="" skipped=0
step() {  # INSTRUCTION ARGUMENTS
  local words
  read -ra words <<< "$2"
  if [[ $1 == FROM ]]; then
    skipped=0 folder=/ user=root:root stage=$work/stage${#stages[@]}
    [[ ${words[0]} == */debian:12 || ${words[0]} == */debian:12-slim ]] || fail "FROM ${words[0]}: only Debian 12 is known here"
    stages[${words[2]:-last}]=$stage
    if [[ -n $packages && ${words[2]:-} == build ]]; then skipped=1; else new_root "$stage"; fi
    return
  fi
  ((!skipped)) || return 0
  say "$1 $2"
  case $1 in
    RUN) inside sh -c "$2" >> "$log" 2>&1 || fail "RUN $2" ;;
    WORKDIR) folder=$2; mkdir -p "$stage$folder" ;;
    USER) user=$2:$2 ;;
    EXPOSE) ;;
    VOLUME) [[ -d $stage$2 ]] || fail "VOLUME $2 is not there" ;;
    ENTRYPOINT) entry=$(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]))' "$2") ;;
    COPY)
      if [[ ${words[0]} == --from=* ]]; then
        local from=${words[1]}
        mkdir -p "$stage${words[2]}"
        if [[ -n $packages ]]; then from=$packages/${from##*/}; else from=${stages[${words[0]#--from=}]}$from; fi
        # shellcheck disable=SC2086  # a pattern
        cp $from "$stage${words[2]}" || fail "COPY $2"
      else
        copy_sources "$stage${words[1]}"
      fi ;;
    *) fail "the Containerfile has $1, which this script does not know" ;;
  esac
}
while IFS= read -r line || [[ -n $line ]]; do
  while [[ $line == *\\ ]]; do
    IFS= read -r more
    line=${line%\\}$more
  done
  [[ $line =~ ^[[:space:]]*(#|$) ]] || step "${line%% *}" "${line#* }"
done < Containerfile

# As `podman run` starts it: the program says its version, and a model in the volume answers.
[[ -n $entry ]] || fail "no ENTRYPOINT"
cp tests/golden/llama_tied.model.gguf "$stage/models/"
version=$(inside "$entry" --version) || fail "the program does not run"
inside "$entry" infer llama_tied.model.gguf --prompt-ids 1,2,3 --n 4 --temperature 0 --json > "$work/said" 2>> "$log" || fail "infer"
grep -q '"ids"' "$work/said" || fail "infer wrote $(cat "$work/said")"
say "$version runs as $user in a bare Debian"
