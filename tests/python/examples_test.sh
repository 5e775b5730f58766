#!/usr/bin/env bash
# The examples of examples/python, run with few steps: examples_test.sh PYTHON TOY_BINARY WORK EXAMPLES
set -euo pipefail
python=$1 toy=$2 work=$3 examples=$4
cd "$work"
"$toy" corpus stories --bytes 60000 --seed 1 --out book.txt > /dev/null
"$toy" corpus chats --rows 60 --seed 1 --out chats.jsonl > /dev/null
"$toy" train from-scratch --data chats.jsonl --chat-template chatml --tokenizer bpe:300 --size tiny --steps 5 --out out/chat \
  > /dev/null 2>&1
run() { echo "== $*"; "$python" "$examples/$@" | tee said.txt; }
says() { grep -qE -- "$1" said.txt || { echo "it does not say '$1'" >&2; exit 1; }; }
run train_and_plot.py book.txt out/plot 20
says '^step +20 +#+ [0-9]'
grep -q '<svg' out/plot/loss.svg
run taps.py out/plot "Once there was"
says '^blk.3.out +adds'
says 'logit'
run own_loss.py 1500
says 'points below the quantiles: 0\.(0[3-9]|1[0-9]) of 0.10, 0\.(4[0-9]|5[0-9]) of 0.50, 0\.(8[0-9]|9[0-7]) of 0.90'
run fine_tune_and_chat.py out/chat chats.jsonl out/lora 4
says '^4 steps, loss'
says 'largest error 0\.00'
run compare_runs.py book.txt out/rates 4
[[ $(grep -c 'on the validation text' said.txt) == 3 ]]
grep -q '<svg' out/rates/compare.svg
