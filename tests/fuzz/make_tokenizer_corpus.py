#!/usr/bin/env python3
"""Writes the small vocabularies of tests/fuzz/corpus/tokenizer: bad_* must be refused, ok_* must be read.

Run it from anywhere; it needs nothing but Python. The same files come out every time.
"""
import pathlib
import struct

from make_gguf_corpus import ARCHITECTURE, ARRAY, BOOL, F32, I32, STRING, U32, gguf, key, string, u32, u64

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
SPACE = "\u2581"


def strings(name, values):
    return key("tokenizer.ggml." + name, ARRAY, u32(STRING) + u64(len(values)) + b"".join(map(string, values)))


def numbers(name, values):
    return key("tokenizer.ggml." + name, ARRAY, u32(I32) + u64(len(values)) + struct.pack(f"<{len(values)}i", *values))


def floats(name, values):
    return key("tokenizer.ggml." + name, ARRAY, u32(F32) + u64(len(values)) + struct.pack(f"<{len(values)}f", *values))


def text(name, value):
    return key("tokenizer.ggml." + name, STRING, string(value))


def number(name, value):
    return key(f"tokenizer.ggml.{name}_token_id", U32, u32(value))


def flag(name, value):
    return key("tokenizer.ggml." + name, BOOL, bytes([value]))


def file(model, *keys):
    return gguf(keys=[ARCHITECTURE, text("model", model), *keys])


def bpe(tokens, merges, *keys, pre="gpt-2", types=None):
    return file("gpt2", text("pre", pre), strings("tokens", tokens), numbers("token_type", types or [NORMAL] * len(tokens)),
                strings("merges", merges), *keys)


def ranked(merges, *keys):
    return file("gemma4", strings("tokens", RANKED), numbers("token_type", RANKED_TYPES), strings("merges", merges), *keys, *IDS)


LETTERS = ["a", "b", "c", "\u0120", "\u010a", "ab", "\u0120ab", "1", "'", "s"]
MERGES = ["a b", "\u0120 ab"]
SPECIAL = ["<s>", "<|x|>", "<|x|>y", "<unk>"]
KINDS = [CONTROL, USER_DEFINED, CONTROL, UNKNOWN]
WORDS = ["[UNK]", "[CLS]", "[SEP]", SPACE + "a", "b", SPACE + "ab", SPACE + "!"]
PIECES = ["<unk>", "<s>", "</s>", SPACE, "a", "b", "ab", SPACE + "ab", "<|x|>"]
PIECE_TYPES = [UNKNOWN, CONTROL, CONTROL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, USER_DEFINED]
RANKED = ["<unk>", "<s>", "</s>", SPACE, "a", "b", "ab", SPACE + "ab", "<|x|>", "\n", "\n\n", "\n\n\n"]
RANKED_TYPES = PIECE_TYPES + [NORMAL] * 3
RANKED_MERGES = ["a b", SPACE + " ab", "\n \n"]
IDS = [number("unknown", 0), number("bos", 1), number("eos", 2)]


def printable():
    keep = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(0x100 + rest.index(b)) for b in range(256)]


def good_files():
    special = dict(types=[NORMAL] * len(LETTERS) + KINDS)
    pieces = [strings("tokens", PIECES), numbers("token_type", PIECE_TYPES), floats("scores", [-i for i in range(9)])]
    files = {
        "bytes": bpe(printable(), []),
        "bpe": bpe(printable() + LETTERS[5:7], MERGES),
        "bpe_gaps": bpe(LETTERS, MERGES),
        "bpe_special": bpe(LETTERS + SPECIAL, MERGES, number("unknown", 13), number("bos", 10), flag("add_bos_token", 1), **special),
        "bpe_no_pre": file("gpt2", strings("tokens", LETTERS), strings("merges", MERGES)),
        "wordpiece": file("bert", strings("tokens", WORDS), numbers("token_type", [UNKNOWN, CONTROL, CONTROL] + [NORMAL] * 4),
                          number("unknown", 0), number("bos", 1), number("seperator", 2)),
        "llama": file("llama", *pieces, *IDS),
        "t5": file("t5", *pieces, *IDS, flag("add_space_prefix", 1), flag("remove_extra_whitespaces", 1)),
        "gemma4": ranked(RANKED_MERGES),
        "gemma4_bytes": file("gemma4", strings("tokens", RANKED + [f"<0x{b:02X}>" for b in range(256)]),
                             numbers("token_type", RANKED_TYPES + [BYTE] * 256), strings("merges", RANKED_MERGES)),
        "none": file("none"),
        "phi3": gguf(keys=[ARCHITECTURE, key("general.name", STRING, string("phi-3")), text("model", "llama"), *pieces, *IDS]),
    }
    for pre in ("llama-bpe", "qwen35", "gpt-4o", "tekken", "falcon", "deepseek-llm", "deepseek-v3", "bloom", "laguna"):
        files[f"bpe_{pre}"] = bpe(printable() + LETTERS[5:7] + SPECIAL, MERGES, pre=pre,
                                  types=[NORMAL] * 258 + KINDS)
    return files


def bad_files():
    return {
        "model": file("rwkv"),
        "pre": bpe(LETTERS, MERGES, pre="nobody"),
        "no_tokens": file("gpt2", text("pre", "gpt-2"), strings("merges", MERGES)),
        "no_merges": file("gpt2", strings("tokens", LETTERS)),
        "merge": bpe(LETTERS, ["ab"]),
        "merge_no_token": bpe(LETTERS, MERGES + ["b c", "ab c"]),
        "merge_names": bpe(LETTERS, ["a \u4e2d"]),
        "merge_empty": bpe(LETTERS, [""]),
        "token_twice": bpe(LETTERS + ["a"], MERGES),
        "types": bpe(LETTERS, MERGES, types=[NORMAL]),
        "type": bpe(LETTERS, MERGES, types=[0] * len(LETTERS)),
        "utf8": bpe(LETTERS[:-1] + [b"\xc3"], MERGES),
        "bos": bpe(LETTERS, MERGES, number("bos", 10)),
        "add_bos": bpe(LETTERS, MERGES, flag("add_bos_token", 1)),
        "wordpiece_unknown": file("bert", strings("tokens", WORDS)),
        "gemma4_merge": ranked(["ab"]),
        "gemma4_merge_names": ranked(["a c"]),
        "gemma4_no_merges": file("gemma4", strings("tokens", RANKED), numbers("token_type", RANKED_TYPES), *IDS),
        "llama_scores": file("llama", strings("tokens", PIECES), floats("scores", [0.0])),
        "t5_scores": file("t5", strings("tokens", PIECES)),
    }


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus" / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, files in (("ok", good_files()), ("bad", bad_files())):
        for name, content in files.items():
            (folder / f"{prefix}_{name}.gguf").write_bytes(content)


if __name__ == "__main__":
    main()
