#!/usr/bin/env python3
"""Make policy.golden.json: gradients of the losses of reinforcement learning, by PyTorch's autograd in f64.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_policy_golden.py              # next to this script

Two groups of four answers over a vocabulary of 7, with logits now, log probabilities when they were drawn, and those of
a reference. Each loss is written as its paper has it: the mean over answers or tokens of min(r A, clip(r) A), with the
ratio of each token or of the answer (GSPO: exp of the mean over its tokens), less beta times the divergence
exp(q - p) - (q - p) - 1 times the token's ratio.
"""
import argparse
import json
import pathlib

import torch

GROUP, VOCAB, LONGEST = 4, 7, 9
LOSSES = ["dapo", "grpo", "dr-grpo", "gspo"]


def advantages(rewards, scale):
    groups = rewards.view(-1, GROUP)
    centred = groups - groups.mean(1, keepdim=True)
    if scale == "group":
        centred = centred / (groups.std(1, keepdim=True) + 1e-4)
    return centred.reshape(-1)


def loss_of(kind, logits, chosen, lengths, old, base, advantage, low, high, beta):
    logprobs = torch.log_softmax(logits, -1).gather(-1, chosen[:, None])[:, 0]
    total, at = torch.zeros((), dtype=torch.float64), 0
    for i, n in enumerate(lengths):
        now, then, other = (x[at:at + n] for x in (logprobs, old, base))
        at += n
        own = torch.exp(now - then)
        ratio = torch.exp((now - then).mean()).expand(n) if kind == "gspo" else own
        a = advantage[i]
        gain = torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)
        gain = gain - beta * own * (torch.exp(other - now) - (other - now) - 1)
        norm = {"dapo": sum(lengths), "dr-grpo": len(lengths) * LONGEST}.get(kind, len(lengths) * n)
        total = total - gain.sum() / norm
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "policy.golden.json"))
    args = parser.parse_args()
    torch.manual_seed(1)
    lengths = [5, 3, 1, 9, 4, 2, 6, 7]
    rewards = torch.tensor([1.0, 0.0, 0.25, 0.0, 0.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    tokens = sum(lengths)
    logits = torch.randn(tokens, VOCAB, dtype=torch.float64)
    chosen = torch.randint(VOCAB, (tokens,))
    now = torch.log_softmax(logits, -1).gather(-1, chosen[:, None])[:, 0]
    old = now + 0.2 * torch.randn(tokens, dtype=torch.float64)
    base = now + 0.3 * torch.randn(tokens, dtype=torch.float64)
    cases = []
    for kind in LOSSES:
        low, high = (0.02, 0.05) if kind == "gspo" else (0.15, 0.2)
        for scale in ("none", "group"):
            for beta in (0.0, 0.1):
                z = logits.clone().requires_grad_(True)
                loss = loss_of(kind, z, chosen, lengths, old, base, advantages(rewards, scale), low, high, beta)
                loss.backward()
                cases.append({"loss": kind, "scale": scale, "beta": beta, "epsilon": low, "epsilon_high": high,
                              "gradient": z.grad.flatten().tolist()})
    golden = {"group": GROUP, "vocab": VOCAB, "longest": LONGEST, "lengths": lengths, "rewards": rewards.tolist(),
              "logits": logits.flatten().tolist(), "chosen": chosen.tolist(), "old": old.tolist(),
              "base": base.tolist(), "cases": cases}
    pathlib.Path(args.out).write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
