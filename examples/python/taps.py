"""How much each block of a model adds to what it reads, and which token it would predict there: taps.py MODEL TEXT."""
import sys

import numpy as np
import toy

model = toy.load(sys.argv[1])
taps = model.taps(sys.argv[2], ["x_embed", "blk.*.out", "x_final"])
names = [name for name in taps if name != "x_final"]

for before, after in zip(names, names[1:]):
    added = np.linalg.norm(taps[after] - taps[before], axis=1).mean()
    print(f"{after:12} adds {added:8.3f} to rows of length {np.linalg.norm(taps[before], axis=1).mean():8.3f}")

last = model.logits(sys.argv[2])[-1]
for id in np.argsort(-last)[:5].tolist():
    print(f"{model.tokenizer.token(id)!r:16} logit {last[id]:.3f}")
