#!/usr/bin/env python3
"""Writes the small GGUF files of tests/fuzz/corpus/gguf: bad_* must be refused, ok_* must be read.

Run it from anywhere; it needs nothing but Python. The same files come out every time.
"""
import pathlib
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q4_0, T_Q4_K, T_F64 = 0, 1, 2, 12, 28
# Number, elements and bytes of a block of the quantized types that toy computes with.
QUANTIZED = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34),
             "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144), "q5_k": (13, 256, 176),
             "q6_k": (14, 256, 210), "iq4_nl": (20, 32, 18), "iq4_xs": (23, 256, 136), "mxfp4": (39, 32, 17)}


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


def string(s):
    data = s if isinstance(s, bytes) else s.encode()
    return u64(len(data)) + data


def key(name, type_number, payload):
    return string(name) + u32(type_number) + payload


def tensor(name, dims, type_number, offset):
    """dims innermost first, as on disk."""
    return string(name) + u32(len(dims)) + b"".join(u64(d) for d in dims) + u32(type_number) + u64(offset)


def gguf(tensors=(), keys=(), data=b"", version=3, n_tensors=None, n_keys=None, alignment=32):
    n_tensors = len(tensors) if n_tensors is None else n_tensors
    n_keys = len(keys) if n_keys is None else n_keys
    head = b"GGUF" + u32(version) + u64(n_tensors) + u64(n_keys) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


ARCHITECTURE = key("general.architecture", STRING, string("llama"))
BLOCK = bytes(range(64))


def one(dims, type_number=T_F32, offset=0, data=BLOCK):
    return gguf([tensor("t", dims, type_number, offset)], [ARCHITECTURE], data)


def array(element, count, payload=b""):
    return gguf(keys=[key("k", ARRAY, u32(element) + u64(count) + payload)])


def two_blocks(name, more=0, missing=0):
    """A tensor of a quantized type whose header asks for two blocks, or for some elements more."""
    number, block, size = QUANTIZED[name]
    return one([2 * block + more], number, data=bytes((37 * i + 11) % 256 for i in range(2 * size - missing)))


def good_files():
    values = [
        key("u8", U8, b"\xff"), key("i8", I8, b"\x80"), key("u16", U16, b"\xff\xff"), key("i16", I16, b"\0\x80"),
        key("u32", U32, u32(7)), key("i32", I32, u32(2**32 - 1)), key("f32", F32, struct.pack("<f", 1.5)),
        key("bool", BOOL, b"\1"), key("string", STRING, string(b"\0\xff")), key("u64", U64, u64(2**64 - 1)),
        key("i64", I64, u64(2**63)), key("f64", F64, struct.pack("<d", -0.0)),
        key("strings", ARRAY, u32(STRING) + u64(2) + string("") + string("ab")),
        key("bools", ARRAY, u32(BOOL) + u64(3) + b"\1\0\1"), key("none", ARRAY, u32(F64) + u64(0)),
    ]
    two = [tensor("b", [4], T_F32, 32), tensor("a", [4, 2], T_F16, 0)]
    return {
        "empty": gguf(),
        "every_value": gguf(keys=[ARCHITECTURE] + values),
        "any_order": gguf(two, [ARCHITECTURE], BLOCK),
        "version2": gguf(two, [ARCHITECTURE], BLOCK, version=2),
        "quantized": gguf([tensor("q", [256, 2], T_Q4_K, 0)], [ARCHITECTURE], bytes(288)),
        "alignment": gguf([tensor("t", [16], T_F32, 64)], [key("general.alignment", U32, u32(64))], 2 * BLOCK,
                          alignment=64),
        "imatrix": gguf([tensor("t.w.in_sum2", [4], T_F32, 0), tensor("t.w.counts", [1], T_F32, 32)],
                        [ARCHITECTURE, key("imatrix.chunk_count", U32, u32(7))],
                        struct.pack("<8f", 1, 2, 3, 4, 0, 0, 0, 0) + struct.pack("<f", 2)),
        "trailing": one([8], data=BLOCK + b"more"),
    } | {name: two_blocks(name) for name in QUANTIZED}


def imatrix_dat():
    """llama.cpp's older format of importance matrices: read as such, but no GGUF."""
    i32 = lambda n: struct.pack("<i", n)
    entry = i32(3) + b"t.w" + i32(2) + i32(4) + struct.pack("<4f", 1, 2, 3, 4)
    return i32(1) + entry + i32(5) + i32(5) + b"a.txt"


def bad_files():
    whole = gguf([tensor("t", [16], T_F32, 0)], [ARCHITECTURE], BLOCK)
    return {
        "magic": b"GGML" + whole[4:],
        "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "version1": gguf(version=1),
        "version9": gguf(version=9),
        "short_header": whole[:20],
        "cut_key": gguf(keys=[ARCHITECTURE])[:40],
        "cut_tensor": whole[:80],
        "cut_data": whole[:-1],
        "tensor_count": gguf(n_tensors=2**63),
        "key_count": gguf(n_keys=2**64 - 1),
        "key_length": gguf(keys=[u64(2**64 - 1) + bytes(32)]),
        "key_twice": gguf(keys=[ARCHITECTURE, ARCHITECTURE]),
        "value_type": gguf(keys=[key("k", 13, bytes(8))]),
        "bool": gguf(keys=[key("k", BOOL, b"\2")]),
        "nested": array(ARRAY, 1, u32(U8) + u64(0)),
        "array_overflow": array(U64, 2**61 + 1),
        "array_strings": array(STRING, 3, string("a")),
        "alignment0": gguf(keys=[key("general.alignment", U32, u32(0))]),
        "alignment24": gguf(keys=[key("general.alignment", U32, u32(24))]),
        "alignment_type": gguf(keys=[key("general.alignment", STRING, string("32"))]),
        "alignment_huge": gguf([tensor("t", [8], T_F32, 0)], [key("general.alignment", U32, u32(2**31))], BLOCK),
        "rank0": one([]),
        "rank5": one([1, 1, 1, 1, 1]),
        "rank_huge": gguf([string("t") + u32(2**32 - 1) + bytes(64)], [], BLOCK),
        "dim0": one([4, 0]),
        "dim_negative": one([2**64 - 4]),
        "dims_overflow": one([2**32, 2**32]),
        "dims_wrap": one([2**33, 2**31, 2, 1]),
        "bytes_wrap": one([2**62], T_F64),
        "type": one([8], 43),
        "type_retired": one([8], 4),
        "part_of_block": one([40], T_Q4_0),
        "offset_odd": one([4], offset=4),
        "offset_far": one([4], offset=2**64 - 32),
        "past_end": one([16], offset=32),
        "tensor_twice": gguf([tensor("t", [4], T_F32, 0), tensor("t", [4], T_F32, 32)], [], BLOCK),
        "overlap": gguf([tensor("a", [4], T_F32, 32), tensor("b", [9], T_F32, 0)], [], BLOCK),
        "imatrix_dat": imatrix_dat(),
        "no_name": gguf([tensor("", [4], T_F32, 0)], [], BLOCK),
        "blocks_wrap": one([2**62, 2], T_Q4_K, data=bytes(288)),
        "blocks_behind": one([256, 3], T_Q4_K, data=bytes(2 * 144)),
        "blocks_over_rows": one([16, 2], T_Q4_0),  # 32 elements, but no row is a block
        "blocks_overlap": gguf([tensor("a", [256], T_Q4_K, 0), tensor("b", [32], T_Q4_0, 128)], [], bytes(160)),
    } | {f"{name}_short": two_blocks(name, missing=1) for name in QUANTIZED} \
      | {f"{name}_part": two_blocks(name, more=-1) for name in QUANTIZED}


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus" / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, files in (("ok", good_files()), ("bad", bad_files())):
        for name, data in files.items():
            (folder / f"{prefix}_{name}.gguf").write_bytes(data)


if __name__ == "__main__":
    main()
