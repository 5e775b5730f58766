#!/usr/bin/env python3
"""Compares adapters of every map of every family in toy, PEFT and llama.cpp.

  PY=$(scripts/peers.sh) && $PY tests/peer/adapter_families.py --toy build/release/toy --corpus text.txt [--only qwen2,gpt-oss]

For each family toy trains a small model, then an adapter of all maps that PEFT can have, with ranks that differ by block.
PEFT must give toy's log probabilities on the same base as a Hugging Face folder, each kind of module must matter there, and
toy must read the folder back. Then the adapter of each kind of map by itself must give the same in llama.cpp, or be ignored
where toy says so. Where DoRA is possible, PEFT is compared once more, also at a scale of 0.5.

Exit code 0: equal. 1: a difference.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gguf
import numpy as np
import torch
import transformers
from adapters import Comparison, LlamaWithAdapter
from hf_folder import logprobs_of, of_toy, of_transformers, run
from peft import PeftModel

EXACT, TABLE = 2e-5, 2e-2  # of log probabilities, all in f32; llama.cpp takes gelu from a table of 16-bit floats
MATTERS = 10 * EXACT       # at least what a kind of module changes
IDS = [79, 110, 99, 101, 32, 104, 101, 32, 119, 97, 115, 32, 97, 110, 46, 32, 83, 104, 101]

BASE = dict(d_model=60, n_heads=6, n_kv=2, d_ff=56, context=256, rope_base=5000, tied=False)
WIDE, EXPERTS = dict(d_head=14), dict(experts=5, experts_used=2)
GRANITE = dict(embedding_scale=5, residual_scale=0.7, logit_divisor=2, attention_scale=0.2)
GEMMA = dict(WIDE, tied=True, window=32)
MAMBA = dict(mamba2_heads=12, mamba2_width=10, mamba2_state=12, mamba2_groups=3, rope_base=10000, d_ff=0)
DELTA = dict(layers="gdn*3,attn", delta_key_heads=3, delta_value_heads=6, delta_width=10)
KIMI = dict(rope_base=10000, delta_value_heads=6, delta_width=10, latent_width=18, latent_key=12, latent_shared_key=4,
            latent_value=10, layers="kda(experts=0,experts_used=0,shared_d_ff=0),mla,kda")
GLOBAL = dict(window=0, rope="global", d_head=16)
FAMILIES = [
    ("qwen2", 2, {}),
    ("qwen3", 2, WIDE),
    ("smollm3", 5, dict(tied=True)),
    ("olmo2", 2, {}),
    ("gemma", 2, dict(WIDE, tied=True)),
    ("gemma2", 3, dict(GEMMA, attention_softcap=5, logit_softcap=4)),
    ("gemma3", 7, dict(GEMMA, local_rope_base=700)),
    ("gemma4", 4, dict(GEMMA, d_head=10, local_rope_base=700, layer_embedding=8,
                       layers=[{}, GLOBAL, dict(shared_kv=True, d_ff=112), dict(GLOBAL, shared_kv=True, d_ff=112)])),
    ("gemma4", 3, dict(GEMMA, d_head=10, local_rope_base=700, rope_factors=[1] * 3 + [1e30] * 5,
                       layers=[{}, {}, dict(GLOBAL, n_kv=1, v_is_k=True)])),
    ("phi3", 2, dict(rope_dims=6)),
    ("granite", 2, dict(GRANITE, biases=["attn_q", "attn_k", "attn_v", "attn_output"])),
    ("gpt2", 2, dict(n_kv=6, rope_base=None, tied=True)),
    ("lfm2", 3, dict(tied=True, layers="conv,attn,conv")),
    ("mamba2", 3, MAMBA),
    ("nemotron_h", 4, dict(MAMBA, **WIDE, tied=True, layers="mamba2,ffn(d_ff=56),attn,mamba2")),
    ("qwen35", 4, DELTA),
    ("llama", 2, EXPERTS),
    ("olmoe", 2, dict(EXPERTS, n_kv=6)),
    ("qwen3moe", 2, dict(WIDE, **EXPERTS)),
    ("gpt-oss", 3, dict(WIDE, **EXPERTS, window=32)),
    ("granitemoe", 2, dict(GRANITE, **EXPERTS, shared_d_ff=20)),
    ("lfm2moe", 3, dict(EXPERTS, tied=True, layers="conv(experts=0,experts_used=0,d_ff=72),attn,conv")),
    ("granitehybrid", 3, dict(MAMBA, **GRANITE, **EXPERTS, d_ff=56, shared_d_ff=20, layers="mamba2,attn,mamba2")),
    ("nemotron_h_moe", 3, dict(MAMBA, **WIDE, experts_latent=30, experts_scale=2.5,
                               layers="mamba2,ffn(d_ff=24,experts=5,experts_used=2,shared_d_ff=20),attn")),
    ("qwen35moe", 4, dict(DELTA, **EXPERTS, shared_d_ff=20)),
    ("qwen3next", 4, dict(DELTA, **EXPERTS, shared_d_ff=20)),
    ("kimi-linear", 3, dict(KIMI, **EXPERTS, shared_d_ff=56)),
]
# All that PEFT can have; it refuses outputs of Mamba layers in these.
TARGETS = {"mamba2": "ssm_in", "nemotron_h": "ssm_in,attn_*,ffn_*", "nemotron_h_moe": "ssm_in,attn_*,ffn_*"}
# What llama.cpp ignores.
IGNORED = {"gemma4": ["per_layer_model_proj"], "nemotron_h_moe": ["*.ffn_latent_*"],
           "kimi-linear": ["*.attn_[qkv]", "*.attn_kv_a_mqa", "*.ssm_*", "blk.[02].attn_output", "output"]}


def transformers_model(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation="eager").eval()


def train(toy, base, corpus, out, *options):
    """Returns what toy says of PEFT and llama.cpp."""
    done = subprocess.run([toy, "train", "lora", "--model", base, "--corpus", corpus, "--rank", "4", "--batch", "2", "--tokens",
                           "64", "--steps", "8", "--lr", "2e-2", "--out", out, *options], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{base}: toy train lora: {done.stderr}")
    return done.stderr


def check_modules(c, name, model, wanted):
    """Without those of one kind the result is another one."""
    kinds = {}
    for path, module in model.named_modules():
        if hasattr(module, "lora_A"):
            kinds.setdefault(path.rsplit(".", 1)[-1], []).append(module.scaling)
    for kind, scalings in kinds.items():
        before = [s["default"] for s in scalings]
        for s in scalings:
            s["default"] = 0.0
        d = np.abs(of_transformers(model, IDS) - wanted).max()
        c.check(d >= MATTERS, f"{name}: {kind} changes PEFT's log probabilities by {d:.1e}")
        for s, value in zip(scalings, before):
            s["default"] = value


def parts_of(adapter, tied, folder):
    """One adapter for each kind of map, by its name; maps that llama.cpp treats differently by block stay apart."""
    reader = gguf.GGUFReader(adapter)
    kinds = {}
    for t in reader.tensors:
        weight = t.name.rsplit(".weight.lora_", 1)[0]
        if tied and weight in ("token_embd", "output"):
            continue
        kind = weight if weight.endswith("attn_output") else weight.split(".", 2)[2] if weight.startswith("blk.") else weight
        kinds.setdefault(kind, []).append(t)
    for kind, tensors in kinds.items():
        path = folder / "part.gguf"
        writer = gguf.GGUFWriter(path, reader.get_field("general.architecture").contents())
        writer.add_string("general.type", "adapter"), writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", float(reader.get_field("adapter.lora.alpha").contents()))
        for t in tensors:
            writer.add_tensor(t.name, np.array(t.data))
        writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
        yield tensors[0].name.rsplit(".weight.lora_", 1)[0], path


def compare_llama_cpp(c, name, toy, base, adapter, said, tied, tolerance, work):
    plain, ignored = of_toy(toy, base, IDS), []
    for weight, path in parts_of(adapter, tied, work):
        llama = LlamaWithAdapter(base, path)
        got = llama.logprobs(IDS)
        wanted = of_toy(toy, base, IDS, "--lora", path)
        known = any(fnmatch.fnmatch(weight, p) for p in IGNORED.get(name, []))
        if known:
            ignored.append(weight)
            c.check(np.abs(got - plain).max() <= tolerance, f"{name}: llama.cpp ignores {weight}")
        else:
            d = np.abs(got - wanted).max()
            c.check(d <= tolerance, f"{name}: llama.cpp with {weight} {d:.1e}, of {np.abs(wanted - plain).max():.1e}")
    c.check(("llama.cpp" in said) == (bool(ignored) or tied), f"{name}: toy says what llama.cpp ignores")


def compare(c, toy, corpus, name, layers, keys, work):
    size = dict(BASE, architecture=name, n_layers=layers) | keys
    (work / "size.json").write_text(json.dumps({k: v for k, v in size.items() if v is not None}))
    run(toy, "train", "from-scratch", "--corpus", corpus, "--size", work / "size.json", "--batch", 4, "--tokens", 64, "--steps", 20,
        "--lr", 1e-2, "--out", work / "base")
    base, tied = work / "base/model.gguf", size["tied"]
    run(toy, "convert", base, work / "hf")
    d = np.abs(of_transformers(transformers_model(work / "hf"), IDS) - of_toy(toy, base, IDS)).max()
    c.check(d <= EXACT, f"{name}: the base in transformers {d:.1e}")
    targets = TARGETS.get(name, "all-linear")
    ranks = "blk.1.ssm_in" if name == "mamba2" else "blk.1.*"
    kinds = {"lora": ["--targets", f"{targets},output,token_embd,{ranks}=3:7", "--rslora"]}
    if "experts" not in json.dumps(size) and name not in ("phi3", "gpt2"):
        kinds["dora"] = ["--targets", targets, "--dora"]
    for kind, options in kinds.items():
        out = work / kind
        said = train(toy, base, corpus, out, *options)
        wanted = of_toy(toy, base, IDS, "--lora", out)
        if not (out / "peft").exists():
            c.check(False, f"{name}: nothing for PEFT, {said}")
            continue
        model = PeftModel.from_pretrained(transformers_model(work / "hf"), out / "peft").eval()
        d = np.abs(of_transformers(model, IDS) - wanted).max()
        c.check(d <= EXACT, f"{name}: {kind} in PEFT {d:.1e}")
        d = np.abs(of_toy(toy, base, IDS, "--lora", out / "peft") - wanted).max()
        c.check(d <= EXACT, f"{name}: {kind} for PEFT in toy {d:.1e}")
        if kind == "dora":
            for module in model.modules():
                if hasattr(module, "lora_A"):
                    module.set_scale("default", 0.5)
                    for part in module.lora_magnitude_vector.values():
                        part.train().eval()  # the norm is another one now
            d = np.abs(of_transformers(model, IDS) - of_toy(toy, base, IDS, "--lora", f"{out}:0.5")).max()
            c.check(d <= EXACT, f"{name}: half of {kind} in PEFT {d:.1e}")
        else:
            check_modules(c, name, model, wanted)
            tolerance = TABLE if name == "gpt2" or name.startswith("gemma") else EXACT
            compare_llama_cpp(c, name, toy, base, out / "adapter.gguf", said, tied, tolerance, work)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("toy", "corpus"):
        ap.add_argument("--" + name, type=pathlib.Path, required=True)
    ap.add_argument("--only", default="", help="families, comma separated")
    a = ap.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    c = Comparison()
    for name, layers, keys in FAMILIES:
        if not a.only or name in a.only.split(","):
            with tempfile.TemporaryDirectory() as work:
                compare(c, a.toy, a.corpus, name, layers, keys, pathlib.Path(work))
    return int(c.failed)


if __name__ == "__main__":
    sys.exit(main())
