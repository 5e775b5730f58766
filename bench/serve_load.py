#!/usr/bin/env python3
"""Load for `toy serve` from this machine: streams at once, then short requests, with slow readers and clients that hang
up among them. Prints counts, seconds and the server's memory; fails if a request stays without an answer. With
--long-prompt, instead: how long 8 streams pause when a prompt of that many tokens arrives.

    serve_load.py TOY MODEL.gguf [--streams 1000] [--short 10000] [--tokens 16] [--serve "--parallel 32"]
    serve_load.py TOY MODEL.gguf --long-prompt 2000
"""
import argparse
import asyncio
import json
import re
import subprocess
import time


def request(body):
    data = json.dumps(body).encode()
    return (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
            .encode() + data)


async def connect(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def stream(port, i, tokens):
    """Seconds to the first token, and whether all came."""
    begin = time.monotonic()
    reader, writer = await connect(port)
    writer.write(request({"prompt": f"Once upon a time {i}", "max_tokens": tokens, "seed": i, "stream": True,
                          "ignore_eos": True}))
    await reader.readuntil(b"data: ")
    first = time.monotonic() - begin
    rest = await reader.read()
    writer.close()
    return first, b"[DONE]" in rest


async def slow(port):
    reader, writer = await connect(port)
    writer.write(request({"prompt": "Slow", "max_tokens": 200, "stream": True, "ignore_eos": True}))
    try:
        while await reader.read(1):
            await asyncio.sleep(1)
    finally:
        writer.close()


async def hang_up(port, half):
    _, writer = await connect(port)
    whole = request({"prompt": "Gone", "max_tokens": 200, "stream": True, "ignore_eos": True})
    writer.write(whole[:len(whole) // 2] if half else whole)
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()


async def short(port, count, tokens):
    """`count` requests over 64 connections; the statuses."""
    statuses = {}
    left = iter(range(count))

    async def client():
        for i in left:
            reader, writer = await connect(port)
            writer.write(request({"prompt": f"A {i % 97}", "max_tokens": tokens, "seed": i}))
            answer = await reader.read()
            writer.close()
            status = answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else "none"
            statuses[status] = statuses.get(status, 0) + 1

    await asyncio.gather(*(client() for _ in range(64)))
    return statuses


def memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) / 1024


async def load(port, pid, options):
    before = memory(pid)
    readers = [asyncio.create_task(slow(port)) for _ in range(4)]
    begin = time.monotonic()
    done = await asyncio.gather(*(stream(port, i, options.tokens) for i in range(options.streams)),
                                *(hang_up(port, i % 2 == 0) for i in range(50)))
    seconds = time.monotonic() - begin
    firsts = sorted(d[0] for d in done if d)
    complete = sum(d[1] for d in done if d)
    print(f"{options.streams} streams of {options.tokens} tokens: {complete} complete in {seconds:.1f} s, "
          f"{complete * options.tokens / seconds:.0f} tokens/s, first token after {firsts[len(firsts) // 2]:.2f} s "
          f"(median), {firsts[-1]:.2f} s (last), {memory(pid) - before:+.1f} MiB")
    between = memory(pid)
    begin = time.monotonic()
    statuses = await short(port, options.short, 2)
    seconds = time.monotonic() - begin
    print(f"{options.short} requests of 2 tokens: {statuses} in {seconds:.1f} s, {options.short / seconds:.0f} a second, "
          f"{memory(pid) - between:+.1f} MiB")
    for task in readers:
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    print(f"memory of the server: {before:.1f} MiB before, {memory(pid):.1f} MiB after")
    assert complete == options.streams and statuses == {"200": options.short}, "requests without their answer"


async def gaps(port, i, times):
    """Notes when each token of a stream came, until it is cancelled."""
    reader, writer = await connect(port)
    writer.write(request({"prompt": f"Once upon a time {i}", "max_tokens": 2000, "stream": True, "ignore_eos": True,
                          "logprobs": 0}))
    try:
        while line := await reader.readline():
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
    finally:
        writer.close()


async def long_prompt(port, tokens):
    """Prints pauses between two tokens of 8 streams, before and while a long prompt is read, and the tokens per second of
    both together meanwhile."""
    streams = [[] for _ in range(8)]
    tasks = [asyncio.create_task(gaps(port, i, times)) for i, times in enumerate(streams)]
    await asyncio.sleep(3)
    begin = time.monotonic()
    reader, writer = await connect(port)
    writer.write(request({"prompt": [(i * 37 + 11) % 250 for i in range(tokens)], "max_tokens": 1}))
    answer = json.loads((await reader.read()).split(b"\r\n\r\n", 1)[1])
    end = time.monotonic()
    writer.close()
    assert not any(task.done() for task in tasks), "a stream ended before the prompt was read; use a shorter one"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    before, during = [], []
    for times in streams:
        for a, b in zip(times[1:], times[2:]):
            (before if b < begin else during).append(b - a)
    during.sort()
    assert answer["usage"]["prompt_tokens"] == tokens
    print(f"prompt of {tokens} tokens answered in {end - begin:.2f} s; longest pause of 8 streams "
          f"{1000 * max(before):.0f} ms before, meanwhile {1000 * during[-1]:.0f} ms (median "
          f"{1000 * during[len(during) // 2]:.0f} ms); {(tokens + len(during)) / (end - begin):.0f} tokens/s in all")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("toy")
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--short", type=int, default=10000)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--long-prompt", type=int, default=0)
    parser.add_argument("--serve", default="--parallel 32")
    options = parser.parse_args()
    server = subprocess.Popen([options.toy, "serve", options.model, "--port", "0", *options.serve.split()],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r":(\d+);", line):
                break
        port = int(found.group(1))
        asyncio.run(long_prompt(port, options.long_prompt) if options.long_prompt else load(port, server.pid, options))
    finally:
        server.terminate()
        print("exit code", server.wait())


main()
