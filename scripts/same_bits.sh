#!/usr/bin/env bash
# Do two builds of toy compute the same bits? Runs a dozen small trainings and generations with each and compares loss
# lines, model files and outputs. Products in bf16 are left out where the processor has none.
#
#   scripts/same_bits.sh OLD NEW      # two binaries; exit code 1 where anything differs
set -euo pipefail
(($# == 2)) || { sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 2; }
old=$(realpath -- "$1") new=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each line: a name and the arguments of `toy train`. Outputs land in a folder of that name.
runs='
tiny        from-scratch --size tiny --steps 30
small       from-scratch --size small --steps 6 --batch 4 --tokenizer spm:400
gpt2        from-scratch --size gpt2-tiny --steps 20
streaming   from-scratch --size tiny --steps 20 --update streaming --clip 0
recompute   from-scratch --size small --steps 4 --batch 8 --tokens 256 --memory 200M
bf16        from-scratch --size small --steps 4 --compute bf16
packed      from-scratch --size tiny --steps 20 --documents blank-lines --pack --tokenizer unigram:300
weighted    from-scratch --size tiny --steps 20 --corpus other.txt --corpus-weight 3 --corpus-weight 1
accumulate  from-scratch --size tiny --steps 10 --accumulate 3 --dropout 0.1
adamw8      from-scratch --size tiny --steps 20 --optimizer adamw8 --schedule wsd
lion        from-scratch --size tiny --steps 20 --optimizer lion --ema 0.9
adafactor   from-scratch --size tiny --steps 20 --optimizer adafactor
muon        from-scratch --size tiny --steps 10 --optimizer muon
sgd         from-scratch --size tiny --steps 20 --optimizer sgd --lr-for blk.0.*=0.5
half        from-scratch --size tiny --steps 20 --dtype f16 --eval-every 10 --eval-tokens 2000 --sample 20
warm        warm-start --init tiny/model.gguf --steps 10
'
grep -qE 'avx512_bf16|amx_bf16' /proc/cpuinfo || runs=$(grep -v '^bf16' <<< "$runs")
record() {  # BINARY FOLDER
  mkdir "$2"
  cd "$2"
  "$1" corpus stories --bytes 300000 --seed 5 > book.txt
  "$1" corpus stories --bytes 60000 --seed 6 > other.txt
  set -f
  while read -r name arguments; do
    [[ -n $name ]] || continue
    # shellcheck disable=SC2086  # the arguments are words
    "$1" train $arguments --corpus book.txt --seed 7 --data-cache none --out "$name" > "$name.steps" 2> "$name.err" \
      || { cat "$name.err" >&2; exit 1; }
  done <<< "$runs"
  # A run that loses its last checkpoint, and is resumed from the one before.
  local cut=(train from-scratch --size tiny --steps 20 --corpus book.txt --seed 7 --checkpoint-every 8 --out cut)
  "$1" "${cut[@]}" > cut.steps 2> /dev/null
  rm -rf cut/checkpoints/step_000020 cut/checkpoints/best cut/finished.json cut/model.gguf cut/weights
  "$1" "${cut[@]}" --resume > cut.steps 2> /dev/null
  for model in tiny small gpt2 half; do
    "$1" infer "$model/model.gguf" --prompt "Once upon" --n 60 --temperature 0 > "$model.greedy" 2> /dev/null
    "$1" infer "$model/model.gguf" --prompt "Once upon" --n 40 --temperature 0.9 --top-p 0.9 --repeat-penalty 1.1 --seed 3 \
      --json --top-logprobs 4 > "$model.drawn" 2> /dev/null
    "$1" eval "$model/model.gguf" --file other.txt --ctx 64 --json > "$model.score" 2> /dev/null
  done
  head -n 12 other.txt | grep . > prompts.txt
  "$1" infer small/model.gguf --prompts prompts.txt --n 20 --temperature 0 --json --parallel 5 > several.answers 2> /dev/null
  set +f
  find . -type f '(' -name '*.gguf' -o -name '*.steps' -o -name '*.greedy' -o -name '*.drawn' -o -name '*.score' \
    -o -name '*.answers' -o -name '*.txt' ')' | sort | xargs sha256sum > "$work/$(basename "$2").sums"
}
(record "$old" "$work/old")
(record "$new" "$work/new")
if diff "$work/old.sums" "$work/new.sums"; then
  echo "the same bits in $(wc -l < "$work/new.sums") files"
else
  echo "the builds differ" >&2
  exit 1
fi
