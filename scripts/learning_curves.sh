#!/usr/bin/env bash
# Trains small models of attention, of Gated DeltaNet and of both on tasks with known answers and on texts, and draws
# their curves. docs/learning-curves.md shows the results. About 8 minutes on two cores.
#
#   scripts/learning_curves.sh          # to out/learning
#   scripts/learning_curves.sh FOLDER
#
# Tiny Shakespeare is read from ../shared/data, and skipped where that is absent.
# Environment: JOBS, how many runs at a time, of one thread each (default: as many as there are processors); STEPS, of
# each run, for a quick try that teaches little.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-out/learning} jobs=${JOBS:-$(nproc)}
bin=build/release toy=build/release/toy
if ! { cmake --preset release && cmake --build --preset release --target toy example_learning; } > build/learning.log 2>&1; then
  echo "learning_curves: the build failed; see build/learning.log" >&2
  exit 1
fi
mkdir -p "$out"

# One line per run: task, model, layers, steps.
small='gdn(delta_width=8)' negative='gdn(delta_negative_eigenvalues=true,conv_width=0)'
tasks() {
  cat << END
mqar attention attn 4000
mqar conv-attention conv,attn 1500
mqar gdn gdn 1500
mqar gdn-small $small 2500
mqar hybrid gdn,attn 1500
mqar hybrid-small $small,attn 2500
parity attention attn 1500
parity gdn gdn(conv_width=0) 1500
parity gdn-negative $negative 1500
parity hybrid-negative $negative,attn 1500
s3 attention attn 1500
s3 gdn gdn(conv_width=0) 1500
s3 gdn-negative $negative 1500
s3 gdn-negative-conv gdn(delta_negative_eigenvalues=true) 1500
s3 hybrid-negative $negative,attn 1500
END
}
train_task() { # TASK MODEL LAYERS STEPS
  "$bin/examples/example_learning" train "$1" "$2" "$3" "${STEPS:-$4}" 4e-3 1 "$out/$1-$2.csv" > "$out/$1-$2.log"
  tail -n 1 "$out/$1-$2.log"
}

# Texts: ffns of Gated DeltaNet layers are narrower, so that models have equal sizes.
"$toy" corpus stories --bytes 2000000 --seed 1 --out "$out/stories.txt" > /dev/null
if [[ -r ../shared/data/tinyshakespeare.txt ]]; then cp ../shared/data/tinyshakespeare.txt "$out/shakespeare.txt"; fi
texts() {
  for text in stories shakespeare; do
    if [[ -r $out/$text.txt ]]; then
      echo "$text llama attn"
      echo "$text hybrid gdn(d_ff=128)*3,attn"
    fi
  done
}
train_text() { # TEXT MODEL LAYERS
  "$toy" train from-scratch --corpus "$out/$1.txt" --size tiny --layers "$3" --tokenizer spm:512 --batch 8 --tokens 128 \
    --steps "${STEPS:-1200}" --lr 4e-3 --eval-every 100 --eval-tokens 8192 --threads 1 --log-every 1200 --out "$out/$1-$2" \
    > "$out/$1-$2.log" 2>&1
  grep 'validation loss' "$out/$1-$2.log" | tail -n 1 | sed "s/^/$1 $2: /"
}

one() { # train_task or train_text and its arguments, as one line
  set -euo pipefail
  read -ra words <<< "$1"
  "${words[@]}"
}
export -f train_task train_text one
export bin toy out
{ tasks | sed 's/^/train_task /'; texts | sed 's/^/train_text /'; } | xargs -P "$jobs" -d '\n' -I{} bash -c 'one "$1"' one {}

"$bin/examples/example_learning" draw "$out"
for text in stories shakespeare; do
  if [[ -r $out/$text.txt ]]; then
    "$toy" runs compare "$out/$text-llama" "$out/$text-hybrid" --metric validation_loss --svg "$out/$text.svg"
  fi
done
