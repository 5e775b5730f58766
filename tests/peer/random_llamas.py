#!/usr/bin/env python3
"""Random Llamas of odd shapes: `toy` and llama.cpp compute the same logits, in prefill and in decoding.

  PY=$(scripts/peers.sh) && $PY tests/peer/random_llamas.py build/release/toy

Each model is written to a scratch folder and compared by check_against_llama_cpp.check_every_logit(), from prompts of 1 and
of 40 tokens, 40 generated: the longer run crosses a page of 64.  A Q8_0 model is compared twice: bit for bit with its f32
twin, which gguf-py dequantized, in toy alone (--exact); and with llama.cpp within what rounding activations to 8 bits makes.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "golden")]

import numpy as np
from check_against_llama_cpp import Different, check_every_logit
from make_llama_golden import BIASED, Shape, make_weights, write_model

EXACT = 1e-4  # both compute in f32; logits are of rms 1
F16, BF16, Q8_0 = 2e-2, 2e-1, 4e-1  # llama.cpp rounds activations to the type of the weights

SHAPES = [  # D, H, K, P, F, V, L; what the golden files do not have, or have smaller
    (Shape("multi_query", 60, 5, 1, 6, 56, 90, 3, True, 5000.0, 1e-5, 1), EXACT),
    (Shape("three_a_key", 60, 9, 3, 10, 56, 90, 3, False, 10000.0, 1e-2, 2), EXACT),
    (Shape("five_a_key", 48, 15, 3, 14, 33, 90, 2, True, 5000.0, 1e-5, 3), EXACT),
    (Shape("wide_heads", 24, 4, 2, 64, 40, 70, 2, False, 700.0, 1e-5, 4), EXACT),
    (Shape("biases", 60, 6, 2, 12, 56, 90, 3, True, 5000.0, 1e-5, 5, biases=BIASED), EXACT),
    (Shape("qkv_biases", 48, 6, 3, 8, 56, 90, 2, False, 5000.0, 1e-5, 6, biases=BIASED[:3]), EXACT),
    (Shape("factors", 60, 6, 2, 16, 56, 90, 3, True, 5000.0, 1e-5, 7, scaling="llama3", factor=8.0, original=32), EXACT),
    (Shape("linear", 60, 6, 2, 10, 56, 90, 3, True, 5000.0, 1e-5, 8, scaling="linear", factor=4.0), EXACT),
    (Shape("linear_scaled", 60, 6, 2, 10, 56, 90, 2, True, 5000.0, 1e-5, 8, scaling="linear", factor=4.0, attn_factor=0.8),
     EXACT),
    (Shape("unscaled", 60, 6, 2, 10, 56, 90, 2, True, 5000.0, 1e-5, 8, attn_factor=1.2), EXACT),
    (Shape("yarn10", 60, 6, 2, 10, 56, 90, 3, True, 5000.0, 1e-5, 9, scaling="yarn", factor=4.0, original=32), EXACT),
    (Shape("yarn24", 60, 10, 2, 24, 56, 90, 3, True, 500.0, 1e-5, 10, scaling="yarn", factor=8.0, original=16,
           attn_factor=0.75), EXACT),
    (Shape("f16", 60, 9, 3, 10, 56, 90, 3, True, 5000.0, 1e-5, 11, biases=BIASED, dtype="f16"), F16),
    (Shape("bf16", 60, 5, 1, 6, 56, 90, 3, False, 5000.0, 1e-5, 12, dtype="bf16"), BF16),
    (Shape("q8_0", 64, 6, 2, 16, 96, 90, 3, True, 5000.0, 1e-5, 13, biases=BIASED, dtype="q8_0"), Q8_0),
    (Shape("q8_0_untied", 96, 12, 4, 8, 128, 90, 2, False, 5000.0, 1e-5, 14, dtype="q8_0"), Q8_0),
]


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"random_llamas: exit code {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def prompts(s):
    rng = np.random.RandomState(100 + s.seed)
    return [rng.randint(0, s.V, n).tolist() for n in (1, 40)]


def compare(toy, path, shape, tolerance):
    for ids in prompts(shape):
        print(f"{path.name}: ", end="", flush=True)  # first: llama.cpp may end this process
        try:
            print(check_every_logit(toy, path, ids, 40, tolerance), flush=True)
        except Different as e:
            raise SystemExit(f"{path.name}: {e}") from None


def main():
    toy = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        for s, tolerance in SHAPES:
            weights = make_weights(s, np.random.RandomState(s.seed))
            path = pathlib.Path(scratch) / f"{s.name}.gguf"
            write_model(path, s, weights)
            compare(toy, path, s, tolerance)
            if s.dtype == "q8_0":
                twin = pathlib.Path(scratch) / f"{s.name}-f32.gguf"
                write_model(twin, s, weights, "f32")  # `weights` are the dequantized ones
                for ids in prompts(s):
                    answers = [run(toy, "infer", p, "--prompt-ids", ",".join(map(str, ids)), "--n", 40, "--temperature", 0, "--json", "--top-logprobs", s.V,
                                   "--exact", "--kv", "f32") for p in (path, twin)]
                    if answers[0] != answers[1]:
                        raise SystemExit(f"random_llamas: {s.name}: toy computes otherwise from the f32 twin")
                print(f"{s.name}.gguf: the same bits as its f32 twin")


if __name__ == "__main__":
    main()
