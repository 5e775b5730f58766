#!/usr/bin/env python3
"""Throughput of `toy serve`: streams at once over HTTP, each with a prompt of its own. Prints tokens/s from the first
request to the last token, and the time to a stream's first token. Beside it, if asked, the same work in llama.cpp's
engine without a server (bench/peers/llama_cpp_speed.py computes all prompts, then all texts together), and in
llama-cpp-python's server, which answers one request after the other. That one takes texts alone, so both servers then
get pieces of FILE.

    serve_throughput.py TOY MODEL.gguf [--streams 8 32] [--prompt 128] [--tokens 64]
        [--peer "PYTHON bench/peers/llama_cpp_speed.py"] [--peer-server PYTHON --text FILE]
"""
import argparse
import asyncio
import json
import re
import socket
import statistics
import subprocess
import threading
import time


def prompts(streams, options):
    """Different ones: ids, or with --text pieces of it."""
    if not options.text:
        return [[(j * 7919 + 13 + 104729 * i) % options.vocab for j in range(options.prompt)] for i in range(streams)]
    with open(options.text, encoding="utf-8") as file:
        text = file.read()
    return [text[at:at + options.characters] for at in range(0, streams * options.characters, options.characters)]


async def stream(port, prompt, options, more):
    """Seconds to the first token, and how many came."""
    data = json.dumps({"prompt": prompt, "max_tokens": options.tokens, "temperature": 0, "stream": True, **more}).encode()
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % len(data) + data)
    await reader.readuntil(b"data: ")
    first = time.monotonic() - begin
    rest = await reader.read()
    writer.close()
    assert b"[DONE]" in rest and re.search(rb'"finish_reason": ?"length"', rest), rest[:300]
    return first, options.tokens


async def measure(port, streams, options, more):
    begin = time.monotonic()
    done = await asyncio.gather(*(stream(port, p, options, more) for p in prompts(streams, options)))
    seconds = time.monotonic() - begin
    return sum(n for _, n in done) / seconds, statistics.median(f for f, _ in done), max(f for f, _ in done)


def run_server(command, ready, streams, options, more):
    """Starts a server, waits for the line with its port, and measures."""
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        for line in server.stderr:
            if found := re.search(ready, line):
                break
        else:
            raise SystemExit(f"{command[0]} ended with {server.wait()}")
        threading.Thread(target=server.stderr.read, daemon=True).start()  # or it waits when the pipe is full
        asyncio.run(measure(int(found.group(1)), 2, options, more))  # the weights are read
        return asyncio.run(measure(int(found.group(1)), streams, options, more))
    finally:
        server.terminate()
        server.wait()


def serve(streams, options):
    command = [options.toy, "serve", options.model, "--port", "0", "--parallel", str(streams),
               "--ctx", str(options.context)]
    return run_server(command, r":(\d+);", streams, options, {"ignore_eos": True})


def peer_server(streams, options):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    # Without the last option a new request ends the one that is being answered.
    command = [options.peer_server, "-m", "llama_cpp.server", "--model", options.model, "--port", str(port), "--n_ctx",
               str(options.context), "--n_threads", "2", "--n_threads_batch", "2", "--interrupt_requests", "False"]
    return run_server(command, r"running on http://.*:(\d+) ", streams, options, {})


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
    parser.add_argument("--peer-server", metavar="PYTHON")
    parser.add_argument("--text", metavar="FILE")
    options = parser.parse_args()
    if options.peer_server and not options.text:
        parser.error("--peer-server needs --text")
    options.characters = 3 * options.prompt  # about as many tokens
    options.context = options.prompt + options.tokens + 8 if not options.text else 3 * options.prompt + options.tokens
    for streams in options.streams:
        for _ in range(options.rounds):
            speed, first, last = serve(streams, options)
            line = f"{streams} streams: {speed:.0f} tokens/s, first token after {first:.2f} s (median), {last:.2f} s (last)"
            if options.peer:
                theirs = peer(streams, options)
                line += f"; llama.cpp {theirs:.0f} tokens/s, ratio {speed / theirs:.2f}"
            if options.peer_server:
                theirs, first, last = peer_server(streams, options)
                line += (f"; llama-cpp-python's server {theirs:.0f} tokens/s, ratio {speed / theirs:.2f}, first token after "
                         f"{first:.2f} s (median), {last:.2f} s (last)")
            print(line, flush=True)


main()
