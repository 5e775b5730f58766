#!/usr/bin/env bash
# lm-evaluation-harness on local tasks through `toy serve` gives the numbers of `toy eval`.
#   lm_eval_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" -c 'import lm_eval' 2> /dev/null || { echo "no lm_eval; scripts/peers.sh installs it"; exit 77; }
"$toy" corpus stories --bytes 300000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" corpus stories --bytes 100000 --seed 2 --out "$work/test.txt" > /dev/null
"$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer spm:512 --steps 600 --lr 8e-3 \
  --out "$work/run" > /dev/null 2>&1
"$python" "$here/lm_eval_client.py" "$toy" "$work/run/model.gguf" "$work/test.txt" "$work" 2> "$work/log" \
  || { tail -n 30 "$work/log"; exit 1; }
