#!/usr/bin/env bash
# Fine-tunes a downloaded model, folds the adapter in, and lets llama.cpp generate from the result: the same greedy tokens and
# log probabilities.   fine_tune_test.sh TOY_BINARY SHARED_DATA
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
base=$2/stories260K.gguf
text=$2/tinyshakespeare.txt
if [[ ! -e $base || ! -e $text ]]; then
  echo "no $base or no $text"
  exit 77
fi
head -c 100000 "$text" > "$work/new.txt"
"$toy" train lora --model "$base" --corpus "$work/new.txt" --rank 8 --batch 8 --tokens 128 --steps 40 --lr 3e-3 \
  --out "$work/lora" > /dev/null 2>&1
"$toy" merge "$base" --lora "$work/lora" --out "$work/merged.gguf" > /dev/null
"$toy" train full-finetune --model "$base" --corpus "$work/new.txt" --batch 8 --tokens 128 --steps 40 --lr 3e-3 \
  --out "$work/full" > /dev/null 2>&1
for model in "$work/merged.gguf" "$work/full/model.gguf"; do
  "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$model" --ids 1,403,407 --n 64 --tolerance 2e-3 --margin 1e-3
done
# Adapters of every kind, from toy to PEFT and llama.cpp, and from PEFT to toy.
"$python" "$here/adapters.py" --toy "$toy" --base "$base" --corpus "$work/new.txt" 2> "$work/errors" || { cat "$work/errors"; exit 1; }
