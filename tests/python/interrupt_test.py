"""Ctrl-C at random moments of a run, and resume: interrupt_test.py TOY_BINARY WORK SOURCES [TIMES].

A run is a process of its own, which gets SIGINT after a time that is drawn anew. However often it is stopped, and in
whichever line of Python or C++ it is, the run that resumes writes the bytes of one that was never stopped.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

WORK = pathlib.Path(sys.argv[2])
TIMES = int(sys.argv[4]) if len(sys.argv) > 4 else 50

RUN = """
import signal, sys, toy
signal.signal(signal.SIGINT, signal.default_int_handler)
out, steps, resume = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "resume"
said = False
def see(event):
    global said
    if not said:
        print("begun", flush=True)
    said = True
try:
    toy.train.from_scratch(corpus="book.txt", size="tiny", tokenizer="spm:300", steps=steps, batch=2, tokens=64,
                           checkpoint_every=3, threads=1, out=out, resume=resume, on_event=see)
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(out, steps, resume):
    return subprocess.Popen([sys.executable, "-c", RUN, out, str(steps), "resume" if resume else "new"], cwd=WORK,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    subprocess.run([sys.argv[1], "corpus", "stories", "--bytes", "60000", "--seed", "1", "--out", "book.txt"], cwd=WORK,
                   check=True, capture_output=True)
    steps = 40
    began = time.monotonic()
    run = start("out/whole", steps, False)
    run.stdout.readline()
    first = time.monotonic()
    if run.wait() != 0:
        sys.exit(run.stderr.read())
    seconds = time.monotonic() - first
    whole = (WORK / "out/whole/model.gguf").read_bytes()
    print(f"a run of {steps} steps: {first - began:.2f} s before its first event, {seconds:.2f} s after it")
    dice = random.Random(1)
    stopped = rounds = 0
    while stopped < TIMES:
        out = f"out/stopped{rounds}"
        resume = False
        while True:
            run = start(out, steps, resume)
            # From the import of the package on; some runs are at their end by then.
            time.sleep(dice.uniform(0, first - began) if dice.random() < 0.2 else 0)
            if dice.random() < 0.9:
                run.stdout.readline()
                time.sleep(dice.uniform(0, seconds / 3))
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
            code = run.wait()
            text = run.stderr.read()
            stopped += code != 0
            # 130: this script's own; -SIGINT and 1: the interpreter was not there yet, or in an import.
            if code not in (0, 130, -signal.SIGINT) and not (code == 1 and "KeyboardInterrupt" in text):
                sys.exit(f"exit code {code} of {out}: {text}")
            if code == 0:
                break
            resume = (WORK / out / "checkpoints").is_dir() and any((WORK / out / "checkpoints").iterdir())
            if not resume and (WORK / out).exists():
                out = f"out/stopped{rounds}-{stopped}"  # it had not begun
        if (WORK / out / "model.gguf").read_bytes() != whole:
            sys.exit(f"{out}: after {stopped} stops another model")
        rounds += 1
    print(f"{stopped} stops in {rounds} runs; each has the bytes of the run that was never stopped")


if __name__ == "__main__":
    os.makedirs(WORK, exist_ok=True)
    main()
