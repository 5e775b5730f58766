#!/usr/bin/env python3
"""Writes bert_class_tiny/, a BertForSequenceClassification of three classes with random weights, and classify.golden.json:
the logits that transformers computes with it in f64, steps of its training by PyTorch in f64, and how far f32 is from both.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_classify_golden.py
"""
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

import make_bert_golden as bert
from golden_files import HERE, write_json

FOLDER = os.path.join(HERE, "bert_class_tiny")
LABELS = ["bad", "so so", "good"]
STEPS, LR = 10, 0.02


def make():
    config = BertConfig(vocab_size=bert.V, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=36,
                        max_position_embeddings=bert.C, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu",
                        id2label=dict(enumerate(LABELS)))
    model = BertForSequenceClassification(config)
    bert.weights(model)
    os.makedirs(FOLDER, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if "position_ids" not in k},
              os.path.join(FOLDER, "model.safetensors"))
    write_json(FOLDER, "config.json", {"architectures": ["BertForSequenceClassification"], "model_type": "bert",
                               "vocab_size": bert.V, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
                               "intermediate_size": 36, "max_position_embeddings": bert.C, "type_vocab_size": 2,
                               "layer_norm_eps": 1e-3, "hidden_act": "gelu",
                               "id2label": {str(i): name for i, name in enumerate(LABELS)}})
    write_json(FOLDER, "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    with open(os.path.join(FOLDER, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(bert.WORDS) + "\n")


def loaded(dtype):
    return BertForSequenceClassification.from_pretrained(FOLDER, attn_implementation="eager").to(dtype).eval()


def logits_of(model, ids):
    return model(torch.tensor([ids])).logits[0]


def train(rows, smoothing, dtype):
    model, steps = loaded(dtype), []
    for _ in range(STEPS):
        logits = torch.stack([logits_of(model, r["ids"]) for r in rows])
        loss = F.cross_entropy(logits, torch.tensor([r["label"] for r in rows]), label_smoothing=smoothing)
        model.zero_grad()
        loss.backward()
        steps.append((loss.item(), torch.sqrt(sum((p.grad.double() ** 2).sum() for p in model.parameters())).item()))
        with torch.no_grad():
            for p in model.parameters():
                p -= LR * p.grad
    return steps


def main():
    make()
    tokenizer = BertTokenizer.from_pretrained(FOLDER)
    texts = []
    with torch.no_grad():
        f32, f64 = loaded(torch.float32), loaded(torch.float64)
        for text in [t for t in bert.TEXTS if t] + ["swimming old otter, " * 14 + "end"]:
            ids = tokenizer(text, truncation=True, max_length=bert.C).input_ids
            a, b = logits_of(f64, ids), logits_of(f32, ids).double()
            texts.append({"text": text, "ids": ids, "logits": a.tolist(), "error": (a - b).abs().max().item()})
    rows = [{"ids": t["ids"], "label": i % 3} for i, t in enumerate(texts[:4])]
    cases = []
    for smoothing in (0.0, 0.1):
        f64, f32 = train(rows, smoothing, torch.float64), train(rows, smoothing, torch.float32)
        cases.append({"smoothing": smoothing, "loss": [a[0] for a in f64], "norm": [a[1] for a in f64],
                      "loss_error": max(abs(a[0] - b[0]) for a, b in zip(f64, f32)),
                      "norm_error": max(abs(a[1] - b[1]) for a, b in zip(f64, f32))})
        print(smoothing, f64[0], f64[-1], cases[-1]["loss_error"], cases[-1]["norm_error"])
    with open(os.path.join(HERE, "classify.golden.json"), "w", encoding="utf-8") as f:
        json.dump({"labels": LABELS, "lr": LR, "texts": texts, "rows": rows, "cases": cases}, f, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
