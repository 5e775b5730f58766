#!/usr/bin/env python3
"""ViT and DeiT of timm with random weights, converted: their classes of the two photographs that scikit-learn ships, next
to timm's in f32.

  $(scripts/peers.sh) tests/real/photos_test.py TOY FOLDER     # FOLDER has china.jpg and flower.jpg

The photographs are in the wheel: pip download --no-deps scikit-learn; unzip -j *.whl 'sklearn/datasets/images/*.jpg'
Needs timm and torchvision.
"""
import json
import os
import subprocess
import sys
import tempfile

import timm
import torch
from PIL import Image
from timm.models import save_for_hf
from torchvision import transforms as T

MODELS = ["vit_tiny_patch16_224", "deit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_base_patch32_224"]
MOST = 1e-4  # of log-probabilities; the largest logits are about 3


def toy(*words):
    p = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True, encoding="utf-8")
    if p.returncode:
        sys.exit(f"photos_test: toy {' '.join(map(str, words))}: {p.stderr.strip()[-500:]}")
    return p.stdout


def random_weights(model):
    g = torch.Generator().manual_seed(3)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name:
            r = 1 + 0.3 * r if name.endswith("weight") else 0.3 * r
        elif p.dim() > 1 and "pos_embed" not in name and "token" not in name:
            r = r / (p[0].numel() ** 0.5)
        else:
            r = 0.3 * r
        p.data = r


def middle(picture):
    """As transformers cuts it; torchvision rounds the half of an odd number of pixels to an even one."""
    left, top = (picture.width - 224) // 2, (picture.height - 224) // 2
    return picture.crop((left, top, left + 224, top + 224))


def main():
    photos = [os.path.join(sys.argv[2], name) for name in ("china.jpg", "flower.jpg")]
    worst = 0
    for name in MODELS:
        model = timm.create_model(name, pretrained=False).eval()
        random_weights(model)
        mean, std = model.pretrained_cfg["mean"], model.pretrained_cfg["std"]
        see = T.Compose([T.Resize(224, T.InterpolationMode.BILINEAR), middle, T.ToTensor(), T.Normalize(mean, std)])
        with tempfile.TemporaryDirectory() as folder:
            save_for_hf(model, os.path.join(folder, "timm"), model_config={"crop_pct": 1.0}, safe_serialization=True)
            toy("convert", os.path.join(folder, "timm"), os.path.join(folder, "m.gguf"))
            for photo in photos:
                with torch.no_grad():
                    want = model(see(Image.open(photo).convert("RGB"))[None])[0].log_softmax(-1)
                got = json.loads(toy("infer", os.path.join(folder, "m.gguf"), "--image", photo, "--top", 1000, "--json"))
                names = [c["class"] for c in got["classes"]]
                order = want.argsort(descending=True).tolist()
                p = torch.tensor([c["probability"] for c in got["classes"]], dtype=torch.float64).log()
                gap = (p - want.double()[order]).abs().max().item()
                worst = max(worst, gap)
                print(f"{name} {os.path.basename(photo)}: largest distance of a log-probability {gap:.2e}, "
                      f"log-probabilities from {want.min():.1f} to {want.max():.1f}, {len(set(names))} classes")
    if worst > MOST:
        sys.exit(f"photos_test: {worst:.2e} is above {MOST}")


if __name__ == "__main__":
    main()
