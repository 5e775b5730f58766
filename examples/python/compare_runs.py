"""Trains the same model at several learning rates and compares the runs: compare_runs.py TEXT OUT [STEPS]."""
import pathlib
import sys

import numpy as np
import toy

text, out = sys.argv[1], pathlib.Path(sys.argv[2])
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 200

for lr in (1e-3, 4e-3, 1e-2):
    toy.train.from_scratch(corpus=text, size="tiny", tokenizer="spm:512", steps=steps, lr=lr, out=out / f"lr-{lr:g}")

logs = [toy.runs.read(folder) for folder in sorted(out.iterdir()) if (folder / "events.jsonl").exists()]
for log in sorted(logs, key=lambda log: float(log.table("eval")["loss"][-1])):
    loss, eval_loss = log.table("step")["loss"], log.table("eval")["loss"]
    print(f"{log.folder:24} loss {loss[0]:.3f} to {np.mean(loss[-10:]):.3f}, on the validation text {eval_loss[-1]:.3f}")
(out / "compare.svg").write_text(toy.runs.svg(logs))
