#!/usr/bin/env python3
"""all-MiniLM-L6-v2 against PyTorch in f32 (embeddings.golden.json, by make_embedding_golden.py): tokens and vectors of
1,000 texts, together and each by itself, and as Q8_0.

  embeddings_test.py TOY

Without the model, which scripts/real_models.sh fetches into ${TOY_MODELS:-/opt/toy-models}, the test is skipped (77).
"""
import array
import json
import math
import os
import subprocess
import sys
import tempfile
import zlib

from embedding_texts import sampled, texts

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(os.environ.get("TOY_MODELS", "/opt/toy-models"), "all-minilm-l6-v2")
NEAR = 1e-5
WIDTH = 384
failures = []


def toy(*words):
    p = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True, encoding="utf-8")
    if p.returncode:
        sys.exit(f"embeddings_test: toy {' '.join(map(str, words))}: {p.stderr.strip()[-500:]}")
    return p.stdout


def expect(ok, what):
    if not ok:
        failures.append(what)
        if len(failures) < 20:
            print("FAILED:", what)


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def embed(model, path, *words):
    return [json.loads(line) for line in toy("embed", model, "--file", path, "--json", *words).splitlines()]


def f32(values):
    return array.array("f", values)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))


def main():
    if not os.path.isdir(MODEL):
        print(f"skipped: no {MODEL}; scripts/real_models.sh fetches it")
        sys.exit(77)
    with open(os.path.join(HERE, "embeddings.golden.json"), encoding="utf-8") as f:
        golden = json.load(f)["rows"]
    with tempfile.TemporaryDirectory() as folder:
        model, file, small = (os.path.join(folder, name) for name in ("minilm.gguf", "texts.jsonl", "q8_0.gguf"))
        toy("convert", MODEL, model)
        all_texts = texts()
        write_lines(file, [{"text": t} for t in all_texts])
        got = embed(model, file)
        expect(len(got) == len(golden), f"{len(got)} vectors of {len(golden)} texts")
        worst = 0.0
        for i, (row, want) in enumerate(zip(got, golden)):
            expect(row["tokens"] == want["tokens"], f"text {i} has {row['tokens']} tokens, expected {want['tokens']}")
            v = row["embedding"]
            some = max(abs(v[k] - w) for k, w in zip(sampled(i, WIDTH), want["some"]))
            worst = max(worst, some, *(abs(a - b) for a, b in zip(v, want.get("all", []))), 0.0)
            expect(some < NEAR, f"text {i} is {some} off")
        expect(worst < NEAR, f"the largest difference is {worst}")
        print(f"1,000 texts: largest difference {worst:.2e}")
        for i in range(0, 1000, 25):  # those that were not cut, and fit into an argument
            if golden[i]["tokens"] < 256 and "\0" not in all_texts[i]:
                ids = json.loads(toy("tokenizer", "encode", model, "--text", all_texts[i], "--json"))
                expect(zlib.crc32(json.dumps(ids).encode()) == golden[i]["crc"], f"ids of text {i}: {ids[:12]}")
        for i in (0, 1, 333, 998, 999):
            write_lines(file, [{"text": all_texts[i]}])
            alone = embed(model, file, "--threads", 1)[0]["embedding"]
            expect(f32(alone) == f32(got[i]["embedding"]), f"text {i} has other bits by itself")
        toy("quantize", model, small, "--type", "Q8_0")
        picked = list(range(0, 1000, 20))
        write_lines(file, [{"text": all_texts[i]} for i in picked])
        least = min(cosine(row["embedding"], got[i]["embedding"]) for row, i in zip(embed(small, file), picked))
        print(f"Q8_0: least cosine {least:.6f}")
        expect(least >= 0.999, f"Q8_0 has a cosine of {least}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
