#!/usr/bin/env python3
"""Prefill and decoding of a GGUF in llama.cpp, timed: the work of `toy bench infer`, with the same keys.

  PY=$(scripts/peers.sh) && $PY bench/peers/llama_cpp_speed.py model.gguf --prompt 512 --decode 64

`first_token_s`: from the call that loads the file to the logits after a prompt of 8 tokens. One JSON line on stdout.
"""
import argparse
import ctypes
import json
import os
import resource
import statistics
import sys
import time

import llama_cpp as lc

SHORT_PROMPT = 8


class Context:
    def __init__(self, path, positions, batch, sequences, threads):
        params = lc.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = lc.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama_cpp_speed: llama.cpp cannot load {path}")
        params = lc.llama_context_default_params()
        params.n_ctx, params.n_seq_max = positions * sequences, sequences
        params.n_batch, params.n_ubatch = max(batch, 512), 512
        params.n_threads = params.n_threads_batch = threads
        self.context = lc.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama_cpp_speed: llama.cpp cannot make a context for {path}")
        self.vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))
        self.batch = lc.llama_batch_init(max(batch, sequences), 0, 1)

    def decode(self, rows):
        """rows: (counter that makes the token, position, sequence); logits of the last row of each sequence."""
        last = {sequence: i for i, (_, _, sequence) in enumerate(rows)}
        self.batch.n_tokens = len(rows)
        for i, (counter, position, sequence) in enumerate(rows):
            self.batch.token[i] = (counter * 7919 + 13) % (self.vocab - 3) + 3
            self.batch.pos[i], self.batch.n_seq_id[i], self.batch.seq_id[i][0] = position, 1, sequence
            self.batch.logits[i] = last[sequence] == i
        if lc.llama_decode(self.context, self.batch):
            sys.exit("llama_cpp_speed: llama_decode failed")
        lc.llama_get_logits_ith(self.context, len(rows) - 1)

    def run(self, prompt, decode, sequences):
        """Tokens a second of prefill and of decoding."""
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
        begin = time.perf_counter()
        for s in range(sequences):
            self.decode([(i, i, s) for i in range(prompt)])
        middle = time.perf_counter()
        for n in range(decode):
            self.decode([(n + s, prompt + n, s) for s in range(sequences)])
        end = time.perf_counter()
        return prompt * sequences / (middle - begin), decode * sequences / (end - middle)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="GGUF file")
    ap.add_argument("--prompt", type=int, default=512)
    ap.add_argument("--decode", type=int, default=64)
    ap.add_argument("--parallel", type=int, default=1, help="sequences together")
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    a = ap.parse_args()
    lc.llama_backend_init()
    silent = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    begin = time.perf_counter()
    context = Context(a.model, a.prompt + a.decode + 8, a.prompt, a.parallel, a.threads)
    load = time.perf_counter() - begin
    context.decode([(i, i, 0) for i in range(SHORT_PROMPT)])
    first = time.perf_counter() - begin
    context.run(a.prompt, a.decode, a.parallel)  # warm
    runs = [context.run(a.prompt, a.decode, a.parallel) for _ in range(a.repeat)]
    prefill, decode = (statistics.median(r[i] for r in runs) for i in (0, 1))
    print(json.dumps(dict(
        peer="llama-cpp-python " + lc.__version__, model=os.path.basename(a.model), threads=a.threads, prompt=a.prompt,
        decode=a.decode, parallel=a.parallel, prefill_tps=prefill, decode_tps=decode,
        decode_gb_s=decode / a.parallel * os.path.getsize(a.model) / 1e9, load_s=load, first_token_s=first,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


if __name__ == "__main__":
    main()
