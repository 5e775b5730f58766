#!/usr/bin/env bash
# Installs PyTorch, transformers, llama.cpp, lm-evaluation-harness, selenium, the clients of OpenAI, Anthropic and Ollama,
# and frameworks on them, which golden files and comparisons need, into a Python environment.
#
#   scripts/peers.sh            # into ${TOY_PEERS:-/opt/toy-peers}
#   scripts/peers.sh --force    # install and check again
#
# A complete environment is left as it is. The installers' output goes to PATH/install.log. stdout has only the
# interpreter's path, so `PY=$(scripts/peers.sh)` works; messages go to stderr.
set -euo pipefail

dir=${TOY_PEERS:-/opt/toy-peers}
packages=(numpy torch transformers peft gguf tokenizers sentencepiece safetensors llama-cpp-python "jsonschema[format-nongpl]" openai anthropic "lm_eval[api]" selenium
  ollama openai-agents "autogen-ext[openai]" autogen-agentchat langchain langchain-openai litellm
  "pydantic-ai-slim[openai]" instructor mypy)
modules="numpy torch transformers peft gguf tokenizers sentencepiece safetensors llama_cpp jsonschema openai anthropic lm_eval selenium ollama agents autogen_ext autogen_agentchat langchain langchain_openai litellm pydantic_ai instructor mypy"
stamp=$dir/.complete
want="v1 ${packages[*]}"

say() { echo "peers: $*" >&2; }

case ${1:-} in
  "") ;;
  --force) rm -f "$stamp" ;;
  *) say "unknown argument '$1' (only --force is known)"; exit 2 ;;
esac

if [[ -x $dir/bin/python && -f $stamp && $(cat "$stamp") == "$want" ]]; then
  say "ready: $dir"
  echo "$dir/bin/python"
  exit 0
fi

mkdir -p "$dir" || { say "cannot create $dir; choose another folder with TOY_PEERS=PATH"; exit 1; }
exec 9> "$dir/.lock"
flock 9  # a second call waits for the first

log=$dir/install.log
fail() { say "$1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }

say "installing into $dir (about 6 minutes, 6 GB): ${packages[*]}"
: > "$log"
python3 -m venv "$dir" >> "$log" 2>&1 || fail "python3 -m venv failed (Debian: apt-get install python3-venv)"
# uv finds versions that fit together in seconds; pip tries one after another, for many minutes.
"$dir/bin/python" -m pip install --disable-pip-version-check --no-input uv >> "$log" 2>&1 || fail "pip install uv failed"
"$dir/bin/uv" pip install --python "$dir/bin/python" "${packages[@]}" >> "$log" 2>&1 || fail "uv pip install failed"
for module in $modules; do
  "$dir/bin/python" -c "import $module" >> "$log" 2>&1 || fail "module $module is installed but cannot be imported"
done
echo "$want" > "$stamp"
say "ready: $dir"
echo "$dir/bin/python"
