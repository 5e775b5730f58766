#!/usr/bin/env bash
# toy convert between Hugging Face folders and GGUF: models and tokenizers in transformers, toy and llama.cpp.
#   hf_folder_test.sh TOY_BINARY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${TOY_PEERS:-/opt/toy-peers}/bin/python
if [[ ! -x $python ]]; then
  echo "no environment at ${TOY_PEERS:-/opt/toy-peers}; scripts/peers.sh makes it"
  exit 77
fi
exec "$python" "$here/hf_folder.py" --toy "$1"
