"""A net with a loss of its own: it learns the quantiles 10%, 50% and 90% of noise that grows with x. own_loss.py [STEPS]."""
import sys

import numpy as np
import toy
from toy import ops

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
quantiles = np.array([[0.1, 0.5, 0.9]], np.float32)
rows = 256

g = toy.Graph()
x, y = g.input("x", (rows, 1)), g.input("y", (rows, 1))
params = [g.param("w1", (32, 1)), g.param("b1", (32,)), g.param("w2", (3, 32)), g.param("b2", (3,))]
predicted = ops.linear(ops.tanh(ops.linear(x, params[0], params[1])), params[2], params[3])
miss = y - predicted  # [rows, 3]
q = g.constant(quantiles)
loss = ops.mean_all(ops.maximum(q * miss, (q - 1) * miss))  # the pinball loss (Koenker and Bassett 1978)

session = toy.Session([loss, predicted], toy.minimize(loss, params, weight_decay=0), seed=1)
random = np.random.default_rng(0)
for step in range(steps):
    points = random.uniform(-1, 1, (rows, 1)).astype(np.float32)
    noise = random.normal(size=(rows, 1)) * (1.5 + points)
    value, _ = session.run(x=points, y=(np.sin(3 * points) + noise).astype(np.float32), lr=0.01 * (1 - step / steps))
    if step % max(1, steps // 10) == 0:
        print(f"step {step:5}  loss {value:.4f}")

# How often new points lie below each of the three curves.
points = random.uniform(-1, 1, (rows, 1)).astype(np.float32)
targets = np.sin(3 * points) + random.normal(size=(rows, 1)) * (1.5 + points)
below = (targets < session.run(x=points)[1]).mean(axis=0)
print("points below the quantiles:", ", ".join(f"{b:.2f} of {q:.2f}" for b, q in zip(below, quantiles[0])))
