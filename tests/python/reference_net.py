"""A small net with a loss of its own, trained in numpy with float64, and how far float32 may be from its losses.

    h = tanh(x w1^T + b1);  d = h w2^T - y;  loss = mean log cosh d
"""
import numpy as np

NAMES = ("w1", "b1", "w2")
SETTINGS = {"sgd": {"optimizer": "sgd(momentum=0.9)", "lr": 0.1},
            "adamw": {"optimizer": "adamw(beta2=0.99)", "lr": 0.01, "weight_decay": 0.1}}
STEPS, ROWS = 40, 64
# Terms of the longest sum (the rows), of the products before it (16 + 2), and roundings of the functions between.
OPERATIONS = ROWS + 18 + 24


def data():
    random = np.random.default_rng(7)
    x = random.normal(size=(ROWS, 2)).astype(np.float32)
    y = (x[:, :1] * x[:, 1:] + 0.5 * x[:, :1]).astype(np.float32)
    params = {"w1": random.normal(size=(16, 2)), "b1": np.zeros(16), "w2": random.normal(size=(1, 16)) / 4}
    return x, y, {n: p.astype(np.float32) for n, p in params.items()}


def loss_and_gradients(p, x, y):
    """The loss, gradients, and for each gradient the sum of the magnitudes of its terms."""
    h = np.tanh(x @ p["w1"].T + p["b1"])
    d = h @ p["w2"].T - y
    dd = np.tanh(d) / len(x)
    dz = dd @ p["w2"] * (1 - h * h)
    # What is rounded in d comes from sums as large as these.
    size = (np.abs(h) @ np.abs(p["w2"]).T + np.abs(y)) / len(x)
    sz = size @ np.abs(p["w2"])
    terms = {"w1": sz.T @ np.abs(x), "b1": sz.sum(0), "w2": size.T @ np.abs(h)}
    return np.log(np.cosh(d)).mean(), {"w1": dz.T @ x, "b1": dz.sum(0), "w2": dd.T @ h}, terms, size.sum()


def curve(kind, noise=None):
    """The loss before each step. `noise`: gradients and losses are off by as much as float32 may make them."""
    x, y, params = data()
    x, y = x.astype(np.float64), y.astype(np.float64)
    p = {n: v.astype(np.float64) for n, v in params.items()}
    m, v = {n: 0 * w for n, w in p.items()}, {n: 0 * w for n, w in p.items()}
    unit, losses, lr = 2.0**-24, [], SETTINGS[kind]["lr"]
    for t in range(1, STEPS + 1):
        loss, g, terms, size = loss_and_gradients(p, x, y)
        losses.append(loss + (OPERATIONS * unit * size * noise.uniform(-1, 1) if noise else 0))
        for n in NAMES:
            if noise:
                g[n] = g[n] + OPERATIONS * unit * terms[n] * noise.uniform(-1, 1, g[n].shape)
            if kind == "sgd":
                m[n] = 0.9 * m[n] + g[n]
                p[n] = p[n] - lr * m[n]
                continue
            m[n] = 0.9 * m[n] + 0.1 * g[n]
            v[n] = 0.99 * v[n] + 0.01 * g[n]**2
            decay = 0.1 if p[n].ndim > 1 else 0
            p[n] = p[n] - lr * (m[n] / (1 - 0.9**t) / (np.sqrt(v[n] / (1 - 0.99**t)) + 1e-8) + decay * p[n])
    return np.array(losses)


def bound(kind):
    """Four times the largest distance that eight runs with roundings of float32 have from the exact one, at any step
    so far, and a rounding of the largest loss."""
    exact = curve(kind)
    runs = [np.abs(curve(kind, np.random.default_rng(i)) - exact) for i in range(8)]
    return exact, 4 * np.maximum.accumulate(np.max(runs, axis=0)) + OPERATIONS * 2.0**-24 * exact.max()
