#!/usr/bin/env python3
"""Make quant.golden.gguf and quant_errors.golden.json: what quantized blocks mean, and how well llama.cpp makes them.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_quant_golden.py                # writes beside this script
  $PY tests/golden/make_quant_golden.py --out DIR --ggml PATH/libggml-base.so    # another llama.cpp, elsewhere

quant.golden.gguf: for every type T the tensor `T.blocks`, of random bytes with special scales, and `T.values`, the f32
that gguf-py makes of them (ggml's own dequantize_row_T must agree).

quant_errors.golden.json: the sum of squared errors of ggml_quantize_chunk on inputs that both sides make from integers
(`inputs`), without and with importance; with importance each square is multiplied by its column's.
"""
import argparse
import ctypes
import importlib.util
import json
import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]
# Byte offsets of the halves of a block.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
# One, zeros, the smallest and the largest subnormal, the smallest and the largest normal number, infinities, NaN.
SPECIAL = [0x3C00, 0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
ROWS, COLUMNS = 16, 512
KINDS = ["normal", "heavy", "shifted"]


def blocks_of(name, rng):
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    count = 32 if elements == 32 else 12
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for i, offset in enumerate(HALVES[name]):
        # Special scales, then some as they occur in files, and any bits.
        usual = (rng.standard_normal(8) * 0.01).astype(np.float16).view(np.uint16)
        halves = np.concatenate([SPECIAL[3 * i:], SPECIAL[:3 * i], usual])[:count].astype("<u2")
        blocks[:len(halves), offset:offset + 2] = halves.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:8, 0] = [0, 1, 2, 127, 128, 253, 254, 255]
    return kind, blocks


def integers(stream, n):
    """splitmix64: n numbers of 64 bits, whose sequence begins at `stream`."""
    with np.errstate(over="ignore"):
        z = np.uint64(stream) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def normal(stream, n):
    """Nearly normal, exact in f64: twelve numbers of 16 bits each, less their mean, over 65536."""
    z = np.concatenate([integers(stream + i, n)[None] for i in range(3)])
    parts = [(z >> np.uint64(s)) & np.uint64(0xFFFF) for s in (0, 16, 32, 48)]
    return (sum(p.astype(np.int64).sum(0) for p in parts) - 6 * 65535) / 65536


def inputs(kind):
    x = normal(1000 + 100 * KINDS.index(kind), ROWS * COLUMNS)
    if kind == "heavy":
        x = x * np.abs(x) * x  # a few far out
    if kind == "shifted":
        x = x * 0.25 + 0.125
    return (x / 16).astype(np.float32)


def importance():
    x = normal(5000, COLUMNS)
    return (x * x * x * x + 1 / 64).astype(np.float32)


def open_ggml(path):
    if not path:
        package = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent
        path = next(package.rglob("libggml-base*.so*"))
    lib = ctypes.CDLL(str(path))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    return lib


def check_ggml(lib, name, blocks, values):
    out = np.empty(values.size, np.float32)
    dequantize = getattr(lib, "dequantize_row_" + name.lower().replace("_k", "_K"))
    dequantize(ctypes.c_void_p(blocks.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(values.size))
    same = (out.view(np.uint32) == values.ravel().view(np.uint32)) | (np.isnan(out) & np.isnan(values.ravel()))
    assert same.all(), name


def squared_error(lib, kind, x, weights):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros(x.size // elements * size, np.uint8)
    lib.ggml_quantize_chunk(kind.value, x.ctypes.data, out.ctypes.data, 0, ROWS, COLUMNS,
                            None if weights is None else weights.ctypes.data)
    y = gguf.quants.dequantize(out.reshape(-1, size), kind).reshape(ROWS, COLUMNS)
    error = (y.astype(np.float64) - x.reshape(ROWS, COLUMNS).astype(np.float64))**2
    return float((error if weights is None else error * weights.astype(np.float64)).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    parser.add_argument("--ggml", help="libggml-base.so (default: that of llama-cpp-python)")
    args = parser.parse_args()
    lib = open_ggml(args.ggml)
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(args.out / "quant.golden.gguf", "golden")
    errors = {"rows": ROWS, "columns": COLUMNS, "errors": {}}
    weights = importance()
    for name in TYPES:
        kind, blocks = blocks_of(name, rng)
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(blocks, kind)
        check_ggml(lib, name, blocks, values)
        writer.add_tensor(f"{name}.blocks", blocks, raw_dtype=kind)
        writer.add_tensor(f"{name}.values", values)
        errors["errors"][name] = {k: [squared_error(lib, kind, inputs(k), w) for w in (None, weights)] for k in KINDS}
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (args.out / "quant_errors.golden.json").write_text(json.dumps(errors, indent=1) + "\n")


if __name__ == "__main__":
    main()
