#!/usr/bin/env python3
"""Time from the start of a process to the first byte that it prints: a mapped file and a prompt of three ids.

    bench/first_token.py build/release/toy ./first_token MODEL.gguf ...   # the second: bench/peers/first_token.c

Files are read once before, so that they are in memory. Both programs in turn, seven times: medians and ranges.
"""
import subprocess
import sys
import time


def first_byte(command):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.read(1)
    seconds = time.perf_counter() - begin
    process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return seconds * 1e3


def main():
    toy, peer, *models = sys.argv[1:]
    for model in models:
        subprocess.run(["cat", model], stdout=subprocess.DEVNULL, check=True)
        ours, theirs = [], []
        for _ in range(7):
            ours.append(first_byte([toy, "infer", model, "--prompt-ids", "1,2,3", "--n", "1", "--ctx", "64"]))
            theirs.append(first_byte([peer, model]))
        ours.sort(), theirs.sort()
        print(f"{model}: toy {ours[3]:.1f} ms ({ours[0]:.1f} to {ours[-1]:.1f}), peer {theirs[3]:.1f} ms "
              f"({theirs[0]:.1f} to {theirs[-1]:.1f}), ratio {theirs[3] / ours[3]:.2f}")


if __name__ == "__main__":
    main()
