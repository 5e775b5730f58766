#!/usr/bin/env bash
# toy train --device cuda under mpirun, with a CUDA driver and an NCCL that have no GPU (tests/gpu/fake): the bytes of one
# rank, and what the user sees where NCCL is missing, too old, finds an error, or hangs.
#   nccl_test.sh TOY FOLDER_OF_THE_DRIVER FOLDER_OF_NCCL
set -euo pipefail
toy=$1 cuda=$2 nccl=$3
source "$(dirname "${BASH_SOURCE[0]}")/jobs.sh"
needs_open_mpi
LD_LIBRARY_PATH=$cuda "$toy" devices | grep -q '^cuda *yes' || skip "the build has no kernels for CUDA (nvcc)"
mkdir tmp
export TMPDIR=$dir/tmp
both=$cuda:$nccl
"$toy" corpus stories --bytes 20000 --seed 1 --out book.txt
cat > small.json << 'END'
{"architecture": "llama", "n_layers": 1, "d_model": 16, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 24, "context": 64, "rms_eps": 1e-5, "tied": true, "rope_base": 10000}
END
options=(from-scratch --corpus book.txt --tokenizer bytes --size small.json --tokens 8 --batch 4 --shards 4 --steps 2
         --seed 3 --eval-every 0)
on() {  # LIBRARIES RANKS ARGUMENTS...
  LD_LIBRARY_PATH=$1 timeout -k 10 200 mpirun -np "$2" "$toy" train "${options[@]}" --device cuda "${@:3}"
}

# ---- the same bytes
LD_LIBRARY_PATH=$cuda "$toy" train "${options[@]}" --device cuda --out out/alone > log 2>&1 || { cat log; failed "alone"; }
same() {  # NAME LIBRARIES RANKS
  on "$2" "$3" --out "$dir/out/$1" > "$1.log" 2>&1 || { cat "$1.log"; failed "$1"; }
  [[ $(sum "out/$1/model.gguf") == "$(sum out/alone/model.gguf)" ]] || failed "other bytes: $1"
}
begin same two "$both" 2
begin same four "$both" 4
TOY_NCCL=off begin same through-the-host "$cuda" 2
all_ended
echo "one sha256"

# ---- what is missing or wrong: one message, the same exit code everywhere, and no rank waits
ends() {  # NAME CODE PATTERN LIBRARIES ARGUMENTS...
  local name=$1 code=0 begin=$SECONDS
  shift
  on "$3" 2 "${@:4}" --out "$dir/out/$name" > "$name.log" 2> "$name.err" || code=$?
  ((code == $1)) || { cat "$name.log" "$name.err"; failed "exit code $code, not $1, for: $2"; }
  grep -q -- "$2" "$name.err" || { cat "$name.err"; failed "no '$2'"; }
  (($(grep -c '^toy: ' "$name.err") == 1)) || { cat "$name.err"; failed "not one message for: $2"; }
  ((SECONDS - begin < 60)) || failed "it took $((SECONDS - begin)) s to say: $2"
}
host=$(hostname)
if [[ $(ldconfig -p) != *libnccl.so.2* ]]; then
  begin ends none 2 "rank 0 (host $host): GPUs of several ranks need NVIDIA's NCCL: libnccl.so.2" "$cuda"
fi
TOY_FAKE_NCCL_VERSION=21304 begin ends old 2 "rank 0 (host $host): NVIDIA's NCCL is too old: version 2.13" "$both"
TOY_FAKE_NCCL_FAILS='ncclSend 1 3' begin ends wrong 1 "rank 1 (host $host): ncclSend: what a test wants (NCCL, error 6)" "$both"
TOY_FAKE_NCCL_FAILS='hang' begin ends hangs 1 'NCCL has moved nothing for 6 s, half of --rank-timeout' "$both" --rank-timeout 12s
all_ended
tail -n 1 out/wrong/events.jsonl | grep -q '"run_end".*ncclSend' || failed "no run_end for an error of NCCL"
echo "messages: ok"

# ---- a rank that dies, or hangs, in the middle
long=(--steps 8 --checkpoint-every 2)
LD_LIBRARY_PATH=$cuda "$toy" train "${options[@]}" "${long[@]}" --device cuda --out out/calm > log 2>&1
gets() {  # SIGNAL: rank 1
  local name=$1 job code=0
  struck "$name" 1 "$name" 0 on "$both" 2 "${long[@]}" --rank-timeout 8s
  wait "$job" || code=$?
  ((code != 0)) || { cat "$name.log"; failed "a job whose rank 1 got SIG$name ended with 0"; }
  [[ $name == KILL ]] || grep -q "rank 1 (host $host) has not answered for 8 s" "$name.log" || { cat "$name.log"; failed "rank 1 is not named"; }
  LD_LIBRARY_PATH=$both timeout -k 10 200 mpirun -np 4 "$toy" train --resume --out "$dir/out/$name" > "$name.log" 2>&1 || { cat "$name.log"; failed "resuming"; }
  [[ $(sum "out/$name/model.gguf") == "$(sum out/calm/model.gguf)" ]] || failed "other bytes after SIG$name"
}
begin gets KILL
begin gets STOP
all_ended
echo "ok"
