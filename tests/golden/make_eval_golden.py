#!/usr/bin/env python3
"""Make the golden files of `toy eval`: a small model of bytes, and the perplexity that PyTorch computes for a text under it.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_eval_golden.py [--out DIR]

Writes eval_bytes.model.gguf, a random Llama with a tokenizer of bytes that llama.cpp loads, and eval_bytes.golden.json: a
text and, for several windows and strides and by documents, how many tokens are scored, nats a token, perplexity and bits a
byte; the divergence of the model from one whose embeddings are larger; and log p of the answers to questions. Everything is computed in f64 from the f32 weights, by the model of make_llama_golden.py. The same versions give the
same bytes.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
from make_llama_golden import HERE, Shape, finish, forward, make_weights

# The embedding is most of the file, so the model is narrow. Weights are large enough for it to have opinions.
SHAPE = Shape("eval_bytes", D=12, H=3, K=1, P=8, F=20, V=256, L=2, tied=True, base=500.0, eps=1e-5, seed=3)
CONTEXT = 128
TEXT = """A model reads a text from left to right. Before each byte it says how likely every byte is.

How good that was is the logarithm of the probability that it gave to the one that came: summed over the text and
divided by its length, this is the loss; e to the power of the loss is the perplexity.

Na\u00efve counting is not enough: \u20ac and \u00e9 are more than one byte, and a line may end with a tab.\t

The last document is short.
"""
CASES = [{"ctx": 128, "stride": 64}, {"ctx": 64, "stride": 64}, {"ctx": 48, "stride": 7}, {"ctx": 33, "stride": 1},
         {"ctx": 40, "stride": 20, "by_documents": True}]
# What the embeddings of the second model are multiplied by, exactly in f32.
LARGER = 1.25
QUESTIONS = [{"prompt": "The last document is", "choices": [" short.", " long, and a tab.", " s"], "answer": 0},
             {"prompt": "e to the power of the loss is the ", "choices": ["perplexity", "loss"], "answer": 0},
             {"prompt": "A model reads a text", "choices": [" from left to right", " from right to left"], "answer": 1}]


def byte_names():
    """GPT-2's name of each byte: itself where Latin-1 can print it, else U+0100, U+0101, ..."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def write_model(path, s, weights):
    w = gguf.GGUFWriter(path, "llama")
    w.add_name(s.name)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_vocab_size(s.V)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(s.D)
    w.add_block_count(s.L)
    w.add_feed_forward_length(s.F)
    w.add_head_count(s.H)
    w.add_head_count_kv(s.K)
    w.add_key_length(s.P)
    w.add_value_length(s.P)
    w.add_layer_norm_rms_eps(s.eps)
    w.add_rope_dimension_count(s.P)
    w.add_rope_freq_base(s.base)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(byte_names())
    w.add_token_types([gguf.TokenType.NORMAL] * 256)
    w.add_token_merges([])
    w.add_add_bos_token(False)
    for name, a in weights.items():
        w.add_tensor(name, a)
    finish(w)


def documents_of(text):
    """Parts that blank lines separate, without the line breaks around them."""
    parts, current = [], []
    for line in text.split("\n"):
        if line.strip(" \t"):
            current.append(line)
        elif current:
            parts.append("\n".join(current))
            current = []
    return parts + (["\n".join(current)] if current else [])


def score(w, ids, context, stride):
    """-log p of every byte but the first, each from a window that begins at a multiple of the stride."""
    nll, scored, top = [], 0, 0.0
    begin = 0
    while scored + 1 < len(ids):
        length = min(context, len(ids) - 1 - begin)
        logits = forward(torch.tensor(ids[begin:begin + length])[None], w, SHAPE)
        p = torch.log_softmax(logits, -1)
        top = max(top, logits.abs().max().item())
        for i in range(length):
            if begin + i + 1 > scored:
                nll.append(-p[i, ids[begin + i + 1]].item())
                scored = begin + i + 1
        begin += stride
    return nll, top


def divergence(p_weights, q_weights, ids, context, stride):
    """Mean over the bytes but the first: KL(p|q), whether the top agrees, log p - log q of the byte, (q - p)^2."""
    sums, scored, begin = np.zeros(4), 0, 0
    while scored + 1 < len(ids):
        length = min(context, len(ids) - 1 - begin)
        window = torch.tensor(ids[begin:begin + length])[None]
        p = torch.log_softmax(forward(window, p_weights, SHAPE), -1)
        q = torch.log_softmax(forward(window, q_weights, SHAPE), -1)
        for i in range(length):
            if begin + i + 1 > scored:
                scored = begin + i + 1
                a, b = p[i, ids[scored]], q[i, ids[scored]]
                sums += [(p[i].exp() * (p[i] - q[i])).sum().item(), float(p[i].argmax() == q[i].argmax()),
                         (a - b).item(), (b.exp() - a.exp()).item()**2]
        begin += stride
    kl, same, difference, squares = sums / (len(ids) - 1)
    return {"kl": kl, "same_top": same, "difference": difference, "probability_rms": float(np.sqrt(squares))}


def answer(w, question):
    """log p of each choice after the prompt, whose spaces at the end count as the choice's."""
    text = question["prompt"]
    prompt = list(text.rstrip().encode())
    result = []
    for choice in question["choices"]:
        ids = list((text + choice).encode())
        p = torch.log_softmax(forward(torch.tensor(ids[:-1])[None], w, SHAPE), -1)
        result.append(sum(p[i - 1, ids[i]].item() for i in range(len(prompt), len(ids))))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    weights = make_weights(SHAPE, np.random.RandomState(SHAPE.seed))
    model_path = out / "eval_bytes.model.gguf"
    write_model(model_path, SHAPE, weights)
    w = {name: torch.tensor(a, dtype=torch.float64) for name, a in weights.items()}
    larger = w | {"token_embd.weight": w["token_embd.weight"] * LARGER}
    results, largest = [], 0.0
    for case in CASES:
        parts = documents_of(TEXT) if case.get("by_documents") else [TEXT]
        nll, scored_bytes = [], 0
        for part in parts:
            ids = list(part.encode())
            more, top = score(w, ids, case["ctx"], case["stride"])
            nll, largest, scored_bytes = nll + more, max(largest, top), scored_bytes + len(ids) - 1
        mean = sum(nll) / len(nll)
        results.append(case | {"tokens": len(nll), "bytes": scored_bytes, "nats_per_token": mean,
                               "perplexity": float(np.exp(mean)),
                               "bits_per_byte": sum(nll) / np.log(2) / scored_bytes})
    golden = {"made_by": "tests/golden/make_eval_golden.py", "text": TEXT, "largest_logit": largest, "cases": results,
              "larger": LARGER, "divergence": divergence(w, larger, list(TEXT.encode()), 128, 64),
              "questions": [q | {"logprobs": answer(w, q)} for q in QUESTIONS]}
    (out / "eval_bytes.golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    for r in results:
        print(r)
    print(f"largest logit {largest:.3f}, {model_path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
