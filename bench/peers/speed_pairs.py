#!/usr/bin/env python3
"""Prefill and decoding of GGUFs, toy and a peer in turn: a row of a Markdown table for each file.

  PY=$(scripts/peers.sh) && $PY bench/peers/speed_pairs.py a.gguf b.gguf --rounds 5
  python3 bench/peers/speed_pairs.py a.gguf --llama-bench ik_llama.cpp/build/bin/llama-bench

Without --llama-bench the peer is llama.cpp by way of llama_cpp_speed.py. Ratios of tokens a second, toy / peer: the
median of the rounds, then the least and the greatest. The work: a prompt, then tokens one by one after it.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def output(*words):
    p = subprocess.run([*map(str, words)], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"speed_pairs: {' '.join(map(str, words))}: {p.stderr.strip()[-500:]}")
    return p.stdout


def toy(a, path):
    j = json.loads(output(a.toy, "bench", "infer", path, "--prompt", a.prompt, "--decode", a.decode, "--repeat",
                          a.repeat, "--threads", a.threads, "--json"))
    return j["prefill_tps"], j["decode_tps"]


def llama_cpp(a, path):
    j = json.loads(output(sys.executable, os.path.join(HERE, "llama_cpp_speed.py"), path, "--prompt", a.prompt,
                          "--decode", a.decode, "--repeat", a.repeat, "--threads", a.threads))
    return j["prefill_tps"], j["decode_tps"]


def llama_bench(a, path):
    """-rtr 1: weights in an order that it computes on faster. Decoding alone is timed by -gp."""
    rows = json.loads(output(a.llama_bench, "-m", path, "-rtr", 1, "-p", a.prompt, "-n", 0, "-gp",
                             f"{a.prompt},{a.decode}", "-t", a.threads, "-r", a.repeat, "-o", "json"))
    return (next(r["avg_ts"] for r in rows if not r["n_gen"]), next(r["avg_ts"] for r in rows if r["n_gen"]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+", help="GGUF files")
    ap.add_argument("--llama-bench", help="the llama-bench of ik_llama.cpp")
    ap.add_argument("--prompt", type=int, default=512)
    ap.add_argument("--decode", type=int, default=64)
    ap.add_argument("--repeat", type=int, default=1, help="runs of a round")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--toy", default=os.path.join(HERE, "../../build/release/toy"))
    a = ap.parse_args()
    peer = llama_bench if a.llama_bench else llama_cpp
    print("| file | prefill, t/s | peer | ratio | decode, t/s | peer | ratio |\n|" + " --- |" * 7, flush=True)
    for path in a.models:
        pairs = [(toy(a, path), peer(a, path)) for _ in range(a.rounds)]
        cells = [os.path.basename(path)]
        for i in (0, 1):
            own, theirs = ([pair[side][i] for pair in pairs] for side in (0, 1))
            ratios = [x / y for x, y in zip(own, theirs)]
            cells += [f"{statistics.median(own):.0f}", f"{statistics.median(theirs):.0f}",
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
