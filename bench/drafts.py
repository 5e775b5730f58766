#!/usr/bin/env python3
"""What speculative decoding gains, with SmolLM2-135M-Instruct: a row of a Markdown table for each text and draft.

  M=$(bash scripts/real_models.sh)/smollm2-135m-instruct.gguf
  toy quantize $M small.gguf --type q4_0
  python3 bench/drafts.py $M --drafts ngram small.gguf

Three greedy texts: a name changed in a source file of this repository (the answer begins with its first lines), a summary
of a page of docs, and a story. All ways in turn, the best of --rounds: seconds of the process, and tokens a second
without what `-n 1` takes without a draft. So the loading of a draft, and its reading of prompts, count. The ids must be
the same.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")


def lines(path, begin, end):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return "".join(f.readlines()[begin:end])


def prompts():
    code = "src/decode/generate.cpp"
    return {
        "code": CHAT.format("Rename text to words in this code. Answer with the whole code.\n\n```cpp\n"
                            f"{lines(code, 7, 45)}```") + f"```cpp\n{lines(code, 7, 10)}",
        "summary": CHAT.format(f"Summarize this text in a few sentences.\n\n{lines('docs/memory.md', 23, 43)}"),
        "story": CHAT.format("Write a short story about a badger who lives in a den near a river."),
    }


def run(a, prompt, n, draft):
    """Seconds, and what `toy infer` says."""
    words = ["--draft", draft] if draft else []
    begin = time.perf_counter()
    p = subprocess.run([a.toy, "infer", a.model, "--prompt-file", prompt, "--temperature", "0", "-n", str(n), "--threads",
                        str(a.threads), "--json", *words], capture_output=True, text=True, encoding="utf-8")
    seconds = time.perf_counter() - begin
    if p.returncode:
        sys.exit(f"drafts: {p.stderr.strip()[-500:]}")
    return seconds, json.loads(p.stdout)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--drafts", nargs="+", default=["ngram"])
    ap.add_argument("-n", type=int, default=256, help="tokens at most")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--toy", default=os.path.join(ROOT, "build/release/toy"))
    a = ap.parse_args()
    print("| text | draft | accepted of proposed | seconds | tokens/s | ratio |\n|" + " --- |" * 6, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, prompt in prompts().items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(prompt)
            ways, first = {draft: (float("inf"), {}) for draft in (None, *a.drafts)}, float("inf")
            for _ in range(a.rounds):
                first = min(first, run(a, path, 1, None)[0])
                for draft in ways:
                    ways[draft] = min(ways[draft], run(a, path, a.n, draft), key=lambda way: way[0])
            ids = ways[None][1]["ids"]
            rate = {draft: (len(ids) - 1) / max(seconds - first, 1e-3) for draft, (seconds, _) in ways.items()}
            for draft, (seconds, row) in ways.items():
                if row["ids"] != ids:
                    sys.exit(f"drafts: {draft} changes the text of '{name}'")
                counts = row.get("draft", {})
                print(f"| {name} | {os.path.basename(draft or '')} | "
                      + (f"{counts['accepted']} of {counts['proposed']}" if counts else "")
                      + f" | {seconds:.2f} | {rate[draft]:.0f} | {rate[draft] / rate[None]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
