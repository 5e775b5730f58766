#!/usr/bin/env bash
# toy convert between Hugging Face folders and GGUF: models and tokenizers in transformers, toy and llama.cpp.
#   hf_folder_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" "$here/hf_folder.py" --toy "$toy"
