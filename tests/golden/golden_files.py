"""What makers of golden data share: how they write files, and how they compare f32 with f64."""
import json
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def write_json(folder, name, value):
    """Into a folder next to this file, which is made if there is none."""
    path = os.path.join(HERE, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
        f.write("\n")


def both(model, call):
    """What `call` gives in f64, and how far f32 is from it."""
    with torch.no_grad():
        f32 = call(model.float()).double()
        f64 = call(model.double())
    model.float()
    return f64, (f32 - f64).abs().max().item()
