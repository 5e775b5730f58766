#!/usr/bin/env python3
"""Attacks a running `toy serve` with many hostile connections, among honest clients, and prints what came of each.

    python3 scripts/attack.py http://127.0.0.1:8080 --connections 1000 --pid PID [--key KEY] [--stop SECONDS]

Exit code 1: an honest client had no answer, or another one than before, or the server is gone, or takes longer to end.
"""
import argparse, collections, json, os, random, signal, socket, sys, threading, time
from urllib.parse import urlparse

arguments = argparse.ArgumentParser()
arguments.add_argument("url")
arguments.add_argument("--connections", type=int, default=1000)
arguments.add_argument("--honest", type=int, default=8)
arguments.add_argument("--pid", type=int, help="of the server, for its memory")
arguments.add_argument("--key", default="", help="API key of the honest clients")
arguments.add_argument("--megabytes", type=int, default=4, help="that an endless attack sends")
arguments.add_argument("--stop", type=float, help="at last, in the middle of attacks, send SIGTERM; seconds to end in")
options = arguments.parse_args()
where = urlparse(options.url)
HOST = f"{where.hostname}:{where.port}"


def post(target, body, headers=""):
    body = body.encode() if isinstance(body, str) else body
    return (f"POST {target} HTTP/1.1\r\nHost: {HOST}\r\n{headers}Content-Length: {len(body)}\r\n\r\n").encode() + body


CHUNKED = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
GET = f"GET /v1/models HTTP/1.1\r\nHost: {HOST}\r\n".encode()
LONG = json.dumps({"prompt": "a", "max_tokens": 400, "n": 8, "ignore_eos": True, "stream": True})


def grammar(i):
    text = f"root ::= [a-z{i % 10}]{{0,60000}} [0-9]{{0,60000}}"
    return json.dumps({"prompt": "a", "max_tokens": 4, "grammar": text})


WIDE = "[" + ",".join(["[]"] * 300000) + "]"  # as a tree it takes many times as much


def tools(i):
    schema = f'{{"type":"object","x":{WIDE},"properties":{{"a{i}":{{"type":"string"}}}}}}'
    return (f'{{"messages":[{{"role":"user","content":"a"}}],"max_tokens":4,"n":8,"tools":[{{"type":"function",'
            f'"function":{{"name":"f{i}","parameters":{schema}}}}}]}}')


def mutated(rng):
    data = bytearray(post("/v1/completions", '{"prompt": "abc", "max_tokens": 2}'))
    for _ in range(rng.randint(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


# Name: (what is sent at first, what is sent again and again, is the answer read?)
def attacks(i, rng):
    return {
        "chunk extension": (CHUNKED + b"5;", b"a", False),
        "size digits": (CHUNKED, b"0", False),
        "trailer": (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"a", False),
        "trailer lines": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: a\r\n", False),
        "extensions of small chunks": (CHUNKED, b"1;abcdefgh\r\n{\r\n", False),
        "header lines": (GET, b"X: a\r\n", False),
        "endless target": (b"GET /", b"a", False),
        "half a header": (GET, b"", True),
        "half a body": (post("/v1/completions", "{" + " " * 1000)[:-500], b"", True),
        "large body": (post("/v1/completions", "[" * 4000000), b"", True),
        "length and chunks": (post("/x", "0\r\n\r\n", "Transfer-Encoding: chunked\r\n"), b"", True),
        "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200), b"", True),
        "mutated": (mutated(rng), b"", True),
        "long text, leaves": (post("/v1/completions", LONG), b"", False),
        "long text and a byte, leaves": (post("/v1/completions", LONG) + b"G", b"", False),
        "early requests": (post("/v1/completions", LONG), GET + b"\r\n", False),
        "grammar": (post("/v1/completions", grammar(i)), b"", True),
        "tools": (post("/v1/chat/completions", tools(i)), b"", True),
        "wide": (post("/v1/responses", f'{{"input":"a","max_output_tokens":2,"metadata":{{"a":{WIDE}}}}}'), b"", True),
        "many prompts": (post("/v1/completions", json.dumps({"prompt": ["a b " * 99] * 128, "max_tokens": 1})), b"", True),
        "page": (post("/v1/state", '{"action":"list"}', "Origin: http://evil.example\r\n"), b"", True),
        "other name": (post("/tokenize", '{"content":"a"}').replace(HOST.encode(), b"evil.example"), b"", True),
        "state names": (post("/v1/state", '{"action":"restore","name":"../../etc/passwd"}'), b"", True),
    }


statuses = collections.defaultdict(collections.Counter)
lock = threading.Lock()


def status_of(answer):
    return answer.split(b" ", 2)[1].decode(errors="replace") if answer.startswith(b"HTTP/1.1 ") else "closed"


def attack(i):
    rng = random.Random(i)
    kinds = attacks(i, rng)
    name = list(kinds)[i % len(kinds)]
    begin, again, reads = kinds[name]
    result = "sent"
    try:
        with socket.create_connection((where.hostname, where.port), timeout=60) as s:
            s.sendall(begin)
            block = again * (65536 // max(len(again), 1)) if again else b""
            s.settimeout(10)
            for _ in range(options.megabytes * 16 if again else 0):
                s.sendall(block)
            if reads:
                s.settimeout(45)  # the server gives half requests 30 seconds
                result = status_of(s.recv(65536))
    except socket.timeout:
        result = "stopped reading" if again else "HANG"
    except OSError:
        result = "closed"
    with lock:
        statuses[name][result] += 1


def ask(i):
    body = json.dumps({"prompt": f"{i} foxes", "seed": i, "max_tokens": 24, "temperature": 1})
    key = f"Authorization: Bearer {options.key}\r\n" if options.key else ""
    for _ in range(100):
        with socket.create_connection((where.hostname, where.port), timeout=120) as s:
            s.sendall(post("/v1/completions", body, key + "Connection: close\r\n"))
            answer = b""
            while part := s.recv(65536):
                answer += part
        if status_of(answer) == "429":  # as official clients do
            time.sleep(0.5)
            continue
        if status_of(answer) != "200":
            return "status " + status_of(answer)
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])["choices"]
    return "busy"


def memory():
    if not options.pid:
        return 0
    with open(f"/proc/{options.pid}/status") as f:
        return next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmRSS:"))


right = [ask(i) for i in range(options.honest)]
before, highest, asked, wrong, slowest, done = memory(), 0, 0, 0, 0.0, False


def honest(i):
    global asked, wrong, slowest
    while not done:
        begin = time.time()
        try:
            answer = ask(i)
        except OSError as e:
            answer = str(e)
        with lock:
            asked += 1
            wrong += answer != right[i]
            slowest = max(slowest, time.time() - begin)


def watch():
    global highest
    while not done:
        highest = max(highest, memory())
        time.sleep(0.1)


begin = time.time()
others = [threading.Thread(target=honest, args=(i,)) for i in range(options.honest)] + [threading.Thread(target=watch)]
attackers = [threading.Thread(target=attack, args=(i,)) for i in range(options.connections)]
for t in others + attackers:
    t.start()
for t in attackers:
    t.join()
done = True
for t in others:
    t.join()

print(f"{'attack':32} {'connections':>11}  results")
for name, results in statuses.items():
    print(f"{name:32} {sum(results.values()):11}  " + ", ".join(f"{k}: {n}" for k, n in sorted(results.items())))
hangs = sum(r["HANG"] for r in statuses.values())
print(f"\nhonest clients: {options.honest}, requests: {asked}, other answers: {wrong}, slowest: {slowest:.1f} s")
print(f"hangs: {hangs}, seconds: {time.time() - begin:.1f}")
if options.pid:
    print(f"memory: {before} MiB before, {highest} at most, {memory()} after")
late = False


def ended():
    try:
        with open(f"/proc/{options.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


if options.stop is not None:
    kept = []
    for i in range(200):
        try:
            kept.append(socket.create_connection((where.hostname, where.port), timeout=5))
            kept[-1].settimeout(0.2)
            kept[-1].sendall([post("/v1/completions", LONG), CHUNKED, post("/v1/chat/completions", tools(i))][i % 3])
        except OSError:
            pass
    begin = time.time()
    os.kill(options.pid, signal.SIGTERM)
    while not ended() and time.time() - begin < options.stop:
        time.sleep(0.02)
    late = not ended()
    print(f"SIGTERM with {len(kept)} connections: " + ("still there" if late else f"ended in {time.time() - begin:.2f} s"))
sys.exit(1 if wrong or hangs or late else 0)
