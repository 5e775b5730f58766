#!/usr/bin/env python3
"""Compares `toy` with llama.cpp on one GGUF: greedy decoding from token ids, or tokenization.

  PY=$(scripts/peers.sh)
  $PY tests/peer/check_against_llama_cpp.py --toy build/release/toy MODEL --ids 1,2,3 --n 32
  $PY tests/peer/check_against_llama_cpp.py --toy build/release/toy MODEL --encode texts.txt

Greedy: the generated ids must be equal, and the log probability of each within --tolerance, up to the first step where
llama.cpp's two largest logits lie closer than --margin: from there on the texts may rightly part, and the rest is not
compared.  toy may stop where llama.cpp generates an end token.

With --every-logit, llama.cpp is fed what toy generates, so that there is nothing to part over: the log probability of every
token of the vocabulary must be equal within --tolerance at every step; the first step shows the prompt, the others decoding.

Encode: texts are the lines of the file and the whole file.  Two kinds of file hold texts with line breaks: in a .jsonl file
each line is one JSON string; in an .inp file (llama.cpp's own) texts are separated by a line __ggml_vocab_test__.  No BOS is added on either side, and special tokens in a text are plain characters to llama.cpp.

Exit code 0: equal as far as compared.  1: a difference, or one of the two programs failed.  2: bad usage.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MAX_ARGUMENT = 100_000  # bytes; Linux takes 128 KiB in one argument


class Different(Exception):
    """A difference, or a failure of either program; the text says which."""


def run_json(what, command):
    """Runs a command that prints one JSON object, and returns the object."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Different(f"{what} did not run: {e}") from None
    if done.returncode:
        how = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"exited with code {done.returncode}"
        raise Different(f"{what} {how}: {' '.join(map(str, command))}\n{done.stderr.strip()[-2000:]}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Different(f"{what} did not print one JSON object but: {done.stdout[:500]!r}") from None


def fields(what, answer, *names):
    missing = [n for n in names if n not in answer]
    if missing:
        raise Different(f"{what}: the JSON object lacks {', '.join(missing)}; it has {', '.join(answer)}")
    return [answer[n] for n in names]


def check_every_logit(program, model, prompt, n, tolerance, toy_args=()):
    """Returns the sentence that says what was equal.  llama.cpp runs in this process, which ends with it if it aborts."""
    import numpy as np
    from llama_cpp_greedy import LlamaCpp
    ids_text, everything = ",".join(map(str, prompt)), 1 << 30
    toy = run_json("toy", [program, "infer", model, "--prompt-ids", ids_text, "--n", n, "--temperature", "0", "--ignore-eos",
                           "--json", "--top-logprobs", everything, *toy_args])
    ids, best = fields("toy infer", toy, "ids", "top_logprobs")
    if len(ids) != n or n < 2:
        raise Different(f"toy generated {len(ids)} tokens, asked for were {n} (at least 2)")
    try:
        peer = LlamaCpp(model, n_ctx=len(prompt) + n)
        logits = peer.forced(prompt, ids[:-1]).astype(np.float64)
        peer.close()
    except (RuntimeError, ValueError) as e:
        raise Different(f"llama.cpp: {e}") from None
    theirs = logits - logits.max(1, keepdims=True)
    theirs -= np.log(np.exp(theirs).sum(1, keepdims=True))
    ours = np.full(theirs.shape, np.nan)
    for step, tokens in enumerate(best):
        for token in tokens:
            ours[step, token["id"]] = token["logprob"]
    difference = np.abs(ours - theirs).max(1)  # NaN where toy left out a token
    for step, d in enumerate(difference):
        if not d <= tolerance:
            raise Different(f"step {step}: logprobs differ by {d:.2e}, more than {tolerance:g}")
    return (f"all {theirs.shape[1]} logprobs equal within {difference[0]:.1e} after {len(prompt)} prompt tokens and within "
            f"{difference[1:].max():.1e} in {n - 1} steps of decoding")


def check_greedy(a):
    """Returns the sentence that says what was equal."""
    ids_text = ",".join(map(str, a.ids))
    toy = run_json("toy", [a.toy, "infer", a.model, "--prompt-ids", ids_text, "--n", a.n, "--temperature", "0", "--json", *a.toy_arg])
    prompt, ours, our_logprobs = fields("toy infer", toy, "prompt_ids", "ids", "logprobs")
    peer = run_json("llama.cpp", [sys.executable, HERE / "llama_cpp_greedy.py", a.model, "--ids", ids_text, "--n", a.n])  # a child: it may abort
    theirs, margins, their_logprobs = peer["ids"], peer["margins"], peer["logprobs"]

    if prompt != a.ids:
        raise Different(f"toy infer reports prompt_ids {prompt}, given were {a.ids}")
    if len(our_logprobs) != len(ours):
        raise Different(f"toy infer reports {len(ours)} ids but {len(our_logprobs)} logprobs")
    if len(ours) > a.n:
        raise Different(f"toy generated {len(ours)} tokens, asked for were {a.n}")

    worst = 0.0
    for step in range(a.n):
        if margins[step] < a.margin:
            return (f"equal for {step} of {a.n} steps (logprobs within {worst:.1e}); not compared from step {step} on, "
                    f"where llama.cpp's margin is {margins[step]:.1e} < {a.margin:g}")
        if step == len(ours):
            if peer["end_step"] in (step, step - 1):  # toy may report the end token or leave it out
                return f"equal for {step} steps (logprobs within {worst:.1e}), then toy stopped at the end token"
            raise Different(f"toy stopped after {step} of {a.n} tokens; llama.cpp goes on with id {theirs[step]}")
        if ours[step] != theirs[step]:
            raise Different(f"step {step}: toy chose id {ours[step]} (logprob {our_logprobs[step]:.6f}), llama.cpp {theirs[step]} "
                            f"(logprob {their_logprobs[step]:.6f}, margin {margins[step]:.2e})\n"
                            f"  toy:       {ours[:step + 1]}\n  llama.cpp: {theirs[:step + 1]}")
        if not isinstance(our_logprobs[step], (int, float)):
            raise Different(f"step {step}: toy reports logprob {our_logprobs[step]!r}, not a number")
        difference = abs(our_logprobs[step] - their_logprobs[step])
        if not difference <= a.tolerance:  # also true for NaN
            raise Different(f"step {step}: id {ours[step]} has logprob {our_logprobs[step]:.6f} in toy and "
                            f"{their_logprobs[step]:.6f} in llama.cpp; the difference {difference:.2e} exceeds {a.tolerance:g}")
        worst = max(worst, difference)
    return f"equal for all {a.n} steps, logprobs within {worst:.1e}"


def read_texts(path):
    raw = path.read_bytes().decode()  # not read_text: line breaks stay as they are
    if path.suffix == ".jsonl":
        texts = [json.loads(line) for line in raw.split("\n") if line.strip()]
    elif path.suffix == ".inp":
        texts = raw.split("\n__ggml_vocab_test__\n")
    else:
        texts = raw.split("\n")
        if texts[-1] == "":
            texts.pop()
        if len(texts) > 1:
            texts.append(raw)
    for i, text in enumerate(texts):
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"text {i} is not a string without NUL, so it cannot be an argument")
    kept = [t for t in dict.fromkeys(texts) if len(t.encode()) <= MAX_ARGUMENT]
    return kept, len(dict.fromkeys(texts)) - len(kept)


def check_encode(a):
    from llama_cpp_greedy import LlamaCpp
    try:
        peer = LlamaCpp(a.model, vocab_only=True)
    except RuntimeError as e:
        raise Different(str(e)) from None
    texts, too_long = read_texts(a.encode)
    failures, n_ids = [], 0
    for text in texts:
        theirs = peer.tokenize(text)
        answer = run_json("toy", [a.toy, "tokenizer", "encode", a.model, "--text", text, "--no-bos", "--json", *a.toy_arg])
        ours = answer
        n_ids += len(theirs)
        if ours != theirs:
            at = next((i for i, (x, y) in enumerate(zip(ours, theirs)) if x != y), min(len(ours), len(theirs)))
            failures.append(f"{text[:200]!r}: first difference at token {at}\n"
                            f"  toy:       {ours[max(0, at - 3):at + 8]}\n  llama.cpp: {theirs[max(0, at - 3):at + 8]}")
    if failures:
        raise Different(f"{len(failures)} of {len(texts)} texts are tokenized differently\n" + "\n".join(failures[:10]))
    note = f"; {too_long} texts over {MAX_ARGUMENT} bytes were left out" if too_long else ""
    return f"equal for {len(texts)} texts, {n_ids} tokens{note}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model", help="GGUF file")
    ap.add_argument("--toy", default="build/release/toy", help="the program (default: %(default)s)")
    mode = ap.add_mutually_exclusive_group(required=True)
    mode.add_argument("--ids", type=lambda t: [int(p) for p in t.split(",")], help="prompt token ids, comma separated")
    mode.add_argument("--encode", type=pathlib.Path, metavar="FILE", help="compare the tokenization of the texts in FILE")
    ap.add_argument("--n", type=int, default=32, help="tokens to generate (default: %(default)s)")
    ap.add_argument("--every-logit", action="store_true", help="with --ids: compare all log probabilities")
    ap.add_argument("--margin", type=float, default=1e-3, help="stop comparing at a smaller logit margin (default: %(default)s)")
    ap.add_argument("--tolerance", type=float, default=2e-3, help="on logprobs (default: %(default)s)")
    ap.add_argument("--toy-arg", action="append", default=[], metavar="ARG", help="pass ARG on to toy as well, such as --toy-arg=--exact")
    a = ap.parse_args()
    sys.path.insert(0, str(HERE))
    try:
        if a.encode:
            said = check_encode(a)
        elif a.every_logit:
            said = check_every_logit(a.toy, a.model, a.ids, a.n, a.tolerance, a.toy_arg)
        else:
            said = check_greedy(a)
    except Different as e:
        print(f"{a.model}: {e}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as e:
        print(f"check_against_llama_cpp: {e}", file=sys.stderr)
        return 2
    print(f"{a.model}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
