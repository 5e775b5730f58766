#!/usr/bin/env python3
"""Make the golden file of preference training: ten steps of DPO, IPO, KTO and ORPO in PyTorch on a small random Llama.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_preference_golden.py       # writes beside this script

Base and adapter are those of make_lora_golden.py, but B does not begin as zero. All is computed in f64 and rounded once. The losses
are TRL's formulas with its defaults, written out here (dpo_trainer.py, kto_trainer.py, orpo_trainer.py).

  preference_llama.golden.gguf   two batches of three pairs that take turns: `ids` of their answers with prompts, chosen and rejected
                                 in turn, `lengths` of each and of its prompt; the adapter at the start; of each loss the values and
                                 reward margins of ten steps, the gradients of the first, and the adapter after the last
"""
import argparse
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gguf
import numpy as np
import torch
import torch.nn.functional as F

import make_family_golden as family
import make_lora_golden as lora

STEPS, PAIRS, BETA, LR = 10, 3, 0.3, 5e-3
LOSSES = ["dpo", "ipo", "kto", "orpo"]


def make_answers(rng):
    """Of each batch: (ids, prompt length), chosen and rejected in turn."""
    batches = []
    for _ in range(2):
        answers = []
        for _ in range(PAIRS):
            prompt = rng.integers(0, lora.SHAPE.V, rng.integers(2, 5))
            for _ in range(2):
                answers.append((np.concatenate([prompt, rng.integers(0, lora.SHAPE.V, rng.integers(1, 7))]), len(prompt)))
        batches.append(answers)
    return batches


def log_probability(model, ids, prompt):
    """Of the answer: sum over its tokens, and how many there are."""
    with family.in_f64():
        logits = model(input_ids=torch.tensor(ids[None], dtype=torch.long), use_cache=False).logits[0, :-1]
        each = logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]][prompt - 1:]
    return each.sum(), len(each)


def scores(model, answers):
    policy = [log_probability(model, *a) for a in answers]
    with torch.no_grad(), model.disable_adapter():
        reference = [log_probability(model, *a)[0] for a in answers]
    return torch.stack([p for p, _ in policy]), torch.stack(reference), torch.tensor([float(n) for _, n in policy])


def loss_and_margin(name, model, answers):
    policy, reference, n = scores(model, answers)
    chosen, rejected = slice(0, None, 2), slice(1, None, 2)
    if name == "dpo":
        rewards = BETA * (policy - reference)
        loss = -F.logsigmoid(rewards[chosen] - rewards[rejected]).mean()
    elif name == "ipo":
        ratio = (policy - reference) / n
        rewards = BETA * ratio
        loss = (ratio[chosen] - ratio[rejected] - 1 / (2 * BETA)).square().mean()
    elif name == "kto":
        others = [(np.concatenate([answers[i][0][:answers[i][1]], answers[i - 1][0][answers[i - 1][1]:]]), answers[i][1])
                  for i in range(len(answers))]
        with torch.no_grad():
            kl_policy, kl_reference, _ = scores(model, others)
            kl = (kl_policy - kl_reference).mean().clamp(min=0)
        ratio = policy - reference
        rewards = BETA * ratio
        loss = torch.cat([1 - torch.sigmoid(BETA * (ratio[chosen] - kl)),
                          1 - torch.sigmoid(BETA * (kl - ratio[rejected]))]).mean()
    else:
        mean = policy / n
        rewards = BETA * mean
        odds = mean - torch.log1p(-torch.exp(mean))
        texts = [log_probability(model, ids, 1) for ids, _ in answers[chosen]]  # prompts, too
        nll = -sum(p for p, _ in texts) / sum(n for _, n in texts)
        loss = nll - BETA * F.logsigmoid(odds[chosen] - odds[rejected]).mean()
    rewards = rewards.detach()
    return loss, (rewards[chosen].mean() - rewards[rejected].mean()).item()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=HERE)
    out = ap.parse_args().out
    weights = lora.base_weights()
    model = lora.adapted(weights, lora.CASES["llama"])
    rng = np.random.default_rng(12)
    trained = [p for p in model.parameters() if p.requires_grad]
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad and ".lora_B" in name:
                p.copy_(torch.tensor(rng.normal(size=p.shape).astype(np.float32) * np.float32(0.25)))
    start = [p.detach().clone() for p in trained]
    batches = make_answers(rng)
    all_answers = [a for batch in batches for a in batch]
    results = {"ids": np.concatenate([ids for ids, _ in all_answers]).astype(np.int32),
               "lengths": np.array([[len(ids), prompt] for ids, prompt in all_answers], dtype=np.int32).reshape(-1)}
    results |= {"start." + n: a for n, a in lora.adapter_tensors(model, weights, lambda p: p).items()}
    for name in LOSSES:
        with torch.no_grad():
            for p, s in zip(trained, start):
                p.copy_(s)
        optimizer = torch.optim.AdamW(trained, lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
        losses, margins = [], []
        for step in range(STEPS):
            loss, margin = loss_and_margin(name, model, batches[step % 2])
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item()), margins.append(margin)
            if step == 0:
                grads = lora.adapter_tensors(model, weights, lambda p: p.grad)
                results |= {f"{name}.grad.{n}": a for n, a in grads.items()}
            optimizer.step()
        assert losses[-1] < losses[1] and losses[-2] < losses[0], (name, losses)
        results |= {f"{name}.losses": np.array(losses), f"{name}.margins": np.array(margins)}
        results |= {f"{name}.end.{n}": a for n, a in lora.adapter_tensors(model, weights, lambda p: p).items()}
        print(name, losses, margins)
    writer = gguf.GGUFWriter(out / "preference_llama.golden.gguf", "golden")
    writer.add_uint32("rank", lora.RANK), writer.add_float32("alpha", lora.ALPHA), writer.add_float32("lr", LR)
    writer.add_float32("beta", BETA), writer.add_uint32("steps", STEPS), writer.add_uint32("pairs", PAIRS)
    for name, a in results.items():
        writer.add_tensor(name, a if a.dtype == np.int32 else a.astype(np.float32))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()


if __name__ == "__main__":
    main()
