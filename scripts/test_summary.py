#!/usr/bin/env python3
"""Adds up what scripts/test.sh ran: names failures with their output, skipped tests with their reason.

  test_summary.py --checks FILE [--run NAME LIST JUNIT]... [--not-run LABEL REASON]...

--checks FILE    lines `passed|failed|skipped TAB name TAB reason` of everything that is not a ctest test
--run            LIST: `ctest --show-only=json-v1` of all tests that belong to the run; JUNIT: `ctest --output-junit`
--not-run        tests with this label were skipped for this reason (the first match counts)

A listed test that was neither run nor skipped is a failure: ctest ended early.
The last line is `N passed, N failed, N skipped`. Exit code 0: nothing failed and something passed.
"""
import argparse
import collections
import json
import pathlib
import re
import sys
import textwrap
import xml.etree.ElementTree

SHOWN_LINES = 40  # of a failed test's output
SKIPPED_HERE = re.compile(r": Skipped\n(.*?)\n?\[  SKIPPED \]", re.DOTALL)  # googletest's GTEST_SKIP() << reason


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = []  # (name, what happened)
        self.skipped = collections.defaultdict(list)  # reason -> names

    def add(self, status, name, text):
        if status == "passed":
            self.passed += 1
        elif status == "skipped":
            self.skipped[text].append(name)
        else:
            self.failed.append((name, text))


def labels_by_name(path):
    """[(name, labels)] of ctest's list; a name may occur twice."""
    result = []
    for test in json.loads(path.read_text(encoding="utf-8"))["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        result.append((test["name"], properties.get("LABELS", [])))
    return result


def classify(case):
    """One <testcase> as (status, text)."""
    output = case.findtext("system-out") or ""
    status = case.get("status")
    skipped = case.find("skipped")
    why = skipped.get("message", "") if skipped is not None else ""
    if status == "run":
        return "passed", ""
    if status == "disabled":
        return "skipped", "disabled in tests/CMakeLists.txt"
    # ctest also calls a test not run whose program is missing, and one that failed before it skipped.
    if status == "notrun" and why.startswith("SKIP_") and "[  FAILED  ]" not in output:
        found = SKIPPED_HERE.search(output)
        text = found[1] if found else output
        return "skipped", " ".join(text.split()) or "the test gives no reason"
    return "failed", output or why or "no output (a timeout, or killed)"


def read_run(tally, name, list_path, junit_path, not_run):
    prefix = f"{name}: " if name else ""
    try:
        listed = labels_by_name(pathlib.Path(list_path))
        cases = list(xml.etree.ElementTree.parse(junit_path).getroot().iter("testcase"))
    except (OSError, ValueError, KeyError, xml.etree.ElementTree.ParseError) as error:
        tally.add("failed", f"{prefix}ctest", f"its results cannot be read: {error}")
        return
    ran = collections.Counter()
    for case in cases:
        ran[case.get("name")] += 1
        status, text = classify(case)
        tally.add(status, prefix + case.get("name"), text)
    if not listed:
        tally.add("failed", f"{prefix}ctest", "it knows no tests")
    for test, labels in listed:
        if ran[test] > 0:
            ran[test] -= 1
            continue
        reason = next((f"label {label}: {why}" for label, why in not_run if label in labels), None)
        if reason:
            tally.add("skipped", prefix + test, reason)
        else:
            tally.add("failed", prefix + test, "it was not run: ctest ended early")


def report(tally):
    for reason, names in sorted(tally.skipped.items()):
        print(f"\nskipped: {len(names)} ({reason})")
        print(textwrap.fill(", ".join(names), 110, initial_indent="  ", subsequent_indent="  ",
                            break_long_words=False, break_on_hyphens=False))
    for name, text in tally.failed:  # last: of a long log people see the end first
        print(f"\nFAILED {name}")
        lines = text.rstrip().splitlines()
        if len(lines) > SHOWN_LINES:
            print(f"  ... {len(lines) - SHOWN_LINES} lines before these")
        for line in lines[-SHOWN_LINES:]:
            print(f"  {line}")
    if tally.failed:
        print(f"\nfailed: {len(tally.failed)}")
        for name, _ in tally.failed:
            print(f"  {name}")
    skipped = sum(map(len, tally.skipped.values()))
    print(f"\n{tally.passed} passed, {len(tally.failed)} failed, {skipped} skipped")
    return 0 if tally.passed and not tally.failed else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checks", type=pathlib.Path, required=True)
    parser.add_argument("--run", nargs=3, action="append", default=[], metavar=("NAME", "LIST", "JUNIT"))
    parser.add_argument("--not-run", nargs=2, action="append", default=[], metavar=("LABEL", "REASON"))
    args = parser.parse_args()
    tally = Tally()
    for line in args.checks.read_text(encoding="utf-8").splitlines():
        status, name, reason = line.split("\t", 2)
        # A failed check names its log; its output has been shown when it happened.
        tally.add(status, name, reason)
    for name, list_path, junit_path in args.run:
        read_run(tally, name, list_path, junit_path, args.not_run)
    return report(tally)


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
