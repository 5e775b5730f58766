#!/usr/bin/env python3
"""Make gemma4_tokenizer.golden.json: ids of a small tokenizer that is laid out as Gemma 4's.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_gemma4_tokenizer_golden.py        # seconds; writes next to this script

The file has
  tokenizer       tokenizer.json as Hugging Face's `tokenizers` writes it: spaces become U+2581, BPE on characters, merges by
                  rank, byte tokens for characters without a token
  texts, hashes   the ids of the texts of tokenizers.golden.json and hashes of the random texts' ids, in the same form; random
                  texts have a space where those have U+2581, which toy does not take for one

The merges are those of a trained vocabulary, then in random order the other ways to make each piece. So their ranks differ
from the scores that a SentencePiece file could hold. Runs of line breaks come first, as in Gemma 4.
"""
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import make_tokenizer_golden as golden

MARK = "\u2581"
SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>"]


def gemma4(corpus, pieces, characters, line_breaks=8):
    """A tokenizer with so many pieces, of which so many are characters, and tokens of up to `line_breaks` line breaks."""
    words = [w for text in corpus for w in text.replace(" ", "\n" + MARK).split("\n")] + [MARK * n for n in (2, 4, 8)] * 3
    trained = Tokenizer(models.BPE())
    trained.train_from_iterator(words, trainers.BpeTrainer(vocab_size=pieces, limit_alphabet=characters, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    lines = ["\n" * n for n in range(1, line_breaks + 1)]
    tokens = SPECIAL + [f"<0x{b:02X}>" for b in range(256)] + lines
    tokens += [p for p in sorted(model["vocab"], key=model["vocab"].get) if p not in tokens]
    vocab = {token: id for id, token in enumerate(tokens)}
    ways = lambda p: [(p[:i], p[i:]) for i in range(1, len(p)) if p[:i] in vocab and p[i:] in vocab]
    merges = [tuple(m) for m in model["merges"]]
    others = sorted({w for p in model["vocab"] for w in ways(p)} - set(merges))
    random.Random(1).shuffle(others)
    t = Tokenizer(models.BPE(vocab, [w for p in lines for w in ways(p)] + merges + others, byte_fallback=True,
                             unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", MARK)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in SPECIAL])
    return t


def main():
    randoms = [golden.random_text(seed).replace(MARK, " ") for seed in range(golden.RANDOM_TEXTS)]
    t = gemma4(golden.CORPUS, 600, 150)
    out = {"tokenizer": json.loads(t.to_str()), **golden.expected(t, randoms)}
    text = json.dumps(out, ensure_ascii=True, indent=None, separators=(",", ":"))
    (HERE / "gemma4_tokenizer.golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
