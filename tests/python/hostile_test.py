"""Bad input of every kind: an exception, never a crash. hostile_test.py TOY_BINARY WORK SOURCES [ROUNDS [SEED]].

Calls get values that are drawn: arrays of any dtype, shape and layout, prompts and options of any type, objects that are
freed or were never made, callbacks that raise, threads that close what others use. A crash ends the process, and with it
the test; what is raised must be an exception of Python or of the package. Now and then a good call must still work.
"""
import faulthandler
import gc
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
import toy
from toy import ops

faulthandler.enable()
PROGRAM, WORK = sys.argv[1], pathlib.Path(sys.argv[2])
ROUNDS = int(sys.argv[4]) if len(sys.argv) > 4 else 300
SEED = int(sys.argv[5]) if len(sys.argv) > 5 else 1
os.chdir(WORK)
# What a bad value may raise. RuntimeError but toy.Error would be an error that has no name.
FINE = (toy.Error, TypeError, ValueError, OverflowError, KeyError, AttributeError, IndexError, BufferError, MemoryError,
        UnicodeError)


def setUpModule():
    pathlib.Path("book.txt").write_bytes(subprocess.run(
        [PROGRAM, "corpus", "stories", "--bytes", "60000", "--seed", "1"], check=True, capture_output=True).stdout)
    toy.train.from_scratch(**RECIPE, out="out/book")


RECIPE = {"corpus": "book.txt", "size": "tiny", "tokenizer": "spm:300", "steps": 2, "batch": 2, "tokens": 32, "threads": 1}


class Odd:
    """Refuses what objects can be asked for."""

    def __iter__(self):
        raise RuntimeWarning("no")

    def __float__(self):
        raise ZeroDivisionError("no")

    def __array__(self, *_, **__):
        raise BufferError("no")


class FalseDlpack:
    def __dlpack__(self, **_):
        return "not a capsule"

    def __dlpack_device__(self):
        return (1, 0)


class OnGpu:
    def __dlpack__(self, **_):
        raise BufferError("on another device")

    def __dlpack_device__(self):
        return (2, 0)


def an_array(r):
    dtype = r.choice(["f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "?", "c8", "O", "U3", "M8[s]", ">f4", ">i4", "V5"])
    shape = [r.choice([0, 1, 2, 3, 4, 64]) for _ in range(r.randint(0, 9) if r.random() < 0.3 else 2)]
    while np.prod(shape, dtype=float) > 1e5:
        shape.pop()
    a = np.zeros(shape, dtype)
    if dtype[-1] not in "OUMV5" and dtype != "M8[s]":
        with np.errstate(all="ignore"):
            a = np.random.default_rng(r.randrange(99)).normal(size=shape).astype(dtype)
    kind = r.randrange(7)
    if kind == 0 and a.ndim:
        a = a[::-1]
    elif kind == 1:
        a = a.T
    elif kind == 2 and a.ndim:
        a = np.broadcast_to(a[..., :1], a.shape) if a.shape[-1] else a
    elif kind == 3:
        a.flags.writeable = False
    elif kind == 4 and a.dtype == np.float32 and a.size:  # not aligned
        a = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape)
    elif kind == 5:
        a = np.asfortranarray(a)
    return a


def a_value(r):
    return r.choice([
        None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -2**63 - 1, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan"),
        1j, "", "a", "\0", "x\0y", "\ud800", "é" * 3, "1e999", "-", "{", "[]", "cpu", "f32", b"", b"\xff", bytearray(3), [], [[]], [None],
        [1.5], [2**40], ["a", 1], (), (1, 2), {}, {"a": 1}, {1: 2}, {"b": {"c": [1]}}, set(), object(), Odd(), FalseDlpack(),
        OnGpu(), type, len, range(3), range(10**6), iter([1]), memoryview(b"abc"), pathlib.Path("nothing"), np.float32(1),
        np.int64(3), np.zeros(3), np.zeros((0, 3)), np.array("x"), np.array([1, 2], np.int8), "temperature", "A" * 100000,
    ]) if r.random() < 0.85 else an_array(r)


NAMES = ["max_tokens", "temperature", "seed", "top_k", "top_p", "stop", "samplers", "json_schema", "grammar", "logit_bias", "context",
         "kv", "exact", "logprobs", "top_logprobs", "stride", "threads", "device", "lora", "pooling", "dimensions", "prefix", "bos",
         "by_documents", "ignore_eos", "tools", "chat_template", "dry_sequence_breakers", "rows", "limit", "parallel", "clip",
         "optimizer", "weight_decay", "check_finite", "type", "tensor", "imatrix", "x", "Temperature", "self_", "é", "a\0b"]
SLOW = {"max_tokens", "context", "threads", "parallel"}  # large ones are fine, and take long


def some_options(r):
    options = {}
    for _ in range(r.choice([0, 0, 1, 1, 2, 3])):
        name = r.choice(NAMES)
        options[name] = r.choice([0, -1, 3, "x", None, 1.5, [2]]) if name in SLOW else a_value(r)
    return options


class Hostile(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(60 + ROUNDS, exit=True)  # threads that wait for each other are named

    def tearDown(self):
        faulthandler.cancel_dump_traceback_later()

    def tries(self, what, calls, rounds=ROUNDS):
        """Draws calls; each may work or raise what is fine. Says what each draw was, so that a crash names it."""
        outcomes = {}
        for i in range(rounds):
            r = random.Random(f"{what} {SEED} {i}")
            try:
                r.choice(calls)(r)
                outcomes["worked"] = outcomes.get("worked", 0) + 1
            except FINE as e:
                outcomes[type(e).__name__] = outcomes.get(type(e).__name__, 0) + 1
                if isinstance(e, toy.Error):
                    self.assertTrue(str(e), f"{what} {i}: an error without a message")
            except (RuntimeWarning, ZeroDivisionError):
                outcomes["Odd"] = outcomes.get("Odd", 0) + 1  # its own
            except Exception as e:
                self.fail(f"{what} {SEED} {i}: {type(e).__name__}: {e}")
        print(what, outcomes)
        self.assertGreater(len(outcomes), 1, "the draws are too tame to test anything")

    def test_models(self):
        m = toy.load("out/book")
        good = m.generate("Once", max_tokens=4)
        small = {"max_tokens": 3}
        self.tries("models", [
            lambda r: m.generate(a_value(r), **{**some_options(r), **small}),
            lambda r: m.generate("Once", **{**small, **some_options(r)}),
            lambda r: list(m.stream(a_value(r) if r.random() < 0.5 else "a", **{**small, **some_options(r)})),
            lambda r: m.chat(a_value(r), **{**some_options(r), **small}),
            lambda r: m.chat([{"role": a_value(r), "content": a_value(r)}], chat_template="plain", **small),
            lambda r: m.score(a_value(r) if r.random() < 0.5 else "Once there was", **some_options(r)),
            lambda r: m.logits(a_value(r), **some_options(r)),
            lambda r: m.embed(a_value(r), **some_options(r)),
            lambda r: m.taps("Once", a_value(r), **some_options(r)),
            lambda r: m.taps(a_value(r), "blk.0.*", **some_options(r)),
            lambda r: m.tokenizer.encode(a_value(r), a_value(r), a_value(r)),
            lambda r: m.tokenizer.decode(a_value(r)),
            lambda r: m.tokenizer.decode_bytes(a_value(r)),
            lambda r: m.tokenizer.token(a_value(r)),
            lambda r: m.tensors[a_value(r)],
            lambda r: a_value(r) in m.tensors,
            lambda r: np.asarray(m.tensors["token_embd.weight"], dtype=a_value(r)),
            lambda r: toy.load(a_value(r)),
            lambda r: toy.load("out/book", **some_options(r)),
        ])
        self.assertEqual(m.generate("Once", max_tokens=4), good)

    def test_files(self):
        pathlib.Path("short.jsonl").write_text('{"prompt": "a", "answer": "b"}\n')
        m = toy.load("out/book")
        self.tries("files", [
            lambda r: toy.quantize(a_value(r), "made.gguf", type="Q8_0", overwrite=True),
            lambda r: toy.quantize("out/book", a_value(r) if r.random() < 0.3 else "made.gguf", **some_options(r)),
            lambda r: toy.merge("out/book", "made.gguf", **some_options(r)),
            lambda r: toy.convert(a_value(r), "made"),
            lambda r: toy.convert("out/book", "made", **some_options(r)),
            lambda r: toy.runs.read(a_value(r)),
            lambda r: toy.runs.svg(a_value(r), a_value(r)),
            lambda r: toy.evaluate.answers(m, a_value(r), **{**some_options(r), "max_tokens": 2}),
            lambda r: toy.evaluate.answers(m, "short.jsonl", **{**some_options(r), "max_tokens": 2}),
            lambda r: toy.evaluate.choices(m, a_value(r), **some_options(r)),
            lambda r: toy.evaluate.kl(m, a_value(r), "text"),
            lambda r: toy.evaluate.kl(m, m, a_value(r), **some_options(r)),
            lambda r: toy.evaluate.lmc(m, m, "text", a_value(r)),
        ], ROUNDS // 2)

    def test_training(self):
        self.tries("training", [
            lambda r: toy.train.from_scratch(**{**RECIPE, r.choice(list(RECIPE)): a_value(r), "steps": 1}, out="out/made"),
            lambda r: toy.train.lora(model="out/book", corpus="book.txt", steps=1, **some_options(r), out="out/made"),
            lambda r: toy.train.from_scratch(**RECIPE, out=f"out/{r.random()}", on_event=a_value(r)),
            lambda r: list(toy.train.events(r.choice(["dpo", "from_scratch", "\0", "lora"]), **some_options(r), out="out/made")),
        ], ROUNDS // 10)

    def net(self):
        g = toy.Graph()
        x, i, w = g.input("x", (2, 3)), g.input("i", (2,), "i32", 4), g.param("w", (4, 3))
        return g, x, i, w

    def test_graphs(self):
        each = 1000  # a graph is printed and drawn again and again, so it must not grow for ever
        for first in range(0, 4 * ROUNDS, each):
            self.on_a_graph("graphs" if first == 0 else f"graphs from {first}", min(each, 4 * ROUNDS - first))

    def on_a_graph(self, name, rounds):
        g, x, i, w = self.net()
        names = sorted(n for n in dir(ops) if not n.startswith("_"))
        values = [x, i, w]

        def any_of(r):
            return r.choice(values) if r.random() < 0.85 else a_value(r)

        def op(r):
            y = getattr(ops, r.choice(names))(*[any_of(r) if r.random() < 0.7 else r.choice([0, 1, -1, 2, 99, [2, 3], [-1], [0], (6,)])
                                                for _ in range(r.randint(1, 4))])
            if len(values) < 40:
                values.append(y)

        self.tries(name, [
            op, op, op, op, op, op,
            lambda r: g.input(a_value(r), a_value(r), a_value(r)),
            lambda r: g.param("p" + str(r.randrange(9)), a_value(r)),
            lambda r: g.constant(a_value(r)),
            lambda r: g.constant(an_array(r)),
            lambda r: toy.gradients(any_of(r), [any_of(r)]),
            lambda r: toy.minimize(any_of(r), [any_of(r)], **some_options(r)),
            lambda r: any_of(r) + any_of(r),
            lambda r: any_of(r) / a_value(r),
            lambda r: toy.Session(any_of(r), **some_options(r)),
            lambda r: (str(g), repr(any_of(r)), g._repr_html_()),
        ], rounds)
        gc.collect()

    def test_sessions(self):
        g, x, i, w = self.net()
        y = ops.linear(x, w)
        z = ops.embedding(w, i)
        a = np.eye(2, 3, dtype=np.float32)
        s = toy.Session([y, z])
        good = [v.tolist() for v in s.run(x=a, i=np.array([0, 3], np.int32))]
        self.tries("sessions", [
            lambda r: s.run(x=an_array(r)),
            lambda r: s.run(i=an_array(r)),
            lambda r: s.run(i=np.array([r.choice([-1, 4, 2**31 - 1, -2**31]), 0], np.int32)),
            lambda r: s.run(**{r.choice(["x", "i", "w", "lr", "no"]): a_value(r)}),
            lambda r: s.__setitem__(r.choice(["w", "x", "no"]), an_array(r)),
            lambda r: s.__setitem__("w", a_value(r)),
            lambda r: s[a_value(r)],
            lambda r: toy.Session(y, params={"w": an_array(r)}),
            lambda r: toy.Session(y, params={a_value(r): a_value(r)}),
            lambda r: toy.Session(a_value(r)),
            lambda r: toy.Session(y, a_value(r), params=a_value(r)),
        ], 3 * ROUNDS)
        s["w"] = toy.Session(y)["w"]
        self.assertEqual([v.tolist() for v in s.run(x=a, i=np.array([0, 3], np.int32))], good)

    def test_objects_that_are_not_there(self):
        m = toy.load("out/book")
        for kind in (toy._toy.Model, toy._toy.TextRun, toy._toy.ChatRun, toy._toy.Session, toy.Value):
            with self.assertRaises(TypeError):
                kind()
        with self.assertRaises(AttributeError):
            toy.Model.__new__(toy.Model).generate("x")
        empty = toy._toy.Graph.__new__(toy._toy.Graph)
        with self.assertRaises((TypeError, RuntimeError)):
            empty.input("x", (1,))
        stream = m.stream("Once", max_tokens=9)
        tensor, tensors, tokenizer = m.tensors["token_embd.weight"], m.tensors, m.tokenizer
        array = tensor.numpy()
        total = float(array.sum())
        del m
        gc.collect()
        self.assertEqual(len(list(stream)), 9)
        stream.close()
        self.assertEqual(list(stream), [])
        self.assertEqual(stream.reason, "stop")
        self.assertEqual(float(tensor.numpy().sum()), total)
        del tensor, tensors, tokenizer, stream
        gc.collect()
        self.assertEqual(float(array.sum()), total)
        g, x, i, w = self.net()
        s = toy.Session(ops.linear(x, w))
        view = s["w"]
        del g, x, i, w, s
        gc.collect()
        view += 1
        self.assertEqual(view.shape, (4, 3))

    def test_callbacks_that_raise(self):
        class Own(BaseException):
            pass

        runs = iter(range(100))
        for kind in (RuntimeError, KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, MemoryError, Own):
            for moment in ("run_start", "step", "run_end"):
                def raises(event):
                    if event.kind == moment:
                        raise kind("here")
                with self.assertRaises(kind):
                    toy.train.from_scratch(**RECIPE, out=f"out/raises{next(runs)}", on_event=raises)
        with self.assertRaises(Own):
            toy.load("out/book").chat([{"role": "user", "content": "a"}], chat_template="plain", max_tokens=9,
                                      on_text=lambda _: (_ for _ in ()).throw(Own()))
        events = toy.train.events("from_scratch", **{**RECIPE, "steps": 10000}, out="out/closed")
        for e in events:
            if e.kind == "step":
                events.close()
                events.close()
        toy.train.events("from_scratch", **{**RECIPE, "steps": 10000}, out="out/dropped").close()

    def test_what_a_stream_says_while_others_have_the_device(self):
        m = toy.load("out/book")
        stream = m.stream("Once", max_tokens=100, ignore_eos=True)
        busy, failures = [True], []

        def score():  # has the device, and asks for signals between tokens
            try:
                while busy[0]:
                    m.score("Once there was a brave fox. " * 4)
            except BaseException as e:
                failures.append(e)

        scoring = threading.Thread(target=score, daemon=True)
        reading = threading.Thread(target=lambda: list(stream), daemon=True)
        scoring.start(), reading.start()
        try:
            while reading.is_alive():
                self.assertIn(stream.reason, ("", "length"))
        finally:
            busy[0] = False
            scoring.join()
        self.assertEqual(failures, [])
        self.assertEqual(stream.reason, "length")

    def test_signals_that_look_at_what_computes(self):
        m = toy.load("out/book")
        stream = m.stream("Once", max_tokens=100, ignore_eos=True)
        seen, refused, done = set(), [], []

        def look(*_):
            seen.add(stream.reason)
            try:
                m.logits([1])
            except toy.BadInput as e:  # between tokens of score(), which has the device
                refused.append(str(e))
            if not done:
                signal.setitimer(signal.ITIMER_REAL, 0.002)

        before = signal.signal(signal.SIGALRM, look)
        reading = threading.Thread(target=lambda: list(stream), daemon=True)
        try:
            reading.start()
            look()
            while reading.is_alive() or not refused:
                m.score("Once there was a brave fox. " * 4)
        finally:
            done.append(True)
            signal.setitimer(signal.ITIMER_REAL, 0)
            reading.join()
            signal.signal(signal.SIGALRM, before)
        self.assertLessEqual(seen, {"", "length"})
        self.assertEqual(stream.reason, "length")
        self.assertIn("a callback cannot use the device", refused[0])

    def test_threads_that_close_what_others_use(self):
        m = toy.load("out/book")
        g, x, _, w = self.net()
        session = toy.Session(ops.linear(x, w), params=None)
        a = np.eye(2, 3, dtype=np.float32)
        streams = [m.stream("Once", max_tokens=60, ignore_eos=True) for _ in range(3)]
        text = "Once there was a brave fox. " * 5
        failures = []

        def work(which):
            r = random.Random(SEED * 100 + which)
            for _ in range(max(10, ROUNDS // 10)):
                try:
                    stream = r.choice(streams)
                    r.choice([
                        lambda: next(stream, None), lambda: stream.reason, stream.close,
                        lambda: streams.__setitem__(r.randrange(3), m.stream("a", max_tokens=60, ignore_eos=True)),
                        lambda: m.generate("Once", max_tokens=2), lambda: m.score(text), lambda: m.logits([1, 2, 3]),
                        lambda: session.run(x=a), lambda: session.__setitem__("w", np.ones((4, 3), np.float32)),
                        lambda: session["w"].sum(), lambda: toy.Session(ops.linear(ops.tanh(x), w)).run(x=a),
                        lambda: toy.load("out/book").generate("b", max_tokens=1), gc.collect,
                    ])()
                except FINE as e:
                    if "already executing" not in str(e):
                        failures.append(repr(e))
                except BaseException as e:
                    failures.append(repr(e))

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=2)
