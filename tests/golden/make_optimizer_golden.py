#!/usr/bin/env python3
"""Make optimizers.golden.json: ten steps of each optimizer on four tensors.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_optimizer_golden.py            # writes beside this script
  $PY tests/golden/make_optimizer_golden.py --out DIR                            # writes elsewhere

AdamW, SGD and Adafactor are PyTorch's (torch.optim), in f64. Lion and Muon are plain NumPy statements of the papers,
below. 8-bit AdamW has no counterpart in PyTorch: tests/ops/adamw8_test.cpp states it as loops.

Weights and gradients are multiples of 1/512 that both sides make from a formula (`number`), so that they are exact in
f32 and no file holds them. Gradients do not depend on the weights. The file holds each case's options, in the names of
toy's OptimizerOptions, and the weights after steps 1 and 10.
"""
import argparse
import json
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
LR, STEPS, KEPT = 2.0**-6, 10, (1, 10)
# Name -> shape. The first is an embedding, which Muon leaves to AdamW, as it does the vector, which has no weight decay.
TENSORS = {
    "token_embd.weight": (8, 6),
    "blk.0.attn_norm.weight": (6,),
    "blk.0.ffn_up.weight": (10, 6),
    "blk.0.ffn_down.weight": (6, 10),
}


def number(tensor, step, i):
    """A multiple of 1/512 in [-1, 1): step 0 makes weights, the others gradients."""
    return ((i * 7919 + step * 104729 + tensor * 15485863) * 2654435761 % 2**32 // 2**22 - 512) / 512


def values(tensor, step):
    shape = list(TENSORS.values())[tensor]
    return np.array([number(tensor, step, i) for i in range(int(np.prod(shape)))]).reshape(shape)


def decay_of(case, name):
    return case.get("weight_decay", 0.0) if len(TENSORS[name]) > 1 else 0.0


def adamw_options(case):
    return {"betas": (case.get("beta1", 0.9), case.get("beta2", 0.95)), "eps": case.get("eps", 1e-8)}


def make_torch(case, name, weight):
    """torch.optim's optimizer of one tensor."""
    decay, kind = decay_of(case, name), case["optimizer"]
    if kind in ("adamw", "muon"):
        lr = LR * (case["adamw_factor"] if kind == "muon" else 1)
        return torch.optim.AdamW([weight], lr=lr, weight_decay=decay, **adamw_options(case))
    if kind == "sgd":
        return torch.optim.SGD([weight], lr=LR, momentum=case["momentum"], nesterov=case.get("nesterov", False),
                               weight_decay=decay)
    assert kind == "adafactor", kind
    return torch.optim.Adafactor([weight], lr=LR, beta2_decay=-case["decay_rate"], eps=(case["eps"], 1e-3),
                                 d=case["update_clip"], weight_decay=decay)


def run_torch(case, tensor, name):
    weight = torch.tensor(values(tensor, 0), dtype=torch.float64, requires_grad=True)
    optimizer = make_torch(case, name, weight)
    for step in range(1, STEPS + 1):
        weight.grad = torch.tensor(values(tensor, step), dtype=torch.float64)
        optimizer.step()
        yield weight.detach().numpy().copy()


def run_lion(case, tensor, name):
    """Chen et al. 2023, algorithm 2."""
    w, m = values(tensor, 0), np.zeros(TENSORS[name])
    for step in range(1, STEPS + 1):
        g = values(tensor, step)
        c = case["beta1"] * m + (1 - case["beta1"]) * g
        w = w - LR * (np.sign(c) + decay_of(case, name) * w)
        m = case["beta2"] * m + (1 - case["beta2"]) * g
        yield w


def newton_schulz(g):
    """Jordan et al. 2024: five steps of the quintic iteration, on the shorter side."""
    x = g / np.linalg.norm(g)
    if g.shape[0] > g.shape[1]:
        x = x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def run_muon(case, tensor, name):
    """Jordan et al. 2024; the decay and the scale match_rms as in Liu et al. 2025."""
    w, v, (rows, columns) = values(tensor, 0), np.zeros(TENSORS[name]), TENSORS[name]
    original = case["muon_scale"] == "original"
    scale = np.sqrt(max(1, rows / columns)) if original else 0.2 * np.sqrt(max(rows, columns))
    for step in range(1, STEPS + 1):
        g = values(tensor, step)
        v = case["momentum"] * v + g
        direction = g + case["momentum"] * v if case["nesterov"] else v
        w = w * (1 - LR * decay_of(case, name)) - LR * scale * newton_schulz(direction)
        yield w


CASES = [
    {"optimizer": "adamw", "weight_decay": 0.125, "beta1": 0.875, "beta2": 0.96875, "eps": 1e-3},
    {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.125},
    {"optimizer": "sgd", "momentum": 0.875, "weight_decay": 0.125},
    {"optimizer": "sgd", "momentum": 0.875, "nesterov": True, "weight_decay": 0.125},
    {"optimizer": "adafactor", "decay_rate": 0.75, "eps": 1e-15, "update_clip": 1.0, "relative_step": True,
     "weight_decay": 0.125},
    {"optimizer": "lion", "beta1": 0.875, "beta2": 0.96875, "weight_decay": 0.5},
    {"optimizer": "muon", "momentum": 0.9375, "nesterov": True, "weight_decay": 0.125, "muon_scale": "original",
     "adamw_factor": 0.5},
    {"optimizer": "muon", "momentum": 0.75, "nesterov": False, "weight_decay": 0.125, "muon_scale": "match-rms",
     "adamw_factor": 1.0},
]


def run(case, tensor, name):
    if case["optimizer"] == "lion":
        return run_lion(case, tensor, name)
    if case["optimizer"] == "muon" and name.startswith("blk.") and len(TENSORS[name]) > 1:
        return run_muon(case, tensor, name)
    return run_torch(case, tensor, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    out = parser.parse_args().out
    cases = []
    for case in CASES:
        weights = {}
        for tensor, name in enumerate(TENSORS):
            for step, w in enumerate(run(case, tensor, name), 1):
                if step in KEPT:
                    weights.setdefault(str(step), {})[name] = w.ravel().tolist()
        cases.append({"options": case, "weights": weights})
    golden = {"torch": torch.__version__, "numpy": np.__version__, "lr": LR, "cases": cases}
    (out / "optimizers.golden.json").write_text(json.dumps(golden) + "\n")
    print(f"{out / 'optimizers.golden.json'}: {len(cases)} cases")


if __name__ == "__main__":
    main()
