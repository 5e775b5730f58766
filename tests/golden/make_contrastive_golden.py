#!/usr/bin/env python3
"""Writes contrastive.golden.json: steps of contrastive training of bert_tiny (make_bert_golden.py) by PyTorch in f64, and
how far its f32 is from them.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_contrastive_golden.py

The loss is that of sentence-transformers' MultipleNegativesRankingLoss, torch.nn.functional.cross_entropy of cosines
divided by a temperature; texts that are no wrong answers are left out of the softmax.
"""
import json
import os

import torch
import torch.nn.functional as F
from transformers import BertModel

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, LR, TEMPERATURE = 10, 0.02, 0.1


def vectors(model, texts, pooling):
    out = []
    for ids in texts:
        x = model(torch.tensor([ids])).last_hidden_state[0]
        out.append(x.mean(0) if pooling == "mean" else x[0 if pooling == "cls" else -1])
    return F.normalize(torch.stack(out), dim=-1)


def loss_of(model, rows, pooling):
    anchors = [r[0] for r in rows]
    texts = [(r[1], i) for i, r in enumerate(rows)] + [(r[2], None) for r in rows if len(r) > 2]
    scores = vectors(model, anchors, pooling) @ vectors(model, [t for t, _ in texts], pooling).T / TEMPERATURE
    left_out = torch.zeros_like(scores, dtype=torch.bool)
    for i, row in enumerate(rows):
        right = [row[0]] + [other[1] for other in rows if other[0] == row[0]]
        for k, (text, owner) in enumerate(texts):
            left_out[i, k] = text in right and owner != i
    return F.cross_entropy(scores.masked_fill(left_out, -torch.inf), torch.arange(len(rows)))


def train(rows, pooling, dtype):
    model = BertModel.from_pretrained(os.path.join(HERE, "bert_tiny"), add_pooling_layer=False,
                                      attn_implementation="eager").to(dtype).eval()
    steps = []
    for _ in range(STEPS):
        loss = loss_of(model, rows, pooling)
        model.zero_grad()
        loss.backward()
        steps.append((loss.item(), torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters())).item()))
        with torch.no_grad():
            for p in model.parameters():
                p -= LR * p.grad
    return steps


def main():
    g = torch.Generator().manual_seed(3)
    text = lambda n: [2] + torch.randint(5, 40, (n,), generator=g).tolist() + [3]
    plain = [[text(5), text(3)], [text(1), text(9), text(4)], [text(7), text(2)], [text(2), text(6), text(6)]]
    equal = [[text(5), text(3)], [text(1), text(9), text(4)], [text(7), text(2)], [text(2), text(6), text(6)]]
    equal[2][1] = equal[0][1]  # one answer to two anchors
    equal[3][0] = equal[1][0]  # two answers to one anchor
    equal[3][2] = equal[0][0]  # a negative that is another's anchor
    shared = [list(row) for row in plain]
    shared[2][0] = shared[1][0]  # two answers to one anchor,
    shared[0][1] = shared[2][1]  # of which one is another's answer
    shared[3][2] = shared[2][1]  # and a negative
    cases = []
    for name, rows, pooling in (("plain", plain, "mean"), ("plain", plain, "cls"), ("plain", plain, "last"),
                                ("equal texts", equal, "mean"), ("shared answers", shared, "mean")):
        f64, f32 = train(rows, pooling, torch.float64), train(rows, pooling, torch.float32)
        cases.append({"name": name, "rows": rows, "pooling": pooling,
                      "loss": [round(a[0], 12) for a in f64], "norm": [round(a[1], 12) for a in f64],
                      "loss_error": max(abs(a[0] - b[0]) for a, b in zip(f64, f32)),
                      "norm_error": max(abs(a[1] - b[1]) for a, b in zip(f64, f32))})
        print(name, pooling, f64[0], f64[-1], cases[-1]["loss_error"], cases[-1]["norm_error"])
    with open(os.path.join(HERE, "contrastive.golden.json"), "w", encoding="utf-8") as f:
        json.dump({"lr": LR, "temperature": TEMPERATURE, "cases": cases}, f)
        f.write("\n")


if __name__ == "__main__":
    main()
