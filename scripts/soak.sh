#!/usr/bin/env bash
# Trains for a long time with every instrument on, and fails if memory or open files grow.
#
#   scripts/soak.sh            # 30 minutes
#   scripts/soak.sh MINUTES    # at least 1
#
# The run writes validations, samples, checkpoints, taps, gradients, drift, op times and TensorBoard files every few
# steps. Memory and open descriptors are read from /proc every two seconds. The script fails if the last third of the run
# peaks more than 1% and 2 MiB above the second third, or has more descriptors at its lowest.
# Environment: TOY (default build/release/toy), TOY_OUT (default build/soak, replaced).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
minutes=${1:-30}
if [[ ! $minutes =~ ^[1-9][0-9]*$ ]]; then sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}" >&2; exit 2; fi
toy=${TOY:-build/release/toy} out=${TOY_OUT:-build/soak}
if [[ ! -x $toy ]]; then echo "soak: $toy does not exist; build it first with bash scripts/test.sh" >&2; exit 2; fi

rm -rf "$out"
mkdir -p "$out"
"$toy" corpus stories --bytes 3000000 --out "$out/text.txt" > "$out/corpus.log" 2>&1
"$toy" train from-scratch --corpus "$out/text.txt" --documents blank-lines --pack --size tiny --tokenizer spm:400 \
  --batch 4 --tokens 64 --accumulate 2 --steps 100000000 --schedule constant --time-limit "${minutes}m" --ema 0.99 \
  --eval-every 50 --eval-tokens 2000 --sample 20 --checkpoint-every 100 --keep 3 --check-finite \
  --tap '*:20' --grads '*:20' --drift '*:50' --op-timing 50 --tensorboard "$out/tensorboard" --out "$out/run" \
  > "$out/stdout.log" 2> "$out/stderr.log" < /dev/null &
pid=$!
trap 'kill "$pid" 2> /dev/null || true' EXIT

begin=$SECONDS
printf 'seconds\tanonymous_kib\tdescriptors\n' > "$out/memory.tsv"
while [[ -r /proc/$pid/status ]]; do
  anonymous=$(awk '/^RssAnon/ {print $2}' "/proc/$pid/status" 2> /dev/null) || break
  descriptors=$(find "/proc/$pid/fd" -mindepth 1 2> /dev/null | wc -l)
  if [[ -n $anonymous ]]; then
    printf '%d\t%d\t%d\n' $((SECONDS - begin)) "$anonymous" "$descriptors" >> "$out/memory.tsv"
  fi
  sleep 2
done
code=0
wait "$pid" || code=$?
trap - EXIT
if ((code)); then
  echo "soak: toy train failed with exit code $code; the end of $out/stderr.log:" >&2
  tail -n 20 "$out/stderr.log" >&2
  exit 1
fi

awk -v out="$out" -v steps="$(grep -c '^step ' "$out/stdout.log" || true)" '
  NR > 1 { n++; memory[n] = $2; files[n] = $3; seconds = $1 }
  # The largest of the rows from..to.
  function most(of, from, to,   i, m) { for (i = from; i <= to; i++) if (of[i] > m) m = of[i]; return m }
  # The smallest: what is open now and then does not count.
  function least(of, from, to,   i, m) { m = of[from]; for (i = from; i <= to; i++) if (of[i] < m) m = of[i]; return m }
  END {
    if (n < 15) { print "soak: only " n + 0 " readings"; exit 1 }
    third = int(n / 3)
    before = most(memory, third + 1, 2 * third); after = most(memory, 2 * third + 1, n - 1)
    files_before = least(files, third + 1, 2 * third); files_after = least(files, 2 * third + 1, n - 1)
    printf "soak: %d steps in %d s; at most %d KiB, at least %d descriptors, then %d KiB, %d (readings: %s/memory.tsv)\n",
           steps, seconds, before, files_before, after, files_after, out
    if (after > before * 1.01 + 2048) { print "soak: memory grows"; exit 1 }
    if (files_after > files_before) { print "soak: descriptors are left open"; exit 1 }
  }' "$out/memory.tsv"
"$toy" runs show "$out/run" > "$out/show.log"
"$toy" runs report "$out/run" --out "$out/report.html" > "$out/report.log"
echo "soak: ok"
