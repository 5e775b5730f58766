#!/usr/bin/env python3
"""Make the golden files of `toy eval kl`, `lmc` and `choices`: what transformers computes in f64 for small files and texts.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_compare_golden.py [--out DIR]

The model is eval_bytes.model.gguf (make_eval_golden.py, run that first), with a token for each byte. The other model of kl and
lmc has the same weights, but for output_norm.weight times 0.5 and blk.1.ffn_down.weight times 2: exact in f32.

  eval_compare.golden.json   KL divergence and its percentiles, agreement, perplexities, probabilities; the loss on the line
  eval_choices.golden.json   questions in the published forms of HellaSwag, ARC and WinoGrande and in the plain form, and for
                             each choice its context, text, length and log-likelihood; accuracies and their errors

Contexts and scores follow lm-evaluation-harness (its tasks' process_docs and multiple_choice), written again from its documentation.
"""
import argparse
import json
import pathlib
import re

import gguf
import numpy as np
import torch

import make_eval_golden as byte_model
import make_family_golden as family
import make_llama_golden as llama

HERE = pathlib.Path(__file__).resolve().parent
SHAPE, CONTEXT, STRIDE = byte_model.SHAPE, 128, 64
CHANGES = {"output_norm.weight": 0.5, "blk.1.ffn_down.weight": 2.0}
ALPHAS = [0, 0.3, 1]
PERCENTILES = [100, 99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1, 0]

QUESTIONS = [
    # HellaSwag as it is published; on the Hub label is a text.
    {"ind": 24, "activity_label": "Roof", "ctx_a": "A man is on a roof.", "ctx_b": "he SEES", "split": "val", "label": 2,
     "endings": ["a pair of skis.", "level tiles.", "a rubik's cube.", "the sky."]},
    {"ind": 7, "activity_label": "Bread", "ctx_a": "How to bake", "ctx_b": "", "label": "0",
     "endings": ["[header] Mix it. [title] Wait  [step] long.", " flour", "caf\u00e9 \u20ac", "x [open"]},
    # ARC as it is published, and as the Hub has it.
    {"id": "M_1", "question": {"stem": "What causes a fever?", "choices": [
        {"text": "a leg", "label": "A"}, {"text": "bacteria in blood", "label": "B"}, {"text": "food", "label": "C"}]},
     "answerKey": "B"},
    {"id": "M_2", "question": "Which one is a metal?", "choices": {"text": ["gold", "wood", "air", "rain", "wool"],
                                                                   "label": ["1", "2", "3", "4", "5"]}, "answerKey": "1"},
    # WinoGrande.
    {"qID": "3", "sentence": "Ann was better than May so _ got the hard cases.", "option1": "Ann", "option2": "May",
     "answer": "1"},
    {"qID": "4", "sentence": "The cup did not fit the box: the _ was too big .", "option1": "cup", "option2": "box",
     "answer": "2"},
    # The plain form. A context that ends in spaces, one that is too long, one choice that begins like another.
    {"prompt": "Once upon a time ", "choices": ["there was", "there were", "x"], "answer": 2},
    {"prompt": "b" * 140, "choices": [" one", " two hundred"], "answer": " two hundred"},
]


def preprocess(text):
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def pairs_of(q):
    """[(context, continuation, length)], index of the right one."""
    if "endings" in q:
        context = preprocess(q["activity_label"] + ": " + q["ctx_a"] + " " + q["ctx_b"].capitalize())
        return [(context, " " + e, len(e)) for e in map(preprocess, q["endings"])], int(q["label"])
    if "option1" in q:
        at = q["sentence"].index("_")
        rest = q["sentence"][at + 1:].strip()
        return [(q["sentence"][:at] + q[o], " " + rest, len(rest)) for o in ("option1", "option2")], int(q["answer"]) - 1
    if "answerKey" in q:
        if isinstance(q["question"], dict):
            stem, texts = q["question"]["stem"], [c["text"] for c in q["question"]["choices"]]
            labels = [c["label"] for c in q["question"]["choices"]]
        else:
            stem, texts, labels = q["question"], q["choices"]["text"], q["choices"]["label"]
        return [(f"Question: {stem}\nAnswer:", " " + t, len(t)) for t in texts], labels.index(q["answerKey"])
    answer = q["choices"].index(q["answer"]) if isinstance(q["answer"], str) else q["answer"]
    return [(q["prompt"], c, len(c)) for c in q["choices"]], answer


def load(weights):
    model = llama.hf_model(SHAPE).double()
    params = dict(model.named_parameters())
    with torch.no_grad():
        for name, a in weights.items():
            heads = SHAPE.H if "attn_q." in name else SHAPE.K if "attn_k." in name else None
            params[llama.hf_name(name)].copy_(torch.tensor(llama.hf_rows(a, heads) if heads else a))
    return model


def log_probabilities(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)


def windows(model, ids):
    """log p [V] before every byte but the first, each from a window that begins at a multiple of the stride."""
    rows, scored, begin = [], 0, 0
    while scored + 1 < len(ids):
        length = min(CONTEXT, len(ids) - 1 - begin)
        p = log_probabilities(model, ids[begin:begin + length])
        for i in range(length):
            if begin + i + 1 > scored:
                rows.append(p[i])
                scored = begin + i + 1
        begin += STRIDE
    return torch.stack(rows)


def largest_logit(model, ids):
    with torch.no_grad():
        return max(float(model(torch.tensor([ids[i:i + CONTEXT]])).logits.abs().max()) for i in range(0, len(ids), STRIDE))


def compare(base, other, line):
    ids = list(byte_model.TEXT.encode())
    targets = torch.tensor(ids[1:])[:, None]
    p, q = windows(base, ids), windows(other, ids)
    kl = (p.exp() * (p - q)).sum(-1).numpy()
    of_p, of_q = p.gather(1, targets)[:, 0].numpy(), q.gather(1, targets)[:, 0].numpy()
    change = np.exp(of_q) - np.exp(of_p)
    losses = [-float(windows(m, ids).gather(1, targets).mean()) for m in line]
    return {"made_by": "tests/golden/make_compare_golden.py", "text": byte_model.TEXT, "ctx": CONTEXT, "stride": STRIDE,
            "changes": CHANGES, "tokens": len(kl), "kl": kl.mean(), "same_top": float((p.argmax(-1) == q.argmax(-1)).double().mean()),
            "base_nats": -of_p.mean(), "nats": -of_q.mean(), "log_ratio": (of_p - of_q).mean(), "change": change.mean(),
            "rms_change": float(np.sqrt((change ** 2).mean())), "kl_percentiles": list(np.percentile(kl, PERCENTILES)),
            "change_percentiles": list(np.percentile(change, PERCENTILES)),
            "alphas": ALPHAS, "losses": losses,
            "largest_logit": max(largest_logit(m, ids) for m in (base, other))}


def choices(model):
    rows, right, right_normalized = [], [], []
    for question in QUESTIONS:
        pairs, answer = pairs_of(question)
        lls = []
        for context, text, _ in pairs:
            spaces = len(context) - len(context.rstrip())
            whole, begin = list((context + text).encode()), len(context[:len(context) - spaces].encode())
            over = max(0, len(whole) - 1 - CONTEXT)
            whole, begin = whole[over:], begin - over
            p = log_probabilities(model, whole[:-1])
            lls.append(sum(float(p[i - 1, whole[i]]) for i in range(begin, len(whole))))
        lengths = [n for _, _, n in pairs]
        best, best_normalized = int(np.argmax(lls)), int(np.argmax(np.array(lls) / np.array(lengths)))
        right.append(best == answer), right_normalized.append(best_normalized == answer)
        rows.append({"question": question, "contexts": [c for c, _, _ in pairs], "texts": [t for _, t, _ in pairs],
                     "lengths": lengths, "answer": answer, "logprobs": lls, "best": best,
                     "best_by_character": best_normalized})
    error = lambda v: float(np.std(v, ddof=1) / np.sqrt(len(v)))
    return {"made_by": "tests/golden/make_compare_golden.py", "rows": rows, "acc": float(np.mean(right)),
            "acc_stderr": error(right), "acc_norm": float(np.mean(right_normalized)),
            "acc_norm_stderr": error(right_normalized)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    reader = gguf.GGUFReader(HERE / "eval_bytes.model.gguf")
    weights = {t.name: np.array(t.data, dtype=np.float64).reshape(t.shape[::-1]) for t in reader.tensors}
    other = {name: a * CHANGES.get(name, 1) for name, a in weights.items()}
    with family.in_f64():
        line = [load({n: (1 - x) * weights[n] + x * other[n] for n in weights}) for x in ALPHAS]
        golden = compare(line[0], line[-1], line), choices(line[0])
    for name, content in zip(("eval_compare", "eval_choices"), golden):
        (out / f"{name}.golden.json").write_text(json.dumps(content, indent=1) + "\n")
    print({k: v for k, v in golden[0].items() if k != "text"})
    print({k: v for k, v in golden[1].items() if k != "rows"}, [r["best"] for r in golden[1]["rows"]],
          [r["answer"] for r in golden[1]["rows"]])


if __name__ == "__main__":
    main()
