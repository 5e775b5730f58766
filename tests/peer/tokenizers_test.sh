#!/usr/bin/env bash
# Ids of 10,000 random texts and of long ones in toy, tokenizers, sentencepiece and llama.cpp.
#   tokenizers_test.sh TOY_BINARY ENCODE_TEXTS_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" "$here/tokenizers_equal.py" --encode-texts "$2" --work "$work"
