#!/usr/bin/env python3
"""Writes the small SentencePiece models of tests/fuzz/corpus/spm: bad_* must be refused, ok_* must be read.

Run it from anywhere; it needs nothing but Python. The same files come out every time.
"""
import pathlib
import struct

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE, WORD = 1, 2, 3
SPACE = "\u2581"


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def real(field, x):
    return varint(field << 3 | 5) + struct.pack("<f", x)


def data(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def piece(text, score=-1.0, kind=NORMAL):
    return data(1, data(1, text) + real(2, score) + number(3, kind))


SPECIAL = piece("<unk>", 0, UNKNOWN) + piece("<s>", 0, CONTROL) + piece("</s>", 0, CONTROL)
PIECES = SPECIAL + piece("a") + piece("b", -2) + piece("ab", -2.5) + piece(SPACE, -3) + piece(SPACE + "a", -3.5)
BYTES = b"".join(piece(f"<0x{b:02X}>", 0, BYTE) for b in range(256))
IDENTITY = data(3, data(1, "identity") + number(3, 0) + number(4, 0))


def trainer(kind=UNIGRAM, byte_fallback=0, rest=b""):
    return data(2, number(3, kind) + number(35, byte_fallback) + rest)


def chars_map():
    """A Darts-clone trie of one key, "A", with the replacement "ab": root, its child, the child's value."""
    units = [0] * 256
    units[0] = 1 << 10  # offset 1: the child of byte c is unit 1 ^ c
    at = 1 ^ ord("A")
    units[at] = 2 << 10 | 1 << 8 | ord("A")
    units[at ^ 2] = 1 << 31  # the value: replacement at 0
    trie = struct.pack("<256I", *units)
    return struct.pack("<I", len(trie)) + trie + b"ab\0"


def normalizer(blob):
    return data(3, data(1, "nmt_nfkc") + data(2, blob))


def good_files():
    symbols = piece("<x>", 0, USER_DEFINED) + piece("a<x>", 0, USER_DEFINED) + piece("ba", -1, UNUSED)
    return {
        "unigram": PIECES + trainer() + IDENTITY,
        "bpe": PIECES + trainer(BPE) + IDENTITY,
        "defaults": PIECES,
        "symbols": PIECES + symbols + trainer() + IDENTITY,
        "symbols_bpe": PIECES + symbols + trainer(BPE) + IDENTITY,
        "bytes": PIECES + BYTES + trainer(UNIGRAM, 1) + IDENTITY,
        "chars_map": PIECES + trainer() + normalizer(chars_map()),
        "unknown_fields": PIECES + number(200, 1) + real(201, 1) + data(202, b"\xff") + varint(203 << 3 | 1) + bytes(8),
        "order": IDENTITY + trainer() + PIECES,
    }


def bad_files():
    whole = PIECES + trainer() + IDENTITY
    blob = chars_map()
    return {
        "empty": b"",
        "cut": whole[:-1],
        "cut_piece": whole[:10],
        "field0": whole + b"\x02\x00",
        "group": whole + b"\x33\x34",
        "wire6": whole + b"\x36",
        "wire7": whole + b"\x37",
        "varint_long": whole + b"\x30" + b"\xff" * 10 + b"\x01",
        "length_huge": varint(1 << 3 | 2) + varint(2**64 - 1) + b"a",
        "length_inner": data(1, b"\x0a\xff\xff\xff\xff\x0fx"),
        "score_wire": PIECES + data(1, data(1, "c") + number(2, 1)),
        "type_wire": PIECES + data(1, data(1, "c") + real(3, 1)),
        "spec_wire": PIECES + number(2, 1),
        "no_pieces": trainer() + IDENTITY,
        "empty_piece": PIECES + piece(""),
        "piece_twice": PIECES + piece("a"),
        "utf8": PIECES + piece(b"\xc3"),
        "nan": PIECES + piece("c", float("nan")),
        "infinite": PIECES + piece("c", float("inf")),
        "type0": PIECES + piece("c", 0, 0),
        "type7": PIECES + piece("c", 0, 7),
        "no_unknown": piece("a"),
        "two_unknown": PIECES + piece("<u>", 0, UNKNOWN),
        "some_bytes": PIECES + piece("<0x00>", 0, BYTE) + trainer(UNIGRAM, 1),
        "byte_name": PIECES + BYTES[:-len(piece("<0xFF>", 0, BYTE))] + piece("<0xGG>", 0, BYTE) + trainer(UNIGRAM, 1),
        "bytes_off": PIECES + BYTES + trainer(UNIGRAM, 0),
        "bos": PIECES + trainer(rest=number(41, 99)),
        "eos_64": PIECES + trainer(rest=number(42, 2**40)),
        "word": PIECES + trainer(WORD),
        "suffix": PIECES + trainer(rest=number(24, 1)),
        "map_size": PIECES + normalizer(struct.pack("<I", 2**32 - 1) + blob[4:]),
        "map_end": PIECES + normalizer(blob[:-1] + b"x"),
        "map_short": PIECES + normalizer(blob[:3]),
    }


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus" / "spm"
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, files in (("ok", good_files()), ("bad", bad_files())):
        for name, content in files.items():
            (folder / f"{prefix}_{name}.model").write_bytes(content)


if __name__ == "__main__":
    main()
