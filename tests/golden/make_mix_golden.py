#!/usr/bin/env python3
"""Make quant_mixes.golden.json: which type llama.cpp's quantizer gives each tensor of a few models, in each mix.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_mix_golden.py            # writes beside this script
  $PY tests/golden/make_mix_golden.py --out DIR                            # writes elsewhere

The choice depends on names, shapes and a few metadata, so the matrices have two rows. For each model the file holds what
a test needs to make it again: `architecture`, `metadata`, `tensors` (name and row-major shape), whether an imatrix is
given (all ones), and `types`: for each mix the type of most tensors (`most`) and, by type, the numbers of the others.
"""
import argparse
import collections
import ctypes
import json
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MIXES = {"F16": 1, "BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_1": 3, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q2_K_S": 21,
         "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18,
         "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4_MOE": 38}


def matrices(layers, width, names, ends, experts=0):
    """Tensors of a model, in an order that is not llama.cpp's."""
    shapes = {"attn_norm": [width], "ffn_gate_inp": [2, width]}
    tensors = [(f"blk.{i}.{n}.weight", shapes.get(n, ([experts] if n.endswith("_exps") else []) + [2, width]))
               for i in range(layers) for n in names]
    return [("token_embd.weight", [2, width])] + tensors[::-1] + [(e, [2, width]) for e in ends]


DENSE = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
EXPERTS = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps",
           "ffn_down_exps"]
FUSED = ["attn_norm", "attn_qkv", "attn_output", "ffn_up", "ffn_down"]


def llama(layers, heads, kv_heads, experts=0):
    m = {"block_count": layers, "context_length": 64, "embedding_length": 256, "feed_forward_length": 256,
         "attention.head_count": heads, "attention.head_count_kv": kv_heads}
    if experts:
        m |= {"expert_count": experts, "expert_used_count": 2}
    return m


GPT2 = {"block_count": 12, "context_length": 64, "embedding_length": 256, "feed_forward_length": 256,
        "attention.head_count": 4}
MODELS = {  # architecture, metadata, tensors, imatrix
    "untied": ("llama", llama(8, 4, 4), matrices(8, 256, DENSE, ["output.weight", "rope_freqs.weight"]), False),
    "imatrix": ("llama", llama(17, 4, 4), matrices(17, 256, ["attn_v", "ffn_down"], []), True),
    "tied_shared": ("llama", llama(20, 8, 2), matrices(20, 256, DENSE[1:], []), False),
    "wide": ("llama", llama(80, 16, 2), matrices(80, 256, ["attn_v", "ffn_down"], ["output.weight"]), False),
    "experts": ("llama", llama(9, 8, 2, 8), matrices(9, 256, EXPERTS, ["output.weight"], 8), False),
    "experts4": ("llama", llama(9, 8, 8, 4), matrices(9, 256, EXPERTS, ["output.weight"], 4), False),
    "rows_of_96": ("llama", llama(4, 4, 4), matrices(4, 96, DENSE, ["output.weight"]), False),
    "rows_of_40": ("llama", llama(2, 4, 4), matrices(2, 40, DENSE, []), False),
    "gpt2": ("gpt2", GPT2, matrices(12, 256, FUSED, ["position_embd.weight"]), False),
}


def write_model(path, arch, metadata, tensors):
    w = gguf.GGUFWriter(path, arch)
    for key, value in metadata.items():
        w.add_uint32(f"{arch}.{key}", value)
    if arch == "gpt2":
        w.add_float32("gpt2.attention.layer_norm_epsilon", 1e-5)
    else:
        w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    w.add_string("tokenizer.ggml.model", "no_vocab")
    for name, shape in tensors:
        w.add_tensor(name, np.ones(shape, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def imatrix_of(tensors):
    """A list that ends with an empty name, and what it points to."""
    kept, entries = [], []
    for name, shape in tensors:
        ones = np.ones(shape[-1] * (shape[0] if len(shape) > 2 else 1), np.float32)
        kept.append(ones)
        entries.append(llama_cpp.llama_model_imatrix_data(
            name.encode(), ones.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), ones.size))
    entries.append(llama_cpp.llama_model_imatrix_data(None, None, 0))
    array = (llama_cpp.llama_model_imatrix_data * len(entries))(*entries)
    return array, kept


def types_of(source, target, file_type, tensors, imatrix):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = file_type, 1
    array, kept = imatrix_of(tensors)
    # Q2_K_S is refused without one; with all ones, and none of another mix's rules, it is as without.
    if imatrix or file_type == MIXES["Q2_K_S"]:
        params.imatrix = ctypes.cast(array, type(params.imatrix))
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)) != 0:
        raise SystemExit(f"llama.cpp cannot quantize {source} as {file_type}")
    del kept
    found = {t.name: t.tensor_type.name for t in gguf.GGUFReader(target).tensors}
    names = [found[name] for name, _ in tensors]
    most = collections.Counter(names).most_common(1)[0][0]
    others = {t: [i for i, n in enumerate(names) if n == t] for t in sorted(set(names)) if t != most}
    return {"most": most} | others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    errors_alone = llama_cpp.llama_log_callback(lambda level, text, _: print(text.decode(), end="") if level == 4 else 0)
    llama_cpp.llama_log_set(errors_alone, None)
    models = {}
    with tempfile.TemporaryDirectory() as scratch:
        source, target = pathlib.Path(scratch) / "a.gguf", pathlib.Path(scratch) / "b.gguf"
        for name, (arch, metadata, tensors, imatrix) in MODELS.items():
            write_model(source, arch, metadata, tensors)
            models[name] = {"architecture": arch, "metadata": metadata, "imatrix": imatrix, "tensors": tensors,
                            "types": {m: types_of(source, target, n, tensors, imatrix) for m, n in MIXES.items()}}
    text = json.dumps(models, separators=(",", ":"))
    for key in MIXES:
        text = text.replace(f',"{key}":{{"most"', f',\n"{key}":{{"most"')
    (args.out / "quant_mixes.golden.json").write_text(text.replace(',"types"', ',\n"types"') + "\n")


if __name__ == "__main__":
    main()
