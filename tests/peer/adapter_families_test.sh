#!/usr/bin/env bash
# Adapters of every map of every family, in toy, PEFT and llama.cpp.
#   adapter_families_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$toy" corpus stories --bytes 100000 --seed 1 --out "$work/train.txt" > /dev/null
"$python" "$here/adapter_families.py" --toy "$toy" --corpus "$work/train.txt"
