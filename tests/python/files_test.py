"""Files that the package toy writes and logs that it reads, against the program: files_test.py TOY_BINARY WORK SOURCES."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import toy

PROGRAM, WORK, SOURCES = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
os.chdir(WORK)
PROMPT = "Once there was a brave"


def program(*words):
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True).stdout


def setUpModule():
    pathlib.Path("book.txt").write_bytes(program("corpus", "stories", "--bytes", 100000, "--seed", 1))
    global RUN
    RUN = toy.train.from_scratch(corpus="book.txt", size="tiny", tokenizer="spm:300", steps=12, batch=2, tokens=64, out="out/book")


def bytes_of(path):
    return pathlib.Path(path).read_bytes()


def MODEL():
    return toy.load("out/book")


class Files(unittest.TestCase):
    """Python's files are the program's."""

    def test_quantize(self):
        program("quantize", "out/book/model.gguf", "theirs.gguf", "--type", "Q4_K_M", "--tensor", "blk.0.*=Q8_0")
        tensors = toy.quantize("out/book", pathlib.Path("own.gguf"), type="q4_k_m", tensor=["blk.0.*=Q8_0"])
        self.assertEqual(bytes_of("own.gguf"), bytes_of("theirs.gguf"))
        with self.assertRaisesRegex(toy.BadInput, "own.gguf' is there and would be lost; .* overwrite=True"):
            toy.quantize("out/book", "own.gguf", type="Q8_0")
        self.assertEqual(bytes_of("own.gguf"), bytes_of("theirs.gguf"))
        changed = [t for t in tensors if t["from"] != t["to"]]
        self.assertTrue(changed)
        exact, own = MODEL().tensors, toy.load("own.gguf").tensors
        for t in changed:
            w = exact[t["name"]].numpy().astype(np.float64)
            error = np.sqrt(((own[t["name"]].dequantize() - w)**2).mean() / (w**2).mean())
            self.assertAlmostEqual(t["error"], error, delta=1e-6)

    def test_merge(self):
        toy.train.lora(model="out/book", corpus="book.txt", rank=2, steps=2, batch=2, tokens=32, out="out/merged")
        for kind in ("F16", "Q8_0"):
            program("merge", "out/book", "--lora", "out/merged", "--type", kind, "--overwrite", "--out", "theirs2.gguf")
            toy.merge("out/book", "own2.gguf", lora=["out/merged"], type=kind, overwrite=True)
            self.assertEqual(bytes_of("own2.gguf"), bytes_of("theirs2.gguf"))

    def test_convert(self):
        toy.convert("out/book", "hf-own")
        program("convert", "out/book", "hf-theirs")
        for file in sorted(pathlib.Path("hf-theirs").iterdir()):
            self.assertEqual(bytes_of(pathlib.Path("hf-own") / file.name), file.read_bytes(), file)
        toy.convert("hf-own", "back.gguf", type="f16")
        program("convert", "hf-theirs", "back2.gguf", "--type", "f16")
        self.assertEqual(toy.load("back.gguf").generate(PROMPT, max_tokens=8),
                         toy.load("back2.gguf").generate(PROMPT, max_tokens=8))
        toy.convert("out/book", "half.gguf", type="f16", chat_template="plain")
        program("convert", "out/book", "half2.gguf", "--type", "f16", "--chat-template", "plain")
        self.assertEqual(bytes_of("half.gguf"), bytes_of("half2.gguf"))

    def test_convert_a_reranker(self):
        folder = str(SOURCES / "tests/golden/qwen3_rank_tiny")
        toy.convert(folder, "ranker.gguf", reranker=True)
        program("convert", folder, "ranker2.gguf", "--reranker")
        self.assertEqual(bytes_of("ranker.gguf"), bytes_of("ranker2.gguf"))
        with self.assertRaisesRegex(toy.BadInput, "reranker is for Hugging Face folders"):
            toy.convert("ranker.gguf", "ranker-hf", reranker=True)

    def test_convert_refuses_adapters_and_names_of_files(self):
        toy.train.lora(model="out/book", corpus="book.txt", rank=2, steps=1, batch=1, tokens=32, out="out/adapter")
        for pattern, model, out in (("is an adapter; add it to its model", "out/adapter/peft", "made"),
                                    ("the run made an adapter", "out/adapter", "made.gguf"),
                                    ("an adapter; give the model", "out/adapter/adapter.gguf", "made"),
                                    ("an adapter, whose matrices", "out/adapter/adapter.gguf", "made.gguf"),
                                    ("did you mean 'made'", "out/book", "made.safetensors"),
                                    ("in small letters", "out/book", "made.GGUF")):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                toy.convert(model, out, **({"type": "f16"} if out == "made.gguf" else {}))
        self.assertEqual(list(pathlib.Path(".").glob("made*")), [])

    def test_runs(self):
        log = toy.runs.read("out/book")
        steps = log.table("step")
        self.assertEqual(steps["step"].tolist(), list(range(1, 13)))
        lines = [json.loads(line) for line in bytes_of("out/book/events.jsonl").splitlines()]
        self.assertEqual(steps["loss"].tolist(), [e["loss"] for e in lines if e["kind"] == "step"])
        self.assertEqual(log.summary["step"], 12)
        self.assertEqual((steps["loss"].dtype, log.table("no such kind")), (np.float64, {}))
        self.assertIn("<svg", log._repr_html_())
        self.assertEqual(RUN._repr_html_(), log._repr_html_())
        self.assertIn("step=12", repr(log))
        self.assertIn("tensors, vocabulary 300", repr(MODEL()))
        self.assertTrue(MODEL()._repr_html_().startswith("<svg"))
        with self.assertRaises(toy.BadInput):
            toy.runs.read("no/such/run")
        with self.assertRaisesRegex(toy.BadInput, "loss"):
            toy.runs.svg([log], "losss")

    def test_refuses(self):
        pathlib.Path("note.txt").write_text("mine")
        for pattern, call in (
                ("is no model", lambda: toy.quantize("out/book", "note.txt", type="Q8_0")),
                ("which is the model", lambda: toy.quantize("out/book", "out/book/model.gguf", type="Q8_0")),
                ("type is missing", lambda: toy.quantize("out/book", "a.gguf")),
                ("Q9", lambda: toy.quantize("out/book", "a.gguf", type="Q9")),
                ("did you mean 'imatrix'", lambda: toy.quantize("out/book", "a.gguf", type="Q8_0", imatrx="x")),
                ("nothing to merge", lambda: toy.merge("out/book", "a.gguf")),
                ("type is missing", lambda: toy.convert("out/book", "a.gguf")),
                ("its file is model.path", lambda: toy.quantize(MODEL(), "a.gguf", type="Q8_0")),
                ("no such file", lambda: toy.convert("nothing", "folder"))):
            with self.assertRaisesRegex(toy.BadInput, pattern):
                call()
        self.assertEqual(pathlib.Path("note.txt").read_text(), "mine")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
