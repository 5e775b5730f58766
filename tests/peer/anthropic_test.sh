#!/usr/bin/env bash
# Anthropic's Python package against `toy serve`.
#   anthropic_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" -c 'import anthropic' 2> /dev/null || { echo "no anthropic; scripts/peers.sh installs it"; exit 77; }
"$toy" corpus stories --bytes 300000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer spm:512 --steps 100 --lr 4e-3 \
  --out "$work/run" > /dev/null 2>&1
"$python" "$here/anthropic_client.py" "$toy" "$work/run/model.gguf" "$work"
