#!/usr/bin/env python3
"""Time to the first token of a conversation's second turn in `toy serve`: where the first turn is found again, and where
nothing is. Between the turns, another text uses the only sequence.

    next_turn.py TOY MODEL.gguf [--words 350] [--rounds 3] [--serve "--ctx 8192"]
"""
import argparse
import json
import re
import subprocess
import time
import urllib.request


def ask(port, prompt, tokens):
    """Seconds to the first token, and the text."""
    body = {"prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 0, "ignore_eos": True,
            "logprobs": 0}  # an event for each token, also for bytes that are no character yet
    begin = time.monotonic()
    reply = urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode()))
    first, text = None, ""
    for line in reply:
        if line.startswith(b"data: {"):
            first = first or time.monotonic() - begin
            text += json.loads(line[6:])["choices"][0]["text"]
    return first, text


def metric(port, name):
    all_of_them = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    return int(re.search(rf"^toy_{name} (\d+)$", all_of_them, re.M).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toy")
    parser.add_argument("model")
    parser.add_argument("--words", type=int, default=350, help="words of the first turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", default="", help="further options of toy serve")
    args = parser.parse_args()
    server = subprocess.Popen([args.toy, "serve", args.model, "--port", "0", "--parallel", "1", *args.serve.split()],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            print(line.rstrip())
            if port := re.search(r"serving .*:(\d+);", line):
                break
        port = port.group(1)
        for i in range(args.rounds):
            conversation = f"Round {i}. " + " ".join(f"word{k}" for k in range(args.words))
            new = "\nUser: And what happened then?\n"
            cold, _ = ask(port, conversation, 16)
            ask(port, "Something else, " * 20, 4)
            shared = metric(port, "prompt_tokens_shared_total")
            prompt = metric(port, "prompt_tokens_total")
            warm, _ = ask(port, conversation + new, 16)
            shared = metric(port, "prompt_tokens_shared_total") - shared
            prompt = metric(port, "prompt_tokens_total") - prompt
            ask(port, "Something else, " * 20, 4)
            fresh, _ = ask(port, f"Other {i}. " + conversation + new, 16)
            print(f"first turn {cold:.3f} s; second turn {warm:.3f} s ({shared} of {prompt} tokens found), "
                  f"{fresh:.3f} s where nothing is found")
    finally:
        server.terminate()
        server.wait()


main()
