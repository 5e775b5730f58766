#!/usr/bin/env python3
"""Writes vit_tiny/ and deit_tiny/, classifiers of transformers with random weights, timm_tiny/, one of timm, and
pictures.golden.json: two pictures of random bytes, what the models compute of them in f64, and how far f32 is from that.

  PY=$(scripts/peers.sh) && $PY -m pip install timm && $PY tests/golden/make_picture_golden.py
"""
import json
import os

import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher, ViTConfig, ViTForImageClassification

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE, PATCH, CLASSES = 16, 8, 5
MEAN, STD = [0.5, 0.4, 0.3], [0.5, 0.25, 0.2]
DIMENSIONS = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 36, "image_size": SIZE,
              "patch_size": PATCH, "num_channels": 3, "layer_norm_eps": 1e-3, "qkv_bias": True, "hidden_act": "gelu"}


def write_json(folder, name, value):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def weights(model):
    g = torch.Generator().manual_seed(19)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name:
            r = 1 + 0.3 * r if name.endswith("weight") else 0.4 * r
        elif name.endswith("bias"):
            r = 0.4 * r
        elif "embed" not in name and "token" not in name or name.endswith("weight"):
            r = 1.3 * r / p[0].numel() ** 0.5
        p.data = r
    model.eval()
    return model


def save(folder, model):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, os.path.join(HERE, folder, "model.safetensors"))


def logits(model, call, pictures):
    x = ((torch.tensor(pictures, dtype=torch.float64) / 255 - torch.tensor(MEAN).double()) / torch.tensor(STD).double())
    x = x.permute(0, 3, 1, 2)
    with torch.no_grad():
        f32 = call(model.float(), x.float()).double()
        f64 = call(model.double(), x)
    return {"logits": f64.tolist(), "error": (f32 - f64).abs().max().item()}


def main():
    g = torch.Generator().manual_seed(23)
    pictures = torch.randint(0, 256, (2, SIZE, SIZE, 3), generator=g).tolist()
    golden = {"pictures": pictures}
    for folder, kind, config, cls in (("vit_tiny", "vit", ViTConfig, ViTForImageClassification),
                                      ("deit_tiny", "deit", DeiTConfig, DeiTForImageClassificationWithTeacher)):
        model = weights(cls(config(**DIMENSIONS, num_labels=CLASSES, attn_implementation="eager")))
        with torch.no_grad():
            model.save_pretrained(os.path.join(HERE, folder))  # with the names that files have
        labels = {str(i): ["cat", "crane", "badger", "crane", "otter"][i] for i in range(CLASSES)}
        write_json(folder, "config.json", {"architectures": [cls.__name__], "model_type": kind, **DIMENSIONS, "id2label": labels})
        write_json(folder, "preprocessor_config.json", {"image_mean": MEAN, "image_std": STD})
        golden[folder] = logits(model, lambda m, x: m(x).logits, pictures)
    args = {"img_size": [SIZE, SIZE], "patch_size": PATCH, "embed_dim": 24, "depth": 2, "num_heads": 3, "mlp_ratio": 1.5,
            "num_classes": CLASSES, "in_chans": 3}
    model = weights(VisionTransformer(**{**args, "img_size": SIZE}))
    save("timm_tiny", model)
    write_json("timm_tiny", "config.json", {"architecture": "vit_tiny_patch16_224", "num_classes": CLASSES, "num_features": 24,
                                            "global_pool": "token", "model_args": args,
                                            "pretrained_cfg": {"mean": MEAN, "std": STD, "input_size": [3, SIZE, SIZE]}})
    golden["timm_tiny"] = logits(model, lambda m, x: m(x), pictures)
    with open(os.path.join(HERE, "pictures.golden.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
