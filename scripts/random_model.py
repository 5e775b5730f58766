#!/usr/bin/env python3
"""Writes a Llama with random weights as GGUF, in seconds and without packages: for speed, never for quality.

  scripts/random_model.py OUT.gguf --shape llama-8b --type q4_k

Matrices repeat one megabyte of random blocks. The vocabulary is a stand-in: `toy bench infer` feeds token ids.
"""
import argparse
import random
import struct

# D, F, L, H, K, P, V
SHAPES = {"tiny": (256, 512, 2, 4, 2, 64, 512), "tinyllama-1b": (2048, 5632, 22, 32, 4, 64, 32000),
          "llama-8b": (4096, 14336, 32, 32, 8, 128, 128256)}


def bf16(dice, wide):
    return struct.pack("<f", dice.gauss(0, wide**-0.5))[2:]


def q8_0(dice, wide):  # levels of -127 to 127 times a half
    return struct.pack("<e", 1.7 / 127 * wide**-0.5) + dice.randbytes(32).replace(b"\x80", b"\x81")


def q4_k(dice, wide):  # eight scales and minima of 6 bits, levels of 4
    return struct.pack("<ee", wide**-0.5 / 280, wide**-0.5 / 40) + dice.randbytes(12 + 128)


# GGUF's number, elements and bytes of a block, and what makes one
TYPES = {"bf16": (30, 1, bf16), "q8_0": (8, 32, q8_0), "q4_k": (12, 256, q4_k)}


def text(s):
    return struct.pack("<Q", len(s)) + s


def write(path, shape, kind):
    D, F, L, H, K, P, V = SHAPES[shape]
    number, elements, block = TYPES[kind]
    dice = random.Random(0)
    part = [block(dice, D) for _ in range((1 << 20) // len(block(dice, D)))]
    tensors = [("token_embd", V, D), ("output_norm", 0, D), ("output", V, D)]
    for i in range(L):
        tensors += [(f"blk.{i}.{name}", rows, columns) for name, rows, columns in
                    (("attn_norm", 0, D), ("ffn_norm", 0, D), ("attn_q", H * P, D), ("attn_k", K * P, D),
                     ("attn_v", K * P, D), ("attn_output", D, H * P), ("ffn_gate", F, D), ("ffn_up", F, D), ("ffn_down", D, F))]

    def number_of(key, value, form="I"):
        return text(key.encode()) + struct.pack("<I" + form, 4 if form == "I" else 6, value)

    def array(key, item, values):
        return text(key.encode()) + struct.pack("<IIQ", 9, item, V) + values

    keys = [text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
            text(b"tokenizer.ggml.model") + struct.pack("<I", 8) + text(b"llama"),
            number_of("llama.context_length", 4096), number_of("llama.embedding_length", D),
            number_of("llama.feed_forward_length", F), number_of("llama.block_count", L),
            number_of("llama.attention.head_count", H), number_of("llama.attention.head_count_kv", K),
            number_of("llama.rope.dimension_count", P), number_of("llama.attention.layer_norm_rms_epsilon", 1e-5, "f"),
            array("tokenizer.ggml.tokens", 8, b"".join(text(t) for t in [b"<unk>", b"<s>", b"</s>"] + [b"t%d" % i for i in range(3, V)])),
            array("tokenizer.ggml.scores", 6, bytes(4 * V)),
            array("tokenizer.ggml.token_type", 5, struct.pack(f"<{V}i", *([2, 3, 3] + [1] * (V - 3))))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    at, sizes = 0, []
    for name, rows, columns in tensors:
        dims = struct.pack("<IQQ", 2, columns, rows) if rows else struct.pack("<IQ", 1, columns)
        head += text(f"{name}.weight".encode()) + dims + struct.pack("<IQ", number if rows else 0, at)
        sizes.append(rows * columns // elements * len(part[0]) if rows else 4 * columns)
        at += (sizes[-1] + 31) // 32 * 32
    blocks = b"".join(part)
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32))
        for (_, rows, columns), size in zip(tensors, sizes):
            if not rows:
                out.write(struct.pack("<f", 1) * columns)
            for begin in range(0, size if rows else 0, len(blocks)):
                out.write(blocks[:size - begin])
            out.write(bytes(-size % 32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--type", default="q8_0", choices=TYPES)
    options = parser.parse_args()
    write(options.out, options.shape, options.type)


if __name__ == "__main__":
    main()
