# shellcheck shell=bash disable=SC2034
# What the scripts of this folder begin with: `source "$(dirname "${BASH_SOURCE[0]}")/common.sh"`. Sets `toy` (the first
# argument), `here`, `python` and `work`, a folder that is removed at the end. Without the peers' Python environment, or
# with one whose installation was interrupted, the test is skipped.
set -euo pipefail
toy=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${TOY_PEERS:-/opt/toy-peers}/bin/python
if [[ ! -x $python ]]; then
  echo "no environment at ${TOY_PEERS:-/opt/toy-peers}; scripts/peers.sh makes it"
  exit 77
fi
if ! "$python" -c 'import importlib.util, sys
sys.exit(not all(map(importlib.util.find_spec, ["numpy", "torch", "transformers", "gguf", "llama_cpp"])))'; then
  echo "the environment at ${TOY_PEERS:-/opt/toy-peers} is not complete; scripts/peers.sh completes it"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
