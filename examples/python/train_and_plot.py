"""Trains a small model on a text, and draws its loss while it trains: train_and_plot.py TEXT OUT [STEPS]."""
import pathlib
import sys

import numpy as np
import toy

text, out = sys.argv[1], pathlib.Path(sys.argv[2])
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 500

for event in toy.train.events("from-scratch", corpus=text, size="tiny", tokenizer="spm:512", steps=steps, lr=4e-3,
                              out=out):
    if event.kind == "step" and event.step % max(1, steps // 10) == 0:
        print(f"step {event.step:5}  {'#' * round(8 * event.loss)} {event.loss:.3f}")

log = toy.runs.read(out)
table = log.table("step")
print("loss of the last tenth:", np.mean(table["loss"][-max(1, steps // 10):]))
(out / "loss.svg").write_text(toy.runs.svg([log]))
print(toy.load(out).generate("Once there was", max_tokens=40, temperature=0.7, seed=1))
