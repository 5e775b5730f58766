#!/usr/bin/env bash
# GPT-2s of odd shapes in toy and llama.cpp, and such as toy trained and wrote itself.
#   random_gpt2s_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" "$here/random_gpt2s.py" "$toy"

"$toy" corpus stories --bytes 200000 --seed 1 --out "$work/train.txt" > /dev/null
echo '{"architecture": "gpt2", "d_model": 40, "n_layers": 2, "n_heads": 5, "d_ff": 72, "context": 96, "tied": false}' > "$work/size.json"
for size in gpt2-tiny "$work/size.json"; do
  for tokenizer in bytes spm:400; do
    "$toy" train from-scratch --corpus "$work/train.txt" --size "$size" --tokenizer "$tokenizer" --batch 8 --tokens 64 \
      --steps 60 --lr 1e-2 --out "$work/trained" > /dev/null 2>&1
    # llama.cpp's table of gelu; see random_gpt2s.py.
    "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$work/trained/model.gguf" --ids 79,110,99,101 --n 80 \
      --every-logit --tolerance 2e-2
  done
done
# Weights of 16 bits: llama.cpp rounds activations, too.
"$toy" train from-scratch --corpus "$work/train.txt" --size gpt2-tiny --tokenizer bytes --batch 8 --tokens 64 --steps 60 \
  --lr 1e-2 --dtype f16 --out "$work/half" > /dev/null 2>&1
"$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$work/half/model.gguf" --ids 79,110,99,101 --n 48 \
  --tolerance 4e-2 --margin 4e-2
