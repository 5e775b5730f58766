#!/usr/bin/env python3
"""Make hf.golden.json: what transformers' save_pretrained writes for the models of make_family_golden.py
and make_hybrid_golden.py.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_hf_golden.py

For each family: config.json, how many tensors there are, and one number that depends on all of them: the sum over all
elements of value times `uniform(name of the tensor)`, in f64.
"""
import json
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peer")]

import numpy as np
from safetensors.numpy import load_file

import make_family_golden as golden
import make_hybrid_golden as hybrid
from hf_folder import family_model


def main():
    out = {}
    for family in golden.FAMILIES + hybrid.FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            family_model(family).save_pretrained(folder)
            config = json.loads((pathlib.Path(folder) / "config.json").read_text())
            tensors = load_file(pathlib.Path(folder) / "model.safetensors")
        # Published files of Kimi Linear have this name for dense layers, as its config means it.
        tensors = {re.sub(r"\.block_sparse_moe\.(gate|up|down)_proj\.", r".mlp.\1_proj.", n): a for n, a in tensors.items()}
        total = sum(float((a.flatten().astype(np.float64) * golden.uniform(name, a.size)).sum())
                    for name, a in sorted(tensors.items()))
        out[family.name] = {"config": config, "tensors": len(tensors), "sum": total}
    (HERE / "hf.golden.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
