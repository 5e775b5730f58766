"""What a call from Python costs: cost_test.py TOY_BINARY WORK SOURCES.

A text of N tokens by `toy infer` and by Model.generate(), as processor time: for both the difference of a long and a short
text, so that start and loading are left out, the smallest of several, one thread. Python may add 1%.
"""
import os
import subprocess
import sys
import time

import toy

PROGRAM, WORK = sys.argv[1], sys.argv[2]
os.chdir(WORK)
SHORT, LONG, ROUNDS = 20, 220, 9


def by_program(n):
    before = os.times()
    subprocess.run([PROGRAM, "infer", "out/model", "--prompt", "Once", "-n", str(n), "--ignore-eos", "--threads", "1"], check=True,
                   capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main():
    with open("book.txt", "wb") as f:
        f.write(subprocess.run([PROGRAM, "corpus", "stories", "--bytes", "60000", "--seed", "1"], check=True,
                               capture_output=True).stdout)
    # A millisecond or so for each token: less than models take that people use.
    toy.train.from_scratch(corpus="book.txt", size="stories15m", tokenizer="spm:300", steps=1, batch=1, tokens=384, out="out/model")
    model = toy.load("out/model", threads=1)

    def by_python(n):
        before = time.process_time()
        model.generate("Once", max_tokens=n, ignore_eos=True)
        return time.process_time() - before

    by_python(SHORT)
    times = {(f, n): [] for f in (by_program, by_python) for n in (SHORT, LONG)}
    for _ in range(ROUNDS):
        for (f, n), all_of in times.items():
            all_of.append(f(n))
    program, python = (min(times[f, LONG]) - min(times[f, SHORT]) for f in (by_program, by_python))
    # How far the smallest two of a series are apart says how well this machine measures.
    noise = max(sorted(t)[1] - min(t) for t in times.values()) / program
    print(f"{LONG - SHORT} tokens: the program {program:.3f} s, from Python {python:.3f} s: {python / program - 1:+.2%} "
          f"(noise {noise:.2%})")
    if python > program * (1.01 + noise):
        sys.exit("Python adds more than 1%")


main()
