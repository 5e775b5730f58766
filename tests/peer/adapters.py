#!/usr/bin/env python3
"""Compares adapters of every kind in toy, PEFT and llama.cpp, in both directions.

  PY=$(scripts/peers.sh) && $PY tests/peer/adapters.py --toy build/release/toy --base stories260K.gguf --corpus text.txt

Forward: toy trains an adapter; with it the log probabilities of toy, of PEFT on the same base as a Hugging Face folder, and of
llama.cpp must be equal. llama.cpp must refuse what it cannot use: DoRA, and output or embeddings of a model that has one tensor for
both. Backward: PEFT trains an adapter of the same kind, and toy must give its log probabilities.

Exit code 0: equal. 1: a difference.
"""
import argparse
import ctypes
import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import llama_cpp as lc
import numpy as np
import torch
import transformers
from hf_folder import logprobs_of, of_toy, of_transformers, run
from llama_cpp_greedy import LlamaCpp
from peft import LoraConfig, PeftModel, get_peft_model

TOLERANCE = 3e-4  # of log probabilities; all compute in f32
MOVED = 0.1       # at least what an adapter changes
IDS = [1, 403, 407, 261, 285, 378, 410, 420, 39, 286, 263, 265, 420, 388, 367, 419]

# What toy and PEFT are told. `parts` are changes of embeddings or output.
KINDS = {
    "lora": ("--targets all-linear", dict(target_modules="all-linear")),
    "ranks": ("--targets all-linear,attn_q=2:5,ffn_down=4 --rslora",
              dict(target_modules="all-linear", rank_pattern={"q_proj": 2, "down_proj": 4}, alpha_pattern={"q_proj": 5},
                   use_rslora=True)),
    "dora": ("--dora", dict(target_modules="all-linear", use_dora=True)),
    "pissa": ("--pissa", dict(target_modules="all-linear", init_lora_weights="pissa")),
    "parts": ("--targets attn_q,embed_tokens,lm_head", dict(target_modules=["q_proj", "embed_tokens", "lm_head"])),
}


class LlamaWithAdapter:
    """llama.cpp with an adapter; `refused` if it does not load."""

    def __init__(self, base, adapter):
        self.llama = LlamaCpp(base)
        self.adapter = lc.llama_adapter_lora_init(self.llama.model, str(adapter).encode())
        self.refused = not self.adapter
        if self.refused:
            return
        one = (lc.llama_adapter_lora_p_ctypes * 1)(self.adapter)
        if lc.llama_set_adapters_lora(self.llama.ctx, one, 1, (ctypes.c_float * 1)(1.0)):
            sys.exit(f"llama.cpp loads {adapter}, but does not use it")

    def logprobs(self, ids=IDS):
        return logprobs_of(self.llama.decode(ids, 0)[0])


def transformers_model(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def of_toy_with(toy, base, adapter):
    return of_toy(toy, base, IDS, "--lora", adapter)


class Comparison:
    def __init__(self):
        self.failed = False

    def equal(self, what, a, b):
        d = float(np.abs(a - b).max())
        self.check(d <= TOLERANCE, f"{what}: largest difference of log probabilities {d:.1e}")

    def check(self, ok, what):
        print(("ok   " if ok else "FAIL ") + what)
        self.failed |= not ok


def trained_by_peft(folder, config, out):
    torch.manual_seed(3)
    model = get_peft_model(transformers_model(folder), LoraConfig(r=8, lora_alpha=16, task_type="CAUSAL_LM", **config))
    pissa = config.get("init_lora_weights") == "pissa"
    if pissa:
        model.save_pretrained(out / "start")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ids = torch.tensor([IDS])
    for _ in range(10):
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    wanted = of_transformers(model.eval(), IDS)
    model.save_pretrained(out / "peft", **({"path_initial_model_for_weight_conversion": out / "start"} if pissa else {}))
    return wanted


def compare(c, toy, base, folder, corpus, kind, tied, work):
    options, config = KINDS[kind]
    what = f"{kind}, {'tied' if tied else 'untied'}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    run(toy, "train", "lora", "--model", base, "--corpus", corpus, "--rank", 8, "--batch", 4, "--tokens", 64, "--steps", 12,
        "--lr", 1e-2, "--out", work / "run", *options.split())
    wanted = of_toy_with(toy, base, work / "run")
    moved = float(np.abs(wanted - of_toy(toy, base, IDS)).max())
    c.check(moved >= MOVED, f"{what}: the adapter changes log probabilities by {moved:.2f}")
    in_peft = PeftModel.from_pretrained(transformers_model(folder), work / "run/peft").eval()
    c.equal(f"{what}: PEFT reads toy's", of_transformers(in_peft, IDS), wanted)
    llama = LlamaWithAdapter(base, work / "run/adapter.gguf")
    unknown = kind == "dora" or (kind == "parts" and tied)
    c.check(llama.refused == unknown, f"{what}: llama.cpp {'refuses' if llama.refused else 'loads'} the adapter")
    if not llama.refused:
        c.equal(f"{what}: llama.cpp reads toy's", llama.logprobs(), wanted)
    run(toy, "merge", base, "--lora", work / "run", "--out", work / "merged.gguf")
    merged = LlamaCpp(work / "merged.gguf").decode(IDS, 0)[0]
    c.equal(f"{what}: llama.cpp reads the merged model", logprobs_of(merged), wanted)
    wanted = trained_by_peft(folder, config, work)
    c.equal(f"{what}: toy reads PEFT's", of_toy_with(toy, base, work / "peft"), wanted)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("toy", "base", "corpus"):
        ap.add_argument("--" + name, type=pathlib.Path, required=True)
    a = ap.parse_args()
    transformers.logging.set_verbosity_error()
    c = Comparison()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        # A model with an output of its own: merging an adapter of the output makes one.
        run(a.toy, "train", "lora", "--model", a.base, "--corpus", a.corpus, "--targets", "output", "--steps", 4, "--lr", 1e-2,
            "--batch", 4, "--tokens", 64, "--out", tmp / "output")
        run(a.toy, "merge", a.base, "--lora", tmp / "output", "--out", tmp / "untied.gguf")
        for base, tied in ((a.base, True), (tmp / "untied.gguf", False)):
            folder = tmp / ("tied" if tied else "untied")
            run(a.toy, "convert", base, folder)
            c.equal(f"the base, {folder.name}", of_transformers(transformers_model(folder), IDS), of_toy(a.toy, base, IDS))
            for kind in KINDS:
                compare(c, a.toy, base, folder, a.corpus, kind, tied, tmp / "work")
    return int(c.failed)


if __name__ == "__main__":
    sys.exit(main())
