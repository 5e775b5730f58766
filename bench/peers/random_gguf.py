#!/usr/bin/env python3
"""Writes a real model's shape with random weights as a GGUF that toy and llama.cpp read: for speed, never for quality.

  PY=$(scripts/peers.sh) && $PY bench/peers/random_gguf.py out.gguf --dtype f16
  $PY bench/peers/random_gguf.py 7b.gguf --shape mistral-7b-4l && toy quantize 7b.gguf 7b-q4_k.gguf --type q4_k --pure

The vocabulary is a stand-in: feed token ids. Or take that of a GGUF with byte-level BPE (--tokenizer), for texts.
"""
import argparse

import gguf
import numpy as np

# D, F, L, H, K, P and, without --tokenizer, V
SHAPES = {"smollm2-135m": (576, 1536, 30, 9, 3, 64, 49152),
          "mistral-7b-4l": (4096, 14336, 4, 32, 8, 128, 32000)}  # 4 of its 32 layers
DTYPES = {"f32": np.float32, "f16": np.float16}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--shape", default="smollm2-135m", choices=SHAPES)
    ap.add_argument("--dtype", default="f32", choices=DTYPES)
    ap.add_argument("--tokenizer", metavar="FILE.gguf")
    a = ap.parse_args()
    D, F, L, H, K, P, V = SHAPES[a.shape]
    tokens, types = [b"<unk>", b"<s>", b"</s>"] + [b"t%d" % i for i in range(3, V)], [2, 3, 3] + [1] * (V - 3)
    if a.tokenizer:
        known = {k: f.contents() for k, f in gguf.GGUFReader(a.tokenizer).fields.items() if k.startswith("tokenizer.")}
        tokens, types = known["tokenizer.ggml.tokens"], known["tokenizer.ggml.token_type"]
    random = np.random.default_rng(0)
    out = gguf.GGUFWriter(a.out, "llama")
    out.add_name("random")
    out.add_context_length(8192)
    out.add_embedding_length(D)
    out.add_feed_forward_length(F)
    out.add_block_count(L)
    out.add_head_count(H)
    out.add_head_count_kv(K)
    out.add_rope_dimension_count(P)
    out.add_rope_freq_base(1e5)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_token_list(tokens)
    out.add_token_types(types)
    if a.tokenizer:
        out.add_tokenizer_model("gpt2")
        out.add_tokenizer_pre(known.get("tokenizer.ggml.pre", "default"))
        out.add_token_merges(known["tokenizer.ggml.merges"])
        out.add_eos_token_id(known["tokenizer.ggml.eos_token_id"])
    else:
        out.add_tokenizer_model("llama")
        out.add_token_scores([0.0] * V)

    def matrix(name, rows, columns):
        values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(columns**-0.5)
        out.add_tensor(name, values.astype(DTYPES[a.dtype]))

    def gain(name):
        out.add_tensor(name, np.ones(D, np.float32))

    matrix("token_embd.weight", len(tokens), D)
    gain("output_norm.weight")
    for i in range(L):
        b = f"blk.{i}."
        gain(b + "attn_norm.weight")
        gain(b + "ffn_norm.weight")
        for name, rows, columns in (("attn_q", H * P, D), ("attn_k", K * P, D), ("attn_v", K * P, D), ("attn_output", D, H * P),
                                    ("ffn_gate", F, D), ("ffn_up", F, D), ("ffn_down", D, F)):
            matrix(f"{b}{name}.weight", rows, columns)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
