#!/usr/bin/env python3
"""Make embeddings.golden.gguf: the pooled hidden states that transformers computes for models of the family golden files.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_embedding_golden.py           # beside this script

Weights and ids are those of FAMILY.family.gguf. transformers computes in f64, as make_family_golden.py says. Tensors are
golden.FAMILY.mean, .last and .first, [D]: of the first 64 ids, the mean of the last hidden states, that after the last id
and that after the first, divided by their length.
"""
import argparse
import os
import pathlib
import tempfile

import make_family_golden as family_golden
import make_hybrid_golden as hybrid_golden

import gguf
import numpy as np
import torch

# A rotary model, a scaled embedding with windows, QK-norm, layer norms with learned positions, experts with sinks, and
# three hybrids.
NAMES = ["llama", "gemma2", "qwen3", "gpt2", "gpt_oss", "qwen35", "lfm2", "granitehybrid"]


def last_hidden(family, ids):
    """[T,D]: the output of the last norm."""
    peer = family_golden.Peer(family, family_golden.weights_of(family.shapes()))
    with torch.no_grad(), family_golden.in_f64():
        out = torch.func.functional_call(
            peer.model, family.parameters(peer.w),
            kwargs={"input_ids": torch.tensor(ids, dtype=torch.long)[None], "use_cache": False, "output_hidden_states": True})
    return out.hidden_states[-1][0].numpy()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=family_golden.HERE, help="folder (default: beside this script)")
    a = ap.parse_args()
    torch.set_num_threads(1)
    families = {f.name: f for f in family_golden.FAMILIES + hybrid_golden.FAMILIES}
    with tempfile.TemporaryDirectory(dir=a.out) as scratch:
        path = pathlib.Path(scratch) / "golden.gguf"
        w = gguf.GGUFWriter(path, "golden")
        for name in NAMES:
            family = families[name]
            ids = (family_golden.hashes("ids", family_golden.LONG) % np.uint64(family.V)).astype(np.int64)
            h = last_hidden(family, ids[:family_golden.SHORT])
            for pooling, v in (("mean", h.mean(0)), ("last", h[-1]), ("first", h[0])):
                w.add_tensor(f"golden.{name}.{pooling}", (v / np.linalg.norm(v)).astype(np.float32))
            print(name, h.shape, flush=True)
        family_golden.finish(w)
        os.replace(path, a.out / "embeddings.golden.gguf")


if __name__ == "__main__":
    main()
