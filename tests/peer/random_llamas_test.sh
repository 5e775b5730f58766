#!/usr/bin/env bash
# Llamas of odd shapes in toy and llama.cpp, and one with biases and YaRN that toy trained and wrote itself.
#   random_llamas_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" "$here/random_llamas.py" "$toy"

"$toy" corpus stories --bytes 200000 --seed 1 --out "$work/train.txt" > /dev/null
dimensions='"d_model": 40, "n_layers": 2, "n_heads": 6, "n_kv": 2, "d_head": 10, "d_ff": 64, "context": 256'
biases='"biases": ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]'
yarn='"rope_scaling": "yarn", "rope_factor": 4, "rope_original_context": 64, "rope_attn_factor": 0.9'
llama3='"rope_scaling": "llama3", "rope_factor": 8, "rope_original_context": 32'
for scaling in "$yarn" "$llama3"; do
  echo "{$dimensions, $biases, $scaling}" > "$work/size.json"
  "$toy" train from-scratch --corpus "$work/train.txt" --size "$work/size.json" --batch 8 --tokens 64 --steps 60 --lr 1e-2 \
    --out "$work/trained" > /dev/null 2>&1
  "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$work/trained/model.gguf" --ids 79,110,99,101 --n 80 \
    --every-logit --tolerance 1e-4
done
