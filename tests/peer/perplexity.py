#!/usr/bin/env python3
"""Perplexity of one GGUF in every type, in `toy` and in llama.cpp: within 0.1% of each other on the same file.

  PY=$(scripts/peers.sh) && $PY tests/peer/perplexity.py --toy build/release/toy MODEL TEXT

Windows do not overlap, and begin with the beginning-of-sequence token if the model wants one.  Types whose blocks do not fit the model's rows
are left out, as is what toy puts in their place.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from llama_cpp_greedy import LlamaCpp

TYPES = "F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL MXFP4 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS".split()
BOUND = 1e-3
WINDOW = 512


def run(command):
    return json.loads(subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout)


def nats_of_llama_cpp(model, ids, bos):
    """Mean nats per token, in windows of WINDOW tokens. ids[0] is only read; bos, or None, begins every window."""
    peer = LlamaCpp(model, n_ctx=WINDOW, threads=1)
    nats = 0.0
    for at in range(0, len(ids) - 1, WINDOW):
        read, wanted = list(ids[at:at + WINDOW]), ids[at + 1:at + WINDOW + 1]
        if bos is not None:
            read[0] = bos
        logits = peer.logits(read[:len(wanted)]).astype(np.float64)
        top = logits.max(1)
        nats += float((np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(len(wanted)), wanted]).sum())
    peer.close()
    return nats / (len(ids) - 1)


def bos_of(model):
    """The token that texts begin with, or None."""
    fields = gguf.GGUFReader(model).fields
    wanted = fields.get("tokenizer.ggml.add_bos_token")
    return int(fields["tokenizer.ggml.bos_token_id"].contents()) if wanted is None or wanted.contents() else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("text", type=pathlib.Path)
    p.add_argument("--toy", required=True)
    a = p.parse_args()
    bos = bos_of(a.model)
    ids = run([a.toy, "tokenizer", "encode", a.model, "--file", a.text, "--no-bos", "--json"])
    if bos is not None:
        ids = [bos, *ids]
    failed = compared = 0
    with tempfile.TemporaryDirectory() as work:
        model = f"{work}/model.gguf"
        for name in TYPES:
            made = run([a.toy, "quantize", a.model, model, "--overwrite", "--type", name, "--pure", "--json"])
            if not any(t["to"] == name for t in made["tensors"]):
                continue
            ours = run([a.toy, "eval", model, "--file", a.text, "--ctx", WINDOW, "--stride", WINDOW, "--json"])
            if ours["tokens"] != len(ids) - 1:
                sys.exit(f"toy scored {ours['tokens']} tokens of {len(ids) - 1}")
            mine, theirs = ours["nats_per_token"], nats_of_llama_cpp(model, ids, bos)
            off = math.exp(mine - theirs) - 1
            compared += 1
            failed += not abs(off) <= BOUND
            print(f"{name:7} {len(ids) - 1} tokens  toy {math.exp(mine):.4f}  llama.cpp {math.exp(theirs):.4f}  {off:+.3%}"
                  f"{'' if abs(off) <= BOUND else '  too far'}")
    if failed or not compared:
        sys.exit(f"{failed} of {compared} types differ by more than {BOUND:.1%}")


if __name__ == "__main__":
    main()
