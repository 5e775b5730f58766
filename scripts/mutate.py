#!/usr/bin/env python3
"""Checks that the tests of ops and kernels can fail: changes one thing at a time and reruns them.

    scripts/mutate.py                     # 100 mutants; a report, and a line for each in build/mutate/results.jsonl
    scripts/mutate.py --count 20 --seed 7
    scripts/mutate.py --list              # only lists the changes
    scripts/mutate.py --only src/ops/     # only files whose path begins with this
    scripts/mutate.py --planted           # the mistakes of scripts/gpu_mistakes.json instead, each with the test that
                                          # must catch it: barriers, bounds, masks, ... of kernels of GPUs

A mutant is one change in a gradient or decomposition (src/ops/*.cpp) or a kernel (src/backend/{reference,cpu,gpu}):
a sign flipped, a term or factor dropped, two operands or an index swapped, a constant changed, a GPU's barrier left out. It is made in a copy of
the tree (build/mutate/tree); test_ops and test_backend are rebuilt and run there. Mutants that do not compile do not
count. Kernels are compiled only for this machine's instruction set. The seed and the sources determine the mutants. An
interrupted run resumes. Exit: 0 done, 1 fewer caught than --at-least percent, 2 bad arguments or a tree that fails
unchanged.
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("test_ops", "test_backend")
# No kernel or gradient is in them, or every kernel would have to be built again for one change (vec-inl.h).
LEFT_OUT = {"op_list.cpp", "gradients.cpp", "device.cpp", "kernel_list.cpp", "peak.cpp", "peak_amx.cpp", "vec-inl.h",
            "gpu_device.cpp", "records.cpp", "emulated"}


# ---- where something may be changed

def code_of(text):
    """The text with comments, literals of characters, strings and preprocessor lines blanked, of the same length."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, blank, text, flags=re.S | re.M)


def closing(code, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += code[i] in "([{"
        depth -= code[i] in ")]}"
        if depth == 0:
            return i
    return len(code)


def gradient_parts(code):
    """Ranges of gradients and decompositions: functions of a Vjp or that return values, and lambdas behind .vjp."""
    parts = []
    function = r"^(?:void \w+\((?:Vjp|[^)]*\bVjp& )|(?:Value|std::vector<Value>) \w+\()"
    for m in re.finditer(function, code, re.M):
        body = code.find("{", closing(code, code.index("(", m.start())))
        end = closing(code, body)
        if "apply" not in code[body:end] or "Vjp" in m.group():
            parts.append((body, end))
    for m in re.finditer(r"\.(?:vjp|decompose) =\s*\[", code):
        body = code.find("{", m.end())
        if "\n" not in code[m.end():body].strip():
            parts.append((body, closing(code, body)))
    return parts


def kernel_parts(code):
    """Everything but declarations of records, templates, types and namespaces."""
    parts, at = [], 0
    for line in code.splitlines(keepends=True):
        if not re.match(r"\s*(KernelRecord|template|using|namespace|return \{\.op|HWY_EXPORT|static_assert)\b", line):
            parts.append((at, at + len(line)))
        at += len(line)
    return parts


# ---- what may be changed: (begin, end, replacement, kind)

def end_of_operand(code, at, stops):
    """Where the operand that begins at `at` ends: in front of a stop outside of brackets."""
    i = at
    while i < len(code):
        if code[i] in "([{":
            i = closing(code, i)
        elif code[i] in ")]};," or any(code.startswith(s, i) for s in stops):
            break
        i += 1
    return i


def arguments(code, opening):
    """The ranges of the arguments of a call."""
    end, ranges, at = closing(code, opening), [], opening + 1
    while at < end:
        stop = end_of_operand(code, at, ())
        ranges.append((at, stop))
        at = stop + 1
    return [(a + len(code[a:b]) - len(code[a:b].lstrip()), b) for a, b in ranges]


SUMS = (" + ", " - ", " ? ", " : ", " < ", " > ", " <= ", " >= ", " == ", " != ", " && ", " || ", " = ", " << ")


def signs(text, code):
    for m in re.finditer(r" ([+-]) |([+-])= ", code):
        i = m.start(1) if m.group(1) else m.start(2)
        yield i, i + 1, "-" if code[i] == "+" else "+"
    for m in re.finditer(r"\bhn::(Add|Sub|MulAdd|NegMulAdd)\(", code):
        other = {"Add": "Sub", "Sub": "Add", "MulAdd": "NegMulAdd", "NegMulAdd": "MulAdd"}
        yield m.start(1), m.end(1), other[m.group(1)]
    for m in re.finditer(r"\b(?:hn::Neg|neg)\(|(?<=[(,=] )-(?=[\w(])|(?<=\()-(?=[\w(])|(?<=return )-(?=[\w(])", code):
        yield m.start(), m.end(), "(" if m.group().endswith("(") else ""


def terms(text, code):
    for m in re.finditer(r" [+*/-] ", code):
        end = end_of_operand(code, m.end(), SUMS + ((" * ", " / ") if m.group() in (" * ", " / ") else ()))
        yield m.start(), end, ""
    for m in re.finditer(r"\bhn::(Add|Sub|Mul|Div|MulAdd)\(", code):
        opening = m.end() - 1
        args = arguments(code, opening)
        a, b = args[2] if m.group(1) == "MulAdd" and len(args) > 2 else args[0]
        yield m.start(), closing(code, opening) + 1, "(" + text[a:b] + ")"


def operands(text, code):
    swapped = r"\b(?:hn::(?:Sub|Div|Gt|Lt|IfThenElse)|matmul|greater|where|sub|div|linear_grad_[xw])\("
    for m in re.finditer(swapped, code):
        args = arguments(code, m.end() - 1)
        if len(args) < 2:
            continue
        (a, b), (c, d) = args[-2:] if re.search("where|IfThenElse", m.group()) else args[:2]
        yield a, d, text[c:d] + text[b:c] + text[a:b]
    index = r"(?:\bc\.(?:in|out|give|grad|needs)\(|\b(?:in|out|shape|stride|size)\[|\.back\(|\b(?:in|out|input|output|scalar|indices)\((?:args, )?)(\d)(?=[\]),])"
    for m in re.finditer(index, code):
        n = int(m.group(1))
        yield m.start(1), m.end(1), str(n - 1 if n else 1)
    for m in re.finditer(r"\[(\w) \* (\w+) \+ (\w)\]", code):  # a row and a column
        yield m.start(1), m.end(3), f"{m.group(3)} * {m.group(2)} + {m.group(1)}"


def constants(text, code):
    for m in re.finditer(r"(?<![\w.\[(<])(?:\d+\.?\d*(?:e[+-]?\d+)?f?|true|false)(?![\w.\]])", code):
        t = m.group()
        if t in ("true", "false"):
            yield m.start(), m.end(), "false" if t == "true" else "true"
        elif re.fullmatch(r"\d+", t):
            yield m.start(), m.end(), str(int(t) + 1)
        else:
            yield m.start(), m.end(), f"{float(t.rstrip('f')) * 1.25 or 1.0!r}" + ("f" if t.endswith("f") else "")


def barriers(text, code):
    for m in re.finditer(r"\bBARRIER\(\);", code):
        yield m.start(), m.end(), ";"


KINDS = {"sign": signs, "term": terms, "operand": operands, "constant": constants, "barrier": barriers}


def sites(path):
    """{kind: [(begin, end, replacement)]} of a file."""
    text = path.read_text()
    code = code_of(text)
    parts = gradient_parts(code) if path.parent.name == "ops" else kernel_parts(code)
    inside = lambda begin: any(a <= begin < b for a, b in parts)
    found = {k: [s for s in f(text, code) if inside(s[0]) and text[s[0]:s[1]] != s[2]] for k, f in KINDS.items()}
    return {k: v for k, v in found.items() if v}


def mutants(root, seed, only):
    """All mutants, one group of files after the other, then file, kind and place by chance."""
    chance = random.Random(seed)
    groups = []
    for folder in ("src/ops", "src/backend/reference", "src/backend/cpu", "src/backend/gpu"):
        files = sorted(p for e in ("*.cpp", "*-inl.h", "*.k") for p in (root / folder).rglob(e)
                       if p.name not in LEFT_OUT and p.parent.name not in LEFT_OUT)
        files = [p for p in files if str(p.relative_to(root)).startswith(only)]
        groups.append([(p, s) for p in files if (s := sites(p))])
    while groups := [g for g in groups if g]:
        for group in groups:
            if not group:
                continue
            path, kinds = group[i := chance.randrange(len(group))]
            kind = chance.choice(sorted(kinds))
            begin, end, new = kinds[kind].pop(chance.randrange(len(kinds[kind])))
            if not kinds[kind]:
                del kinds[kind]
            if not kinds:
                group.pop(i)
            text = path.read_text()
            yield {"file": str(path.relative_to(root)), "of": zlib.crc32(text.encode()), "line": text.count("\n", 0, begin) + 1, "begin": begin,
                   "end": end, "kind": kind, "old": text[begin:end], "new": new}


# ---- the copy

class Tree:
    def __init__(self, work, jobs):
        self.root, self.build, self.jobs = work / "tree", work / "build", jobs
        names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
        for name in names.splitlines():
            source, target = ROOT / name, self.root / name
            if source.is_file() and not (target.exists() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        if not (self.build / "build.ninja").exists():
            self.call(["cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                       "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -march=native -DNDEBUG"])

    def call(self, command, timeout=None, **more):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout, preexec_fn=limit, **more)

    def builds(self, target, environment=None):
        r = self.call(["ninja", "-C", self.build, f"-j{self.jobs}", target], env={**os.environ, **(environment or {})})
        return r.returncode == 0, r.stdout

    def failing_test(self, name, timeout, which="*"):
        """The first test that fails, 'crash' or 'timeout'; None if all pass."""
        command = [self.build / "tests" / name, "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={which}"]
        try:
            r = self.call(command, timeout)
        except subprocess.TimeoutExpired:
            return f"{name}: timeout"
        if r.returncode == 0:
            return None
        m = re.search(r"\[  FAILED  \] (\S+)", r.stdout)
        return m.group(1).rstrip(",") if m else f"{name}: crash ({r.returncode})"

    def unchanged(self):
        """(what is wrong with the tree as it is, seconds of its slower test)"""
        slowest = 0.0
        for name in TESTS:
            ok, output = self.builds(name)
            if not ok:
                return f"does not build: {output[-2000:]}", 0
            begin = time.time()
            if failed := self.failing_test(name, 1800):
                return f"fails {failed}", 0
            slowest = max(slowest, time.time() - begin)
        return None, slowest

    def outcome(self, ops, timeout):
        for name in TESTS:
            if not self.builds(name, {"CCACHE_READONLY": "1"})[0]:
                return {"result": "compile failed"}
            first = ":".join(f"Ops_{op}.*" for op in sorted(ops)) if name == TESTS[0] else ""
            for which in [first] * bool(first) + ["*"]:  # what is about these ops is asked first
                if failed := self.failing_test(name, timeout, which):
                    return {"result": "caught", "by": failed}
        return {"result": "survived"}

    def try_out(self, mutant, timeout):
        path = self.root / mutant["file"]
        text = path.read_text()
        path.write_text(text[:mutant["begin"]] + mutant["new"] + text[mutant["end"]:])
        try:
            return self.outcome({a or b for a, b in re.findall(r"\b(\w+)_(?:kernel|def)\(\) \{|KERNEL\((\w+),", text)}, timeout)
        finally:
            path.write_text(text)


def try_planted(tree, mistake):
    """Whether the test that must catch a mistake in a kernel of GPUs does."""
    path = tree.root / "src/backend/gpu/kernels" / mistake["file"]
    text = path.read_text()
    if mistake["old"] not in text:
        return "is not there any more"
    path.write_text(text.replace(mistake["old"], mistake["new"], 1))
    try:
        ok, output = tree.builds(TESTS[0])
        if not ok:
            return f"does not build: {output[-500:]}"
        return "caught" if tree.failing_test(TESTS[0], 600, mistake["test"]) else "survived"
    finally:
        path.write_text(text)


def planted(tree):
    results = []
    for mistake in json.loads((ROOT / "scripts/gpu_mistakes.json").read_text()):
        results.append(try_planted(tree, mistake))
        print(f"{results[-1]:10} {mistake['file']}: {mistake['what']}  by {mistake['test']}", flush=True)
    print(f"\n{results.count('caught')} of {len(results)} mistakes caught")
    return 0 if results.count("caught") == len(results) else 1


def line_of(m):
    where = f"{m['file']}:{m['line']}"
    change = " ".join(m["old"].split()), " ".join(m["new"].split())
    return f"{where} [{m['kind']}] '{change[0]}' -> '{change[1]}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="mutants that compile (default: 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="src/", help="files whose path begins so")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--at-least", type=float, default=0, help="percent that must be caught")
    parser.add_argument("--list", action="store_true", help="say what would be changed")
    parser.add_argument("--planted", action="store_true", help="the mistakes of scripts/gpu_mistakes.json")
    a = parser.parse_args()
    if a.list:
        for m, _ in zip(mutants(ROOT, a.seed, a.only), range(a.count)):
            print(line_of(m))
        return 0
    tree = Tree(a.work, a.jobs)
    wrong, seconds = tree.unchanged()
    if wrong:
        print(f"mutate: the unchanged tree {wrong}", file=sys.stderr)
        return 2
    if a.planted:
        return planted(tree)
    timeout = 60 + 10 * seconds
    log = a.work / "results.jsonl"
    key_of = lambda m: tuple(m[k] for k in ("file", "of", "begin", "end", "new"))
    done = {key_of(r): r for r in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    results = []
    for m in mutants(tree.root, a.seed, a.only):
        r = done.get(key_of(m)) or {**m, **tree.try_out(m, timeout)}
        if key_of(m) not in done:
            with log.open("a") as f:
                f.write(json.dumps(r) + "\n")
        results.append(r)
        print(f"{r['result']:14} {line_of(r)}" + (f"  by {r['by']}" if "by" in r else ""), flush=True)
        counted = [r for r in results if r["result"] != "compile failed"]
        if len(counted) >= a.count:
            break
    survivors = [r for r in counted if r["result"] == "survived"]
    print(f"\n{len(counted) - len(survivors)} of {len(counted)} mutants caught, {len(survivors)} survived "
          f"({len(results) - len(counted)} more did not compile)")
    for r in survivors:
        print("  " + line_of(r))
    return 0 if 100 * (len(counted) - len(survivors)) >= a.at_least * len(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
