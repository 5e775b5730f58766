#!/usr/bin/env python3
"""What a quantized model loses, in toy and in llama.cpp: a row of a Markdown table for each type.

  PY=$(scripts/peers.sh) && $PY bench/peers/quant_accuracy.py model.gguf text.txt --types Q8_0,Q6_K,Q4_0 --rounds 3

`file` is a type, too: the model as it is. With --activations only those columns are measured, in half the time. Mean KL
divergence in nats per token, over windows of --ctx tokens:

  weights      toy, both without rounding of activations: from the model in F32 to the file
  activations  from the file with activations as they are to the file as it is run by default. llama.cpp has no such
               mode and runs the file's weights in F32 instead. The ratio is toy's to llama.cpp's: at most 1 is the bar
  all          from the model in F32 to the file by default

Errors are standard errors over blocks of 64 tokens, that of the ratio of the paired difference.

Speed: prefill of 512 tokens and decoding of 64 after them, the median of --rounds alternating runs, toy / llama.cpp.
Without llama-cpp-python its columns are absent.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import speed_pairs

HERE = os.path.dirname(os.path.abspath(__file__))
try:
    import ctypes

    import llama_cpp as lc
    import numpy as np
except ImportError:
    lc = None
if lc:
    from quant_weights import Predictions, divergence, log_sum, over_blocks, ratio_of


def toy(args, *words):
    p = subprocess.run([args.toy, *map(str, words)], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"quant_accuracy: {' '.join([args.toy, *map(str, words)])}: {p.stderr.strip()[-500:]}")
    return p.stdout


def toy_kl(args, base, model, *words):
    rows = toy(args, "eval", "kl", "--base", base, "--model", model, "--file", args.text, "--ctx", args.ctx, "--stride",
               args.ctx, "--kv", "f16", "--threads", args.threads, "--json", *words)
    j = json.loads(rows)
    return j["kl"], j["kl_error"]


def own_activations(args, path):
    """Of each token."""
    exact, rounded = (b'{"kv": "f16", "exact": %s}' % e for e in (b"true", b"false"))
    return divergence(Predictions(args, path, args.text, exact), Predictions(args, path, args.text, rounded))


class Llama:
    """Logits of the windows of a text, and the logarithms of their sums."""

    def __init__(self, args, path):
        self.args = args
        params = lc.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = lc.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"quant_accuracy: llama.cpp cannot load {path}")
        params = lc.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = args.ctx
        params.n_threads = params.n_threads_batch = args.threads
        self.context = lc.llama_init_from_model(self.model, params)
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.size = lc.llama_vocab_n_tokens(self.vocab)

    def windows(self):
        """As `toy eval` cuts them: where texts begin with a token, it replaces the first of each later window."""
        with open(self.args.text, "rb") as f:
            text = f.read()
        ids = (lc.llama_token * (len(text) + 8))()
        ids = list(ids[:lc.llama_tokenize(self.vocab, text, len(text), ids, len(ids), True, True)])
        has_bos = lc.llama_vocab_get_add_bos(self.vocab)
        starts = range(0, len(ids) - 1, self.args.ctx)
        rows = [ids[i:min(i + self.args.ctx, len(ids) - 1)] for i in starts]
        return [[ids[0], *row[1:]] if has_bos else row for row in rows]

    def logits(self, ids):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        batch = lc.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
        if lc.llama_decode(self.context, batch):
            sys.exit("quant_accuracy: llama_decode failed")
        lc.llama_batch_free(batch)
        return np.ctypeslib.as_array(lc.llama_get_logits(self.context), shape=(len(ids), self.size))

    def __iter__(self):
        for ids in self.windows():
            for row in self.logits(ids):
                yield row.copy(), log_sum(row)
        lc.llama_free(self.context), lc.llama_model_free(self.model)


def number(x):
    return f"{x:.5f}" if x >= 1e-3 else f"{x:.3g}"


def speeds(args, path):
    """Prefill and decode: toy's tokens a second, and the ratio to llama.cpp's."""
    pairs = [(speed_pairs.toy(args, path), speed_pairs.llama_cpp(args, path) if lc else None) for _ in range(args.rounds)]
    cells = []
    for i in (0, 1):
        cell = f"{statistics.median(own[i] for own, _ in pairs):.0f}"
        if lc:
            cell += f" ({statistics.median(own[i] / peer[i] for own, peer in pairs):.2f})"
        cells.append(cell)
    return cells


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="GGUF; its weights in F32 are the reference")
    ap.add_argument("text")
    ap.add_argument("--types", default="Q8_0,Q6_K,Q5_K,Q5_1,Q5_0,Q4_K,Q4_1,Q4_0",
                    help="types or mixes; `file`: as it is")
    ap.add_argument("--ctx", type=int, default=512)
    ap.add_argument("--activations", action="store_true", help="only the columns of activations")
    ap.add_argument("--rounds", type=int, default=0, help="of speed; 0: none")
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--toy", default=os.path.join(HERE, "../../build/release/toy"))
    args = ap.parse_args()
    args.prompt, args.decode, args.repeat = 512, 64, 1  # of a round
    if lc:
        silent = lc.llama_log_callback(lambda *_: None)
        lc.llama_log_set(silent, ctypes.c_void_p(0))
        lc.llama_backend_init()
    heads = ["activations", "activations, llama.cpp", "ratio"]
    heads = ["type", *heads] if args.activations else ["type", "weights", *heads, "all", "all, llama.cpp"]
    heads = [h for h in heads if lc or h != "ratio" and "llama" not in h]
    heads += ["prefill, t/s (ratio)", "decode, t/s (ratio)"] * bool(args.rounds)
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        base, exact = os.path.join(folder, "base.gguf"), os.path.join(folder, "exact.gguf")
        toy(args, "quantize", args.model, base, "--overwrite", "--type", "F32", "--threads", args.threads)
        for name in args.types.split(","):
            path = args.model if name == "file" else os.path.join(folder, "model.gguf")
            if name != "file":
                toy(args, "quantize", base, path, "--overwrite", "--type", name, "--threads", args.threads)
            cells = {"type": name}
            if not args.activations:
                cells["weights"] = number(toy_kl(args, base, path, "--exact")[0])
                cells["all"] = number(toy_kl(args, base, path)[0])
            if lc:
                toy(args, "quantize", path, exact, "--overwrite", "--type", "F32", "--threads", args.threads)
                own = own_activations(args, path)
                theirs = divergence(Llama(args, exact), Llama(args, path))
                cells["activations, llama.cpp"] = number(theirs.mean())
                cells["ratio"] = "{:.3f} +- {:.3f}".format(*ratio_of(own, theirs))
                if not args.activations:
                    cells["all, llama.cpp"] = number(divergence(Llama(args, base), Llama(args, path)).mean())
                rounding, error = own.mean(), over_blocks(own)
            else:
                rounding, error = toy_kl(args, path, path, "--base-with", "exact")
            cells["activations"] = f"{number(rounding)} +- {error:.2g}"
            row = [cells[h] for h in heads if h in cells] + (speeds(args, path) if args.rounds else [])
            print("| " + " | ".join(row) + " |", flush=True)
            for p in {path, exact} - {args.model}:
                if os.path.exists(p):
                    os.remove(p)


if __name__ == "__main__":
    main()
