#!/usr/bin/env python3
"""Writes what llm.c's CPU trainer (train_gpt2) reads, with random weights and tokens, so that it can be timed without downloads.

  python3 bench/peers/llm_c_inputs.py FOLDER     # the folder that train_gpt2 is started in

Needs numpy. The layouts are those that llm.c checks: a header of 256 int32, then f32 weights in the order of its structure, or
tokens of 16 bits.
"""
import pathlib
import sys

import numpy as np

CONTEXT, VOCAB, PADDED, LAYERS, HEADS, WIDTH = 1024, 50257, 50304, 12, 12, 768


def header(*values):
    return np.array(values + (0,) * (256 - len(values)), np.int32).tobytes()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    random = np.random.default_rng(0)
    ones, zeros = np.ones, np.zeros

    def matrix(*shape):
        return 0.02 * random.standard_normal(shape, dtype=np.float32)

    with open(folder / "gpt2_124M.bin", "wb") as f:
        f.write(header(20240326, 3, CONTEXT, VOCAB, LAYERS, HEADS, WIDTH, PADDED))
        for make, shape in ((matrix, (PADDED, WIDTH)), (matrix, (CONTEXT, WIDTH)),  # tokens, positions
                            (ones, (LAYERS, WIDTH)), (zeros, (LAYERS, WIDTH)),  # first norm
                            (matrix, (LAYERS, 3 * WIDTH, WIDTH)), (zeros, (LAYERS, 3 * WIDTH)),
                            (matrix, (LAYERS, WIDTH, WIDTH)), (zeros, (LAYERS, WIDTH)),
                            (ones, (LAYERS, WIDTH)), (zeros, (LAYERS, WIDTH)),  # second norm
                            (matrix, (LAYERS, 4 * WIDTH, WIDTH)), (zeros, (LAYERS, 4 * WIDTH)),
                            (matrix, (LAYERS, WIDTH, 4 * WIDTH)), (zeros, (LAYERS, WIDTH)),
                            (ones, (WIDTH,)), (zeros, (WIDTH,))):
            array = make(*shape) if make is matrix else make(shape)
            f.write(array.astype(np.float32).tobytes())
    data = folder / "dev" / "data" / "tinyshakespeare"
    data.mkdir(parents=True, exist_ok=True)
    for name, tokens in (("train", 300000), ("val", 30000)):
        with open(data / f"tiny_shakespeare_{name}.bin", "wb") as f:
            f.write(header(20240520, 1, tokens))
            f.write(random.integers(0, VOCAB, tokens, dtype=np.uint16).tobytes())


if __name__ == "__main__":
    main()
