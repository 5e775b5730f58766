#!/usr/bin/env python3
"""Make the golden files of LoRA: ten steps of transformers and PEFT on a small random Llama.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_lora_golden.py             # writes beside this script

The base is llama_bias.model.gguf (make_llama_golden.py): grouped queries and biases. All is computed in f64 and rounded once.

One file for each of CASES below, lora_CASE.golden.gguf and lora_CASE_peft/ (those of the first: lora_llama, lora_peft):

  lora_llama.golden.gguf   inputs and targets of ten steps of B=2 sequences of T=12 tokens; by the names of llama.cpp
                           NAME.lora_a / .lora_b at the start (a), their gradients in the first step, and after the last
                           step; the loss of every step; the logits of the last inputs with the trained adapter
  lora_peft/               the trained adapter as PEFT saves it; of PiSSA as a difference on the original base

And of experts, where PEFT's adapter is random, on models of make_family_golden.py: lora_experts_CASE.golden.gguf has ids and
logits of PEFT, and lora_experts_CASE_peft/ the adapter. In `mixtral_modules` each expert is a module, as before transformers 5.

PEFT adds scaling * B A x to every linear map but the output; here rank 3 and alpha 6, so scaling is 2. The file's rows of q and k
are in the order of llama.cpp, those of transformers in its own, so rows of B move (`hf_rows`).
"""
import argparse
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gguf
import numpy as np
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file

import make_family_golden as family
import make_llama_golden as llama

RANK, ALPHA, STEPS, B, T, LR = 3, 6, 10, 2, 12, 1e-2
# What LoraConfig gets; `ratio`: learning rate of B over that of A; `targets`: the same for toy.
CASES = {
    "llama": dict(config=dict(target_modules="all-linear")),
    "plus": dict(config=dict(target_modules="all-linear", rank_pattern={"q_proj": 2, "down_proj": 4},
                             alpha_pattern={"q_proj": 5}), ratio=4, targets="all-linear,attn_q=2:5,ffn_down=4"),
    "dora": dict(config=dict(target_modules="all-linear", use_dora=True), dora=1),
    "pissa": dict(config=dict(target_modules="all-linear", init_lora_weights="pissa"), pissa=1),
    "output": dict(config=dict(target_modules=["q_proj", "embed_tokens", "lm_head"]),
                   targets="attn_q,embed_tokens,lm_head"),
}
# The family, and what LoraConfig gets. Without parameters: experts as modules, of rank RANK.
EXPERTS = {
    "mixtral": ("mixtral", dict(target_parameters=["experts.gate_up_proj", "experts.down_proj"], target_modules=["q_proj"],
                                rank_pattern={"experts.down_proj": 2}, alpha_pattern={"gate_up_proj": 5})),
    "gpt_oss": ("gpt_oss", dict(target_parameters=["mlp.experts.gate_up_proj"], target_modules=[])),
    "mixtral_modules": ("mixtral", dict(target_modules=["w1", "w2", "w3"])),
}
SHAPE = next(s for s in llama.SHAPES if s.name == "llama_bias")


def base_weights():
    reader = gguf.GGUFReader(HERE / "llama_bias.model.gguf")
    return {t.name: np.array(t.data, dtype=np.float64).reshape(t.shape[::-1]) for t in reader.tensors}


def heads_of(name):
    return SHAPE.H if "attn_q." in name else SHAPE.K if "attn_k." in name else None


def adapted(weights, case):
    with family.in_f64():
        model = llama.hf_model(SHAPE).double()
        params = dict(model.named_parameters())
        with torch.no_grad():
            for name, a in weights.items():
                if name == "rope_freqs.weight":
                    continue
                    params[llama.hf_name(name)].copy_(torch.tensor(moved))
        torch.manual_seed(5)
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, task_type="CAUSAL_LM", **case["config"])
        model = get_peft_model(model, config, autocast_adapter_dtype=False).double()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.tensor(p.detach().numpy().astype(np.float32)))  # as the file has them
            if case.get("pissa"):
                subtract(model, weights)
        return model


def subtract(model, weights):
    """Makes the base of PiSSA again, of the rounded A and B: W - scaling B A."""
    by_hf = {llama.hf_name(n): n for n in weights if n.endswith(".weight") and weights[n].ndim == 2}
    for name, module in model.named_modules():
        if not hasattr(module, "lora_A"):
            continue
        ours = by_hf[name.removeprefix("base_model.model.") + ".weight"]
        w = llama.hf_rows(weights[ours], heads_of(ours)) if heads_of(ours) else weights[ours]
        a, b = module.lora_A["default"].weight, module.lora_B["default"].weight
        module.base_layer.weight.copy_(torch.tensor(w) - module.scaling["default"] * b @ a)


def adapter_tensors(model, weights, value):
    """value(parameter) of every adapter tensor, by llama.cpp's names and in its order of rows."""
    by_hf = {llama.hf_name(n): n for n in weights if n.endswith(".weight") and weights[n].ndim == 2}
    out = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        stem, kind = name.removeprefix("base_model.model.").split(".lora_")
        ours = "output.weight" if stem == "lm_head" else by_hf[stem + ".weight"]
        a = value(p).detach().numpy().astype(np.float64)
        kind = kind.removeprefix("embedding_")[0].lower()
        if kind in "bm" and heads_of(ours):
            h, rows = heads_of(ours), a.shape[0]
            a = a.reshape(h, 2, rows // h // 2, -1).swapaxes(1, 2).reshape(a.shape)
        if ours == "token_embd.weight" and kind == "a":
            a = a.T
        out[f"{ours}.lora_{kind}"] = np.ascontiguousarray(a)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=HERE)
    ap.add_argument("--only", default="", help="cases, comma separated")
    a = ap.parse_args()
    out, only = a.out, a.only.split(",") if a.only else [*CASES, *EXPERTS]
    for name, case in CASES.items():
        if name in only:
            make(out, name, case)
    for name, (base, config) in EXPERTS.items():
        if name in only:
            make_experts(out, name, next(f for f in family.FAMILIES if f.name == base), config)


def family_model(base):
    w = {n: torch.tensor(v, dtype=torch.float64) for n, v in family.weights_of(base.shapes()).items()}
    model = getattr(transformers, base.model + "ForCausalLM")(base.hf_config()).double().eval()
    left = model.load_state_dict({n: torch.as_tensor(v) for n, v in base.parameters(w).items()}, strict=False)
    assert not left.unexpected_keys, left
    return model


def make_experts(out, name, base, config):
    folder, ids = out / f"lora_experts_{name}_peft", family.hashes("ids", 24) % np.uint64(base.V)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, task_type="CAUSAL_LM", init_lora_weights=False, **config)
    torch.manual_seed(7)
    with family.in_f64():
        if config.target_parameters:
            save(get_peft_model(family_model(base), config).to(torch.float32), folder)
        else:
            config.save_pretrained(folder)
            save_file(modules_of_experts(base, config), folder / "adapter_model.safetensors")
        model = PeftModel.from_pretrained(family_model(base), folder, autocast_adapter_dtype=False).double()
        with torch.no_grad():
            logits = model(input_ids=torch.tensor(ids.astype(np.int64))[None], use_cache=False).logits[0].numpy()
    writer = gguf.GGUFWriter(out / f"lora_experts_{name}.golden.gguf", "golden")
    writer.add_tensor("ids", ids.astype(np.int32)), writer.add_tensor("logits", logits.astype(np.float32))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    print(name, "experts", logits.std())


def modules_of_experts(base, config):
    """Of Mixtral before transformers 5, random."""
    tensors = {}
    for layer in range(base.L):
        for expert in range(base.E):
            for module in sorted(config.target_modules):
                stem = f"base_model.model.model.layers.{layer}.block_sparse_moe.experts.{expert}.{module}"
                rows, columns = (base.D, base.F) if module == "w2" else (base.F, base.D)
                tensors[f"{stem}.lora_A.weight"] = torch.randn(RANK, columns) / columns**0.5
                tensors[f"{stem}.lora_B.weight"] = torch.randn(rows, RANK) / RANK**0.5 / 4
    return tensors


def make(out, case_name, case):
    weights = base_weights()
    model = adapted(weights, case)
    folder = out / ("lora_peft" if case_name == "llama" else f"lora_{case_name}_peft")
    if case.get("pissa"):  # what PEFT subtracts when it saves
        start = pathlib.Path(tempfile.mkdtemp())
        save(model, start)
    rng = np.random.default_rng(11)
    inputs = rng.integers(0, SHAPE.V, (STEPS, B, T)).astype(np.int32)
    targets = rng.integers(0, SHAPE.V, (STEPS, B, T)).astype(np.int32)
    targets[1:] = targets[0]
    inputs[1:] = inputs[0]  # the same batch, so that the loss falls
    inputs[5:] = rng.integers(0, SHAPE.V, (STEPS - 5, B, T))
    ratio = case.get("ratio", 1)
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    is_b = lambda n: "lora_B" in n or "lora_embedding_B" in n
    optimizer = torch.optim.AdamW([{"params": [p for n, p in trained if not is_b(n)], "lr": LR},
                                   {"params": [p for n, p in trained if is_b(n)], "lr": LR * ratio}],
                                  betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    results = {"inputs": inputs.reshape(-1), "targets": targets.reshape(-1)}
    for name, a in adapter_tensors(model, weights, lambda p: p).items():
        if name.endswith("_a") or case_name != "llama":
            results["start." + name] = a
    losses = []
    for step in range(STEPS):
        with family.in_f64():
            logits = model(input_ids=torch.tensor(inputs[step], dtype=torch.long), use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.reshape(-1, SHAPE.V),
                                                     torch.tensor(targets[step].reshape(-1), dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
        losses.append(loss.item())
        if step == 0:
            results |= {"grad." + n: a for n, a in adapter_tensors(model, weights, lambda p: p.grad).items()}
        if step == 1:  # only now does A have a gradient: B began as zero
            results |= {"grad2." + n: a for n, a in adapter_tensors(model, weights, lambda p: p.grad).items()}
        optimizer.step()
    assert losses[4] < losses[0], losses
    results |= {"end." + n: a for n, a in adapter_tensors(model, weights, lambda p: p).items()}
    with torch.no_grad(), family.in_f64():
        logits = model(input_ids=torch.tensor(inputs[-1], dtype=torch.long), use_cache=False).logits
    results["logits"] = logits.reshape(-1, SHAPE.V).numpy()
    results["losses"] = np.array(losses)
    writer = gguf.GGUFWriter(out / f"lora_{case_name}.golden.gguf", "golden")
    writer.add_uint32("rank", RANK), writer.add_float32("alpha", ALPHA), writer.add_float32("lr", LR)
    writer.add_uint32("batch", B), writer.add_uint32("tokens", T), writer.add_uint32("steps", STEPS)
    if case_name != "llama":
        writer.add_float32("ratio", ratio), writer.add_string("targets", case.get("targets", "all-linear"))
        writer.add_uint32("dora", case.get("dora", 0))
    if case.get("pissa"):
        writer.add_uint32("pissa", 1)
    for name, a in results.items():
        writer.add_tensor(name, a if a.dtype == np.int32 else a.astype(np.float32))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    save(model.to(torch.float32), folder, **({"path_initial_model_for_weight_conversion": start} if case.get("pissa") else {}))
    print(case_name, "losses", losses)


def save(model, folder, **options):
    model.save_pretrained(folder, **options)
    (folder / "README.md").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
