#!/usr/bin/env python3
"""Writes the small files of tests/fuzz/corpus/safetensors: bad_* must be refused, ok_* must be read.

Run it from anywhere; it needs nothing but Python. The same files come out every time.
"""
import json
import pathlib
import struct


def file(header, data=b"", length=None):
    """A header as text or as what json writes, padded to 8 bytes, and the bytes behind it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def one(data=b"", **changes):
    return file({"t": {**tensor([2], 0, 8), **changes}}, data or bytes(8))


def good_files():
    return {
        "empty": file({}),
        "one": one(),
        "scalar": file({"t": tensor([], 0, 4)}, bytes(4)),
        "no_elements": file({"t": tensor([0, 2**40], 0, 0)}),
        "types": file({"a": tensor([1], 0, 8, "F64"), "b": tensor([2], 8, 16, "I32"), "c": tensor([2], 16, 20, "F16"),
                       "d": tensor([1, 2, 1, 1], 20, 24, "BF16")}, bytes(24)),
        "metadata": file({"__metadata__": {"format": "pt"}, "t": tensor([2], 0, 8)}, bytes(8)),
        "names": file({"": tensor([1], 0, 4), "\u00e9\u0000\n": tensor([1], 4, 8)}, bytes(8)),
    }


def bad_files():
    return {
        "nothing": b"",
        "short": bytes(7),
        "cut_header": one()[:20],
        "cut_data": one()[:-1],
        "trailing": one(bytes(9)),
        "length_huge": file({}, length=2**64 - 1),
        "length_wraps": file({}, length=2**64 - 8),
        "list": file([]),
        "not_json": file(b"{"),
        "not_utf8": file(b'{"\xff":1}'),
        "deep": file(b"[" * 3000),
        "deep_object": file(b'{"a":' * 500),
        "not_a_tensor": file({"t": 1}),
        "no_shape": file({"t": {"dtype": "F32", "data_offsets": [0, 0]}}),
        "shape_text": one(shape="2"),
        "dim_negative": one(shape=[-2]),
        "dim_fraction": one(shape=[2.5]),
        "dim_huge": one(shape=[2**63, 2**63]),
        "dims_wrap": one(shape=[2**32, 2**32]),
        "bytes_wrap": one(shape=[2**62]),
        "rank": one(shape=[1] * 9),
        "offsets_one": one(data_offsets=[0]),
        "offsets_turned": one(data_offsets=[8, 0]),
        "offsets_far": one(data_offsets=[2**62, 2**62 + 8]),
        "offset_odd": file({"t": tensor([1], 2, 6)}, bytes(6)),
        "dtype": one(dtype="F7"),
        "dtype_number": one(dtype=32),
        "gap": file({"t": tensor([1], 4, 8)}, bytes(8)),
        "overlap": file({"a": tensor([2], 0, 8), "b": tensor([1], 4, 8)}, bytes(8)),
    }


def main():
    folder = pathlib.Path(__file__).resolve().parent / "corpus" / "safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, files in (("ok", good_files()), ("bad", bad_files())):
        for name, data in files.items():
            (folder / f"{prefix}_{name}.safetensors").write_bytes(data)


if __name__ == "__main__":
    main()
