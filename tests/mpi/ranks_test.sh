#!/usr/bin/env bash
# toy train under mpirun: the bytes of model.gguf for any number of ranks; kill and resume; bad input and other commands.
#   ranks_test.sh TOY bits|kill|hang|input|kills [SEED]     kills: 30 at random moments; input: memory, too
set -euo pipefail
toy=$1 part=$2
source "$(dirname "${BASH_SOURCE[0]}")/jobs.sh"
needs_open_mpi
stands() {  # NAME WHAT: fails with what its processes wait for
  local pid
  echo "---- log of $1"; tail -n 20 "$1.log" || true
  for pid in $(processes "$1"); do
    echo "---- process $pid: $(tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null)"
    grep -E '^(State|PPid|Threads|SigIgn|SigCgt)' "/proc/$pid/status" 2> /dev/null || true
    tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep '^OMPI_COMM_WORLD_RANK' || true
    if command -v gdb > /dev/null; then timeout 30 gdb -p "$pid" -batch -ex 'thread apply all bt 14' 2> /dev/null | grep -E '^(Thread|#)' || true; fi
  done
  failed "$1: $2"
}
touch jobs outlived  # that were ended from outside, and of these the launchers that did not end by themselves
ended() {  # NAME MPIRUN SECONDS: waits for the job, which ends in that time; sets `code`
  local until=$((SECONDS + $3)) alone=$SECONDS told=no
  echo "$1" >> jobs
  while kill -0 "$2" 2> /dev/null; do
    if pgrep -f "^$toy .*$dir/out/$1\$" > /dev/null; then alone=$SECONDS; fi
    if ((SECONDS - alone > 30)); then  # it waits for ranks that are gone, which is not toy's to repair
      echo "$1: mpirun has not ended 30 s after its ranks; it is killed"
      if [[ $told == no ]]; then echo "$1" >> outlived; told=yes; fi
      kill -KILL $(launcher_of "$1") "$2" 2> /dev/null || true
      alone=$SECONDS
    fi
    ((SECONDS < until)) || stands "$1" "the job has not ended after $3 s"
    sleep 0.05
  done
  code=0
  wait "$2" || code=$?
  until=$((SECONDS + 30))
  while processes "$1" > /dev/null; do
    ((SECONDS < until)) || stands "$1" "processes are left 30 s after mpirun ended with $code"
    sleep 0.05
  done
}
launchers() {  # now and then Open MPI waits for ranks that are gone; often would be for ranks that do not end as they should
  local all lost
  all=$(wc -l < jobs) lost=$(wc -l < outlived)
  echo "$lost of $all launchers have outlived their ranks by 30 s"
  ((lost * 4 <= all + 4)) || failed "too many launchers have outlived their ranks"
}
on() {  # RANKS ARGUMENTS...: in so many ranks; 0: without a launcher
  local n=$1
  shift
  if ((n == 0)); then "$toy" "$@"; else timeout -k 10 300 mpirun -np "$n" "$toy" "$@"; fi
}

"$toy" corpus stories --bytes 60000 --seed 1 --out book.txt
common=(--corpus book.txt --tokens 32 --batch 8 --shards 4 --threads 1 --seed 3)

# ---- bits
same() {  # NAME RESULT ARGUMENTS...: the same bytes in 2 and 4 ranks and without a launcher, and in $more
  local name=$1 result=$2 n
  shift 2
  for n in 0 $more 2 4; do
    on "$n" train "$@" "${common[@]}" --steps 4 --checkpoint-every 4 --out "out/$name-$n" > "$name.log" 2>&1 || { cat "$name.log"; failed "$name in $n ranks"; }
    [[ $(sum "out/$name-$n/$result") == "$(sum "out/$name-0/$result")" ]] || failed "$name: other bytes in $n ranks"
    diff -r "out/$name-$n/checkpoints" "out/$name-0/checkpoints" || failed "$name: another checkpoint in $n ranks"
  done
  grep -q '"shards": 4' "out/$name-4/config.json" || failed "$name: config.json does not hold the shards"
  echo "$name: one sha256"
}
from=(from-scratch --tokenizer bytes) more=''
apart() {  # Ranks that train apart: resumed in the middle of a round.
  on 4 train "${from[@]}" --size tiny "${common[@]}" --local-steps 5 --steps 10 --checkpoint-every 7 --out out/apart > apart.log 2>&1 || { cat apart.log; failed "local steps"; }
  local before
  before=$(sum out/apart/model.gguf)
  rm -r out/apart/checkpoints/step_000010 out/apart/model.gguf
  on 4 train --resume --out out/apart > apart.log 2>&1 || { cat apart.log; failed "local steps: resuming"; }
  [[ $(sum out/apart/model.gguf) == "$before" ]] || failed "local steps: other bytes after step 7 was resumed"
  echo "local steps, resumed in a round: one sha256"
}
preferences() {
  local n
  python3 -c 'for i in range(40): print("{\"prompt\": \"say %d:\", \"chosen\": \" yes%s\", \"rejected\": \" no%s\"}" % (i % 7, "!" * (i % 3), "." * (i % 2)))' > pairs.jsonl
  for n in 0 2 4; do
    on $n train dpo --model out/tiny-0/model.gguf --data pairs.jsonl --rank 4 --tokens 48 --batch 4 --shards 4 --threads 1 --steps 3 --eval-every 3 --out out/dpo-$n > dpo.log 2>&1 || { cat dpo.log; failed "preferences in $n ranks"; }
    [[ $(sum out/dpo-$n/adapter.gguf) == "$(sum out/dpo-0/adapter.gguf)" ]] || failed "preferences: other bytes in $n ranks"
  done
  echo "preferences: one sha256"
}
if [[ $part == bits ]]; then
begin apart
more=1 same tiny model.gguf "${from[@]}" --size tiny --dropout 0.1 --accumulate 2 --clip 0.1
begin same hybrid model.gguf "${from[@]}" --size hybrid-tiny --optimizer muon --ema 0.9 --eval-every 2
begin same gpt2 model.gguf "${from[@]}" --size gpt2-tiny --optimizer lion
begin same adamw8 model.gguf "${from[@]}" --size tiny --optimizer adamw8 --documents blank-lines --pack
begin preferences
begin same lora adapter.gguf lora --model out/tiny-0/model.gguf --rank 4 --lora-dropout 0.1
all_ended
cmp out/hybrid-4/model-ema.gguf out/hybrid-0/model-ema.gguf || failed "hybrid: other averages in 4 ranks"
[[ $(sum out/apart/model.gguf) != "$(sum out/tiny-4/model.gguf)" ]] || failed "local steps: the bytes of shared steps"
python3 - << 'EOF'
import json
events = [json.loads(line) for line in open("out/tiny-4/events.jsonl")]
steps = [e for e in events if e["kind"] == "step"]
assert events[0]["ranks"] == 4 and all(s["exchange_us"] > 0 and "wait_us" in s for s in steps), events[0]
assert not any("exchange_us" in json.loads(line) for line in open("out/tiny-0/events.jsonl"))
EOF
fi

# ---- ended in any way, resumed in another number of ranks
run=("${from[@]}" --size tiny "${common[@]}" --steps 40 --checkpoint-every 3 --time-limit 1000s)
calm=calm  # the run that nothing happens to
resumed() {  # NAME RANKS
  on "$2" train --resume --out "$dir/out/$1" > "$1.log" 2>&1 || { cat "$1.log"; failed "$1: resuming in $2 ranks"; }
  [[ $(sum "out/$1/model.gguf") == "$(sum "out/$calm/model.gguf")" ]] || failed "$1: other bytes after it was resumed"
  echo "$1, then resumed in $2 ranks: the same sha256"
}
steps_of() { find "$1/checkpoints" -name "step*" 2> /dev/null | wc -l; }
has_begun() { while (($(steps_of "out/$1") == 0)) && kill -0 "$2" 2> /dev/null; do sleep 0.02; done; }  # NAME MPIRUN
kill_rank() {  # NAME RANKS RANK SIGNAL MORE_RANKS: ends that rank of the run after its first checkpoint
  local name=$1 job code=0
  struck "$name" "$3" "$4" "0.$((RANDOM % 4))" timeout -k 10 300 mpirun -np "$2" "$toy" train "${run[@]}"
  ended "$name" "$job" 100
  [[ -e out/$name/model.gguf || $code != 0 ]] || failed "$name: the job ended with 0 without a model"
  resumed "$name" "$5"
}
local_steps() {  # Ranks that train apart, with checkpoints inside their rounds.
  run=("${from[@]}" --size tiny "${common[@]}" --shards 2 --local-steps 10 --steps 40 --checkpoint-every 3 --time-limit 1000s)
  calm=calm-apart
  on 2 train "${run[@]}" --out out/$calm > $calm.log 2>&1 || { cat $calm.log; failed "local steps"; }
  kill_rank local-killed 2 1 KILL 2
}
if [[ $part == kill ]]; then
begin local_steps
on 0 train "${run[@]}" --out out/calm > log 2>&1
begin kill_rank worker-killed 4 3 KILL 2
begin kill_rank first-killed 2 0 KILL 4
begin kill_rank launcher-killed 2 launcher KILL 0
begin kill_rank first-stopped 4 0 INT 1
begin kill_rank launcher-stopped 2 launcher TERM 4
all_ended
launchers
fi

# ---- killed at random moments, and resumed each time in a random number of ranks
if [[ $part == kills ]]; then
RANDOM=${3:-$(date +%N | sed 's/^0*//')}
echo "seed $RANDOM"
kinds=(tiny hybrid gpt2 lora)
of_kind() {  # KIND: sets `run`, and `result`, the file that it makes
  result=model.gguf
  run=("${from[@]}" --size tiny)
  case $1 in
    hybrid) run=("${from[@]}" --size hybrid-tiny) ;;
    gpt2) run=("${from[@]}" --size gpt2-tiny --optimizer lion) ;;
    lora) run=(lora --model "$dir/out/calm-tiny/model.gguf" --rank 4 --lora-dropout 0.1) result=adapter.gguf ;;
  esac
  run+=("${common[@]}" --steps 40 --checkpoint-every 3 --time-limit 1000s)
}
for kind in "${kinds[@]}"; do
  of_kind $kind
  on 0 train "${run[@]}" --out out/calm-$kind > log 2>&1 || { cat log; failed "$kind"; }
done
all=30 round=0 n=0
for ((kills = 0; kills < all;)); do
  kind=${kinds[round % 4]}
  of_kind $kind
  name=round-$((++round))
  while [[ ! -e out/$name/$result ]]; do
    numbers=() killed=no
    for i in 1 2 4; do ((i == n)) || numbers+=($i); done  # never as many as before
    n=${numbers[RANDOM % ${#numbers[@]}]}
    timeout -k 10 300 mpirun -np $n "$toy" train "${run[@]}" --resume --out "$dir/out/$name" > "$name.log" 2>&1 &
    mpirun=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    if ((kills < all)) && kill -0 $mpirun 2> /dev/null; then
      victim=$((RANDOM % (n + 1)))
      if ((victim == n)); then pid=$(launcher_of "$name") victim=mpirun; else pid=$(process_of "$name" $victim); fi
      if [[ -n $pid ]] && kill -KILL "$pid" 2> /dev/null; then killed="$victim of $n" kills=$((kills + 1)); fi
    fi
    ended "$name" $mpirun 200
    [[ $code == 0 || $killed != no ]] || { cat "$name.log"; failed "$name: exit code $code, and nothing was killed"; }
    ((code != 2)) || { cat "$name.log"; failed "$name: cannot be resumed in $n ranks"; }
    [[ $code != 0 || -e out/$name/$result ]] || failed "$name: the job ended with 0 without a model"
  done
  [[ $(sum "out/$name/$result") == "$(sum "out/calm-$kind/$result")" ]] || failed "$name ($kind): other bytes after $kills kills"
  echo "$name ($kind): $kills kills so far, the same sha256"
done
launchers
fi

# ---- a rank that hangs, and toy runs stop
long=("${from[@]}" --size tiny "${common[@]}" --steps 200 --checkpoint-every 40)
hangs() {  # NAME RANKS RANK MORE_RANKS: that rank stops without a word; the others say so and end
  local name=$1 rank=$3 job code=0 since
  struck "$name" "$rank" STOP 0 timeout -k 10 300 mpirun -np "$2" "$toy" train "${long[@]}" --rank-timeout 6s
  since=$SECONDS
  ended "$name" "$job" 100
  ((code != 0)) || { cat "$name.log"; failed "$name: the job ended with 0"; }
  ((SECONDS - since < 60)) || failed "$name: the job took $((SECONDS - since)) s to end"
  grep -q "rank $rank (host $(hostname)) has not answered for 6 s" "$name.log" || { cat "$name.log"; failed "$name: the rank is not named"; }
  if ((rank > 0)); then tail -n 1 "out/$name/events.jsonl" | grep -q '"run_end".*has not answered' || failed "$name: no run_end"; fi
  resumed "$name" "$4"
}
asked() {  # toy runs stop
  local mpirun
  timeout -k 10 300 mpirun -np 2 "$toy" train "${long[@]}" --out "$dir/out/asked" > asked.log 2>&1 &
  mpirun=$!
  has_begun asked $mpirun
  "$toy" runs stop out/asked > said || { cat asked.log said; failed "toy runs stop"; }
  grep -q 'ended (stopped) at step [0-9]*; saved in .*checkpoints/step_' said || { cat said; failed "what toy runs stop says"; }
  ! wait $mpirun || failed "a stopped job ended with 0"
  resumed asked 4
}
if [[ $part == hang ]]; then
on 0 train "${long[@]}" --out out/calm > log 2>&1
begin hangs worker-hangs 4 3 2
begin hangs first-hangs 2 0 0
begin asked
all_ended
fi

# ---- bad input: exit code 2, one message, from rank 0
refused() {  # RANKS PATTERN ARGUMENTS...
  local n=$1 pattern=$2 code=0 err
  shift 2
  err=$(mktemp err.XXXXXX)
  on "$n" "$@" > "$err.log" 2> "$err" || code=$?
  ((code == 2)) || { cat "$err.log" "$err"; failed "exit code $code for: $*"; }
  grep -q -- "$pattern" "$err" || { cat "$err"; failed "no '$pattern' for: $*"; }
  (($(grep -c '^toy: ' "$err") == 1)) || { cat "$err"; failed "not one message for: $*"; }
}
[[ $part == input ]] || { echo "ok"; exit 0; }
on 0 train "${run[@]}" --steps 6 --out out/four > log 2>&1
begin refused 3 'start 1, 2 or 4 ranks' train "${run[@]}" --out out/none
begin refused 2 'Unknown\|unknown\|did you mean' train "${run[@]}" --sed 1 --out out/none
begin refused 2 'start 4 ranks (here: ranks 2, shards 4)' train "${run[@]}" --local-steps 5 --out out/none
begin refused 4 'steps is 40, and ranks meet every 7 steps' train "${run[@]}" --local-steps 7 --out out/none
begin refused 0 'was trained with --shards 4, this is --shards 2' train --resume --out out/four --shards 2 --steps 9
TOY_MPI_PLUGIN=/nowhere.so begin refused 2 'cannot be used: /nowhere.so' train "${run[@]}" --out out/none
# Ranks that are started apart: with other words, of another version, with less memory.
host=$(hostname)
begin refused 1 "^toy: rank 1 (host $host) was started with --lr 9e-3 --nonsense where rank 0 was started with --lr 4e-3; " \
  train "${run[@]}" --lr 4e-3 --out out/none : -np 1 "$toy" train "${run[@]}" --lr 9e-3 --nonsense --out out/none
version=$("$toy" --version | cut -d ' ' -f 2) other=7.7.7
((${#version} == ${#other})) || failed "toy's version has other than ${#other} letters"
mkdir other
sed "s/${version//./\\.}/$other/g" "$toy" > other/toy
chmod +x other/toy
TOY_MPI_PLUGIN=$(dirname "$toy")/libtoy_mpi.so begin refused 1 \
  "^toy: rank 1 (host $host) is toy $other, rank 0 (host $host) is toy $version; " \
  train "${run[@]}" --out out/none : -np 1 other/toy train "${run[@]}" --out out/none
emulated=("${from[@]}" --size tiny "${common[@]}" --steps 1 --device emulated --out out/none)
begin refused 1 "^toy: rank 1 (host $host): memory: .* are free" \
  train "${emulated[@]}" : -np 1 -x TOY_EMULATED_MEMORY=1M "$toy" train "${emulated[@]}"
# Each of four ranks has room for its 40% of what this host has, and all together have not.
large=("${from[@]}" --size tiny --corpus book.txt --tokens 32 --shards 4 --threads 1 --steps 1)
for b in 400 800; do on 0 train "${large[@]}" --batch $b --dry-run --json > dry.$b 2> /dev/null; done
cat > batch.py << 'EOF'
import json
few, more = (json.load(open(f"dry.{b}"))["memory"]["peak_bytes"] for b in (400, 800))
free = next(int(line.split()[1]) * 1024 for line in open("/proc/meminfo") if line.startswith("MemAvailable:"))
try:
    free = min(free, int(open("/sys/fs/cgroup/memory.max").read()) - int(open("/sys/fs/cgroup/memory.current").read()))
except (OSError, ValueError):
    pass
print(4 * int(0.4 * free / (more - few) * 100))
EOF
begin refused 4 "^toy: memory: the 4 ranks on host $host need .* together, the largest of them .* are free there; use fewer ranks" \
  train "${large[@]}" --batch "$(python3 batch.py)" --out out/none
in_use() {  # a folder that another job writes to
  local mpirun
  timeout -k 10 300 mpirun -np 2 "$toy" train "${run[@]}" --steps 2000 --out "$dir/out/used" > used.log 2>&1 &
  mpirun=$!
  has_begun used $mpirun
  refused 2 'out/used: another run .* is writing to this folder' train "${run[@]}" --out out/used
  "$toy" runs stop out/used > /dev/null
  ! wait $mpirun || failed "a stopped job ended with 0"
}
begin in_use
all_ended
rm -rf out/used
[[ ! -e out/none ]] || failed "a refused run left a folder"

# ---- other commands run once
[[ $(on 2 infer out/four --prompt A -n 1 --json 2> /dev/null | wc -l) == 1 ]] || failed "infer in 2 ranks"
on 2 bench train --shape tiny --batch 4 --tokens 32 --steps 2 --warmup 1 --json > bench.json
on 2 bench train --shape tiny --batch 4 --tokens 32 --steps 2 --warmup 1 > bench.txt
grep -qE '% of 2 x [0-9]+; 2 ranks, exchange [0-9.]+ ms, waiting [0-9.]+ ms; peak' bench.txt || { cat bench.txt; failed "the text of bench train"; }
on 2 train "${run[@]}" --dry-run --json > dry.json 2> /dev/null
on 2 train "${run[@]}" --dry-run > dry.txt 2> /dev/null
grep -qE "of 2 ranks, rank [01] \(host $host\) takes the most: [0-9.]+ MiB" dry.txt || { cat dry.txt; failed "the text of a dry run"; }
python3 - << 'EOF'
import json
j = json.load(open("bench.json"))
assert j["ranks"] == 2 and j["shards"] == 2 and j["tokens_per_s"] > 0 and j["exchange_us"] > 0 and j["wait_us"] >= 0, j
assert abs(j["fraction_of_fma"] * 2 * j["fma_gflops"] / j["gflops"] - 1) < 1e-6, j
j = json.load(open("dry.json"))
assert j["ranks"] == 2 and j["largest_rank"]["planned_bytes"] >= j["memory"]["peak_bytes"], j
EOF

# ---- each rank takes the memory that was planned
cat > peak.py << 'EOF'
import os, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
with open("peak." + os.environ["OMPI_COMM_WORLD_RANK"], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))
sys.exit(code)
EOF
mpirun -np 2 --bind-to none python3 peak.py "$toy" bench train --shape small --batch 128 --tokens 128 --steps 1 --warmup 0 --threads 1 --json > bench.json
python3 - << 'EOF'
import json
planned, program = json.load(open("bench.json"))["planned_mib"], 24  # pages of the program's file
for rank in (0, 1):
    peak = float(open(f"peak.{rank}").read())
    assert 0.95 * planned < peak < 1.05 * planned + program, f"rank {rank}: planned {planned} MiB, peak {peak:.0f} MiB"
EOF
echo "ok"
