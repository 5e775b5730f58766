#!/usr/bin/env python3
"""Make the golden files of projection lenses: ten steps of PyTorch on small Llamas with embeddings of another model.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_lens_golden.py             # writes beside this script

The blocks are those of llama_tied.model.gguf and llama_untied.model.gguf (make_llama_golden.py). Their embedding is replaced by
donor @ lens.T, with a frozen donor [V,E] and a trained lens [D,E]; so is a tied output. All is computed in f64 and rounded once.

  lens_NAME.golden.gguf    the batch, donor, lens; loss and every gradient (`grad.*`, that of the lens as grad.lens); the losses of
                           ten AdamW steps as in make_llama_golden.py, and the lens after them; the folded embedding before them;
                           the first D principal directions of the donor's rows (NumPy's SVD of the centred rows), signs as in toy
"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gguf
import numpy as np
import torch
import torch.nn.functional as F

import make_llama_golden as llama

E = 34  # of the donor


def principal_directions(table, count):
    directions = np.linalg.svd(table - table.mean(0), full_matrices=False)[2][:count]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], 1)
    return directions * np.sign(largest)


def make(name, out):
    shape = next(s for s in llama.SHAPES if s.name == name)
    reader = gguf.GGUFReader(HERE / f"{name}.model.gguf")
    weights = {t.name: np.array(t.data, dtype=np.float64).reshape(t.shape[::-1]) for t in reader.tensors}
    rng = np.random.RandomState(3)
    # Rows whose directions differ in size, so that the principal ones are far apart.
    donor = (rng.randn(shape.V, E) * 0.9 ** np.arange(E) @ np.linalg.qr(rng.randn(E, E))[0] + 0.3).astype(np.float32)
    lens = (rng.randn(shape.D, E) / np.sqrt(E)).astype(np.float32)
    ids = rng.randint(0, shape.V, size=(llama.B, llama.T + 1)).astype(np.int32)
    tokens, targets = ids[:, :-1].copy(), ids[:, 1:].copy()

    del weights["token_embd.weight"]
    w = {n: torch.tensor(a, requires_grad=True) for n, a in (weights | {"lens": lens.astype(np.float64)}).items()}
    table = torch.tensor(donor, dtype=torch.float64)

    def loss():
        with_embedding = w | {"token_embd.weight": table @ w["lens"].T}
        logits = llama.forward(torch.tensor(tokens, dtype=torch.long), with_embedding, shape)
        return F.cross_entropy(logits, torch.tensor(targets.reshape(-1), dtype=torch.long))

    results = {"tokens": tokens, "targets": targets, "donor": donor, "lens": lens}
    first = loss()
    results |= {"loss": first.detach().reshape(1).numpy()}
    results |= {"grad." + n: g.numpy() for n, g in zip(w, torch.autograd.grad(first, list(w.values())))}
    results["folded"] = (table @ w["lens"].T).detach().numpy()
    if shape.D <= E:
        results["directions"] = principal_directions(donor.astype(np.float64), shape.D)
    groups = [{"params": [p for p in w.values() if p.ndim >= 2], "weight_decay": llama.DECAY},
              {"params": [p for p in w.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=llama.LR, betas=llama.BETAS, eps=1e-4, foreach=False)
    losses = []
    for _ in range(llama.STEPS):
        optimizer.zero_grad()
        step = loss()
        step.backward()
        losses.append(step.item())
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0], losses
    results |= {"adamw.losses": np.array(losses), "adamw.lens": w["lens"].detach().numpy()}

    writer = gguf.GGUFWriter(out / f"lens_{name}.golden.gguf", "golden")
    for n, a in results.items():
        writer.add_tensor(n, a if a.dtype == np.int32 else np.ascontiguousarray(a, dtype=np.float32))
    llama.finish(writer)
    print(name, "losses", losses)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=HERE)
    out = ap.parse_args().out
    for name in ("llama_tied", "llama_untied"):
        make(name, out)


if __name__ == "__main__":
    main()
