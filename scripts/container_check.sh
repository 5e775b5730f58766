#!/usr/bin/env bash
# Proves the Containerfile where there is no container engine: runs its steps in root file systems of a bare Debian, then
# the program as a container would start it.
#
#   scripts/container_check.sh                     # all stages: builds toy there, too
#   scripts/container_check.sh --packages FOLDER   # the packages of scripts/package.sh instead of the stage that builds
#
# scripts/bare_root.sh says what it needs; exit code 77 where that is not here. Log: build/container_check.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
packages=""
while (($#)); do
  case $1 in
    --packages) packages=$(realpath "${2:?--packages needs a folder}"); shift 2 ;;
    -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "container_check: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
  esac
done
mkdir -p build
log=$root/build/container_check.log
: > "$log"
say() { echo "container_check: $*" >&2; }
fail() { say "FAILED: $1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }
[[ -z $packages ]] || compgen -G "$packages/toy_*.deb" > /dev/null || { say "$packages has no package (scripts/package.sh)"; exit 77; }
source scripts/bare_root.sh
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
