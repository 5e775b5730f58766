#!/usr/bin/env python3
"""Encoders in toy and in other programs, in turn: embeddings of texts, and training on pictures.

  PY=/path/to/python    # with torch, transformers, sentence-transformers, llama-cpp-python, timm
  $PY bench/peers/encoder_speed.py embed minilm-folder               # f32, against sentence-transformers
  $PY bench/peers/encoder_speed.py embed minilm-folder --type q8_0   # against llama.cpp, with the same file
  $PY bench/peers/encoder_speed.py train --size vit-lite --batch 32  # against timm, with fused AdamW

embed: texts of 128 tokens, tokenized by both. toy's time is that of the whole process; the others' begins when the model is
loaded. train: pictures of 32 x 32 in batches that lie ready for timm; toy reads, changes and validates its own, and its time
is that of --steps more steps. One JSON line: the median and the range of the ratio of the speeds, and both speeds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TOY = pathlib.Path(__file__).resolve().parents[2] / "build/release/toy"
TOKENS = 128
SIZES = {"vit-micro": (64, 4, 256, 4), "vit-lite": (256, 7, 512, 4)}  # D, L, F, H


def toy(*args):
    """Seconds of a run."""
    begin = time.perf_counter()
    p = subprocess.run([str(TOY), *map(str, args)], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"encoder_speed: toy {' '.join(map(str, args))}: {p.stderr[-500:]}")
    return time.perf_counter() - begin


def texts_of(folder, count):
    """Texts of TOKENS tokens with [CLS] and [SEP], words in an order of their own."""
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = [w for w in "the king of a far land was old and had three sons who went out to see what there was in it".split()
             if len(tokenizer.tokenize(w)) == 1]
    texts = [" ".join(words[(i + j * (1 + i % 5)) % len(words)] for j in range(TOKENS - 2)) for i in range(count)]
    assert all(len(tokenizer(t)["input_ids"]) == TOKENS for t in texts)
    return texts


def embed(o, folder):
    texts = texts_of(o.model, o.texts)
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    gguf = folder / "model.gguf"
    toy("convert", o.model, gguf)
    if o.type != "f32":
        toy("quantize", gguf, folder / "small.gguf", "--type", o.type)
        gguf = folder / "small.gguf"
    if o.type == "f32":
        import torch
        from sentence_transformers import SentenceTransformer
        torch.set_num_threads(o.threads)
        model = SentenceTransformer(o.model, device="cpu")
        model.max_seq_length = TOKENS

        def peer():
            return model.encode(texts, batch_size=32)
    else:
        import llama_cpp
        model = llama_cpp.Llama(str(gguf), embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=o.threads,
                                n_threads_batch=o.threads, verbose=False)

        def peer():
            return model.embed(texts, normalize=True)
    ours = folder / "ours.npy"

    def run():
        return toy("embed", gguf, "--file", folder / "texts.txt", "--threads", o.threads, "--out", ours)

    import numpy as np
    run()
    cosines = (np.load(ours) * np.asarray(peer())).sum(1)
    ours.unlink()
    print(f"encoder_speed: least cosine between the two: {cosines.min():.6f}", file=sys.stderr)
    return compare(o, o.texts, run, peer, lambda: ours.unlink(missing_ok=True))


def train(o, folder):
    import torch
    from timm.models.vision_transformer import VisionTransformer
    torch.set_num_threads(o.threads)
    width, layers, hidden, heads = SIZES[o.size]
    model = VisionTransformer(img_size=32, patch_size=4, num_classes=10, embed_dim=width, depth=layers, num_heads=heads,
                              mlp_ratio=hidden / width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(o.batch, 3, 32, 32), torch.randint(0, 10, (o.batch,))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=o.autocast):
            loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(3):
        step()
    toy("corpus", "shapes", "--images", 2000, "--out", folder / "shapes")

    def run():
        def of(steps):
            return toy("train", "vit", "--data", folder / "shapes", "--size", o.size, "--batch", o.batch, "--steps", steps,
                       "--threads", o.threads, "--compute", o.compute, "--overwrite", "--out", folder / "run")
        return of(o.steps + 2) - of(2)

    return compare(o, o.steps * o.batch, run, lambda: [step() for _ in range(o.steps)], lambda: None)


def compare(o, count, run, peer, tidy):
    ours, theirs = [], []
    for _ in range(o.rounds):
        ours.append(count / run())
        tidy()
        begin = time.perf_counter()
        peer()
        theirs.append(count / (time.perf_counter() - begin))
    ratios = [a / b for a, b in zip(ours, theirs)]
    return {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
            "toy_per_s": statistics.median(ours), "peer_per_s": statistics.median(theirs)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = p.add_subparsers(dest="which", required=True)
    e = which.add_parser("embed")
    e.add_argument("model", help="a folder of transformers")
    e.add_argument("--type", default="f32", choices=["f32", "q8_0"])
    e.add_argument("--texts", type=int, default=512)
    t = which.add_parser("train")
    t.add_argument("--size", default="vit-lite", choices=sorted(SIZES))
    t.add_argument("--batch", type=int, default=32)
    t.add_argument("--steps", type=int, default=30)
    t.add_argument("--compute", default="f32", help="toy's products: f32, bf16 or auto")
    t.add_argument("--autocast", action="store_true", help="bf16 in timm")
    for each in (e, t):
        each.add_argument("--threads", type=int, default=2)
        each.add_argument("--rounds", type=int, default=5)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps((embed if o.which == "embed" else train)(o, pathlib.Path(folder))))


if __name__ == "__main__":
    main()
