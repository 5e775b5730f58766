#!/usr/bin/env python3
"""Fails if a loop over a register tile calls a function, or one over a stream of weights fetches nothing.

  check_tiles.py PROGRAM

A call saves every sum that the tile holds in registers. One that the compiler had made of a rare branch cost products
of gradients three quarters of their speed, with the same results. So functions named micro, which compute a tile of
a product, must have no call in any instruction set.

GCC takes a function that only fetches for one without effect, and drops its calls: decoding lost up to 30% of its speed.
So on x86-64 functions named tile_of_few that read a stream must fetch it. nm and objdump come with the compiler.
"""
import re, subprocess, sys

TILE = re.compile(r"toy::cpu::N_\w+::([\w() ]+::)*micro<")
STREAM = re.compile(r"tile_of_few<.*StreamRows<")


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    names, streams = {}, {}  # by address
    for line in lines_of("nm", "--demangle", "--defined-only", sys.argv[1]):
        address, kind, name = line.split(" ", 2)
        if kind in "tTwW" and TILE.search(name):
            names[int(address, 16)] = name
        elif kind in "tTwW" and STREAM.search(name):
            streams[int(address, 16)] = name
    here, stream, calls, fetching, is_x86 = None, None, {}, set(), False
    for line in lines_of("objdump", "-d", "--no-show-raw-insn", sys.argv[1]):
        is_x86 |= line.endswith("file format elf64-x86-64")
        if begin := re.match(r"([0-9a-f]+) <.*>:$", line):
            here, stream = (known.get(int(begin[1], 16)) for known in (names, streams))
        elif here and re.search(r"\t(callq?|blr?)\b", line):
            calls.setdefault(here, line.strip())
        elif stream and "\tprefetch" in line:
            fetching.add(stream)
    for name, call in list(calls.items())[:5]:
        print(f"{name}\n  {call}")
    silent = sorted(set(streams.values()) - fetching) if is_x86 else []
    for name in silent[:5]:
        print(f"{name}\n  fetches nothing")
    print(f"tiles: {len(names)} functions, {len(calls)} with calls; streams: {len(streams)}, {len(silent)} not fetched")
    return 1 if calls or silent or not names or is_x86 and not streams else 0


if __name__ == "__main__":
    sys.exit(main())
