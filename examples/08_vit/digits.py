#!/usr/bin/env python3
"""Writes scikit-learn's 1,797 handwritten digits as PGM files, with the usual split: 1,347 to train on, 450 to test.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install scikit-learn
    /tmp/venv/bin/python examples/08_vit/digits.py digits
    toy train vit --data digits --size vit-micro --out out/digits
"""
import pathlib
import sys

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: digits.py FOLDER")
    folder = pathlib.Path(sys.argv[1])
    digits = load_digits()
    parts = train_test_split(range(len(digits.target)), test_size=0.25, random_state=0)
    for name, part in zip(("train", "test"), parts):
        for i in part:
            path = folder / name / str(digits.target[i]) / f"{i:04}.pgm"
            path.parent.mkdir(parents=True, exist_ok=True)
            values = (digits.images[i] * 255 / 16).round().astype("uint8")  # of 16 grey levels
            path.write_bytes(b"P5\n8 8\n255\n" + values.tobytes())
    print(f"{folder}: {len(parts[0])} pictures to train on, {len(parts[1])} to test")


main()
