"""Graphs of the package toy against PyTorch, and memory that both share: python_package.py MODEL."""
import sys
import unittest

import numpy as np
import reference_net
import torch
import toy
from toy import ops

MODEL = sys.argv[1]


def of_torch(kind, dtype):
    x, y, initial = reference_net.data()
    x, y = torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)
    p = {n: torch.nn.Parameter(torch.tensor(v, dtype=dtype)) for n, v in initial.items()}
    if kind == "sgd":
        optimizer = torch.optim.SGD(p.values(), lr=0.1, momentum=0.9)
    else:
        matrices = {"params": [p["w1"], p["w2"]], "weight_decay": 0.1}
        optimizer = torch.optim.AdamW([matrices, {"params": [p["b1"]], "weight_decay": 0}], lr=0.01, betas=(0.9, 0.99))
    losses = []
    for _ in range(reference_net.STEPS):
        d = torch.tanh(x @ p["w1"].T + p["b1"]) @ p["w2"].T - y
        loss = (d + torch.nn.functional.softplus(-2 * d) - np.log(2)).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return np.array(losses)


def of_toy(kind):
    settings = {"weight_decay": 0, **reference_net.SETTINGS[kind]}
    lr = settings.pop("lr")
    g = toy.Graph()
    x, y = g.input("x", (reference_net.ROWS, 2)), g.input("y", (reference_net.ROWS, 1))
    w1, b1, w2 = g.param("w1", (16, 2)), g.param("b1", (16,)), g.param("w2", (1, 16))
    d = ops.linear(ops.tanh(ops.linear(x, w1, b1)), w2) - y
    loss = ops.mean_all(d + ops.softplus(-2.0 * d) - float(np.log(2)))
    session = toy.Session(loss, toy.minimize(loss, [w1, b1, w2], clip=0, **settings))
    points, targets, initial = reference_net.data()
    for name, values in initial.items():
        session[name] = torch.from_numpy(values)
    return np.array([session.run(x=torch.from_numpy(points), y=torch.from_numpy(targets), lr=lr)
                     for _ in range(reference_net.STEPS)])


class Training(unittest.TestCase):
    def test_the_curve_is_that_of_pytorch(self):
        for kind in reference_net.SETTINGS:
            exact, bound = reference_net.bound(kind)
            # The same formulas in float64: AdamW's decay before or after the step differs by rounding only.
            np.testing.assert_allclose(of_torch(kind, torch.float64), exact, rtol=1e-12, atol=1e-13)
            theirs, own = of_torch(kind, torch.float32), of_toy(kind)
            self.assertTrue((np.abs(theirs - exact) <= bound).all(), kind)
            self.assertTrue((np.abs(own - theirs) <= 2 * bound).all(), kind)


class Memory(unittest.TestCase):
    def session(self, **options):
        g = toy.Graph()
        return toy.Session(ops.linear(g.input("x", (2, 3)), g.param("w", (2, 3))), **options)

    def test_a_parameter_in_pytorch(self):
        session = self.session()
        tensor = torch.from_dlpack(session["w"])
        self.assertEqual(tensor.data_ptr(), session["w"].ctypes.data)
        tensor.copy_(torch.arange(6.0).reshape(2, 3))
        self.assertEqual(session.run(x=torch.eye(2, 3)).tolist(), [[0, 3], [1, 4]])
        session["w"] = np.ones((2, 3), np.float32)
        self.assertEqual(tensor.sum(), 6)
        del session
        self.assertEqual(tensor.sum(), 6)

    def test_a_tensor_of_pytorch_as_a_parameter(self):
        w = torch.arange(6.0).reshape(2, 3)
        session = self.session(params={"w": w})
        self.assertEqual(session["w"].ctypes.data, w.data_ptr())
        self.assertEqual(session.run(x=torch.eye(2, 3)).tolist(), [[0, 3], [1, 4]])
        w += 1
        self.assertEqual(session.run().tolist(), [[1, 4], [2, 5]])
        del w
        self.assertEqual(session.run().tolist(), [[1, 4], [2, 5]])

    def test_weights_of_a_model(self):
        tensor = toy.load(MODEL).tensors["token_embd.weight"]
        theirs = torch.from_numpy(np.array(tensor))
        self.assertEqual(theirs.numpy().tobytes(), tensor.numpy().tobytes())
        self.assertEqual(np.from_dlpack(tensor).ctypes.data, tensor.numpy().ctypes.data)

    def test_refuses(self):
        session = self.session()
        for pattern, x in ((r"'x' is bf16", torch.zeros(2, 3, dtype=torch.bfloat16)), ("'x' is f64", torch.zeros(2, 3).double()),
                           ("dtype that graphs", torch.zeros(2, 3, dtype=torch.int64)), ("strided", torch.zeros(3, 2).T),
                           (r"'x' is f32\[3,2\]", torch.zeros(3, 2))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                session.run(x=x)
        with self.assertRaises((toy.BadInput, TypeError, RuntimeError, BufferError)):
            session.run(x=torch.zeros(2, 3, device="meta"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
