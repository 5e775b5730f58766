#!/usr/bin/env python3
"""Random GPT-2s of odd shapes: `toy` and llama.cpp compute the same logits, in prefill and in decoding.

  PY=$(scripts/peers.sh) && $PY tests/peer/random_gpt2s.py build/release/toy

As random_llamas.py: every log probability, from prompts of 1 and of 40 tokens, 40 generated.  llama.cpp takes gelu from a table
of f16 inputs and outputs, so each model is compared twice: as it is, within what that makes; and with inputs of gelu so large
that it is 0 or the identity (`saturated`), where all else must be equal as f32 is.
"""
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]

import numpy as np
from make_gpt2_golden import Shape, make_weights, write_model
from random_llamas import EXACT, compare

TABLE = 6e-3  # of gelu: logits of rms 1 differ by up to 3e-3, so logprobs by twice that
SATURATION = 1e4

SHAPES = [  # D, H, F, V, L, context
    Shape("tied", 60, 6, 240, 90, 3, 128, True, 1e-5, 1),
    Shape("untied", 60, 5, 56, 90, 3, 81, False, 1e-2, 2),
    Shape("odd_heads", 63, 7, 33, 70, 2, 96, True, 1e-5, 3),
    Shape("wide_heads", 128, 2, 256, 70, 2, 128, False, 1e-5, 4),
]


def saturated(weights):
    factor = {"ffn_up.weight": SATURATION, "ffn_up.bias": SATURATION, "ffn_down.weight": 1 / SATURATION}
    return {name: a * np.float32(next((f for end, f in factor.items() if name.endswith(end)), 1)) for name, a in weights.items()}


def main():
    toy = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        for s in SHAPES:
            weights = make_weights(s, np.random.RandomState(s.seed))
            for kind, w, tolerance in [("gelu", weights, TABLE), ("saturated", saturated(weights), EXACT)]:
                path = pathlib.Path(scratch) / f"{s.name}-{kind}.gguf"
                write_model(path, s, w)
                compare(toy, path, s, tolerance)


if __name__ == "__main__":
    main()
