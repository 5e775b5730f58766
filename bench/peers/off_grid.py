#!/usr/bin/env python3
"""Moves the weights of a model that was quantized off its grid, so that quant_weights.py favours no type.

  toy quantize model.gguf f32.gguf --type F32 && $PY bench/peers/off_grid.py model.gguf f32.gguf

Changes f32.gguf in place: each weight that model.gguf holds quantized moves by up to half the step of its run, evenly
distributed. The step is the least distance between two values of the run.
"""
import argparse

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader

SHORT_RUNS = (Type.Q2_K, Type.Q3_K, Type.Q6_K)  # of 16 weights


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("quantized")
    ap.add_argument("f32", help="its weights in F32, which change")
    ap.add_argument("--seed", type=int, default=1, help="of the random numbers")
    args = ap.parse_args()
    types = {t.name: t.tensor_type for t in GGUFReader(args.quantized).tensors}
    rng = np.random.default_rng(args.seed)
    file = GGUFReader(args.f32, "r+")
    for tensor in file.tensors:
        if types[tensor.name] in (Type.F32, Type.F16, Type.BF16):
            continue
        runs = tensor.data.reshape(-1, 16 if types[tensor.name] in SHORT_RUNS else 32)
        for i in range(0, len(runs), 1 << 18):
            part = runs[i:i + (1 << 18)]
            apart = np.diff(np.sort(part, axis=1), axis=1)
            apart[apart <= 1e-5 * np.abs(part).max(axis=1, keepdims=True)] = np.inf  # equal but for rounding
            step = apart.min(axis=1, keepdims=True)
            step[~np.isfinite(step)] = 0
            part += (step * (rng.random(part.shape, dtype=np.float32) - 0.5)).astype(np.float32)
    file.data.flush()


if __name__ == "__main__":
    main()
