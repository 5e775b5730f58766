#!/usr/bin/env bash
# LangChain, the Agents SDK, AutoGen, LiteLLM, Pydantic AI, Instructor and Ollama's client against `toy serve`.
#   frameworks_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" -c 'import openai, gguf' 2> /dev/null || { echo "no openai; scripts/peers.sh installs it"; exit 77; }
"$toy" corpus stories --bytes 300000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer spm:512 --steps 100 --lr 4e-3 \
  --out "$work/run" > /dev/null 2>&1
"$python" "$here/frameworks_client.py" "$toy" "$work/run/model.gguf" "$work"
