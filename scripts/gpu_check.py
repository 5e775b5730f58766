#!/usr/bin/env python3
"""Checks a GPU in at most nine minutes and prints one table: the bits of every op against the device emulated, errors
that compute-sanitizer finds, a published text, rows alone and together, resuming, losses next to the cpu's, what does not
fit into its memory, what it can do at most, and speed next to that and to PyTorch's where there is one.

  scripts/gpu_check.sh                              # the first NVIDIA GPU, with build/release
  scripts/gpu_check.sh --device opencl              # another device of `toy devices`
  scripts/gpu_check.sh --device emulated --small    # small sizes: runs anywhere
  scripts/gpu_check.sh --pack FOLDER                # copies what it needs; run FOLDER/gpu_check.sh where there is no
                                                    # compiler and no package

Environment: TOY_BUILD, the folder of the build (default: build/release). Exit code: 0: no check failed; 1: one did;
2: bad usage.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKED = (HERE / "toy").exists()
BUILD = HERE if PACKED else pathlib.Path(os.environ.get("TOY_BUILD", HERE.parent / "build/release")).resolve()
TOY = BUILD / "toy"
TEST_OPS = BUILD / ("test_ops" if PACKED else "tests/test_ops")
MODEL = HERE / "stories260K.gguf" if PACKED else HERE.parent.parent / "shared/data/stories260K.gguf"
# What its author's program writes (github.com/karpathy/llama2.c).
PUBLISHED = ("Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, "
             "she saw a big, red ball.")

# A model with experts, as `--shape` takes it.
EXPERTS = {"architecture": "qwen3moe", "d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv": 2, "d_head": 16, "d_ff": 32,
           "experts": 8, "experts_used": 2, "vocab": 256, "context": 512}


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


class Checks:
    """Runs checks one after another, each within its time, and collects the rows of the table."""

    def __init__(self, options, folder):
        self.device, self.small, self.folder = options.device, options.small, folder
        self.end = time.monotonic() + options.seconds
        self.rows = []
        self.bf16_gflops = None  # what ceilings() measured
        self.trained = {}        # tokens/s of a shape

    def check(self, name, limit, what, *arguments):
        begin = time.monotonic()
        limit *= 3 if self.small else 1  # on a CPU that others use, too
        self.until = min(begin + limit, self.end)
        self.log = self.folder / (re.sub(r"\W+", "-", name) + ".log")
        try:
            if self.until - begin < 5:
                raise Skipped("no time is left")
            state, text = "ok", what(*arguments)
        except Skipped as e:
            state, text = "skipped", str(e)
        except Failed as e:
            state, text = "FAILED", f"{e}; {self.log}"
        except subprocess.TimeoutExpired:
            state, text = "FAILED", f"not done after {limit} s; {self.log}"
        row = f"{name:29} {state:8} {time.monotonic() - begin:6.1f} s  {text}"
        self.rows.append(row)
        print(row, flush=True)

    def run(self, *command, may_fail=False):
        """The standard output of a program, which goes to the log, too."""
        command = [str(c) for c in command]
        with open(self.log, "a", encoding="utf-8") as log:
            log.write("$ " + " ".join(command) + "\n")
            log.flush()
            done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True,
                                  timeout=max(1, self.until - time.monotonic()))
            log.write(done.stdout)
        if done.returncode != 0 and not may_fail:
            lines = [line for line in self.log.read_text(encoding="utf-8").splitlines() if line.strip()]
            raise Failed(f"exit code {done.returncode}: {lines[-1][:100]}")
        return done.stdout

    def toy(self, *arguments, device=None, may_fail=False):
        return self.run(TOY, *arguments, "--device", device or self.device, may_fail=may_fail)

    def book(self):
        if not (self.folder / "book.txt").exists():
            self.run(TOY, "corpus", "stories", "--bytes", 60000, "--seed", 5, "--out", "book.txt")
        return self.folder / "book.txt"

    # ---- what is checked

    def hardware(self):
        for line in self.run(TOY, "devices").splitlines():
            if line.split()[:1] == [self.device]:
                return " ".join(line.split()[1:])
        raise Failed(f"`toy devices` has no {self.device}")

    def bits(self):
        if self.device == "emulated":
            raise Skipped("emulated is what others are compared with")
        out = self.run(TEST_OPS, f"--gtest_filter=All/OpsOnGpu.*/{self.device}*", may_fail=True)
        if "[       OK ]" not in out and "[  FAILED  ]" not in out:
            raise Failed("the tests did not run")
        wrong = re.findall(r"^(\S+ of .*), element", out, re.M)
        if "FAILED" in out:
            raise Failed(f"differs: {', '.join(wrong[:3])}")
        return "every op as on emulated"

    def memory(self):
        self.book()
        self.toy("train", "from-scratch", "--corpus", "book.txt", "--tokenizer", "bytes", "--size", "smollm2-135m",
                 "--batch", 100000, "--tokens", 1024, "--data-cache", "none", "--out", "none", may_fail=True)
        said = [line for line in self.log.read_text(encoding="utf-8").splitlines() if "memory: " in line]
        if not said or f"on device '{self.device}'" not in said[-1]:
            raise Failed("a training that no GPU holds was not refused")
        return re.sub("^.*needs", "refused: it needs", said[-1]).split(";")[0]

    def ceilings(self):
        out = json.loads(self.toy("bench", "machine", "--json"))
        self.bf16_gflops = out["bf16_product_gflops"]
        return (f"{out['fma_gflops']:.0f} GFLOP/s of multiply-adds, {out['product_gflops']:.0f} of f32 products, "
                f"{out['bf16_product_gflops']:.0f} of bf16 ones; copies {out['read_gbs']:.0f} GB/s")

    def ops(self, shape, batch, tokens):
        out = json.loads(self.toy("bench", "ops", "--shape", shape, "--batch", batch, "--tokens", tokens, "--context", 64,
                                  "--steps", 2, "--json"))

        def dearest(rows):
            total = sum(row["us"] * row["calls"] for row in rows)
            shares = {}
            for row in rows:
                shares[row["op"]] = shares.get(row["op"], 0) + row["us"] * row["calls"] / total
            return ", ".join(f"{op} {share:.0%}" for op, share in sorted(shares.items(), key=lambda s: -s[1])[:3])

        return f"training: {dearest(out['training'])}; decoding: {dearest(out['decoding'])}"

    def sanitizer(self, tool):
        if self.device != "cuda":
            raise Skipped("for CUDA only")
        program = shutil.which("compute-sanitizer", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
        if not program:
            raise Skipped("compute-sanitizer is not installed")
        step = ("bench", "train", "--batch", 2, "--tokens", 64, "--steps", 1, "--warmup", 0)
        decode = ("--prompt", 32, "--decode", 4, "--repeat", 1)
        experts = self.folder / "experts.json"
        experts.write_text(json.dumps(EXPERTS))
        for what in ((*step, "--shape", "tiny"), (*step, "--shape", "hybrid-tiny"), (*step, "--shape", experts),
                     (*step, "--shape", "tiny", "--mode", "lora", "--base", "q4_k", "--compute", "bf16"),
                     ("bench", "infer", self.random("tiny", "q8_0"), *decode, "--kv", "q8_0"),
                     ("bench", "infer", self.random("tiny", "q4_k"), *decode),
                     ("bench", "infer", "--shape", "hybrid-tiny", *decode, "--parallel", 2)):
            self.run(program, "--tool", tool, "--error-exitcode", 1, TOY, *what, "--device", self.device)
        return "training of four models, decoding of three: clean"

    def random(self, shape, kind):
        """A GGUF with random weights."""
        path = self.folder / f"{shape}-{kind}.gguf"
        if not path.exists():
            self.run("python3", HERE / "random_model.py", path, "--shape", shape, "--type", kind)
        return path

    def need_model(self):
        if not MODEL.exists():
            raise Skipped(f"{MODEL} is missing")

    def text(self):
        self.need_model()
        n = 50 if self.small else 200
        text = self.toy("infer", MODEL, "--prompt", "", "--n", n)
        if not text.startswith(PUBLISHED):
            raise Failed(f"another text: {text[:60]!r}")
        return f"{n} tokens of stories260K.gguf"

    def together(self):
        self.need_model()
        (self.folder / "prompts").write_text("Once upon a time\nTom and\nThe big red\nOne day a cat\nLily\n")

        def answers(parallel):
            out = self.toy("infer", MODEL, "--prompts", "prompts", "--n", 12, "--json", "--parallel", parallel)
            return [[json.loads(line)[key] for key in ("ids", "logprobs")] for line in out.splitlines()]

        if answers(1) != answers(5):
            raise Failed("texts or their log probabilities differ alone and among others")
        return "5 prompts, 12 tokens each: the same log probabilities"

    def train(self, out, *arguments, device=None):
        return self.toy("train", "from-scratch", "--corpus", self.book(), "--size", "tiny", "--seed", 7, "--batch", 1, "--tokens",
                        16 if self.small else 32, "--eval-tokens", 128, "--data-cache", "none", "--out", out, *arguments,
                        device=device)

    def resume(self):
        last, every = (6, 4) if self.small else (12, 5)
        steps = ("--steps", last, "--checkpoint-every", every)
        for out in ("whole", "cut"):
            self.train(out, *steps)
        cut = self.folder / "cut"
        for what in (f"checkpoints/step_{last:06}", "checkpoints/best", "weights"):
            shutil.rmtree(cut / what, ignore_errors=True)
        for what in ("finished.json", "model.gguf"):
            (cut / what).unlink()
        self.train("cut", *steps, "--resume")
        if (cut / "model.gguf").read_bytes() != (self.folder / "whole/model.gguf").read_bytes():
            raise Failed("another model after the resume")
        return f"{last} steps, resumed after {last // every * every}: the same model"

    def losses(self, compute, most):
        steps = 10 if self.small else 20

        def of(run, device, *arguments):
            self.train(run, "--steps", steps, "--overwrite", *arguments, device=device)
            events = [json.loads(line) for line in (self.folder / run / "events.jsonl").read_text().splitlines()]
            return [e["loss"] for e in events if e["kind"] == "step"]

        mine, cpus = of("mine", self.device, "--compute", compute), of("cpus", "cpu")
        if len(mine) != steps or len(cpus) != steps:
            raise Failed(f"{len(mine)} and {len(cpus)} steps in the logs")
        worst = max(abs(a - b) for a, b in zip(mine, cpus))
        if worst > most:
            raise Failed(f"losses are up to {worst:.1e} from the cpu's")
        return f"{steps} steps: at most {worst:.1e} from the cpu's in f32"

    def training(self, shape, batch, tokens, compute):
        out = json.loads(self.toy("bench", "train", "--shape", shape, "--batch", batch, "--tokens", tokens, "--compute",
                                  compute, "--steps", 2 if self.small else 10,
                                  "--warmup", 1 if self.small else 2, "--json"))
        self.trained[shape, compute] = out["tokens_per_s"]
        share = f"{out['fraction_of_fma']:.0%} of multiply-add"
        if compute == "bf16" and self.bf16_gflops:
            share = f"{out['fraction_of_fma'] * out['fma_gflops'] / self.bf16_gflops:.0%} of bf16 products"
        return f"{out['tokens_per_s']:.0f} tokens/s, {out['ms']:.1f} ms per step of {batch} x {tokens}, {compute}, {share}"

    def pytorch(self, shape, batch, tokens):
        if self.device != "cuda":
            raise Skipped("for CUDA only")
        script = HERE / "pytorch_step.py" if PACKED else HERE.parent / "bench/peers/pytorch_step.py"
        try:
            self.run("python3", "-c", "import torch; torch.zeros(1).cuda()")
        except Failed:
            raise Skipped("python3 has no PyTorch for CUDA") from None
        out = json.loads(self.run("python3", script, "--device", "cuda", "--shape", shape, "--batch", batch, "--tokens",
                                  tokens, "--compute", "bf16", "--steps", 10))
        ratio = self.trained.get((shape, "bf16"), 0) / out["tokens_per_s"]
        return (f"{out['tokens_per_s']:.0f} tokens/s, {out['ms']:.1f} ms per step: eager, bf16 autocast, fused AdamW; "
                f"toy / PyTorch: {ratio:.2f} (bar 1.00, goal 1.30)")

    def decoding(self, shape, parallel, prompt, decode, kind=None, bar=None):
        what = (self.random(shape, kind),) if kind else ("--shape", shape)
        out = json.loads(self.toy("bench", "infer", *what, "--parallel", parallel, "--prompt", prompt, "--decode", decode,
                                  "--repeat", 1, "--json"))
        peer = ""
        if kind and self.device == "cuda":
            peer = self.llama_cpp(what[0], prompt, decode, out["decode_tps"])
        return (f"{out['decode_tps']:.0f} tokens/s, {out['decode_GBps']:.0f} GB/s = {out['fraction_of_read']:.0%} of a copy"
                + (f" (bar {bar:.0%})" if bar else "") + f", prefill {out['prefill_tps']:.0f} tokens/s{peer}")

    def llama_cpp(self, model, prompt, decode, mine):
        """What llama.cpp does with the file, where its llama-bench, built for CUDA, is in PATH."""
        program = shutil.which("llama-bench")
        if not program:
            return "; llama-bench is not in PATH"
        out = json.loads(self.run(program, "-m", model, "-ngl", 999, "-p", 0, "-n", decode, "-d", prompt, "-r", 1, "-o", "json"))
        theirs = out[0]["avg_ts"]
        return f"; llama.cpp {theirs:.0f} tokens/s, toy / llama.cpp: {mine / theirs:.2f} (bar 1.00)"

    def first_token(self, shape, kind):
        """From the start of the process, as its user waits."""
        model = self.random(shape, kind)
        self.toy("infer", model, "--prompt", "t5", "--n", 1)  # the file comes to memory, the driver's cache is filled
        begin = time.monotonic()
        self.toy("infer", model, "--prompt", "t5", "--n", 1)
        seconds = time.monotonic() - begin
        return f"{seconds:.2f} s from start to end of a process, {model.stat().st_size / 1e9:.1f} GB (bar 1.5 s for 1 GB)"

    def all(self):
        self.check("device", 20, self.hardware)
        self.check("bits of the ops", 150, self.bits)
        self.check("published text", 40, self.text)
        self.check("alone and together", 40, self.together)
        self.check("resume", 60, self.resume)
        self.check("losses", 60, self.losses, "f32", 1e-3)
        self.check("losses in bf16", 60, self.losses, "bf16", 0.05)
        self.check("memory", 20, self.memory)
        self.check("ceilings", 30, self.ceilings)
        self.check("memcheck", 70, self.sanitizer, "memcheck")
        self.check("racecheck", 70, self.sanitizer, "racecheck")
        if self.small:
            self.check("training tiny", 60, self.training, "tiny", 1, 32, "f32")
            self.check("training tiny in bf16", 60, self.training, "tiny", 1, 32, "bf16")
            self.check("decoding tiny", 60, self.decoding, "tiny", 1, 16, 8)
            self.check("decoding tiny in q4_k", 60, self.decoding, "tiny", 1, 16, 8, "q4_k")
            self.check("first token of tiny in q8_0", 60, self.first_token, "tiny", "q8_0")
            self.check("ops of tiny", 60, self.ops, "tiny", 1, 16)
            return
        for shape in ("smollm2-135m", "tinyllama-1b"):
            self.check(f"training {shape} in bf16", 50, self.training, shape, 8, 2048, "bf16")
            self.check(f"PyTorch {shape}", 50, self.pytorch, shape, 8, 2048)
        self.check("ops of smollm2-135m", 40, self.ops, "smollm2-135m", 4, 1024)
        self.check("decoding llama-8b in q4_k", 50, self.decoding, "llama-8b", 1, 512, 64, "q4_k", 0.6)
        self.check("decoding tinyllama-1b in bf16", 30, self.decoding, "tinyllama-1b", 1, 512, 64, "bf16", 0.5)
        self.check("decoding tinyllama-1b in q8_0", 30, self.decoding, "tinyllama-1b", 1, 512, 64, "q8_0")
        self.check("first token of tinyllama-1b in q8_0", 30, self.first_token, "tinyllama-1b", "q8_0")
        for parallel in (1, 32):
            self.check(f"decoding smollm2-135m x {parallel}", 30, self.decoding, "smollm2-135m", parallel, 512, 64)
        self.check("training smollm2-135m in f32", 50, self.training, "smollm2-135m", 8, 2048, "f32")


def pack(folder):
    (folder / "lib").mkdir(parents=True, exist_ok=True)
    for program in (TOY, TEST_OPS):
        subprocess.run(["strip", "-o", folder / program.name, program], check=True)
        libraries = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
        for library in re.findall(r"=> (/\S+)", libraries):
            # Of the C and C++ libraries a newer system has newer ones.
            if not re.search(r"/(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt)\.so", library):
                shutil.copy(library, folder / "lib")
    own = [HERE / name for name in ("gpu_check.sh", "gpu_check.py", "random_model.py")]
    for script in (*own, HERE.parent / "bench/peers/pytorch_step.py"):
        shutil.copy(script, folder)
    if MODEL.exists():
        shutil.copyfile(MODEL, folder / MODEL.name)
    megabytes = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6
    print(f"gpu_check: {folder} is ready ({megabytes:.0f} MB); run {folder}/gpu_check.sh on the machine with the GPU")


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="a device of `toy devices` (default: cuda)")
    parser.add_argument("--small", action="store_true", help="small sizes, for a device without a GPU")
    parser.add_argument("--seconds", type=int, default=540, help="for all checks together (default: 540)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for logs and the table (default: a temporary one)")
    parser.add_argument("--pack", type=pathlib.Path, metavar="FOLDER", help="copy what the checks need, and stop")
    options = parser.parse_args()
    for program in (TOY, TEST_OPS):
        if not program.exists():
            parser.error(f"{program} is missing; build it: cmake --preset release && cmake --build --preset release")
    if options.pack:
        return pack(options.pack)
    # The last is where cuBLASLt is, if nothing else says so.
    folders = [f"{HERE}/lib"] if PACKED else []
    folders += [os.environ.get("LD_LIBRARY_PATH", ""), "/usr/local/cuda/lib64"]
    os.environ["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    folder = options.out or pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))
    folder.mkdir(parents=True, exist_ok=True)
    checks = Checks(options, folder.resolve())
    checks.all()
    table = "\n".join(checks.rows) + "\n"
    (folder / "table.txt").write_text(table)
    print(f"\n{table}\nlogs: {folder}")
    return 1 if any(" FAILED " in row for row in checks.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
