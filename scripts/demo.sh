#!/usr/bin/env bash
# Installs what is missing, builds, trains a small Llama on text, saves it as GGUF, and generates text from the file.
# Training takes about two minutes.
#
#   scripts/demo.sh            # on stories that toy writes, whose exact probability is known
#   scripts/demo.sh my.txt     # on your own text
#
# Results go to out/demo: model.gguf, train.jsonl (one JSON line per step), and the texts.
set -euo pipefail

size=small             # toy describe small
tokenizer=spm:2048     # below 500 kB of text spm:512, below 50 kB bytes: too little text to learn pieces
batch=8 tokens=192     # sequences per step, tokens per sequence
steps=${TOY_DEMO_STEPS:-2400}
lr=4e-3 final_lr=0.05
seed=1
corpus_bytes=16000000  # of stories to train on, and below to validate on
valid_bytes=200000
valid_seed=2           # other stories than those of seed 1
eval_every=250 eval_tokens=8192 sample_tokens=48
prompt="Once there was a brave fox named"
generate=160 temperature=0.8

# The path of the text is relative to the current folder, everything else to the repository.
text=${1:+$(realpath -- "$1")}
(($# <= 1)) || { echo "demo: $# arguments; give at most one text file" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ -n $text && ! ( -f $text && -r $text ) ]]; then echo "demo: $1 is not a readable file; give the path of a text" >&2; exit 2; fi

toy=build/release/toy out=out/demo log=build/demo.log
say() { echo; echo "== $*"; }

bash scripts/setup.sh
mkdir -p build "$out"
echo "demo: building (log: $log) ..."
begin=$SECONDS
if ! { cmake --preset release && cmake --build --preset release -j "$(nproc)" --target toy; } > "$log" 2>&1; then
  echo "demo: the build failed; the end of $log:" >&2
  tail -n 30 "$log" >&2
  exit 1
fi
echo "demo: built in $((SECONDS - begin)) s"

train=$out/train.txt valid=$out/valid.txt
if [[ -z $text ]]; then
  say "Text: stories from a stochastic grammar"
  "$toy" corpus stories --bytes "$corpus_bytes" --seed "$seed" --overwrite --out "$train" > /dev/null
  "$toy" corpus stories --bytes "$valid_bytes" --seed "$valid_seed" --overwrite --out "$valid" > /dev/null
  head -c 400 "$train"; echo ...
else
  say "Text: $text"
  # The last twentieth is for validation. It begins at a line if there are enough lines.
  lines=$(wc -l < "$text")
  if ((lines >= 40)); then
    head -n "$((lines * 19 / 20))" "$text" > "$train"
    tail -n "+$((lines * 19 / 20 + 1))" "$text" > "$valid"
  else
    bytes=$(wc -c < "$text")
    head -c "$((bytes * 19 / 20))" "$text" > "$train"
    tail -c "+$((bytes * 19 / 20 + 1))" "$text" > "$valid"
  fi
  bytes=$(wc -c < "$train")
  if ((bytes < 50000)); then tokenizer=bytes; elif ((bytes < 500000)); then tokenizer=spm:512; fi
  # The prompt: the first words of a line that the model has not seen.
  prompt=$(awk 'NF >= 4 { print $1, $2, $3, $4; exit }' "$valid")
  [[ -n $prompt ]] || prompt=$(head -c 20 "$train" | tr -d '\0\n')
fi

say "Training: $size, tokenizer $tokenizer, $steps steps of $batch x $tokens tokens"
# stdout is the record of the run; the progress bar is on stderr.
"$toy" train from-scratch --json --corpus "$train" --val "$valid" --size "$size" --tokenizer "$tokenizer" \
  --batch "$batch" --tokens "$tokens" --steps "$steps" --lr "$lr" --final-lr "$final_lr" --seed "$seed" \
  --eval-every "$eval_every" --eval-tokens "$eval_tokens" --sample "$sample_tokens" --name demo --out "$out" --overwrite \
  > "$out/train.jsonl"

field() { sed -nE "s/.*\"$1\":\"?([^,\"}]*).*/\1/p"; }  # the value of a key in JSON lines
loss_at() { sed -n "/\"kind\":\"step\"/p" "$out/train.jsonl" | sed -n "$1" | field loss; }
say "Training loss (nats per token)"
shown=0
for percent in 0 10 25 50 75 100; do
  step=$((steps * percent / 100)); ((step > 0)) || step=1
  ((step > shown)) || continue
  shown=$step
  LC_ALL=C printf '  step %6d  %.4f\n' "$step" "$(loss_at "${step}p")"
done

say "Validation loss (nats per byte, lower is better)"
model_rate=$(grep '"kind":"run_end"' "$out/train.jsonl" | field nats_per_byte)
ngram_rate=$("$toy" corpus ngram --train "$train" --file "$valid" --json | field nats_per_byte)
row() { LC_ALL=C awk -v name="$1" -v rate="$2" -v note="${3:-}" 'BEGIN { printf "  %-22s %.4f  %s\n", name, rate, note }'; }
row "5-gram" "$ngram_rate" "of the same training text"
if [[ -z $text ]]; then
  floor_rate=$("$toy" corpus floor --file "$valid" --json | field nats_per_byte)
  above=$(LC_ALL=C awk -v m="$model_rate" -v f="$floor_rate" 'BEGIN { printf "%.1f%% above the floor", 100 * (m / f - 1) }')
  row "this model" "$model_rate" "$above"
  row "floor" "$floor_rate" "exact -log probability under the grammar; no model does better"
else
  row "this model" "$model_rate"
fi

for sample in 1 2; do
  say "Generated from $out/model.gguf (temperature $temperature, seed $sample)"
  [[ -t 1 ]] || printf '%s' "$prompt"  # a terminal shows it
  "$toy" infer "$out/model.gguf" --prompt "$prompt" --n "$generate" --temperature "$temperature" --seed "$sample"
done

if [[ -z $text && -z ${TOY_DEMO_STEPS:-} ]]; then  # these settings reach this on every machine
  LC_ALL=C awk -v m="$model_rate" -v n="$ngram_rate" -v f="$floor_rate" 'BEGIN { exit !(m < n && m <= 1.15 * f) }' || {
    echo "demo: the model should beat the 5-gram and be within 15% of the floor; please report this" >&2
    exit 1
  }
fi

say "More"
echo "  $toy infer $out/model.gguf --prompt \"$prompt\" --n 100 --temperature 0.8 --seed 3"
echo "  $toy describe $out/model.gguf"
echo "  $toy --help"
