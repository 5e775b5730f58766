#!/usr/bin/env python3
"""What quantizing weights costs, by toy and by llama.cpp's quantizer: a row of a Markdown table for each type or mix.

  PY=$(scripts/peers.sh) && $PY bench/peers/quant_weights.py model.gguf calibration.txt text.txt ... --types Q4_K_M,Q4_0

Both write the model's weights in F32 in the type, without and with the importance matrix of calibration.txt (which
`toy quantize imatrix` measures; llama.cpp's quantizer gets the same numbers). toy then measures the mean KL divergence
from the F32 weights on all tokens of the texts, in nats per token: activations are not rounded, so weights are all that
differs. It runs as libtoy.so, next to the program, which gives logits. The ratio is toy's to llama.cpp's: at most 1 is
the bar. With several texts, those of each follow in brackets: they differ by more than the error. Errors are standard
errors over blocks of 64 tokens, those of ratios of the paired difference. A source that was quantized itself favours
types that can hold its values; off_grid.py moves them.
"""
import argparse
import ctypes
import os
import subprocess
import sys
import tempfile

import llama_cpp as lc
import numpy as np
from gguf import GGUFReader

HERE = os.path.dirname(os.path.abspath(__file__))
FILE_TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
              "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "Q2_K_S": 21,
              "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4_MOE": 38}  # llama_ftype
EXACT = b'{"kv": "f32", "exact": true}'


def toy(args, *words):
    p = subprocess.run([args.toy, *map(str, words)], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"quant_weights: {' '.join([args.toy, *map(str, words)])}: {p.stderr.strip()[-500:]}")
    return p.stdout


class Predictions:
    """Logits of the windows of a text, by default without rounding, and the logarithms of their sums."""

    def __init__(self, args, path, text_path, options=EXACT):
        self.options = options
        self.library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(args.toy)), "libtoy.so.0"))
        self.model = ctypes.c_void_p()
        self.call("toy_load", path.encode(), b'{"threads": %d}' % args.threads, ctypes.byref(self.model))
        with open(text_path, "rb") as f:
            text = f.read()
        ids, alone = self.encode(text, 1), self.encode(text, 0)
        self.windows = [ids[i:min(i + args.ctx, len(ids) - 1)] for i in range(0, len(ids) - 1, args.ctx)]
        if len(ids) > len(alone):  # texts begin with a token: so do later windows
            self.windows = [[ids[0], *window[1:]] for window in self.windows]

    def encode(self, text, as_prompt):
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self.call("toy_encode", self.model, text, as_prompt, ctypes.byref(ids), ctypes.byref(count))
        copy = ids[:count.value]
        self.library.toy_free(ids)
        return copy

    def call(self, name, *words):
        if getattr(self.library, name)(*words):
            self.library.toy_last_error.restype = ctypes.c_char_p
            sys.exit(f"quant_weights: {name}: {self.library.toy_last_error().decode()}")

    def __iter__(self):
        for window in self.windows:
            ids = (ctypes.c_int32 * len(window))(*window)
            out, size = ctypes.POINTER(ctypes.c_float)(), ctypes.c_size_t()
            self.call("toy_logits", self.model, ids, ctypes.c_size_t(len(ids)), self.options,
                      ctypes.byref(out), ctypes.byref(size))
            for row in np.ctypeslib.as_array(out, shape=(len(ids), size.value)):
                yield row.copy(), log_sum(row)
            self.library.toy_free(out)
        self.library.toy_model_free(self.model)


def log_sum(logits):
    """The logarithm of the sum of their exponentials. These are f32, which is five times as fast as f64."""
    top = float(logits.max())
    return top + float(np.log(np.exp(logits - top).sum(dtype=np.float64)))


def divergence(base, model):
    """Of each token."""
    kl = []
    for (p, norm_p), (q, norm_q) in zip(base, model, strict=True):
        kl.append((np.exp(p - norm_p) * (p - q - (norm_p - norm_q))).sum(dtype=np.float64))
    return np.array(kl)


def over_blocks(tokens):
    """The mean's standard error over blocks of 64 tokens."""
    sums = np.add.reduceat(tokens - tokens.mean(), np.arange(0, len(tokens), 64))
    return np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(tokens)


def ratio_of(own, theirs):
    """Of the means, and its standard error from the paired difference."""
    mean = max(theirs.mean(), 1e-300)
    ratio = own.mean() / mean
    return ratio, over_blocks(own - ratio * theirs) / mean


def importance(path):
    """Of each matrix, the mean square of each column's input, as llama.cpp takes it."""
    tensors = {t.name: np.array(t.data, np.float32) for t in GGUFReader(path).tensors}
    matrices = {}
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            counts = tensors[name[:-8] + ".counts"].reshape(-1, 1)
            matrices[name[:-8]] = np.ascontiguousarray((sums.reshape(len(counts), -1) / counts).ravel())
    return matrices


def llama_quantize(args, base, path, name, matrices):
    params = lc.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure = FILE_TYPES[name], args.threads, False
    if matrices:
        entries = (lc.llama_model_imatrix_data * (len(matrices) + 1))()  # the last one is empty
        for entry, (tensor, data) in zip(entries, matrices.items()):
            entry.name, entry.size = tensor.encode(), data.size
            entry.data = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = entries
    if lc.llama_model_quantize(base.encode(), path.encode(), ctypes.byref(params)):
        sys.exit(f"quant_weights: llama.cpp cannot write {name}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="GGUF; its weights in F32 are the reference")
    ap.add_argument("calibration")
    ap.add_argument("texts", nargs="+")
    ap.add_argument("--types", default=",".join(FILE_TYPES))
    ap.add_argument("--ctx", type=int, default=512)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--toy", default=os.path.join(HERE, "../../build/release/toy"))
    args = ap.parse_args()
    silent = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    lc.llama_backend_init()
    columns = ["toy", "llama.cpp", "ratio"]
    heads = ["type", *columns, *(f"{c}, imatrix" for c in columns), "MB, both"]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        base, matrix, path = (os.path.join(folder, f) for f in ("base.gguf", "imatrix.gguf", "model.gguf"))
        toy(args, "quantize", args.model, base, "--overwrite", "--type", "F32")
        toy(args, "quantize", "imatrix", base, "--file", args.calibration, "--out", matrix)
        matrices = importance(matrix)

        expected = [list(Predictions(args, base, text)) for text in args.texts]

        def kl():
            """Of the tokens of each text, and the size of the file."""
            texts = [divergence(e, Predictions(args, path, text)) for e, text in zip(expected, args.texts)]
            size = os.path.getsize(path) / 1e6
            os.remove(path)
            return texts, size

        for name in args.types.split(","):
            cells, sizes = [name], []
            for with_matrix in (False, True):
                with_importance = ["--imatrix", matrix] if with_matrix else []
                toy(args, "quantize", base, path, "--overwrite", "--type", name, *with_importance)
                own, own_size = kl()
                llama_quantize(args, base, path, name, matrices if with_matrix else None)
                theirs, their_size = kl()
                each = [f"{a.mean() / max(b.mean(), 1e-300):.2f}" for a, b in zip(own, theirs)]
                own, theirs = np.concatenate(own), np.concatenate(theirs)
                cells += [f"{t.mean():.5f} +- {over_blocks(t):.5f}" for t in (own, theirs)]
                ratio, error = ratio_of(own, theirs)
                of_each = f" ({', '.join(each)})" if len(each) > 1 else ""
                cells.append(f"{ratio:.2f} +- {error:.2f}{of_each}" if theirs.mean() > 1e-6 else "-")
                sizes = [own_size, their_size]
            print("| " + " | ".join(cells + [", ".join(f"{s:.1f}" for s in sizes)]) + " |", flush=True)


if __name__ == "__main__":
    main()
