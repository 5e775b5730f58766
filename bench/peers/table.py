#!/usr/bin/env python3
"""Compares toy with PyTorch and llama.cpp and prints the table of bench/README.md.

  PY=$(scripts/peers.sh) && $PY bench/peers/table.py                 # all rows
  $PY bench/peers/table.py --only 135m-f32 tiny-b1 --rounds 5
  $PY bench/peers/table.py --list

Two commands alternate (A B A B ...), so both get the machine's good and bad minutes. A row has the median ratio over rounds,
with the smallest and the largest; above 1, toy is ahead. It also has the project's own goal (the bar) and toy's share of the
machine's ceiling. With several peers, each round takes the best one. --llm-c adds llm.c's CPU trainer (train_gpt2, built with
OpenMP, in a folder with the files of llm_c_inputs.py).

Nothing else should run; the machine's load is printed with the table. Exit: 0, or 1 if a row is below its bar.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclasses.dataclass
class Row:
    name: str
    what: str
    ours: list
    peers: list  # of commands
    key: str = "tokens_per_s"
    bar: float = 1.0
    lower: bool = False  # a cost: the ratio is the peer's over ours
    share: str = "fraction_of_fma"


def training(name, what, shape, batch, tokens, bar, *, steps, ours=(), theirs=(), compiled=False, key="tokens_per_s", **more):
    size = ["--shape", shape, "--batch", str(batch), "--tokens", str(tokens), "--steps", str(steps)]
    peer = [sys.executable, HERE / "pytorch_step.py", *size, *theirs]
    peers = [peer, [*peer, "--compile"]] if compiled else [peer]
    return Row(name, what, ["bench", "train", *size, *ours, "--json"], peers, key, bar, **more)


def inference(name, what, model, key, bar, **more):
    size = ["--prompt", "512", "--decode", "64"]
    return Row(name, what, ["bench", "infer", model, *size, "--json"],
               [[sys.executable, HERE / "llama_cpp_speed.py", model, *size]], key, bar, **more)


def rows(models):
    f32, f16 = models / "135m-f32.gguf", models / "135m-f16.gguf"
    return [
        training("135m-f32", "135M, B=1 T=256, f32; PyTorch eager or compiled", "smollm2-135m", 1, 256, 1.6, steps=4,
                 compiled=True),
        training("135m-bf16", "the same, bf16", "smollm2-135m", 1, 256, 1.5, steps=4, ours=["--compute", "bf16"],
                 theirs=["--compute", "bf16"]),
        training("135m-memory", "the same in f32, peak resident memory, streaming", "smollm2-135m", 1, 256, 1 / 0.6, steps=2,
                 key="peak_rss_mib", lower=True),
        training("135m-gathered-memory", "the same, gathered", "smollm2-135m", 1, 256, 1.0, steps=2,
                 ours=["--update", "gathered"], key="peak_rss_mib", lower=True),
        training("135m-recompute", "135M, B=4 T=1024 within 6 GB; PyTorch with checkpoints", "smollm2-135m", 4, 1024, 1.3, steps=1,
                 ours=["--memory", "6G", "--warmup", "1"], theirs=["--checkpoint", "--warmup", "1"]),
        training("135m-recompute-3g", "the same within 3 GB, 17 of 30 blocks recomputed", "smollm2-135m", 4, 1024, 1.3,
                 steps=1, ours=["--memory", "3G", "--warmup", "1"], theirs=["--checkpoint", "--warmup", "1"]),
        training("tiny-b1", "tiny, B=1 T=64", "tiny", 1, 64, 6.0, steps=200),
        training("tiny-b8", "tiny, B=8 T=64", "tiny", 8, 64, 2.5, steps=100),
        training("gpt2-124m", "GPT-2 124M, B=4 T=64; transformers", "gpt2-124m", 4, 64, 1.5, steps=4),
        training("hybrid-60m", "hybrid-60m, B=1 T=512; transformers", "hybrid-60m", 1, 512, 1.4, steps=4),
        training("hybrid-60m-memory", "the same, peak resident memory", "hybrid-60m", 1, 512, 2.0, steps=2,
                 key="peak_rss_mib", lower=True),
        training("hybrid-tiny", "hybrid-tiny, B=4 T=128; transformers", "hybrid-tiny", 4, 128, 4.0, steps=40),
        inference("decode-f32", "decode of the 135M, F32 file; llama.cpp", f32, "decode_tps", 1.0, share="fraction_of_read"),
        inference("decode-f16", "decode of the 135M, F16 file; llama.cpp", f16, "decode_tps", 1.0, share="fraction_of_read"),
        inference("prefill-f32", "prefill of 512 tokens, F32 file; llama.cpp", f32, "prefill_tps", 1.0),
        inference("first-token", "first token of a short prompt, from the call that loads the F32 file; llama.cpp", f32,
                  "first_token_s", 1.0, lower=True, share=""),
    ]


def run(command):
    """The JSON object that the command prints."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"exit code {done.returncode} of {' '.join(map(str, command))}\n{done.stderr[-1500:]}")
    return json.loads(lines[-1])


def run_llm_c(program, steps=6):
    """tokens_per_s of llm.c's CPU trainer at B=4 T=64: the median of its first steps but for two."""
    command = ["stdbuf", "-oL", str(pathlib.Path(program).resolve())]  # line by line, although it writes into a pipe
    threads = {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    ms = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=pathlib.Path(program).resolve().parent,
                          env={**os.environ, **threads}) as process:
        for line in process.stdout:
            if found := re.match(r"step \d+:.*took ([0-9.]+) ms", line):
                ms.append(float(found.group(1)))
            if len(ms) == steps:
                process.kill()
    if len(ms) < steps:
        raise RuntimeError(f"{program} stopped after {len(ms)} steps (bench/peers/llm_c_inputs.py makes what it reads)")
    return {"tokens_per_s": 4 * 64 * 1e3 / statistics.median(ms[2:])}


def measure(row, toy, rounds, llm_c):
    ours, theirs, shares = [], [], []
    for _ in range(rounds):
        mine = run([toy, *row.ours])
        others = [run(p)[row.key] for p in row.peers]
        if llm_c and row.name.startswith("gpt2"):
            others.append(run_llm_c(llm_c)[row.key])
        ours.append(mine[row.key])
        theirs.append(min(others) if row.lower else max(others))
        shares.append(mine.get(row.share))
    ratios = sorted(t / o if row.lower else o / t for o, t in zip(ours, theirs))
    share = statistics.median(shares) if shares[0] is not None and row.key.endswith(("tps", "per_s")) else None
    return dict(name=row.name, what=row.what, ratio=statistics.median(ratios), least=ratios[0], most=ratios[-1], bar=row.bar,
                ours=statistics.median(ours), theirs=statistics.median(theirs), key=row.key, share=share, of=row.share)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f} at the start"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--toy", default=ROOT / "build/release/toy", help="the program (default: build/release/toy)")
    ap.add_argument("--only", nargs="+", metavar="NAME", help="these rows")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--llm-c", metavar="PROGRAM", help="llm.c's train_gpt2")
    ap.add_argument("--json", action="store_true", help="a JSON object for each row")
    ap.add_argument("--list", action="store_true", help="names the rows")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        chosen = rows(pathlib.Path(folder))
        if unknown := set(a.only or []) - {r.name for r in chosen}:
            ap.error(f"no row is called {', '.join(sorted(unknown))}; --list names them")
        chosen = [r for r in chosen if not a.only or r.name in a.only]
        if a.list:
            print("\n".join(f"{r.name:22} {r.what}" for r in chosen))
            return 0
        where = machine()
        for dtype in ("f32", "f16"):
            path = pathlib.Path(folder) / f"135m-{dtype}.gguf"
            if any(path in r.ours for r in chosen):
                subprocess.run([sys.executable, HERE / "random_gguf.py", path, "--dtype", dtype], check=True)
        if not a.json:
            print(f"{where}\n\n| | ratio | bar | toy | peer | toy's share of the ceiling |\n| --- | --- | --- | --- | --- | --- |")
        below = 0
        for row in chosen:
            try:
                r = measure(row, a.toy, a.rounds, a.llm_c)
            except RuntimeError as e:
                print(f"table: {row.name}: {e}", file=sys.stderr)
                below += 1
                continue
            below += r["ratio"] < r["bar"]
            share = f"{100 * r['share']:.0f}% of {'multiply-add' if 'fma' in r['of'] else 'read'}" if r["share"] else ""
            print(json.dumps(r) if a.json else
                  f"| {r['what']} | {r['ratio']:.2f} ({r['least']:.2f} to {r['most']:.2f}) | {r['bar']:.2f} | "
                  f"{r['ours']:.4g} | {r['theirs']:.4g} {r['key']} | {share} |", flush=True)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
