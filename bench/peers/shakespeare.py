#!/usr/bin/env python3
"""Trains one model in toy and in PyTorch on Tiny Shakespeare and compares what both reach on the validation text.

  PY=$(scripts/peers.sh) && $PY bench/peers/shakespeare.py [--toy build/release/toy] [--steps 2000] [--out FOLDER]

The folder (default: out/shakespeare) keeps each finished run, so a second call makes only the missing ones. Remove the folder
to start over.

Both start from the same weights (a GGUF that toy writes) and see the same batches in the same order, with the same AdamW,
clipping and schedule: bytes, L=4, D=128, T=128, B=16, 0.77 M parameters. PyTorch trains twice, the second time with the
sequences of every batch in reverse order, which only changes the order in which gradients are summed. The script fails
(exit code 1) if the validation losses of toy and PyTorch differ by 0.5% or more, and by three times the difference of
PyTorch's two runs or more. It takes about 10 minutes on 2 cores and is not part of the tests.

Only the initial weights come from toy. The script computes the rest itself: the validation part of the text
(src/train/run.cpp), the windows of every batch (docs/data.md), the learning rate (src/train/schedule.cpp), and the windows of
the evaluation. The model is that of the golden files (tests/golden/make_llama_golden.py).
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a machine that others use, spinning threads starve each other
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from make_llama_golden import Shape, forward

B, T, LR, FINAL, SEED = 16, 128, 2e-3, 0.1, 1
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
# `--size small` with bytes; the golden script's letters.
SHAPE = Shape("small", D=128, H=4, K=2, P=32, F=352, V=256, L=4, tied=True, base=1e4, eps=1e-5, seed=0)
RELATIVE, TIMES_VARIATION = 0.005, 3


# ---- batches

M32, M64 = 2**32 - 1, 2**64 - 1


def philox(key, low, high):
    """Philox4x32-10 of 64-bit integers (one key; counters may be numpy arrays of uint64): four words as uint64."""
    low, high = np.asarray(low, np.uint64), np.asarray(high, np.uint64)
    m, s = np.uint64(M32), np.uint64(32)
    k0, k1 = key & M32, key >> 32
    c0, c1, c2, c3 = low & m, low >> s, high & m, high >> s
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> s) ^ c1 ^ np.uint64(k0), p1 & m, (p0 >> s) ^ c3 ^ np.uint64(k1), p0 & m
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def hash_name(name):  # FNV-1a
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 & M64
    return h


def below(seed, stream, i, n):
    words = philox(seed, i // 2, hash_name(stream))
    bits = int(words[i % 2 * 2]) << 32 | int(words[i % 2 * 2 + 1])
    return bits * n >> 64


def permute(index, n, key, epoch):
    """The place in [0, n) of each index, by epoch: six Feistel rounds, repeated until the result is inside."""
    half = 1
    while 1 << 2 * half < n:
        half += 1
    mask, h = np.uint64((1 << half) - 1), np.uint64(half)
    value, outside = index.astype(np.uint64), np.ones(len(index), bool)
    while outside.any():
        left, right = value >> h, value & mask
        for round in range(6):
            mixed = philox(key, right << np.uint64(8) | np.uint64(round), epoch)[0]
            left, right = right, (left ^ mixed) & mask
        value = np.where(outside, left << h | right, value)
        outside = value >= n
    return value.astype(np.int64)


def batches(ids, steps):
    """Inputs and targets of every step: [steps,B,T] each."""
    per_epoch = max(1, (len(ids) - T) // T)
    room = min(T, len(ids) - per_epoch * T)
    window = np.arange(steps * B)
    epoch = window // per_epoch
    starts = np.array([below(SEED, "epoch start", int(e), room) for e in range(int(epoch.max()) + 1)])
    place = permute(window % per_epoch, per_epoch, hash_name("epoch order") ^ SEED, epoch.astype(np.uint64))
    first = starts[epoch] + place * T
    rows = first[:, None] + np.arange(T)
    return ids[rows].reshape(steps, B, T), ids[rows + 1].reshape(steps, B, T)


def split(text):
    """Training and validation ids: the last twentieth, from the next blank line on."""
    at = int(len(text) * (1 - 0.05))
    for mark in (b"\n\n", b"\n"):
        found = text.find(mark, at)
        if found >= 0 and found - at < len(text) // 20:
            at = found + len(mark)
            break
    ids = np.frombuffer(text, np.uint8).astype(np.int64)
    return ids[:at], ids[at:]


# ---- PyTorch

def rate(step, steps):
    warmup = min(200, steps // 20)
    if step < warmup:
        return LR * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup - 1)
    return LR * (FINAL + (1 - FINAL) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


def load(path):
    """Weights of a GGUF of f32, row-major, by name."""
    return {t.name: torch.tensor(np.array(t.data), dtype=torch.float32, requires_grad=True)
            for t in gguf.GGUFReader(path).tensors}


def validation_loss(w, ids):
    """Mean over every token but the first: windows of T at stride T/4, each token counted once."""
    windows, counted, begin = [], 0, 0
    while counted + 1 < len(ids):
        length = min(T, len(ids) - 1 - begin)
        windows.append((begin, length, counted - begin))
        counted, begin = begin + length, begin + T // 4
    nats = tokens = 0
    with torch.no_grad():
        for at in range(0, len(windows), 64):
            some = windows[at:at + 64]
            rows = np.zeros((len(some), T + 1), np.int64)
            wanted = np.zeros((len(some), T), bool)
            for row, (begin, length, skip) in enumerate(some):
                rows[row, :length + 1] = ids[begin:begin + length + 1]
                wanted[row, skip:length] = True
            logits = forward(torch.tensor(rows[:, :-1]), w, SHAPE)
            nll = F.cross_entropy(logits, torch.tensor(rows[:, 1:]).reshape(-1), reduction="none")
            nll = nll[torch.tensor(wanted).reshape(-1)]
            nats, tokens = nats + nll.double().sum().item(), tokens + len(nll)
    assert tokens == len(ids) - 1
    return nats / tokens


def train_torch(init, train_ids, validation_ids, steps, reverse):
    w = load(init)
    groups = [{"params": [p for p in w.values() if p.ndim >= 2], "weight_decay": DECAY},
              {"params": [p for p in w.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    inputs, targets = batches(train_ids, steps)
    losses, begin = [], time.time()
    for step in range(steps):
        order = slice(None, None, -1) if reverse else slice(None)
        tokens = torch.tensor(np.ascontiguousarray(inputs[step][order]))
        wanted = torch.tensor(np.ascontiguousarray(targets[step][order]))
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(tokens, w, SHAPE), wanted.reshape(-1))
        loss.backward()
        norm = torch.sqrt(sum(p.grad.square().sum() for p in w.values()))
        for p in w.values():
            p.grad *= torch.clamp(CLIP / norm, max=1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0:
            print(f"PyTorch{' reversed' if reverse else ''}: step {step + 1}: loss={losses[-1]:.6f}, "
                  f"{time.time() - begin:.0f} s", file=sys.stderr, flush=True)
    seconds = time.time() - begin
    return {"losses": losses, "validation": validation_loss(w, validation_ids), "seconds": seconds}


# ---- toy

def run_toy(toy, arguments):
    done = subprocess.run([toy, "train", *arguments, "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"shakespeare: toy train failed with exit code {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def initial_weights(toy, corpus, folder):
    """What `toy train from-scratch` begins with: one step of a rate that no weight can feel."""
    run_toy(toy, ["from-scratch", "--corpus", corpus, "--size", "small", "--tokenizer", "bytes", "--steps", "1", "--lr",
                  "1e-30", "--weight-decay", "0", "--val-fraction", "0", "--seed", str(SEED), "--batch", "1",
                  "--tokens", "8", "--out", folder])
    return f"{folder}/model.gguf"


def train_toy(toy, corpus, init, steps, folder, threads):
    lines = run_toy(toy, ["warm-start", "--init", init, "--corpus", corpus, "--steps", str(steps), "--batch", str(B),
                          "--tokens", str(T), "--lr", str(LR), "--final-lr", str(FINAL), "--weight-decay", str(DECAY),
                          "--clip", str(CLIP), "--seed", str(SEED), "--compute", "f32", "--threads", str(threads),
                          "--out", folder])
    end = lines[-1]
    validation = [line["loss"] for line in lines if line["kind"] == "eval" and line["whole"]][-1]
    return {"losses": [line["loss"] for line in lines if line["kind"] == "step"], "validation": validation,
            "seconds": end["seconds"]}


def kept(path, run):
    if not path.exists():
        result = json.dumps(run())
        path.write_text(result)
    return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toy", default=str(ROOT / "build/release/toy"))
    parser.add_argument("--corpus", default=str(ROOT.parent / "shared/data/tinyshakespeare.txt"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out/shakespeare", help="folder for results")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    train_ids, validation_ids = split(pathlib.Path(a.corpus).read_bytes())
    out = a.out / str(a.steps)
    out.mkdir(parents=True, exist_ok=True)
    init = str(out / "init/model.gguf")
    if not os.path.exists(init):
        initial_weights(a.toy, a.corpus, str(out / "init"))
    work = {"toy": lambda: train_toy(a.toy, a.corpus, init, a.steps, str(out / "toy"), a.threads),
            "PyTorch": lambda: train_torch(init, train_ids, validation_ids, a.steps, reverse=False),
            "PyTorch, batches reversed": lambda: train_torch(init, train_ids, validation_ids, a.steps, reverse=True)}
    runs = {name: kept(out / f"{name.replace(', ', '-').replace(' ', '-')}.json", run) for name, run in work.items()}

    mine, theirs, again = runs.values()
    # Before rounding errors have grown, every loss must agree: another batch, weight or rule shows at once.
    first = max(abs(x - y) / y for x, y in zip(mine["losses"][:10], theirs["losses"][:10]))
    variation = abs(again["validation"] - theirs["validation"])
    allowed = max(RELATIVE * theirs["validation"], TIMES_VARIATION * variation)
    difference = abs(mine["validation"] - theirs["validation"])
    for name, run in runs.items():
        print(f"{name:26} validation loss {run['validation']:.6f} nats per byte, {run['seconds']:.0f} s")
    print(f"first ten training losses: largest relative difference {first:.1e} (allowed 1e-4)")
    print(f"validation: difference {difference:.6f}, PyTorch's own {variation:.6f}, allowed {allowed:.6f}")
    passed = difference <= allowed and first <= 1e-4
    print("equal" if passed else "NOT EQUAL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
