#!/usr/bin/env bash
# The plugin, built with MPICH as docs/many-machines.md says, next to whichever MPI toy was built with.
#   mpich_test.sh TOY CXX
# TOY_MPICH: a folder with MPICH's packages unpacked, where they are not installed.
set -euo pipefail
toy=$1 cxx=$2 root=${TOY_MPICH:-}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$source/tests/mpi/jobs.sh"
mpiexec=$root/usr/bin/mpiexec.hydra
include=$(find "$root/usr/include" -path '*mpich*' -name mpi.h 2> /dev/null | head -n 1)
library=$(find "$root/usr/lib" -name libmpich.so 2> /dev/null | head -n 1)
[[ -x $mpiexec && -n $include && -n $library ]] || skip "there is no MPICH (scripts/setup.sh --dev, or apt-get install mpich libmpich-dev)"
[[ -z $root ]] || export LD_LIBRARY_PATH=$(dirname "$library")
"$cxx" -O2 -std=c++20 -shared -fPIC -I "$source/src" -I "$(dirname "$include")" "$source/src/base/mpi/plugin.cpp" \
  -o libtoy_mpi.so -L"$(dirname "$library")" -lmpich
export TOY_MPI_PLUGIN=$dir/libtoy_mpi.so
"$toy" corpus stories --bytes 60000 --seed 1 --out book.txt
options=(--corpus book.txt --tokenizer bytes --size tiny --tokens 32 --batch 8 --shards 4 --threads 1 --seed 3)

"$toy" train from-scratch "${options[@]}" --steps 30 --checkpoint-every 10 --out out/alone > log 2>&1
for n in 2 4; do
  timeout -k 10 300 "$mpiexec" -n $n "$toy" train from-scratch "${options[@]}" --steps 30 --checkpoint-every 10 --out out/$n > log 2>&1 ||
    { cat log; failed "$n ranks"; }
  [[ $(sum out/$n/model.gguf) == "$(sum out/alone/model.gguf)" ]] || failed "other bytes in $n ranks"
done
# Gradients of several buckets, most of which are exchanged while backward computes.
cat > large.json << 'END'
{"architecture": "llama", "n_layers": 4, "d_model": 256, "n_heads": 4, "n_kv": 4, "d_head": 64, "d_ff": 1024, "context": 64, "rms_eps": 1e-5, "tied": true, "rope_base": 10000}
END
large=(--corpus book.txt --tokenizer bytes --size large.json --tokens 16 --batch 4 --shards 4 --threads 1 --seed 3 --steps 2)
"$toy" train from-scratch "${large[@]}" --out out/large-alone > log 2>&1
timeout -k 10 300 "$mpiexec" -n 2 "$toy" train from-scratch "${large[@]}" --out out/large > log 2>&1 || { cat log; failed "several buckets"; }
[[ $(sum out/large/model.gguf) == "$(sum out/large-alone/model.gguf)" ]] || failed "other bytes with several buckets"

# Ranks that train apart, resumed in the middle of a round.
timeout -k 10 300 "$mpiexec" -n 4 "$toy" train from-scratch "${options[@]}" --local-steps 5 --steps 10 --checkpoint-every 7 --out out/apart > log 2>&1 ||
  { cat log; failed "local steps"; }
before=$(sum out/apart/model.gguf)
rm -r out/apart/checkpoints/step_000010 out/apart/model.gguf
timeout -k 10 300 "$mpiexec" -n 4 "$toy" train --resume --out out/apart > log 2>&1 || { cat log; failed "local steps: resuming"; }
[[ $(sum out/apart/model.gguf) == "$before" ]] || failed "local steps: other bytes after step 7 was resumed"

code=0
timeout -k 10 300 "$mpiexec" -n 3 "$toy" train from-scratch "${options[@]}" --steps 30 --out out/none > log 2>&1 || code=$?
((code == 2)) || { cat log; failed "bad input: exit code $code"; }
grep -q 'start 1, 2 or 4 ranks' log || { cat log; failed "bad input without its message"; }

# A rank that hangs.
long=("${options[@]}" --steps 200 --checkpoint-every 40)
"$toy" train from-scratch "${long[@]}" --out out/calm > log 2>&1
struck hangs 1 STOP 0 timeout -k 10 300 "$mpiexec" -n 2 "$toy" train from-scratch "${long[@]}" --rank-timeout 6s
code=0
wait "$job" || code=$?
((code != 0)) || failed "a job with a rank that hangs ended with 0"
grep -q 'rank 1 (host .*) has not answered for 6 s' hangs.log || { cat hangs.log; failed "the rank that hangs is not named"; }
timeout -k 10 300 "$mpiexec" -n 4 "$toy" train --resume --out out/hangs > log 2>&1 || { cat log; failed "resuming"; }
[[ $(sum out/hangs/model.gguf) == "$(sum out/calm/model.gguf)" ]] || failed "other bytes after a rank hung"
echo "ok: $("$mpiexec" --version | sed -n 's/ *Version: */MPICH /p' | head -n 1)"
