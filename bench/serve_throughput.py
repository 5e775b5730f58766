#!/usr/bin/env python3
"""Throughput of `toy serve`: streams at once over HTTP, each with a prompt of its own. Prints tokens/s from the first
request to the last token, and the time to a stream's first token. Beside it, if asked, the same work in llama.cpp's
engine without a server (llama_bench.py computes all prompts, then all texts together).

    serve_throughput.py TOY MODEL.gguf [--streams 8 32] [--prompt 128] [--tokens 64] [--peer "PYTHON llama_bench.py"]
"""
import argparse
import asyncio
import json
import re
import statistics
import subprocess
import time


async def stream(port, i, options):
    """Seconds to the first token, and how many came."""
    ids = [(j * 7919 + 13 + 104729 * i) % options.vocab for j in range(options.prompt)]
    data = json.dumps({"prompt": ids, "max_tokens": options.tokens, "temperature": 0, "stream": True, "logprobs": 0,
                       "ignore_eos": True}).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    await reader.readuntil(b"data: ")
    first = time.monotonic() - begin
    rest = await reader.read()
    writer.close()
    assert b"[DONE]" in rest, rest[:300]
    return first, rest.count(b'"token_logprobs":[')


async def measure(port, streams, options):
    begin = time.monotonic()
    done = await asyncio.gather(*(stream(port, i, options) for i in range(streams)))
    seconds = time.monotonic() - begin
    return sum(n for _, n in done) / seconds, statistics.median(f for f, _ in done), max(f for f, _ in done)


def serve(streams, options):
    server = subprocess.Popen([options.toy, "serve", options.model, "--port", "0", "--parallel", str(streams),
                               "--ctx", str(options.prompt + options.tokens + 8)], stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r":(\d+);", line):
                break
        asyncio.run(measure(int(found.group(1)), 2, options))  # the weights are read
        return asyncio.run(measure(int(found.group(1)), streams, options))
    finally:
        server.terminate()
        server.wait()


def peer(streams, options):
    out = subprocess.run([*options.peer.split(), options.model, "--prompt", str(options.prompt), "--decode",
                          str(options.tokens), "--parallel", str(streams), "--repeat", "1", "--threads", "2"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    r = json.loads(out.strip().splitlines()[-1])
    return options.tokens / (options.prompt / r["prefill_tps"] + options.tokens / r["decode_tps"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toy")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=30000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer")
    options = parser.parse_args()
    for streams in options.streams:
        for _ in range(options.rounds):
            speed, first, last = serve(streams, options)
            line = f"{streams} streams: {speed:.0f} tokens/s, first token after {first:.2f} s (median), {last:.2f} s (last)"
            if options.peer:
                theirs = peer(streams, options)
                line += f"; llama.cpp {theirs:.0f} tokens/s, ratio {speed / theirs:.2f}"
            print(line, flush=True)


main()
