#!/usr/bin/env python3
"""How cost grows as the work grows: a Markdown table of processor time and memory for each size of each kind of work.

  bench/scaling.py build/release/toy                    # writes 2 GB of text; --most 100000000 for less

Times are processor seconds of one thread, user and system, the least of --repeat runs: other programs share caches and
memory, and disturb even these. Of models (contexts, sequences, layers, vocabularies) it is the time on the clock that
`toy bench infer` says of the prompt and of the tokens after it, without what it measures of the machine. "Of each" is
the time by the size. "Growth" compares a row with the one before it: the exponent e where time grows as size^e. Linear
work has 1, constants before it make it smaller; attention over a context has 2 in its part. What is above 1.2 is marked.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

SHAPE = {"d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv": 2, "d_head": 16, "d_ff": 176, "vocab": 256, "context": 65536}
TINY = ["--size", "tiny", "--tokenizer", "bpe:400", "--steps", "1", "--threads", "1"]


class Bench:
    def __init__(self, toy, folder):
        self.toy, self.folder = os.path.abspath(toy), folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "cache")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def cost(self, *words):
        """Processor seconds and peak MiB of a command."""
        with open(self.path("stdout"), "wb") as out, open(self.path("stderr"), "wb") as err:
            p = subprocess.Popen([self.toy, *map(str, words)], stdout=out, stderr=err, cwd=self.folder, env=self.environment)
            _, status, used = os.wait4(p.pid, 0)
        if status:
            with open(self.path("stderr"), encoding="utf-8") as f:
                sys.exit(f"scaling: toy {' '.join(map(str, words))[:300]}: {f.read().strip()[-500:]}")
        return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024

    def infer_shape(self, prompt, decode, parallel=1, **changes):
        shape = self.write("shape.json", json.dumps({**SHAPE, **changes}))
        self.cost("bench", "infer", "--shape", shape, "--prompt", prompt, "--decode", decode, "--parallel", parallel,
                  "--repeat", 1, "--threads", 1, "--json")
        with open(self.path("stdout"), encoding="utf-8") as f:
            j = json.load(f)
        return parallel * (prompt / j["prefill_tps"] + decode / j["decode_tps"]), j["peak_rss_mib"]

    def corpus(self, size):
        path = self.path(f"{size}.txt")
        if not os.path.exists(path):
            self.cost("corpus", "stories", "--bytes", size, "--seed", 1, "--out", path)
        return path

    def run(self):
        """A run of one step of a tiny model."""
        path = self.path("run")
        if not os.path.exists(path):
            self.cost("train", "from-scratch", "--corpus", self.corpus(100_000), *TINY, "--out", path)
        return path

    # Each kind of work: a size to its cost.

    def context(self, n):
        return self.infer_shape(n, 8)

    def batch(self, n):
        return self.infer_shape(32, 64, parallel=n)

    def layers(self, n):
        return self.infer_shape(64, 64, n_layers=n)

    def vocabulary(self, n):
        return self.infer_shape(64, 64, vocab=n)

    def corpus_bytes(self, n):
        for made in ("of_corpus", "cache"):
            shutil.rmtree(self.path(made), ignore_errors=True)
        return self.cost("train", "from-scratch", "--corpus", self.corpus(n), *TINY, "--eval-tokens", 4096, "--out",
                         self.path("of_corpus"))

    def runs(self, n):
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        for i in range(n):
            to = self.path(f"runs/r{i:05}")
            os.makedirs(to)
            for name in os.listdir(self.run()):
                if name.endswith(".json") or name.endswith(".jsonl"):
                    shutil.copy(os.path.join(self.run(), name), to)
        return self.cost("runs", "list", self.path("runs"))

    def adapters(self, n):
        adapter = self.path("adapter")
        if not os.path.exists(adapter):
            self.cost("train", "lora", "--model", self.run(), "--corpus", self.corpus(100_000), "--steps", 1, "--threads", 1,
                      "--out", adapter)
        words = [w for i in range(n) for w in ("--lora", f"{adapter}:{1 + i / 1000}")]
        return self.cost("infer", self.run(), *words, "--prompt", "Once", "-n", 32, "--threads", 1)

    def grammar_rules(self, n):
        rules = "".join(f'r{i} ::= "{i} " ("a" | "b") (r{i + 1 if i + 1 < n else 0})?\n' for i in range(n))
        grammar = self.write("grammar.gbnf", f"root ::= {' | '.join(f'r{i}' for i in range(n))}\n{rules}")
        return self.cost("infer", self.run(), "--prompt", "Once", "-n", 32, "--grammar", grammar, "--threads", 1)

    def turns(self, n):
        messages = [{"role": ("user", "assistant")[i % 2], "content": f"Message {i} of some usual length, as chats have."}
                    for i in range(n)]
        rows = self.write("rows.jsonl", json.dumps({"messages": messages}) + "\n")
        return self.cost("data", "show", rows, "--model", os.path.join(self.run(), "model.gguf"), "--chat-template", "plain",
                         "--json")


KINDS = {
    "context": ("tokens of a context", [512, 2048, 8192, 32768]),
    "batch": ("sequences together, 64 tokens each", [1, 4, 16, 64]),
    "layers": ("layers", [4, 16, 64, 128]),
    "vocabulary": ("tokens of the vocabulary", [1024, 16384, 262144]),
    "corpus_bytes": ("bytes of a corpus", [10**6, 16 * 10**6, 256 * 10**6, 2 * 10**9]),
    "runs": ("runs that are listed", [10, 100, 1000, 10000]),
    "adapters": ("adapters", [1, 4, 16, 64, 256]),
    "grammar_rules": ("rules of a grammar", [1, 10, 100, 1000]),
    "turns": ("turns of a row", [50, 200, 800, 3200]),
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("toy")
    ap.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--most", type=int, default=1 << 40, help="leave larger sizes out")
    args = ap.parse_args()
    if unknown := [kind for kind in args.only.split(",") if kind not in KINDS]:
        ap.error(f"--only {unknown[0]}: use {', '.join(KINDS)}")
    print("| work | size | seconds | of each, us | MiB | growth |\n|" + " --- |" * 6, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.toy, folder)
        for kind in args.only.split(","):
            what, sizes = KINDS[kind]
            before = None
            for size in [s for s in sizes if s <= args.most]:
                seconds, mib = min(getattr(bench, kind)(size) for _ in range(args.repeat))
                growth = ""
                if before:
                    e = math.log(max(seconds, 1e-3) / max(before[1], 1e-3)) / math.log(size / before[0])
                    growth = f"{e:.2f}" + (" !" if e > 1.2 else "")
                print(f"| {what} | {size} | {seconds:.3g} | {seconds / size * 1e6:.3g} | {mib:.0f} | {growth} |", flush=True)
                before = size, seconds


if __name__ == "__main__":
    main()
