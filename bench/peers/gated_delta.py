#!/usr/bin/env python3
"""The gated delta rule of ggml, from llama-cpp-python's libraries, next to that of toy, in alternating rounds.

  PY=$(scripts/peers.sh) && $PY bench/peers/gated_delta.py build/bench/bench/recurrent_bench --threads 1

One sequence of 1024 tokens, heads of 128 x 128. Nanoseconds per token and head, the best of several calls in each
round; ratios as median (smallest to largest). First ggml's result on a few tokens is compared with the recurrence.
"""
import argparse
import ctypes as c
import os
import re
import statistics
import subprocess
import sys
import time

import llama_cpp
import numpy as np

WIDTH = 128
MEMORY = 1 << 30


class InitParams(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]


class Ggml:
    def __init__(self):
        folder = os.path.join(os.path.dirname(llama_cpp.__file__), "lib")
        self.base = c.CDLL(os.path.join(folder, "libggml-base.so"), mode=c.RTLD_GLOBAL)
        self.cpu = c.CDLL(os.path.join(folder, "libggml-cpu.so"), mode=c.RTLD_GLOBAL)
        p, i = c.c_void_p, c.c_int64
        for lib, name, result, arguments in [
            (self.base, "ggml_init", p, [InitParams]),
            (self.base, "ggml_free", None, [p]),
            (self.base, "ggml_new_tensor_4d", p, [p, c.c_int, i, i, i, i]),
            (self.base, "ggml_get_data", p, [p]),
            (self.base, "ggml_gated_delta_net", p, [p] * 7 + [i]),  # the last: states that are kept
            (self.base, "ggml_new_graph", p, [p]),
            (self.base, "ggml_build_forward_expand", None, [p, p]),
            (self.cpu, "ggml_graph_compute_with_ctx", c.c_int, [p, p, c.c_int]),
        ]:
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.cpu.ggml_cpu_init()


class Operands:
    """q, k, v, g and beta of one sequence as [T, H, ...], and the state it starts from."""

    def __init__(self, tokens, heads):
        random = np.random.default_rng(1)
        draw = lambda low, high, *shape: random.uniform(low, high, shape).astype(np.float32)
        unit = lambda x: (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)
        rows = (tokens, heads, WIDTH)
        self.q, self.k, self.v = unit(draw(-1, 1, *rows)), unit(draw(-1, 1, *rows)), draw(-1, 1, *rows)
        self.g, self.beta = draw(-0.2, 0, tokens, heads, 1), draw(0, 1, tokens, heads, 1)
        self.state = draw(-1, 1, heads, WIDTH, WIDTH)  # [value][key], as ggml keeps it

    def recurrence(self):
        """In double. ggml scales the output."""
        s, outputs = self.state.astype(np.float64), []
        for q, k, v, g, beta in zip(self.q, self.k, self.v, self.g, self.beta):
            s = s * np.exp(g.astype(np.float64))[:, :, None]
            s = s + (beta * (v - np.einsum("hvk,hk->hv", s, k)))[:, :, None] * k[:, None, :]
            outputs.append(np.einsum("hvk,hk->hv", s, q) / np.sqrt(WIDTH))
        return np.stack(outputs)


class Op:
    """ggml's op on these operands."""

    def __init__(self, ggml, x):
        self.ggml, self.x = ggml, x
        self.context = ggml.base.ggml_init(InitParams(MEMORY, None, False))
        tensors = []
        for a in [x.q, x.k, x.v, x.g, x.beta, x.state]:
            t = ggml.base.ggml_new_tensor_4d(self.context, 0, *reversed(a.shape), 1)
            c.memmove(ggml.base.ggml_get_data(t), np.ascontiguousarray(a).ctypes.data, a.nbytes)
            tensors.append(t)
        self.result = ggml.base.ggml_gated_delta_net(self.context, *tensors, 1)
        self.graph = ggml.base.ggml_new_graph(self.context)
        ggml.base.ggml_build_forward_expand(self.graph, self.result)

    def seconds(self, threads):
        begin = time.perf_counter()
        if self.ggml.cpu.ggml_graph_compute_with_ctx(self.context, self.graph, threads):
            sys.exit("gated_delta: ggml_graph_compute failed")
        return time.perf_counter() - begin

    def outputs(self):
        self.seconds(1)
        data = c.cast(self.ggml.base.ggml_get_data(self.result), c.POINTER(c.c_float))
        return np.ctypeslib.as_array(data, (self.x.v.size,)).reshape(self.x.v.shape).copy()

    def free(self):
        self.ggml.base.ggml_free(self.context)


def toy_ns(program, threads, heads):
    text = subprocess.run([program, str(threads), "delta"], check=True, capture_output=True, text=True).stdout
    found = re.search(rf"T=1024 +H={heads} .*forward +(\d+) ns +backward +(\d+) ns", text)
    if not found:
        sys.exit(f"gated_delta: no line of {heads} heads from {program}:\n{text}")
    return float(found[1]), float(found[2])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("program", help="recurrent_bench")
    ap.add_argument("--heads", type=int, default=8, choices=[8, 16])
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=5)
    a = ap.parse_args()
    ggml = Ggml()
    few = Operands(6, 2)
    op = Op(ggml, few)
    worst = np.abs(op.outputs() - few.recurrence()).max()
    op.free()
    if worst > 1e-5:
        sys.exit(f"gated_delta: ggml is {worst:.1e} away from the recurrence; is its layout another one now?")
    op = Op(ggml, Operands(1024, a.heads))
    op.seconds(a.threads)
    rows = []
    for _ in range(a.rounds):
        forward, backward = toy_ns(a.program, a.threads, a.heads)
        peer = min(op.seconds(a.threads) for _ in range(5)) * 1e9 / 1024 / a.heads
        rows.append((peer, forward, backward))
        print(f"ggml {peer:6.0f} ns   toy forward {forward:5.0f} ns   backward {backward:5.0f} ns", flush=True)
    ahead, backward = [p / f for p, f, _ in rows], [b / f for _, f, b in rows]
    for name, ratios in [("ggml / forward", ahead), ("backward / forward", backward)]:
        print(f"{name}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
