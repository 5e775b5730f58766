#!/usr/bin/env python3
"""Trained models against transformers in f32 (golden.json, by make_golden.py): tokens, log-probabilities, greedy texts,
chat templates, losses by position. What rounding costs: of activations, next to llama.cpp, and of keys and values.

  real_models_test.py TOY          # all but the last of:
  real_models_test.py TOY --far    # losses of more than 32,768 tokens by position, in windows of 8,192: minutes

Models that scripts/real_models.sh has not fetched into ${TOY_MODELS:-/opt/toy-models} are left out with a message; with
none the test is skipped (77).
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("TOY_MODELS", "/opt/toy-models")
EXACT = ["--exact", "--kv", "f32"]
NEAR = 1e-4  # nats, of a token: what f32 leaves of logits up to 40 in two orders of summation
KEPT = 1e-4  # nats per token: what keys and values in q8_0 may cost more than in f16
failures = []


def toy(*words):
    p = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True, encoding="utf-8")
    if p.returncode:
        sys.exit(f"real_models_test: toy {' '.join(map(str, words))}: {p.stderr.strip()[-500:]}")
    return p.stdout


def expect(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def losses(model, text, folder, *words):
    """Ids and log-probabilities of the tokens of a text after the first."""
    file, rows = os.path.join(folder, "text"), os.path.join(folder, "rows")
    with open(file, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    toy("eval", model, "--file", file, *words, "--logprobs-out", rows)
    with open(rows, encoding="utf-8") as f:
        tokens = [json.loads(line) for line in f]
    return [t["id"] for t in tokens], [t["logprob"] for t in tokens]


def check(name, want, folder):
    model = os.path.join(FOLDER, name)
    for case in want["texts"]:
        ids, values = losses(model, case["text"], folder, *EXACT)
        expect(ids == case["ids"][1:], f"{name}: ids of {case['text'][:30]!r}: {ids}")
        off = max(abs(a - b) for a, b in zip(values, case["logprobs"]))
        expect(off < NEAR, f"{name}: log-probabilities of {case['text'][:30]!r} are {off} off")
    for case in want["greedy"]:
        row = json.loads(toy("infer", model, "--prompt", case["prompt"], "-n", len(case["ids"]), "--temperature", 0, *EXACT,
                             "--json"))
        expect(row["ids"] == case["ids"][:len(row["ids"])] and (row["ids"] == case["ids"] or row["finish_reason"] == "stop"),
               f"{name}: after {case['prompt']!r}: {row['text']!r}, expected {case['text']!r}")
    for case in want["chats"]:
        file = os.path.join(folder, "chat.jsonl")
        with open(file, "w", encoding="utf-8") as f:
            f.write(json.dumps({"messages": case["messages"]}) + "\n")
        row = json.loads(toy("data", "show", file, "--model", model, "--json"))
        expect(row["text"] == case["text"], f"{name}: chat template: {row['text']!r}, expected {case['text']!r}")
        expect(row["ids"] == case["ids"], f"{name}: ids of a chat: {row['ids']}")
    check_by_position(name, want["long"], want["long"]["ids"], folder)


def check_by_position(name, case, ctx, folder):
    file = os.path.join(folder, "stories")
    toy("corpus", *case["corpus"], "--out", file)
    with open(file, encoding="utf-8", newline="") as f:
        ids, values = losses(os.path.join(FOLDER, name), f.read(), folder, *EXACT, "--ctx", ctx, "--stride", ctx)
    expect(len(ids) == case["ids"] - 1, f"{name}: the stories have {len(ids) + 1} tokens, expected {case['ids']}")
    if len(values) != case["ids"] - 1:
        return
    for i, mean in enumerate(case["means"]):
        part = values[i * case["bucket"]:(i + 1) * case["bucket"]]
        off = abs(sum(part) / len(part) + mean)
        print(f"{name}: windows of {ctx}, tokens from {i * case['bucket']} on: loss {mean}, {off:.1e} off")
        expect(off < NEAR, f"{name}: loss from token {i * case['bucket']} on is {off} off")


def divergence(model, file, *words):
    """Between predictions of a model in two ways, nats per token."""
    return json.loads(toy("eval", "kl", "--base", model, "--model", model, "--file", file, *words, "--json"))


def check_cache(model, folder):
    """In one window of 2,000 tokens and more."""
    with open(os.path.join(HERE, "..", "..", "README.md"), encoding="utf-8") as f:
        text = f.read()[:9000]
    file = os.path.join(folder, "readme")
    with open(file, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    same = ("--exact", "--ctx", 4096, "--base-with", "kv(f32)", "--model-with")
    f16, q8_0 = (divergence(model, file, *same, f"kv({kv})")["kl"] for kv in ("f16", "q8_0"))
    print(f"{model}: keys and values in f16 cost {f16:.1e} nats per token, in q8_0 {q8_0:.1e}")
    expect(q8_0 - f16 < KEPT, f"{model}: keys and values in q8_0: {q8_0} nats per token, in f16 {f16}")


def check_rounding(model, case, folder):
    """Activations in 8 bits, as by default: no worse than llama.cpp's, but for two standard errors."""
    file = os.path.join(folder, "rounding")
    toy("corpus", *case["corpus"], "--out", file)
    ours = divergence(model, file, "--ctx", case["ctx"], "--stride", case["ctx"], "--kv", "f16", "--base-with", "exact")
    print(f"{model}: rounded activations cost {ours['kl']:.5f} nats per token, in llama.cpp {case['llama_cpp']}")
    expect(ours["kl"] - 2 * ours["kl_error"] <= case["llama_cpp"],
           f"{model}: rounded activations: {ours['kl']} +- {ours['kl_error']} nats per token, in llama.cpp {case['llama_cpp']}")


def main():
    with open(os.path.join(HERE, "golden.json"), encoding="utf-8") as f:
        golden = json.load(f)
    found = 0
    for name, want in golden.items():
        path = os.path.join(FOLDER, name)
        if not os.path.exists(path):
            print(f"skipped: no {path}; scripts/real_models.sh fetches it")
            continue
        with open(path, "rb") as f:
            if hashlib.sha256(f.read()).hexdigest() != want["sha256"]:
                expect(False, f"{path} is not the file that scripts/real_models.sh fetches")
                continue
        found += 1
        with tempfile.TemporaryDirectory() as folder:
            if "--far" in sys.argv:
                check_by_position(name, want["far"], want["far"]["ctx"], folder)
                continue
            check(name, want, folder)
            check_cache(path, folder)
            check_rounding(path, want["rounding"], folder)
    sys.exit(1 if failures else 0 if found else 77)


if __name__ == "__main__":
    main()
