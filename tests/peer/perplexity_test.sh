#!/usr/bin/env bash
# Perplexity in every type, in toy and llama.cpp: stories260K for types with blocks of 32, and a small model trained here,
# whose rows are wide enough, for all of them.
#   perplexity_test.sh TOY_BINARY SHARED_DATA
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$toy" corpus stories --bytes 1000000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" corpus stories --bytes 90000 --seed 2 --out "$work/test.txt" > /dev/null
echo '{"d_model": 256, "n_layers": 2, "n_heads": 4, "d_ff": 512, "context": 512}' > "$work/size.json"
"$toy" train from-scratch --corpus "$work/train.txt" --size "$work/size.json" --tokenizer spm:512 --batch 8 --tokens 128 \
  --steps 150 --lr 3e-3 --out "$work/run" > /dev/null 2>&1
"$python" "$here/perplexity.py" --toy "$toy" "$work/run/model.gguf" "$work/test.txt"
if [[ -f $2/stories260K.gguf ]]; then
  "$python" "$here/perplexity.py" --toy "$toy" "$2/stories260K.gguf" "$work/test.txt"
else
  echo "no $2/stories260K.gguf; only the model trained here was compared"
fi
