#!/usr/bin/env bash
# Small models of every family that toy trained and wrote itself, in toy and llama.cpp: the same logits, in prefill and in
# decoding. (How toy reads files of llama.cpp's converter: tests/golden/make_family_golden.py.)
#   random_families_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$toy" corpus stories --bytes 200000 --seed 1 --out "$work/train.txt" > /dev/null

exact=1e-4  # both compute in f32
table=2e-2  # llama.cpp takes gelu from a table of 16-bit floats
base='"d_model": 60, "n_heads": 6, "n_kv": 2, "d_ff": 56, "context": 256, "rope_base": 5000'
wide='"d_head": 14'
experts='"experts": 5, "experts_used": 2'
yarn='"rope_scaling": "yarn", "rope_factor": 4, "rope_original_context": 32'
granite='"embedding_scale": 5, "residual_scale": 0.7, "logit_divisor": 2, "attention_scale": 0.2'
compare() {  # TOLERANCE FAMILY LAYERS KEYS
  echo "{\"architecture\": \"$2\", \"n_layers\": $3, $base, $4}" > "$work/size.json"
  "$toy" train from-scratch --corpus "$work/train.txt" --size "$work/size.json" --batch 8 --tokens 64 --steps 60 --lr 1e-2 \
    --out "$work/trained" > /dev/null 2> "$work/err" || { cat "$work/err" >&2; exit 1; }
  echo -n "$2: "
  "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$work/trained/model.gguf" --ids 79,110,99,101 --n 80 \
    --every-logit --tolerance "$1" | sed 's/.*: //'
}
compare "$exact" qwen2 2 "\"tied\": false, $yarn"
compare "$exact" qwen3 2 "$wide"
compare "$exact" smollm3 5 '"tied": false'
compare "$exact" olmo2 2 "$yarn"
compare "$exact" olmo2 4 "$yarn, \"layers\": [{\"window\": 32, \"rope\": \"local\"}, {\"window\": 32, \"rope\": \"local\"}, {}, {}], \"local_rope_base\": 5000"
compare "$table" gemma 2 "$wide"
compare "$table" gemma2 3 "$wide, \"window\": 32, \"attention_softcap\": 5, \"logit_softcap\": 4"
compare "$table" gemma3 7 "$wide, \"window\": 32, \"local_rope_base\": 700, \"rope_scaling\": \"linear\", \"rope_factor\": 4"
compare "$table" gemma4 3 '"d_head": 10, "window": 32, "local_rope_base": 700, "logit_softcap": 4, "rope_factors": [1, 1, 1, 1e30, 1e30, 1e30, 1e30, 1e30], "layers": [{}, {}, {"window": 0, "rope": "global", "d_head": 16, "n_kv": 1, "v_is_k": true}]'
compare "$table" gemma4 4 '"d_head": 10, "window": 32, "layer_embedding": 8, "layers": [{}, {"window": 0, "rope": "global", "d_head": 16}, {"shared_kv": true, "d_ff": 112}, {"shared_kv": true, "d_ff": 112, "window": 0, "rope": "global", "d_head": 16}]'
compare "$exact" phi3 2 '"rope_dims": 6, "tied": false'
compare "$exact" granite 2 "$granite, \"biases\": [\"attn_q\", \"attn_k\", \"attn_v\", \"attn_output\", \"ffn_down\"]"
compare "$exact" llama 2 "$experts"
compare "$exact" qwen3moe 2 "$wide, $experts"
compare "$exact" gpt-oss 3 "$wide, $experts, \"window\": 32"
compare "$exact" granitemoe 2 "$granite, $experts, \"shared_d_ff\": 20"
compare "$exact" lfm2 3 '"layers": "conv,attn,conv"'
compare "$exact" lfm2moe 3 "$experts, \"layers\": \"conv(experts=0,experts_used=0,d_ff=72),attn,conv\""
mamba='"mamba2_heads": 12, "mamba2_width": 10, "mamba2_state": 12, "mamba2_groups": 3, "rope_base": 10000'
compare "$exact" mamba2 3 "$mamba, \"d_ff\": 0"
compare "$exact" granitehybrid 3 "$granite, $mamba, $experts, \"shared_d_ff\": 20, \"layers\": \"mamba2,attn,mamba2\""
compare "$exact" granitehybrid 3 "$granite, $mamba, \"rope\": \"global\", \"layers\": \"attn,mamba2,mamba2\""
compare "$exact" nemotron_h 4 "$wide, $mamba, \"d_ff\": 0, \"layers\": \"mamba2,ffn(d_ff=56),attn,mamba2\""
compare "$exact" nemotron_h_moe 3 "$wide, $mamba, \"d_ff\": 0, \"experts_latent\": 30, \"experts_scale\": 2.5, \"layers\": \"mamba2,ffn(d_ff=24,experts=5,experts_used=2,shared_d_ff=20),attn\""
kimi='"rope_base": 10000, "tied": false, "delta_value_heads": 6, "delta_width": 10, "latent_width": 18, "latent_key": 12, "latent_shared_key": 4, "latent_value": 10'
compare "$exact" kimi-linear 3 "$kimi, $experts, \"shared_d_ff\": 56, \"layers\": \"kda(experts=0,experts_used=0,shared_d_ff=0),mla,kda\""
base=${base/\"n_kv\": 2/\"n_kv\": 6}
compare "$exact" olmoe 2 "$experts"
