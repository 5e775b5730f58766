"""Taps, embeddings, graphs and sessions of the package toy: graph_test.py TOY_BINARY WORK REPOSITORY."""
import gc
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import numpy as np
import reference_net
import toy
from toy import ops

PROGRAM, WORK, REPOSITORY = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
os.chdir(WORK)


def program(*words):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True).stdout


def setUpModule():
    pathlib.Path("text.txt").write_bytes(program("corpus", "stories", "--bytes", 60000, "--seed", 1))
    toy.train.from_scratch(corpus="text.txt", size="tiny", tokenizer="spm:300", steps=6, batch=2, tokens=64,
                           out="out/taps")
    program("convert", REPOSITORY / "tests/golden/bert_tiny", "bert.gguf")


class Embeddings(unittest.TestCase):
    def test_equal_the_command_s(self):
        texts = ["the badger", "otters swimming!", "the " * 70]
        pathlib.Path("lines.txt").write_text("\n".join(texts) + "\n{\"ids\": [2, 5, 3]}\n")
        model = toy.load("bert.gguf")
        for options, words in (({}, []), ({"prefix": "the "}, ["--prefix", "the "]), ({"dimensions": 5}, ["--dimensions", 5]),
                               ({"pooling": "cls", "normalize": False}, ["--pooling", "cls", "--raw"])):
            program("embed", "bert.gguf", "--file", "lines.txt", "--out", "all.npy", "--overwrite", *words)
            expected = np.load("all.npy")
            vectors = model.embed([*texts, [2, 5, 3]], **options)
            self.assertEqual((vectors.dtype, vectors.shape), (np.float32, expected.shape))
            self.assertEqual(vectors.tobytes(), expected.tobytes(), options)
            self.assertEqual(model.embed(texts[0], **options).tobytes(), expected[0].tobytes())
        self.assertEqual(model.embed(np.array([2, 5, 3])).tobytes(), model.embed([2, 5, 3]).tobytes())
        np.testing.assert_allclose(np.linalg.norm(model.embed(texts), axis=1), 1, atol=24 * 2.0**-23)
        tokens = model.embed("the badger", pooling="none")
        self.assertEqual(tokens.shape, (4, 24))

    def test_of_a_model_that_generates(self):
        vector = toy.load("out/taps").embed("Once there was", pooling="last")
        self.assertEqual(vector.shape, (64,))

    def test_refuses(self):
        model = toy.load("bert.gguf")
        for pattern, call in (("dimensions is 25", lambda: model.embed("a", dimensions=25)),
                              ("there are: mean", lambda: model.embed("a", pooling="median")),
                              ("did you mean 'prefix'", lambda: model.embed("a", prefixx="b")),
                              ("one text", lambda: model.embed(["a", "b"], pooling="none")),
                              ("outside the vocabulary", lambda: model.embed([10**6])),
                              ("whole numbers", lambda: model.embed([[0.5]])),
                              ("does not say", lambda: toy.load("out/taps").embed("a"))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                call()


class Taps(unittest.TestCase):
    def test_bits_of_the_forward_pass(self):
        model = toy.load("out/taps")
        ids = model.tokenizer.encode("Once there was a badger in its den.", bos=True)
        taps = model.taps(ids, ["logits", "blk.*.out", "blk.0.attn_q*", "blk.0.attn_norm", "x_*"])
        self.assertEqual(taps["logits"].tobytes(), model.logits(ids).tobytes())
        self.assertEqual(taps["blk.3.out"].shape, (len(ids), 64))
        self.assertEqual(list(taps), [n for n in model.tap_names if n in taps])
        # A product of 64 terms, each rounded, in any order.
        x, w = taps["blk.0.attn_norm"].astype(np.float64), model.tensors["blk.0.attn_q.weight"].numpy().astype(np.float64)
        error = 66 * 2.0**-24 * (np.abs(x) @ np.abs(w).T)
        self.assertTrue((np.abs(taps["blk.0.attn_q"] - x @ w.T) <= error).all())
        embedded = model.tensors["token_embd.weight"].numpy()[ids]
        self.assertEqual(taps["x_embed"].tobytes(), embedded.tobytes())
        alone = model.taps("Once there was a badger in its den.", "x_final")
        self.assertEqual(alone["x_final"].tobytes(), taps["x_final"].tobytes())

    def test_of_an_encoder(self):
        model = toy.load("bert.gguf")
        ids = [2, 5, 6, 3]
        hidden = model.taps(ids, "x_final")["x_final"]
        self.assertEqual(hidden.tobytes(), model.embed(ids, pooling="none", normalize=False).tobytes())

    def test_refuses(self):
        model = toy.load("out/taps")
        for pattern, call in (("did you mean 'blk.0.attn_q'", lambda: model.taps("a", "blk.0.attn_qq")),
                              ("no names", lambda: model.taps("a", [])),
                              ("outside the vocabulary", lambda: model.taps([300], "logits")),
                              ("position", lambda: toy.load("bert.gguf").taps([1] * 100, "x_final")),
                              ("did you mean 'exact'", lambda: model.taps("a", "logits", exac=True))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                call()


def own_net(**options):
    g = toy.Graph()
    x, y = g.input("x", (reference_net.ROWS, 2)), g.input("y", (reference_net.ROWS, 1))
    params = [g.param("w1", (16, 2)), g.param("b1", (16,)), g.param("w2", (1, 16))]
    d = ops.linear(ops.tanh(ops.linear(x, params[0], params[1])), params[2]) - y
    loss = ops.mean_all(d + ops.softplus(-2.0 * d) - float(np.log(2)))
    return g, loss, params, toy.minimize(loss, params, clip=0, **options)


def trained(kind):
    settings = dict(reference_net.SETTINGS[kind])
    lr = settings.pop("lr")
    _, loss, _, step = own_net(**{"weight_decay": 0, **settings})
    x, y, initial = reference_net.data()
    session = toy.Session(loss, step)
    for name, values in initial.items():
        session[name] = values
    return np.array([session.run(x=x, y=y, lr=lr) for _ in range(reference_net.STEPS)]), session


class Graphs(unittest.TestCase):
    def test_a_loss_of_one_s_own(self):
        for kind in reference_net.SETTINGS:
            losses, _ = trained(kind)
            exact, bound = reference_net.bound(kind)
            self.assertLess(exact[-1], exact[0] / 2)
            self.assertLess(bound.max(), 1e-3 * exact[0])  # the bound says something
            self.assertTrue((np.abs(losses - exact) <= bound).all(), (kind, np.abs(losses - exact) / bound))

    def test_gradients(self):
        g = toy.Graph()
        x, w = g.input("x", (5, 3)), g.param("w", (3,))
        loss = ops.sum_all(ops.exp(x * w))
        (gradient,) = toy.gradients(loss, [w])
        self.assertEqual((gradient.shape, gradient.dtype), ((3,), "f32"))
        values = np.arange(15, dtype=np.float32).reshape(5, 3) / 16
        session = toy.Session([loss, gradient])
        session["w"] = [0.5, -1, 0.25]
        v = values.astype(np.float64)
        e = np.exp(v * [0.5, -1, 0.25])
        result = session.run(x=values)
        np.testing.assert_allclose(result[0], e.sum(), rtol=20 * 2.0**-24)
        np.testing.assert_allclose(result[1], (e * v).sum(0), rtol=12 * 2.0**-24)

    def test_sessions_share_parameters(self):
        losses, session = trained("adamw")
        x, y, _ = reference_net.data()
        g = toy.Graph()
        input = g.input("x", (1, 2))
        out = ops.linear(ops.tanh(ops.linear(input, g.param("w1", (16, 2)), g.param("b1", (16,)))), g.param("w2", (1, 16)))
        predict = toy.Session(out, params=session)
        weights = session["w1"]
        self.assertEqual(weights.ctypes.data, predict["w1"].ctypes.data)
        self.assertEqual(weights.ctypes.data, np.from_dlpack(session["w1"]).ctypes.data)
        before = predict.run(x=x[:1])
        session.run(lr=0.5)
        self.assertNotEqual(before, predict.run(x=x[:1]))
        self.assertEqual(predict["w1"].tobytes(), weights.tobytes())
        weights[:] = 0  # an array of the session's memory
        session["b1"][:] = 0
        self.assertEqual(predict.run(x=x[:1]), 0)
        self.assertIn("w1.m", session.names)
        kept = weights.tobytes()
        del session, predict, g, out, input
        gc.collect()
        self.assertEqual(weights.tobytes(), kept)

    def test_parameters_that_are_shared(self):
        g = toy.Graph()
        x = g.input("x", (1, 3))
        w = np.arange(6, dtype=np.float32).reshape(2, 3)
        session = toy.Session(ops.linear(x, g.param("w", (2, 3))), params={"w": w})
        self.assertEqual(session["w"].ctypes.data, w.ctypes.data)
        self.assertFalse(session["w"].flags.writeable)
        self.assertEqual(session.run(x=[[1, 0, 0]]).tolist(), [[0, 3]])
        w[:] += 1
        self.assertEqual(session.run().tolist(), [[1, 4]])
        with self.assertRaisesRegex(toy.BadInput, "memory of another"):
            session["w"] = w
        del w
        gc.collect()
        self.assertEqual(session.run().tolist(), [[1, 4]])
        model = toy.load("out/taps")
        tensor = model.tensors["blk.0.attn_norm.weight"]
        own = toy.Graph()
        scaled = toy.Session(own.param("blk.0.attn_norm.weight", (64,)) * 2.0, params=model)
        self.assertEqual(scaled["blk.0.attn_norm.weight"].ctypes.data, tensor.numpy().ctypes.data)
        self.assertEqual(scaled.run().tobytes(), (tensor.numpy() * np.float32(2)).tobytes())
        self.assertEqual(np.from_dlpack(tensor).ctypes.data, tensor.numpy().ctypes.data)

    def test_ops_are_those_of_numpy(self):
        a = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
        b = np.linspace(1, 3, 4, dtype=np.float32)
        n = {"+": a + b, "-": a - b, "*": a * b, "/": a / b, "neg": -a, "2-": 2 - a, "1/": 1 / b, "max": a.max(1, keepdims=True),
             "where": np.where(a > b, a, np.broadcast_to(b, a.shape)), "clamp": a.clip(-1, 1), "t": a.T,
             "slice": a[:, 1:3], "concat": np.concatenate([a, a], 1), "cumsum": a.cumsum(1, dtype=np.float32),
             "matmul": a @ np.eye(4, dtype=np.float32), "one_hot": np.eye(5, dtype=np.float32)[[3, 1]], "row": a[[2, 0]],
             "minimum": np.minimum(a, b)}
        g = toy.Graph()
        x, y = g.input("x", a.shape), g.input("y", b.shape)
        ids = g.input("ids", (2,), "i32", 5)
        mine = {"+": x + y, "-": x - y, "*": x * y, "/": x / y, "neg": -x, "2-": 2 - x, "1/": 1 / y, "max": ops.max(x, 1),
                "where": ops.where(ops.greater(x, y), x, y), "clamp": ops.clamp(x, -1, 1), "t": ops.permute(x, [1, 0]),
                "slice": ops.slice(x, 1, 1, 2), "concat": ops.concat([x, x], 1), "cumsum": ops.cumsum(x, 1),
                "matmul": ops.matmul(x, g.constant(np.eye(4, dtype=np.float32))), "one_hot": ops.one_hot(ids, 5),
                "row": ops.embedding(x, g.constant(np.array([2, 0], np.int32))), "minimum": ops.minimum(x, y)}
        session = toy.Session(list(mine.values()))
        for name, result in zip(mine, session.run(x=a, y=b, ids=[3, 1])):
            self.assertEqual(result.shape, n[name].shape, name)
            np.testing.assert_allclose(result, n[name], rtol=2.0**-22, err_msg=name)

    def test_shown(self):
        g, loss, params, _ = own_net(weight_decay=0)
        self.assertEqual(repr(params[0]), "Value('w1' : f32[16,2])")
        self.assertIn("tanh", str(g))
        self.assertTrue(g._repr_html_().startswith("<svg"))
        self.assertIn("w1", repr(toy.Session(loss)))

    def test_refuses(self):
        g, loss, params, step = own_net(weight_decay=0)
        x, y, _ = reference_net.data()
        session = toy.Session(loss, step)
        session.run(x=x, y=y, lr=0.1)
        for pattern, call in (
                ("'x' is f64", lambda: session.run(x=x.astype(np.float64))),
                ("dtype that graphs", lambda: session.run(x=x.astype(np.int64))),
                (r"'x' is f32\[3,2\]", lambda: session.run(x=x[:3])),
                ("'x' is a strided view", lambda: session.run(x=x[:, ::-1])),
                ("did you mean 'x'", lambda: session.run(xx=x)),
                ("lr is -1", lambda: session.run(lr=-1)),
                ("learning rate is missing", lambda: toy.Session(loss, step).run(x=x, y=y)),
                ("never set|no values|was not set|input", lambda: toy.Session(loss).run(x=x)),
                ("did you mean 'w1'", lambda: session["w11"]),
                ("takes f32", lambda: session.__setitem__("w1", np.zeros(3, np.float32))),
                ("has a minimize", lambda: toy.minimize(loss, params)),
                ("would be changed", lambda: toy.Session(loss, step, params={"b1": np.zeros(16, np.float32)})),
                ("takes f32", lambda: toy.Session(loss, params={"b1": np.zeros(16)})),
                ("did you mean 'w1'", lambda: toy.Session(loss, params={"w3": np.zeros(16, np.float32)})),
                ("nothing to train", lambda: toy.Session(toy.Graph().param("w", (2,)), step)),
                ("no outputs", lambda: toy.Session([])),
                ("different graphs", lambda: toy.Session([loss, toy.Graph().param("w", (2,))])),
                ("another graph", lambda: loss + toy.Graph().param("w", ())),
                ("did you mean 'threads'", lambda: toy.Session(loss, thread=1)),
                ("dtype is 'f8'", lambda: g.input("z", (1,), "f8")),
                ("taken", lambda: g.input("x", (1,))),
                ("optimizer", lambda: toy.minimize(own_net(weight_decay=0)[1], [], optimizer="adam")),
                ("linear", lambda: ops.linear(params[0], params[0], params[2]))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                call()
        with self.assertRaises(TypeError):
            loss + "one"
        with self.assertRaises(ValueError):
            session.run(x="a text")
        self.assertIsInstance(float(session.run(lr=0.1)), float)  # it still works

    def test_threads_take_turns(self):
        g = toy.Graph()
        x = g.input("x", (64, 64))
        y = x
        for _ in range(30):
            y = ops.tanh(ops.matmul(y, x))
        sessions = [toy.Session(y) for _ in range(4)]
        a = np.eye(64, dtype=np.float32) / 2
        alone = sessions[0].run(x=a).tobytes()
        results = []
        threads = [threading.Thread(target=lambda s=s: results.extend(s.run(x=a).tobytes() for _ in range(20)))
                   for s in sessions]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(set(results), {alone})
        self.assertEqual(len(results), 80)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
