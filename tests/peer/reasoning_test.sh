#!/usr/bin/env bash
# Thoughts, and errors by their paths, with OpenAI's and Anthropic's packages against `toy serve`.
#   reasoning_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" -c 'import openai, anthropic' 2> /dev/null || { echo "no clients; scripts/peers.sh installs them"; exit 77; }
# A model that knows one text by heart.
for _ in $(seq 3000); do printf 'Q<think>\nHm, so.\n</think>\n\nYes, I do.\n'; done > "$work/train.txt"
"$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer bytes --steps 120 --lr 4e-3 \
  --out "$work/run" > /dev/null 2>&1
"$python" "$here/reasoning_client.py" "$toy" "$work/run/model.gguf" "$work"
