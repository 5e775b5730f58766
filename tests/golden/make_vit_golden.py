#!/usr/bin/env python3
"""Ten steps of small vision transformers in PyTorch, f64: vit.golden.json.

Two models: with a class token, whose logits are checked here against transformers' ViTForImageClassification, and with
the mean over the patches. Weights, pixels and shares of classes follow from a formula that tests/train/vit_test.cpp has,
too, so that the file holds results only: the loss before each step of SGD (momentum 0.5), and the gradients of the first.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

IMAGE, PATCH, CHANNELS, WIDTH, HEADS, FFN, LAYERS, CLASSES, IMAGES = 6, 3, 3, 8, 2, 12, 2, 4, 3
EPS, LR, MOMENTUM, STEPS = 2**-10, 0.125, 0.5, 10  # exact in f32


def number(tensor, i):
    mixed = ((i * 7919 + tensor * 15485863) * 2654435761) & 0xFFFFFFFF
    return ((mixed >> 22) - 512) / 512


def numbers(tensor, *shape):
    n = math.prod(shape)
    return torch.tensor([number(tensor, i) for i in range(n)], dtype=torch.float64).reshape(shape)


def shapes(token):
    rows = (IMAGE // PATCH) ** 2 + token
    s = {"v.patch_embd.weight": (WIDTH, CHANNELS * PATCH * PATCH), "v.patch_embd.bias": (WIDTH,)}
    if token:
        s["v.class_embd"] = (WIDTH,)
    s["v.position_embd.weight"] = (rows, WIDTH)
    for i in range(LAYERS):
        b = f"v.blk.{i}."
        for norm in ("ln1", "ln2"):
            s[b + norm + ".weight"] = s[b + norm + ".bias"] = (WIDTH,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            s[b + name + ".weight"], s[b + name + ".bias"] = (WIDTH, WIDTH), (WIDTH,)
        s[b + "ffn_up.weight"], s[b + "ffn_up.bias"] = (FFN, WIDTH), (FFN,)
        s[b + "ffn_down.weight"], s[b + "ffn_down.bias"] = (WIDTH, FFN), (WIDTH,)
    s["v.post_ln.weight"] = s["v.post_ln.bias"] = (WIDTH,)
    s["head.weight"], s["head.bias"] = (CLASSES, WIDTH), (CLASSES,)
    return dict(sorted(s.items()))


def make_weights(token):
    w = {}
    for i, (name, shape) in enumerate(shapes(token).items()):
        gain = name.endswith(("ln1.weight", "ln2.weight", "post_ln.weight"))
        w[name] = (1 + 0.25 * numbers(i, *shape) if gain else 0.5 * numbers(i, *shape)).requires_grad_()
    return w


def logits_of(w, patches, token):
    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], EPS)

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    x = linear(patches, "v.patch_embd")
    if token:
        x = torch.cat([w["v.class_embd"].expand(IMAGES, 1, WIDTH), x], 1)
    x = x + w["v.position_embd.weight"]
    heads = lambda t: t.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
    for i in range(LAYERS):
        b = f"v.blk.{i}."
        y = norm(x, b + "ln1")
        q, k, v = (heads(linear(y, b + name)) for name in ("attn_q", "attn_k", "attn_v"))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        x = x + linear((scores.softmax(3) @ v).transpose(1, 2).flatten(2), b + "attn_out")
        x = x + linear(F.gelu(linear(norm(x, b + "ln2"), b + "ffn_up")), b + "ffn_down")
    x = norm(x, "v.post_ln")
    return linear(x[:, 0] if token else x.mean(1), "head")


def check_against_transformers(w, patches, logits):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
                       image_size=IMAGE, patch_size=PATCH, num_channels=CHANNELS, layer_norm_eps=EPS, num_labels=CLASSES,
                       hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    model = ViTForImageClassification(config).double().eval()
    mine = {"embeddings.cls_token": w["v.class_embd"].reshape(1, 1, -1),
            "embeddings.position_embeddings": w["v.position_embd.weight"][None],
            "embeddings.patch_embeddings.projection.weight":
                w["v.patch_embd.weight"].reshape(WIDTH, CHANNELS, PATCH, PATCH),
            "embeddings.patch_embeddings.projection.bias": w["v.patch_embd.bias"],
            "layernorm.weight": w["v.post_ln.weight"], "layernorm.bias": w["v.post_ln.bias"]}
    state = model.state_dict()
    pairs = {"layernorm_before": "ln1", "layernorm_after": "ln2", "q_proj": "attn_q", "k_proj": "attn_k",
             "v_proj": "attn_v", "o_proj": "attn_out", "query": "attn_q", "key": "attn_k", "value": "attn_v",
             "attention.output.dense": "attn_out", "fc1": "ffn_up", "fc2": "ffn_down",
             "intermediate.dense": "ffn_up", "output.dense": "ffn_down"}
    for name in state:
        if name.startswith("classifier."):
            state[name] = w["head." + name.split(".")[1]].detach()
            continue
        short = name.removeprefix("vit.")
        if short in mine:
            state[name] = mine[short].detach()
            continue
        stem, kind = short.rsplit(".", 1)
        layer = next(part for part in short.split(".") if part.isdigit())
        ours = next(to for from_, to in pairs.items() if stem.endswith("." + from_))
        state[name] = w[f"v.blk.{layer}.{ours}.{kind}"].detach()
    model.load_state_dict(state)
    side = IMAGE // PATCH
    pixels = patches.reshape(IMAGES, side, side, CHANNELS, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5)
    theirs = model(pixels.reshape(IMAGES, CHANNELS, IMAGE, IMAGE)).logits
    assert torch.allclose(theirs, logits, rtol=0, atol=1e-12), (theirs - logits).abs().max()


def steps(token):
    w = make_weights(token)
    patches = numbers(1000, IMAGES, (IMAGE // PATCH) ** 2, CHANNELS * PATCH * PATCH)
    shares = numbers(1001, IMAGES, CLASSES).abs() + 0.125
    shares = shares / shares.sum(1, keepdim=True)
    optimizer = torch.optim.SGD(list(w.values()), lr=LR, momentum=MOMENTUM)
    losses, gradients, first = [], {}, None
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = logits_of(w, patches, token)
        if step == 0:
            first = logits.detach().flatten().tolist()
            if token:
                check_against_transformers(w, patches, logits)
        loss = F.cross_entropy(logits, shares)
        losses.append(loss.item())
        loss.backward()
        if step == 0:
            gradients = {name: [float(f"{g:.9g}") for g in v.grad.flatten().tolist()] for name, v in w.items()}
        optimizer.step()
    return {"token": token, "losses": losses, "logits": first, "gradients": gradients}


golden = {"lr": LR, "cases": [steps(token) for token in (True, False)]}
out = pathlib.Path(__file__).with_name("vit.golden.json")
out.write_text(json.dumps(golden, separators=(",", ":")).replace('},{"token"', '},\n{"token"') + "\n")
print(out, out.stat().st_size, golden["cases"][0]["losses"][::9], golden["cases"][1]["losses"][::9])
