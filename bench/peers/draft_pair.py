#!/usr/bin/env python3
"""Write two GGUFs of random weights to time speculative decoding with: a model and a draft that mostly agrees with it.

  python draft_pair.py model.gguf draft.gguf      # 16 layers of TinyLlama's shape in q8_0 (0.9 GB), and the first of them

The draft is the model without its other layers, whose output is scaled down (--share): the smaller, the more tokens of
the draft are right. The vocabulary is a stand-in: feed token ids.
"""
import argparse
import gguf
import numpy as np

D, F, L, H, K, P, V = 2048, 5632, 16, 32, 4, 64, 32000
Q8 = gguf.GGMLQuantizationType.Q8_0


def open_writer(path, layers):
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(4096); w.add_embedding_length(D); w.add_feed_forward_length(F); w.add_block_count(layers)
    w.add_head_count(H); w.add_head_count_kv(K); w.add_rope_dimension_count(P); w.add_key_length(P); w.add_value_length(P)
    w.add_layer_norm_rms_eps(1e-5); w.add_vocab_size(V); w.add_tokenizer_model("llama")
    w.add_token_list([b"<unk>", b"<s>", b"</s>"] + [b"t%d" % i for i in range(3, V)])
    w.add_token_scores([0.0] * V); w.add_token_types([2, 3, 3] + [1] * (V - 3))
    return w


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model"); ap.add_argument("draft")
    ap.add_argument("--share", type=float, default=0.05, help="factor of what the layers after the first add")
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    rng = np.random.default_rng(a.seed)
    model, draft = open_writer(a.model, L), open_writer(a.draft, 1)

    def add(name, tensor, **kind):
        model.add_tensor(name, tensor, **kind)
        if not name.startswith("blk.") or name.startswith("blk.0."):
            draft.add_tensor(name, tensor, **kind)

    def matrix(name, rows, columns, factor=1.0):
        x = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(factor * columns ** -0.5)
        add(name, gguf.quants.quantize(x, Q8), raw_dtype=Q8)

    matrix("token_embd.weight", V, D); matrix("output.weight", V, D); add("output_norm.weight", np.ones(D, np.float32))
    for i in range(L):
        b, factor = f"blk.{i}.", 1.0 if i == 0 else a.share
        add(b + "attn_norm.weight", np.ones(D, np.float32)); add(b + "ffn_norm.weight", np.ones(D, np.float32))
        matrix(b + "attn_q.weight", H * P, D); matrix(b + "attn_k.weight", K * P, D); matrix(b + "attn_v.weight", K * P, D)
        matrix(b + "attn_output.weight", D, H * P, factor)
        matrix(b + "ffn_gate.weight", F, D); matrix(b + "ffn_up.weight", F, D); matrix(b + "ffn_down.weight", D, F, factor)
    for w in (model, draft):
        w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()


if __name__ == "__main__":
    main()
