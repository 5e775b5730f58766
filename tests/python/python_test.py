"""The package toy against the program: python_test.py TOY_BINARY WORK SOURCES."""
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
import toy

PROGRAM, WORK, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
os.chdir(WORK)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has started this as `... &`


def program(*words):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True).stdout


def setUpModule():
    pathlib.Path("book.txt").write_bytes(program("corpus", "stories", "--bytes", 100000, "--seed", 1))
    toy.train.from_scratch(**RECIPE, out="out/book")


RECIPE = {"corpus": "book.txt", "size": "tiny", "tokenizer": "spm:300", "steps": 12, "batch": 2, "tokens": 64}
PROMPT = "Once there was a brave"


def bytes_of(path):
    return pathlib.Path(path).read_bytes()


class Bytes(unittest.TestCase):
    """Python's results are the program's."""

    def test_training(self):
        program("train", "from-scratch", "--out", "out/program",
                *[w for k, v in RECIPE.items() for w in (f"--{k}", v)])
        self.assertEqual(bytes_of("out/book/model.gguf"), bytes_of("out/program/model.gguf"))

    def test_lora(self):
        options = {"model": "out/book", "corpus": "book.txt", "rank": 4, "steps": 3, "batch": 2, "tokens": 32}
        run = toy.train.lora(**options, out="out/lora")
        program("train", "lora", "--out", "out/lora2", *[w for k, v in options.items() for w in (f"--{k}", v)])
        self.assertEqual(bytes_of("out/lora/adapter.gguf"), bytes_of("out/lora2/adapter.gguf"))
        adapted = toy.load("out/book", lora=["out/lora"]).generate(PROMPT, max_tokens=20)
        self.assertEqual(adapted, program("infer", "out/book", "--lora", "out/lora", "--prompt", PROMPT, "-n", 20)
                         .decode("utf-8", "replace")[:-1])
        self.assertEqual(run.end, "done")

    def test_other_recipes(self):
        """All but from-scratch and lora."""
        program("corpus", "shapes", "--images", 40, "--test", 10, "--image-size", 16, "--seed", 1, "--out", "shapes")
        program("convert", SOURCES / "tests/golden/bert_tiny", "encoder.gguf")
        for name, rows in (("ask", [{"prompt": f"Q: {i}?\nA:", "answer": str(i)} for i in range(4)]),
                           ("better", [{"prompt": f"Q: {i}?", "chosen": f" {i}.", "rejected": " no."} for i in range(8)]),
                           ("kinds", [{"text": f"an {w}", "label": w[-1]} for w in "fox owl hare toad box howl".split()]),
                           ("pairs", [{"anchor": f"an {w}", "positive": f"the {w}"} for w in "fox owl hare toad".split()])):
            pathlib.Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        text = {"corpus": "book.txt", "steps": 2, "batch": 2, "tokens": 32}
        for recipe, options in (("warm-start", {"init": "out/book", **text}), ("full-finetune", {"model": "out/book", **text}),
                                ("dpo", {"model": "out/book", "data": "better.jsonl", "steps": 2, "batch": 2, "tokens": 64, "rank": 2}),
                                ("grpo", {"model": "out/book", "data": "ask.jsonl", "steps": 2, "batch": 2, "tokens": 96, "rank": 2,
                                          "reward": "exact"}),
                                ("vit", {"data": "shapes", "size": "vit-micro", "steps": 3, "batch": 4}),
                                ("contrastive", {"model": "encoder.gguf", "data": "pairs.jsonl", "val": "pairs.jsonl", "steps": 2,
                                                 "batch": 4}),
                                ("classify", {"model": "encoder.gguf", "data": "kinds.jsonl", "val": "kinds.jsonl", "steps": 2,
                                              "batch": 4})):
            own = getattr(toy.train, recipe.replace("-", "_"))(**options, out=f"out/{recipe}1")
            program("train", recipe, "--out", f"out/{recipe}2", *[w for k, v in options.items() for w in (f"--{k}", v)])
            name = "adapter.gguf" if own.model is None or "adapter" in own.model else "model.gguf"
            self.assertEqual(bytes_of(f"out/{recipe}1/{name}"), bytes_of(f"out/{recipe}2/{name}"), recipe)
        self.assertEqual(toy.train.__all__[4:], ["from_scratch", "warm_start", "full_finetune", "lora", "dpo", "grpo", "vit", "contrastive",
                                                  "classify"])

    def test_generate(self):
        for options in ({"temperature": 0.0}, {"temperature": 0.9, "seed": 7},
                        {"temperature": 1.5, "seed": 3, "top_k": 20, "top_p": 0.9, "repeat_penalty": 1.2},
                        {"samplers": "top_k(40);temperature(0.7);xtc(probability=0.5)", "seed": 5}):
            words = [w for k, v in options.items() for w in ("--" + k.replace("_", "-"), v)]
            expected = program("infer", "out/book", "--prompt", PROMPT, "-n", 40, *words).decode("utf-8", "replace")
            self.assertEqual(MODEL().generate(PROMPT, max_tokens=40, **options), expected[:-1], options)

    def test_stream(self):
        line = json.loads(program("infer", "out/book", "--prompt", PROMPT, "-n", 30, "--temperature", 1, "--seed", 2,
                                  "--json", "--top-logprobs", 2))
        stream = MODEL().stream(PROMPT, max_tokens=30, temperature=1, seed=2, top_logprobs=2)
        tokens = list(stream)
        self.assertEqual([t.id for t in tokens], line["ids"])
        self.assertEqual([t.logprob for t in tokens], line["logprobs"])
        self.assertEqual([t.top for t in tokens],
                         [[(b["id"], b["logprob"]) for b in best] for best in line["top_logprobs"]])
        self.assertEqual("".join(t.text for t in tokens), line["text"])
        self.assertEqual(stream.reason, line["finish_reason"])
        self.assertEqual(MODEL().generate(line["prompt_ids"], max_tokens=30, temperature=1, seed=2), line["text"])

    def test_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                  "additionalProperties": False}
        pathlib.Path("schema.json").write_text(json.dumps(schema))
        expected = program("infer", "out/book", "--prompt", PROMPT, "-n", 60, "--json-schema", "schema.json",
                           "--temperature", 1, "--seed", 4).decode("utf-8", "replace")[:-1]
        text = MODEL().generate(PROMPT, max_tokens=60, json_schema=schema, temperature=1, seed=4)
        self.assertEqual(text, expected)
        self.assertTrue(text.startswith("{"), text)

    def test_chat(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        options = {"chat_template": "plain", "max_tokens": 40, "temperature": 0.9, "seed": 6}
        expected = subprocess.run([PROGRAM, "chat", "out/book", "--system", "Be brief.", "--chat-template", "plain",
                                   "-n", "40", "--temperature", "0.9", "--seed", "6"], input=b"Hi\n", check=True,
                                  capture_output=True).stdout.decode("utf-8", "replace")
        pieces = []
        answer = MODEL().chat(messages, on_text=pieces.append, **options)
        self.assertEqual((answer["role"], answer["content"]), ("assistant", "".join(pieces)))
        self.assertEqual(answer["content"].strip(), expected.strip())
        with self.assertRaisesRegex(toy.BadInput, "chat template"):
            MODEL().chat(messages)
        with self.assertRaisesRegex(toy.BadInput, "messages"):
            MODEL().chat([{"role": "nobody"}], chat_template="plain")
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                  "additionalProperties": False}
        self.assertTrue(MODEL().chat(messages, json_schema=schema, **options)["content"].startswith("{"))

    def test_score(self):
        text = bytes_of("book.txt")[:3000].decode()
        pathlib.Path("part.txt").write_text(text)
        said = json.loads(program("eval", "out/book", "--file", "part.txt", "--json", "--logprobs-out", "lines.jsonl"))
        score = MODEL().score(text)
        lines = [json.loads(line) for line in bytes_of("lines.jsonl").splitlines()]
        self.assertEqual(score.logprobs.tolist(), [line["logprob"] for line in lines])
        self.assertEqual(score.ids.tolist(), [line["id"] for line in lines])
        for name in ("perplexity", "bits_per_byte", "nats_per_byte", "nats_per_token", "nats_per_token_error", "tokens", "bytes"):
            self.assertEqual(getattr(score, name), said[name], name)

    def test_logits_are_those_that_scores_come_from(self):
        ids = MODEL().tokenizer.encode("Once there was a badger.", bos=True)
        logits = MODEL().logits(ids)
        self.assertEqual((logits.shape, logits.dtype), ((len(ids), 300), np.float32))
        # The program prints log softmax in double precision; each term of the sum is rounded once.
        x = logits.astype(np.float64)
        own = x[np.arange(len(ids) - 1), ids[1:]] - (x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)))[:-1]
        score = MODEL().score("Once there was a badger.")
        np.testing.assert_allclose(score.logprobs[-len(own):], own, rtol=0, atol=300 * 2.0**-52 * 8)
        self.assertEqual(logits.tobytes(), MODEL().logits("Once there was a badger.").tobytes())


def MODEL():
    return toy.load("out/book")


class Arrays(unittest.TestCase):
    def test_tensors_share_memory(self):
        model = MODEL()
        tensor = model.tensors["token_embd.weight"]
        array = np.asarray(tensor)
        self.assertEqual((array.shape, array.dtype), ((300, 64), np.float32))
        self.assertFalse(array.flags.owndata)
        self.assertFalse(array.flags.writeable)
        self.assertEqual(array.ctypes.data, tensor.numpy().ctypes.data)
        self.assertEqual(tensor.dequantize().tobytes(), array.tobytes())
        before = array.tobytes()
        del model, tensor
        gc.collect()
        self.assertEqual(array.tobytes(), before)
        with self.assertRaises(ValueError):
            array[0, 0] = 1

    def test_quantized(self):
        program("quantize", "out/book/model.gguf", "q8.gguf", "--type", "Q8_0")
        model = toy.load("q8.gguf")
        tensor = model.tensors["blk.0.attn_q.weight"]
        self.assertEqual(tensor.dtype, "q8_0")
        with self.assertRaisesRegex(toy.BadInput, "dequantize"):
            tensor.numpy()
        exact = MODEL().tensors["blk.0.attn_q.weight"].numpy()
        # A block of 32 has 255 levels from -max to max, so a value is off by half of one (and the scale's rounding to f16).
        bound = np.abs(exact).max() / 127 * (0.5 + 127 * 2.0**-11)
        self.assertLessEqual(np.abs(tensor.dequantize() - exact).max(), bound)
        expected = program("infer", "q8.gguf", "--prompt", PROMPT, "-n", 300, "--ctx", 512, "--ignore-eos")
        self.assertEqual(model.generate(PROMPT, max_tokens=300, context=512, ignore_eos=True),
                         expected.decode("utf-8", "replace")[:-1])

    def test_names(self):
        tensors = MODEL().tensors
        self.assertEqual(len(tensors), len(list(tensors)))
        with self.assertRaisesRegex(KeyError, "token_embd.weight"):
            tensors["token_embed.weight"]

    def test_tokenizer(self):
        t = MODEL().tokenizer
        ids = t.encode("Once there was")
        self.assertEqual(t.decode(ids), "Once there was")
        self.assertEqual(t.decode(np.array(ids)), "Once there was")
        with self.assertRaises(toy.BadInput):
            t.decode([10**6])


class Evaluation(unittest.TestCase):
    """What `toy eval --json` prints, but for the names of files."""

    def expect(self, result, *words):
        said = json.loads(program("eval", *words, "--json"))
        for name in ("base", "model", "a", "b", "file"):
            said.pop(name, None)
        self.assertEqual(result, said)

    def setUp(self):
        program("quantize", "out/book/model.gguf", "small.gguf", "--type", "Q4_0", "--overwrite")
        pathlib.Path("part.txt").write_bytes(bytes_of("book.txt")[:2000])
        self.text = bytes_of("part.txt").decode()
        pathlib.Path("choices.jsonl").write_text("".join(
            json.dumps({"prompt": f"Once there was a {w}", "choices": [" fox", " brave badger", "."], "answer": i % 3}) + "\n"
            for i, w in enumerate(("big", "small", "brave", "old"))))
        pathlib.Path("open.jsonl").write_text("".join(
            json.dumps({"prompt": f"Q: {i}?\nA:", "answers": ["yes", str(i)], "kind": "even" if i % 2 == 0 else "odd"}) + "\n"
            for i in range(5)))

    def test_choices(self):
        self.expect(toy.evaluate.choices(MODEL(), "choices.jsonl"), "choices", "out/book", "choices.jsonl")
        self.expect(toy.evaluate.choices(toy.load("small.gguf"), "choices.jsonl", limit=3, exact=True),
                    "choices", "small.gguf", "choices.jsonl", "--limit", 3, "--exact")

    def test_answers(self):
        result = toy.evaluate.answers(MODEL(), pathlib.Path("open.jsonl"), rows=True, max_tokens=12, temperature=0.9, seed=3,
                                      stop=["."], ignore_case=True)
        self.expect(result, "generate", "out/book", "open.jsonl", "--rows", "-n", 12, "--temperature", 0.9, "--seed", 3,
                    "--stop", ".", "--ignore-case")
        self.assertEqual(len(result["rows"]), 5)
        self.expect(toy.evaluate.answers(MODEL(), "open.jsonl"), "generate", "out/book", "open.jsonl")

    def test_kl_and_lmc(self):
        small = toy.load("small.gguf")
        self.expect(toy.evaluate.kl(MODEL(), small, self.text, context=64),
                    "kl", "--base", "out/book", "--model", "small.gguf", "--file", "part.txt", "--ctx", 64)
        self.assertTrue(toy.evaluate.kl(small, small, self.text)["equal"])
        toy.train.from_scratch(**{**RECIPE, "steps": 3}, seed=2, out="out/other", overwrite=True)
        self.expect(toy.evaluate.lmc(MODEL(), toy.load("out/other"), self.text, [0, 0.5, 1], context=64),
                    "lmc", "--a", "out/book", "--b", "out/other", "--alphas", "0,0.5,1", "--file", "part.txt", "--ctx", 64)

    def test_refuses(self):
        m = MODEL()
        for pattern, call in (
                ("did you mean 'limit'", lambda: toy.evaluate.choices(m, "choices.jsonl", limt=3)),
                ("nothing.jsonl", lambda: toy.evaluate.choices(m, "nothing.jsonl")),
                ("book.txt", lambda: toy.evaluate.answers(m, "book.txt")),
                ("leaves room", lambda: toy.evaluate.answers(m, "open.jsonl", max_tokens=10**6)),
                ("finite numbers", lambda: toy.evaluate.lmc(m, m, self.text, [float("nan")])),
                ("finite numbers", lambda: toy.evaluate.lmc(m, m, self.text, [])),
                ("different devices", lambda: toy.evaluate.kl(m, toy.load("small.gguf", threads=1), self.text))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                call()

    def test_interrupt(self):
        pathlib.Path("many.jsonl").write_bytes(bytes_of("open.jsonl") * 200)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(1000):
                toy.evaluate.answers(MODEL(), "many.jsonl", max_tokens=64)
        timer.join()

    def test_embeddings(self):
        program("convert", SOURCES / "tests/golden/bert_tiny", "bert.gguf")
        words = "otter badger fox owl hare toad mole vole".split()
        pathlib.Path("rated.jsonl").write_text("".join(
            json.dumps({"sentence1": f"an {a}", "sentence2": f"the {b} is here", "score": i}) + "\n"
            for i, (a, b) in enumerate(zip(words, words[1:]))))
        pathlib.Path("pairs.jsonl").write_text("".join(
            json.dumps({"anchor": f"an {w}", "title": f"the {w} is here", "negative": f"no {w}"}) + "\n" for w in words))
        model = toy.load("bert.gguf")
        self.expect(toy.evaluate.sts(model, "rated.jsonl", pooling="cls"), "sts", "bert.gguf", "rated.jsonl", "--pooling", "cls")
        self.expect(toy.evaluate.retrieval(model, "pairs.jsonl", map="positive=title", anchor_prefix="query: ", dimensions=8),
                    "retrieval", "bert.gguf", "pairs.jsonl", "--map", "positive=title", "--anchor-prefix", "query: ",
                    "--dimensions", 8)
        with self.assertRaisesRegex(toy.BadInput, "several vectors"):
            toy.evaluate.sts(model, "rated.jsonl", pooling="none")


class BadInput(unittest.TestCase):
    def refused(self, pattern, call, *arguments, **options):
        with self.assertRaisesRegex(toy.BadInput, pattern) as caught:
            call(*arguments, **options)
        self.assertIsInstance(caught.exception, (toy.Error, ValueError))

    def test_options(self):
        m = MODEL()
        self.refused("did you mean 'temperature'", m.generate, "x", temprature=1)
        self.refused("temperature is -1; use 0 or more", m.generate, "x", temperature=-1)
        self.refused("seed is '1.5'", m.generate, "x", seed=1.5)
        self.refused("finite", m.generate, "x", temperature=float("nan"))
        self.refused("max_tokens", m.generate, "x", max_tokens=10**9)
        self.refused("exclude", m.generate, "x", json_schema={}, grammar="root ::= 'a'")
        self.refused("logit_bias", m.generate, "x", logit_bias={"100000": 1})
        self.refused("kv is 'q9'", m.logits, "x", kv="q9")
        self.refused("did you mean 'stride'", m.score, "x", strid=3)
        self.refused("there are .*max_tokens", m.generate, "x", n=5)
        self.refused("did you mean 'threads'", toy.load, "out/book", thread=3)
        self.refused("did you mean 'steps'", toy.train.lora, model="out/book", corpus="book.txt", setps=3)
        self.refused("steps is 0", toy.train.from_scratch, corpus="book.txt", steps=0)
        self.refused("device", toy.load, "out/book", device="abacus")
        with self.assertRaisesRegex(TypeError, "call toy.train.from_scratch"):
            toy.train("from-scratch", corpus="book.txt")
        self.refused("an option is <object", m.generate, "x", stop=object())
        self.refused("check the path", toy.load, "/nonexistent/a.gguf")
        self.refused("a str or a path; this is 5", toy.load, 5)

    def test_prompts(self):
        m = MODEL()
        self.refused("outside the vocabulary", m.generate, [300])
        self.refused("outside the vocabulary", m.logits, [-1])
        self.refused("empty", m.generate, [])
        self.refused("whole numbers", m.generate, [1.5])
        self.refused("list of 2 texts", m.generate, ["a", "b"])
        self.refused("whole numbers", m.logits, np.zeros((2, 2), np.int32))
        self.refused("whole numbers", m.logits, np.zeros(2, np.float32))
        self.refused("a text or a list of token ids; this is None", m.generate, None)
        self.refused("character 1 of the prompt is .*half of one", m.generate, "a\ud800")

    def test_callbacks(self):
        def fails(event):
            if event.kind == "step" and event.step == 3:
                raise RuntimeError("enough")

        with self.assertRaisesRegex(RuntimeError, "enough"):
            toy.train.from_scratch(**RECIPE, out="out/fails", on_event=fails)
        self.assertTrue(list(pathlib.Path("out/fails/checkpoints").iterdir()))
        toy.train.from_scratch(**RECIPE, out="out/fails", resume=True)
        self.assertEqual(bytes_of("out/fails/model.gguf"), bytes_of("out/book/model.gguf"))


class Control(unittest.TestCase):
    def test_events(self):
        events = toy.train.events("from-scratch", **RECIPE, out="out/events")
        kinds = [e.kind for e in events]
        self.assertEqual(kinds.count("step"), 12)
        self.assertEqual((kinds[0], kinds[-1]), ("run_start", "run_end"))
        self.assertEqual(events.run.step, 12)
        steps = 0
        for e in toy.train.events("from_scratch", **{**RECIPE, "steps": 100000}, out="out/break"):
            steps += e.kind == "step"
            if steps == 2:
                break
        self.assertTrue(list(pathlib.Path("out/break/checkpoints").iterdir()))
        with self.assertRaises(toy.BadInput):
            list(toy.train.events("lora", model="nothing.gguf", corpus="book.txt"))
        with self.assertRaisesRegex(toy.BadInput, "recipe"):
            list(toy.train.events("lorra", model="out/book"))

    def test_keyboard_interrupt(self):
        def interrupt(event):
            if event.kind == "step" and event.step == 2:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            toy.train.from_scratch(**RECIPE, out="out/interrupted", on_event=interrupt)
        run = toy.train.from_scratch(**RECIPE, out="out/interrupted", resume=True)
        self.assertEqual(bytes_of(run.model), bytes_of("out/book/model.gguf"))
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(10**6):
                MODEL().generate(PROMPT, max_tokens=100, ignore_eos=True)
        timer.join()

    def test_threads(self):
        m = MODEL()
        alone = m.generate(PROMPT, max_tokens=60, temperature=1, seed=1)
        texts, counted = [], [0]
        threads = [threading.Thread(target=lambda: texts.append(
            m.generate(PROMPT, max_tokens=60, temperature=1, seed=1))) for _ in range(4)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            counted[0] += 1
            time.sleep(0)
        self.assertEqual(texts, [alone] * 4)
        self.assertGreater(counted[0], 1)  # this thread ran meanwhile

    def test_two_streams(self):
        m = MODEL()
        expected = [t.id for t in m.stream(PROMPT, max_tokens=20)]
        a, b = m.stream(PROMPT, max_tokens=20), m.stream(PROMPT, max_tokens=20)
        ids = [], []
        for x, y in zip(a, b):
            ids[0].append(x.id), ids[1].append(y.id)
            m.logits([1, 2, 3])
        self.assertEqual(ids, (expected, expected))
        a.close()
        self.assertEqual(list(a), [])
        left = m.stream(PROMPT, max_tokens=20)
        next(left)
        del m
        gc.collect()
        self.assertEqual([t.id for t in left], expected[1:])

    def test_callback_that_computes(self):
        m = MODEL()
        seen = []
        toy.train.from_scratch(**RECIPE, out="out/computes", overwrite=True,
                               on_event=lambda e: seen.append(m.generate("x", max_tokens=2)))
        self.assertEqual(bytes_of("out/computes/model.gguf"), bytes_of("out/book/model.gguf"))
        self.assertTrue(seen)

    def test_fork(self):
        m = MODEL()
        m.generate("x", max_tokens=2)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                m.generate("x", max_tokens=2)
            except toy.BadInput as e:
                code = 0 if "fork" in str(e) else 2
            del m
            if code == 0 and MODEL().generate("x", max_tokens=2) is None:
                code = 3
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_import_takes_little(self):
        code = "import time; t = time.process_time(); import toy; print(time.process_time() - t, *__import__('sys').modules)"
        runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
                for _ in range(5)]
        if "libclang_rt" not in os.environ.get("LD_PRELOAD", ""):
            self.assertLess(min(float(r[0]) for r in runs), 0.03)
        self.assertNotIn("numpy", runs[0])  # it takes longer than all of toy

    def test_documentation(self):
        self.assertIn("temperature:", toy.Model.generate.__doc__)
        self.assertIn("rank:", toy.train.lora.__doc__)
        package = pathlib.Path(toy.__file__).parent
        self.assertIn("rank: int", (package / "train.pyi").read_text())
        self.assertIn("def generate", (package / "__init__.pyi").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
