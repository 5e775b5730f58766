#!/usr/bin/env python3
"""Writes bert_mlm_tiny/, a BertForMaskedLM of random weights, and mlm.golden.json: its logits by transformers in f64, steps
of its training by PyTorch in f64 with a loss at hidden tokens alone, and how far f32 is from both.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_mlm_golden.py
"""
import json
import os

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM

import make_bert_golden as bert
from golden_files import HERE, write_json

FOLDER = os.path.join(HERE, "bert_mlm_tiny")
STEPS, LR, T = 10, 0.02, 16
TIED = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")


def make():
    config = BertConfig(vocab_size=bert.V, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=36,
                        max_position_embeddings=bert.C, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu")
    model = BertForMaskedLM(config)
    bert.weights(model)
    model.tie_weights()
    os.makedirs(FOLDER, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if k not in TIED},
              os.path.join(FOLDER, "model.safetensors"))
    write_json(FOLDER, "config.json", {"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": bert.V,
                               "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 36,
                               "max_position_embeddings": bert.C, "type_vocab_size": 2, "layer_norm_eps": 1e-3,
                               "hidden_act": "gelu", "tie_word_embeddings": True})
    write_json(FOLDER, "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    with open(os.path.join(FOLDER, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(bert.WORDS) + "\n")


def loaded(dtype):
    model = BertForMaskedLM.from_pretrained(FOLDER, attn_implementation="eager").to(dtype).eval()
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    return model


def logits_of(model, inputs):
    return model(torch.tensor(inputs)).logits


def train(inputs, targets, dtype):
    model, steps = loaded(dtype), []
    for _ in range(STEPS):
        loss = F.cross_entropy(logits_of(model, inputs).flatten(0, 1), torch.tensor(targets).flatten(), ignore_index=-1)
        model.zero_grad()
        loss.backward()
        parameters = list({id(p): p for p in model.parameters()}.values())
        steps.append((loss.item(), torch.sqrt(sum((p.grad.double() ** 2).sum() for p in parameters)).item()))
        with torch.no_grad():
            for p in parameters:
                p -= LR * p.grad
    return steps


def main():
    make()
    g = torch.Generator().manual_seed(5)
    words = torch.randint(5, bert.V, (4, T), generator=g)
    hidden = torch.rand((4, T), generator=g) < 0.25
    targets = torch.where(hidden, words, -1).tolist()
    inputs = torch.where(hidden, bert.WORDS.index("[MASK]"), words).tolist()
    with torch.no_grad():
        a, b = logits_of(loaded(torch.float64), inputs), logits_of(loaded(torch.float32), inputs).double()
    nll = F.cross_entropy(a.flatten(0, 1), words.flatten(), reduction="none")
    f64, f32 = train(inputs, targets, torch.float64), train(inputs, targets, torch.float32)
    golden = {"lr": LR, "tokens": T, "inputs": inputs, "targets": targets, "words": words.tolist(), "nll": nll.tolist(),
              "nll_error": (nll - F.cross_entropy(b.flatten(0, 1), words.flatten(), reduction="none")).abs().max().item(),
              "loss": [s[0] for s in f64], "norm": [s[1] for s in f64],
              "loss_error": max(abs(x[0] - y[0]) for x, y in zip(f64, f32)),
              "norm_error": max(abs(x[1] - y[1]) for x, y in zip(f64, f32))}
    print(f64[0], f64[-1], golden["loss_error"], golden["norm_error"])
    with open(os.path.join(HERE, "mlm.golden.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f)
        f.write("\n")


if __name__ == "__main__":
    main()
