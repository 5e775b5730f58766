#!/usr/bin/env python3
"""Compare ids of texts in toy, Hugging Face's tokenizers, sentencepiece and llama.cpp.

  PY=$(scripts/peers.sh) && $PY tests/peer/tokenizers_equal.py --encode-texts build/release/tests/encode_texts [--only NAME]

Texts: none, 10,000 random ones (scripts, emoji, combining marks, runs of white space, control characters), Tiny Shakespeare
if ../shared has it, and a megabyte in other scripts. Random characters are those that this Python's Unicode assigns.

  byte-level BPE   tokenizers, with each pre-tokenizer of tests/golden/make_tokenizer_golden.py; ids decode to the text
  SentencePiece    the library, with a real model from ../shared and models trained here: BPE and unigram, with and without
                   normalization. Texts have no U+2581, and go to a unigram model line by line (docs/tokenizers.md). Of two
                   cuts with equal scores a unigram model may take either: version 0.2.3 of the library adds floats, 0.2.0 doubles
  Gemma 4          tokenizers and llama.cpp, with a vocabulary trained here; texts have no U+2581
  WordPiece        tokenizers, which has older tables of Unicode: only characters that Unicode 3.2 has
  vocabularies     llama.cpp, for the files of ../shared/data/vocab

Exit code 0: all ids are equal. 1: a difference.
"""
import argparse
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))
SHARED = HERE.parent.parent.parent / "shared" / "data"

import gguf
import sentencepiece as spm
import tokenizers as tk

import make_gemma4_tokenizer_golden as gemma4_golden
import make_tokenizer_golden as golden

RANDOM_TEXTS, LONG = 10_000, 1_000_000
IGNORE_MERGES = {"llama-bpe": "llama-bpe", "glm4": "llama-bpe", "tekken": "tekken", "minicpm5": "minicpm5",
                 "granite-embed-multi-97m": "gpt-4o"}
SAME = {"dbrx": "llama-bpe"}  # names that merge where others take a word that is a token
MARK = "\u2581"


# --- texts

def random_texts():
    rnd = random.Random(1)
    assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co") and chr(c) != MARK]
    marks = [c for c in assigned if unicodedata.category(chr(c)).startswith("M")]
    space = [c for c in assigned if chr(c).isspace()]
    blocks = [assigned[i:i + 64] for i in range(0, len(assigned), 64)]
    emoji = ["\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3"]

    def part():
        n = rnd.randrange(1, 6)
        block = rnd.choice(blocks)
        return rnd.choice((
            lambda: "".join(chr(rnd.choice(block)) for _ in range(n)),
            lambda: "".join(chr(rnd.choice(assigned)) for _ in range(n)),
            lambda: rnd.choice("aeA\u4e00\u0928") + "".join(chr(rnd.choice(marks)) for _ in range(n)),
            lambda: chr(rnd.choice(space)) * n,
            lambda: "".join(chr(rnd.choice(space)) for _ in range(n)),
            lambda: " " * rnd.choice((1, 1, 1, 2, 3, 20)),
            lambda: "".join(chr(rnd.randrange(0x20)) for _ in range(n)),
            lambda: "".join(chr(rnd.randrange(0x20, 0x7F)) for _ in range(n)),
            lambda: str(rnd.randrange(10 ** rnd.randrange(1, 12))),
            lambda: rnd.choice(golden.FRAGMENTS),
            lambda: rnd.choice(golden.FRAGMENTS),
            lambda: rnd.choice(emoji)))()
    return ["".join(part() for _ in range(rnd.randrange(1, 20))) for _ in range(RANDOM_TEXTS)]


def long_texts():
    scripts = "\n".join(golden.TEXTS)
    texts = [(scripts * (LONG // len(scripts.encode()) + 1))]
    path = SHARED / "tinyshakespeare.txt"
    return texts + [path.read_text() if path.exists() else (HERE.parent.parent / "README.md").read_text() * 50]


# --- toy

class Toy:
    def __init__(self, program):
        self.program = program

    def encode(self, model, texts):
        """For each text its ids, and the bytes that they decode to."""
        texts = [t.encode() for t in texts]
        done = subprocess.run([self.program, model], input=b"".join(struct.pack("I", len(t)) + t for t in texts),
                              capture_output=True)
        if done.returncode:
            sys.exit(f"{model}: {done.stderr.decode()}")
        out, at, results = done.stdout, 0, []
        for _ in texts:
            n, = struct.unpack_from("I", out, at)
            ids = list(struct.unpack_from(f"{n}i", out, at + 4))
            at += 4 + 4 * n
            n, = struct.unpack_from("I", out, at)
            results.append((ids, out[at + 4:at + 4 + n]))
            at += 4 + n
        return results


failures = []


def compare(name, toy, model, texts, theirs, lossless, as_good=lambda ids, want: False):
    begin = time.time()
    results = toy.encode(model, texts)
    wrong = equal_scores = n_ids = 0
    for text, (ids, back), want in zip(texts, results, theirs):
        n_ids += len(ids)
        problem = None
        if ids != list(want) and as_good(ids, want):
            equal_scores += 1
        elif ids != list(want):
            at = next((i for i, (x, y) in enumerate(zip(ids, want)) if x != y), min(len(ids), len(want)))
            problem = f"at token {at}: toy {ids[max(0, at - 2):at + 6]}, peer {list(want)[max(0, at - 2):at + 6]}"
        elif lossless and back != text.encode():
            problem = f"decodes to {back.decode(errors='replace')[:200]!r}"
        if problem:
            wrong += 1
            if wrong <= 3:
                failures.append(f"{name}: {text[:100]!r}: {problem}")
    print(f"{name}: {'' if not wrong else f'{wrong} of '}{len(texts)} texts {'differ' if wrong else 'are equal'}, {n_ids} ids"
          f"{f', {equal_scores} texts in other ids of the same score' if equal_scores else ''}, {time.time() - begin:.1f} s",
          flush=True)
    if wrong:
        failures.append(f"{name}: {wrong} of {len(texts)} texts differ")


# --- byte-level BPE

def gpt2_vocabulary():
    path = SHARED / "vocab" / "ggml-vocab-gpt-2.gguf"
    if not path.exists():
        return golden.trained_vocabulary()
    reader = gguf.GGUFReader(path)
    strings = lambda key: [bytes(reader.fields[key].parts[i]).decode() for i in reader.fields[key].data]
    return strings("tokenizer.ggml.tokens"), strings("tokenizer.ggml.merges")


def write_gguf(path, model, tokens, types=None, **more):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(model)
    w.add_token_list(tokens)
    w.add_token_types(types or [gguf.TokenType.NORMAL] * len(tokens))
    if "pre" in more:
        w.add_tokenizer_pre(more["pre"])
    if "merges" in more:
        w.add_token_merges(more["merges"])
    if "bos" in more:
        w.add_bos_token_id(more["bos"])
    if "unknown" in more:
        w.add_unk_token_id(more["unknown"])
        w.add_bos_token_id(more["unknown"] + 1)
        w.add_eos_token_id(more["unknown"] + 2)
        w.add_uint32("tokenizer.ggml.seperator_token_id", more["unknown"] + 2)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def check_bpe(toy, only, work, texts):
    tokens, merges = gpt2_vocabulary()
    if "\u0120indented" not in tokens:  # a word that no merge makes
        tokens = tokens + ["\u0120indented"]
    names = {n: (n, False) for n in golden.PRE_TOKENIZERS if n not in IGNORE_MERGES.values() or n == "gpt-4o"}
    names |= {n: (steps, True) for n, steps in IGNORE_MERGES.items()} | {n: (steps, False) for n, steps in SAME.items()}
    for name, (steps, ignore) in names.items():
        if only not in f"bpe {name}":
            continue
        peer = golden.bpe(tokens, merges, golden.PRE_TOKENIZERS[steps], ignore)
        path = work / "bpe.gguf"
        write_gguf(path, "gpt2", tokens, pre=name, merges=merges)
        theirs = [e.ids for e in peer.encode_batch_fast(texts)]
        compare(f"bpe {name}", toy, path, texts, theirs, lossless=True)


# --- SentencePiece

def trained_model(work, name, corpus, **options):
    path = work / f"{name.replace(' ', '-')}.model"
    settings = dict(vocab_size=2000, character_coverage=0.9995, hard_vocab_limit=False, minloglevel=2, num_threads=2) | options
    with open(path, "wb") as f:
        spm.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=f, **settings)
    return path


def check_sentencepiece(toy, only, work, texts):
    corpus = [line for text in long_texts() for line in text[:300_000].split("\n") if line][:8000]
    identity = dict(normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False)
    kinds = {
        "spm bpe": lambda n: trained_model(work, n, corpus, model_type="bpe", byte_fallback=True),
        "spm bpe identity": lambda n: trained_model(work, n, corpus, model_type="bpe", byte_fallback=True, **identity),
        "spm bpe without bytes": lambda n: trained_model(work, n, corpus, model_type="bpe"),
        "unigram": lambda n: trained_model(work, n, corpus, model_type="unigram"),
        "unigram bytes": lambda n: trained_model(work, n, corpus, model_type="unigram", byte_fallback=True),
        "unigram identity": lambda n: trained_model(work, n, corpus, model_type="unigram", byte_fallback=True,
                                                    user_defined_symbols=["<x>", "the"], **identity),
    }
    mistral = SHARED / "mistral-v1.tokenizer.model"
    if mistral.exists():
        kinds["spm mistral-v1"] = lambda _: mistral
    for name, make in kinds.items():
        if only not in name:
            continue
        path = make(name)
        own = texts
        if "unigram" in name:
            own = [t for t in texts if len(t) < 4000] + [line for t in texts if len(t) >= 4000 for line in t.split("\n")]
        peer = spm.SentencePieceProcessor(model_file=str(path))
        scores = [peer.get_score(i) for i in range(peer.get_piece_size())]

        def as_good(ids, want):
            sums = [math.fsum(scores[i] for i in x) for x in (ids, want)]
            return "unigram" in name and sorted(ids) == sorted(want) and abs(sums[0] - sums[1]) < 1e-4
        compare(name, toy, path, own, peer.encode(own), "identity" in name or "mistral" in name, as_good)


# --- the others

def check_gemma4(toy, only, work, texts):
    if only not in "gemma4":
        return
    from llama_cpp_greedy import LlamaCpp
    corpus = [text[:500_000].replace("\0", "") for text in long_texts()]  # llama.cpp ends tokens there
    t = gemma4_golden.gemma4(corpus, 8000, 700, line_breaks=31)
    vocab = t.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    is_byte = lambda token: len(token) == 6 and token.startswith("<0x")
    types = [gguf.TokenType.BYTE if is_byte(token) else gguf.TokenType.NORMAL for token in tokens]
    types[:len(gemma4_golden.SPECIAL)] = [gguf.TokenType.CONTROL] * len(gemma4_golden.SPECIAL)
    merges = [" ".join(m) for m in json.loads(t.to_str())["model"]["merges"]]
    path = work / "gemma4.gguf"
    write_gguf(path, "gemma4", tokens, types, merges=merges, bos=vocab["<bos>"])
    runs = ["\n" * n for n in range(70)] + ["a" + "\n" * n + "  b" for n in range(70)]
    texts = [text.replace(MARK, " ") for text in texts] + runs
    compare("gemma4", toy, path, texts, [e.ids for e in t.encode_batch_fast(texts)], lossless=True)
    peer = LlamaCpp(path, vocab_only=True)
    texts = [text for text in texts if "\0" not in text]
    compare("gemma4 llama.cpp", toy, path, texts, [peer.tokenize(text) for text in texts], lossless=True)
    peer.close()


def check_wordpiece(toy, only, work, texts):
    if only not in "wordpiece":
        return
    old = unicodedata.ucd_3_2_0
    texts = ["".join(c for c in t if old.category(c) == unicodedata.category(c)) for t in texts]
    peer, tokens = golden.wordpiece()
    types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.NORMAL] * (len(tokens) - 3)
    write_gguf(work / "wordpiece.gguf", "bert", tokens, types, unknown=0)
    compare("wordpiece", toy, work / "wordpiece.gguf", texts, [e.ids for e in peer.encode_batch_fast(texts)], lossless=False)


def check_llama_cpp(toy, only, texts):
    from llama_cpp_greedy import LlamaCpp
    for path in sorted((SHARED / "vocab").glob("*.gguf")):
        if only not in f"llama.cpp {path.stem}":
            continue
        peer = LlamaCpp(path, vocab_only=True)
        own = [t for t in texts if "\0" not in t]
        compare(f"llama.cpp {path.stem}", toy, path, own, [peer.tokenize(t) for t in own], lossless=True)
        peer.close()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--encode-texts", required=True, help="the program of tests/peer/encode_texts.cpp")
    ap.add_argument("--only", default="", help="part of a name")
    ap.add_argument("--work", type=pathlib.Path, help="folder for files (default: a temporary one)")
    a = ap.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    toy = Toy(a.encode_texts)
    texts = [""] + random_texts() + long_texts()
    with tempfile.TemporaryDirectory() as scratch:
        work = a.work or pathlib.Path(scratch)
        check_bpe(toy, a.only, work, texts)
        check_sentencepiece(toy, a.only, work, texts)
        check_gemma4(toy, a.only, work, texts)
        check_wordpiece(toy, a.only, work, texts)
        check_llama_cpp(toy, a.only, texts)
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
