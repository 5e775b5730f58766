#!/usr/bin/env python3
"""What llama.cpp generates greedily from token ids: one JSON object on stdout.

  PY=$(scripts/peers.sh) && $PY tests/peer/llama_cpp_greedy.py model.gguf --ids 1,2,3 --n 32

  ids            the n generated token ids (generation goes on past an end token)
  margins        per generated token: largest minus second largest logit; where it is tiny, two correct programs may part
  logprobs       per generated token: its natural log probability
  end_step       the first step that generated an end-of-generation token, or null
  logits_first   the logits after the prompt (what the first generated token is chosen from)

llama.cpp runs on the CPU with an f32 cache and without flash attention, so that an f32 file is computed in f32 throughout.
`LlamaCpp` below is the low-level API in a form that the other scripts share.
"""
import argparse
import ctypes
import json
import sys

import llama_cpp as lc
import numpy as np

GGML_TYPE_F32 = 0
FLASH_ATTN_DISABLED = 0

_silent = lc.llama_log_callback(lambda *_: None)  # kept alive: llama.cpp holds the pointer
_started = False


def _start():
    global _started
    if not _started:
        lc.llama_log_set(_silent, ctypes.c_void_p(0))
        lc.llama_backend_init()
        _started = True


class LlamaCpp:
    """One model and, unless vocab_only, one context of n_ctx positions for one sequence."""

    def __init__(self, path, n_ctx=512, threads=2, vocab_only=False):
        _start()
        self.ctx = self.model = None
        mp = lc.llama_model_default_params()
        mp.n_gpu_layers = 0
        mp.use_extra_bufts = False  # no repacked weights: its AMX kernels die of SIGILL on some virtual machines
        mp.vocab_only = vocab_only
        self.model = lc.llama_model_load_from_file(str(path).encode(), mp)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.n_vocab = lc.llama_vocab_n_tokens(self.vocab)
        self.n_ctx = n_ctx
        if vocab_only:
            return
        cp = lc.llama_context_default_params()
        cp.n_ctx = cp.n_batch = cp.n_ubatch = n_ctx
        cp.n_seq_max = 1
        cp.n_threads = cp.n_threads_batch = threads
        cp.type_k = cp.type_v = GGML_TYPE_F32
        cp.flash_attn_type = FLASH_ATTN_DISABLED
        self.ctx = lc.llama_init_from_model(self.model, cp)
        if not self.ctx:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")

    def close(self):
        if self.ctx:
            lc.llama_free(self.ctx)
        if self.model:
            lc.llama_model_free(self.model)
        self.ctx = self.model = None

    def __del__(self):
        self.close()

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.ctx), True)

    def decode(self, ids, position, all_rows=False):
        """Appends ids at `position`; returns f32 logits [rows, V] of the last row, or of every row."""
        bad = [i for i in ids if not 0 <= i < self.n_vocab]
        if bad or not ids:
            raise ValueError(f"token ids {bad} are outside 0..{self.n_vocab - 1}" if bad else "no token ids")
        batch = lc.llama_batch_init(len(ids), 0, 1)
        try:
            batch.n_tokens = len(ids)
            for i, token in enumerate(ids):
                batch.token[i], batch.pos[i] = token, position + i
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
                batch.logits[i] = all_rows or i == len(ids) - 1
            code = lc.llama_decode(self.ctx, batch)
            if code:
                raise RuntimeError(f"llama_decode failed with code {code}")
        finally:
            lc.llama_batch_free(batch)
        rows = range(len(ids)) if all_rows else [-1]
        return np.stack([np.ctypeslib.as_array(lc.llama_get_logits_ith(self.ctx, i), (self.n_vocab,)).copy() for i in rows])

    def logits(self, ids):
        """Logits [len(ids), V] of one fresh sequence."""
        self.clear()
        return self.decode(ids, 0, all_rows=True)

    def greedy(self, prompt, n):
        """Decodes n tokens after the prompt; returns the object described at the top of this file."""
        self.clear()
        logits = self.decode(prompt, 0)[0]
        out = dict(ids=[], margins=[], logprobs=[], end_step=None, logits_first=logits.tolist())
        for step in range(n):
            token = int(logits.argmax())
            second, first = np.partition(logits.astype(np.float64), -2)[-2:]
            out["ids"].append(token)
            out["margins"].append(first - second)
            out["logprobs"].append(-float(np.log(np.exp(logits.astype(np.float64) - first).sum())))
            if out["end_step"] is None and lc.llama_vocab_is_eog(self.vocab, token):
                out["end_step"] = step
            if step + 1 < n:
                logits = self.decode([token], len(prompt) + step)[0]
        return out

    def forced(self, prompt, fed):
        """Logits [1 + len(fed), V]: after the prompt, and after each id of `fed`, decoded one by one."""
        self.clear()
        rows = [self.decode(prompt, 0)[0]]
        rows += [self.decode([token], len(prompt) + step)[0] for step, token in enumerate(fed)]
        return np.stack(rows)

    def tokenize(self, text, add_special=False, parse_special=False):
        raw = text.encode()
        room = len(raw) + 8
        ids = (lc.llama_token * room)()
        n = lc.llama_tokenize(self.vocab, raw, len(raw), ids, room, add_special, parse_special)
        if n < 0:
            raise RuntimeError(f"llama_tokenize wants room for {-n} tokens")
        return list(ids[:n])


def parse_ids(text):
    return [int(part) for part in text.split(",")]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--ids", type=parse_ids, required=True, help="prompt token ids, comma separated")
    ap.add_argument("--n", type=int, default=32, help="tokens to generate")
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    try:
        model = LlamaCpp(a.model, n_ctx=len(a.ids) + a.n, threads=a.threads)
        print(json.dumps(model.greedy(a.ids, a.n)))
    except (RuntimeError, ValueError) as e:
        sys.exit(f"llama_cpp_greedy: {e}")


if __name__ == "__main__":
    main()
