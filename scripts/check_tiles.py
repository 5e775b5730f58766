#!/usr/bin/env python3
"""Fails if a loop over a register tile calls a function.

  check_tiles.py PROGRAM

A call saves every sum that the tile holds in registers. One that the compiler had made of a rare branch cost products
of gradients three quarters of their speed, with the same results. So functions named micro, which compute a tile of
a product, must have no call in any instruction set. nm and objdump come with the compiler.
"""
import re, subprocess, sys

TILE = re.compile(r"toy::cpu::N_\w+::([\w() ]+::)*micro<")


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    names = {}  # by address
    for line in lines_of("nm", "--demangle", "--defined-only", sys.argv[1]):
        address, kind, name = line.split(" ", 2)
        if kind in "tTwW" and TILE.search(name):
            names[int(address, 16)] = name
    here, calls = None, {}
    for line in lines_of("objdump", "-d", "--no-show-raw-insn", sys.argv[1]):
        if begin := re.match(r"([0-9a-f]+) <.*>:$", line):
            here = names.get(int(begin[1], 16))
        elif here and re.search(r"\t(callq?|blr?)\b", line):
            calls.setdefault(here, line.strip())
    for name, call in list(calls.items())[:5]:
        print(f"{name}\n  {call}")
    print(f"tiles: {len(names)} functions, {len(calls)} with calls")
    return 1 if calls or not names else 0


if __name__ == "__main__":
    sys.exit(main())
