#!/usr/bin/env python3
"""Checks what the compiler does not: which folder may include which, and a few rules about files.

  scripts/check_includes.py            # the repository this script lies in
  scripts/check_includes.py --root D   # another tree of the same layout

Prints one line per finding, `src/x/y.cpp:12: data may not include graph`. Exit code 0: none; 1: some; 2: bad usage.
Warnings (a long file) do not fail.
"""
import argparse
import pathlib
import posixpath
import re
import sys

SOURCES = ("include", "src", "tests", "bench", "examples")
SUFFIXES = {".cpp", ".h"}
LONG, TOO_LONG = 500, 800  # lines of a file
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
DUMP = re.compile(r"\.dump\(")
PARSE = re.compile(r"[Jj]son::(parse|sax_parse|accept)\(")
LEFTOVER = re.compile(r"\b(TODO|FIXME)\b")


def read_table(root):
    """What src/CMakeLists.txt says: folder -> the folders directly below it, whose headers it may include, and folder ->
    the folders whose private headers it may include, too. A folder of src/ and of include/toy/ are one."""
    text = re.sub(r"#.*", "", (root / "src/CMakeLists.txt").read_text(encoding="utf-8"))
    libraries = [words.split() for words in re.findall(r"\btoy_library\(([^)]*)\)", text)]
    keywords = {"DIR", "DEPENDS", "LINKS", "SEES", "PRIVATE", "NOT_INSTALLED", "NESTED"}

    def behind(words, keyword):
        found = words[words.index(keyword) + 1:] if keyword in words else []
        return found[:next((i for i, w in enumerate(found) if w in keywords), len(found))]

    folder = {words[0]: (behind(words, "DIR") or words[:1])[0] for words in libraries}
    below = {folder[w[0]]: [folder[d] for d in behind(w, "DEPENDS") if d in folder] for w in libraries}
    private = {folder[w[0]]: [folder[d] for d in behind(w, "SEES")] for w in libraries}
    # "": src/main.cpp; c: the C interface
    return below | {"": ["cli"], "c": ["bind"]}, private | {"": ["cli"], "c": ["bind", "dialog"]}


def closure(table):
    """Folder -> every folder that it may include, itself among them."""
    allowed = {}

    def visit(folder, path):
        if folder in path:
            sys.exit(f"check_includes: the table has a circle: {' -> '.join(path + [folder])}")
        if folder not in allowed:
            below = {folder}
            for other in table[folder]:
                below |= visit(other, path + [folder])
            allowed[folder] = below
        return allowed[folder]

    for folder in table:
        visit(folder, [])
    return allowed


def folder_of(name, table):
    """The folder in the table that `backend/cpu/gemm/gemm.h` belongs to: the longest that fits; None if none does."""
    parts = name.split("/")[:-1]
    while parts:
        if "/".join(parts) in table:
            return "/".join(parts)
        parts.pop()
    return "" if "/" not in name else None


def resolve(root, including, target, quoted):
    """A header of ours as (name below src/ or include/toy/, is it public?); None for a library's."""
    # The compiler looks beside the including file first, then in include/ and src/.
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(including), target))
    for path in ([beside] if quoted else []) + [f"include/{target}", f"src/{target}"]:
        path = posixpath.normpath(path)
        if (root / path).is_file():
            if path.startswith("include/toy/"):
                return path[len("include/toy/"):], True
            if path.startswith("src/"):
                return path[len("src/"):], False
            return None  # a header of the tests, included by a test
    if target.startswith("toy/"):  # it does not exist (the compiler will say so), but its direction is still known
        return target[len("toy/"):], True
    return None


class Checker:
    def __init__(self, root):
        self.root = root
        self.table, self.private = read_table(root)
        self.allowed = closure(self.table)
        self.findings, self.warnings = [], []

    def add(self, path, line, text):
        self.findings.append(f"{path}:{line}: {text}")

    def check_include(self, path, number, line):
        match = INCLUDE.match(line)
        if not match:
            return
        quoted, target = match[1] == '"', match[2]
        ours = resolve(self.root, path, target, quoted)
        if ours is None:
            return
        name, public = ours
        if not quoted:
            self.add(path, number, f'our own headers are included with quotes: "{target}"')
        is_library = path.startswith(("src/", "include/toy/"))
        if path.startswith("include/") and not public:
            self.add(path, number, f"a public header may not include the private {target}")
        if path.startswith("examples/") and not public:
            self.add(path, number, f"an example may include public headers only, not {target}")
        if not is_library:
            return
        own = path.removeprefix("src/").removeprefix("include/toy/")
        source, other = folder_of(own, self.table), folder_of(name, self.table)
        if source is None:
            return  # reported once, for the file
        if other is None:
            self.add(path, number, f"{target}: its folder is not in src/CMakeLists.txt")
        elif other not in self.allowed[source]:
            self.add(path, number, f"{source or 'main'} may not include {other or 'main'}")
        elif not public and other != source and other not in self.private.get(source, []):
            self.add(path, number, f"{target} is private to {other}; only include/toy/{other}/ is for others")

    def check_file(self, file):
        path = file.relative_to(self.root).as_posix()
        lines = file.read_text(encoding="utf-8").splitlines()
        is_library = path.startswith(("src/", "include/toy/"))
        if is_library:
            own = path.removeprefix("src/").removeprefix("include/toy/")
            if folder_of(own, self.table) is None:
                self.add(path, 1, "its folder is not in src/CMakeLists.txt")
        in_text = False  # of a raw string: the files that `toy new` writes
        for number, line in enumerate(lines, 1):
            if not in_text:
                self.check_include(path, number, line)
            in_text = ')"' not in line if in_text else 'R"(' in line and ')"' not in line
            if is_library and DUMP.search(line) and path != "src/base/json_text.cpp":
                self.add(path, number, "nlohmann's dump() throws for names that are not UTF-8; json_text() does not")
            if is_library and PARSE.search(line) and path != "src/base/json_text.cpp":
                self.add(path, number, "only parse_json() and read_json() limit how deeply JSON nests")
            leftover = LEFTOVER.search(line)
            if leftover:
                self.add(path, number, f"{leftover[1]}: finish it, or write down why it is left")
        if path.startswith("include/") and not path.startswith("include/toy/c/"):
            # Only comments may stand in front, so that a reader meets the purpose of the header first.
            code = next((n for n, l in enumerate(lines, 1) if l.strip() and not l.lstrip().startswith("//")), None)
            if code is None or lines[code - 1].strip() != "#pragma once":
                self.add(path, code or 1, "a public header starts with a comment and #pragma once")
        if len(lines) > TOO_LONG:
            self.add(path, len(lines), f"{len(lines)} lines, the limit is {TOO_LONG}")
        elif len(lines) > LONG:
            self.warnings.append(f"{path}: {len(lines)} lines; above {LONG}, consider splitting it")

    def check_umbrella(self):
        """toy/toy.h has every public header but those of folders that stand alone."""
        umbrella = self.root / "include/toy/toy.h"
        if not umbrella.is_file():
            return
        included = set(re.findall(r'^#include "toy/(.+)"', umbrella.read_text(encoding="utf-8"), re.MULTILINE))
        for file in sorted((self.root / "include/toy").rglob("*.h")):
            name = file.relative_to(self.root / "include/toy").as_posix()
            folder = folder_of(name, self.table)
            if folder and folder in self.allowed[""] and name not in included:
                self.add("include/toy/toy.h", 1, f"toy/{name} is missing")

    def run(self):
        self.check_umbrella()
        count = 0
        for top in SOURCES:
            for file in sorted((self.root / top).rglob("*")):
                if file.suffix in SUFFIXES and file.is_file():
                    self.check_file(file)
                    count += 1
        return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    if not (root / "src").is_dir():
        parser.error(f"{root} has no folder src")
    checker = Checker(root)
    count = checker.run()
    for text in checker.warnings:
        print(f"warning: {text}")
    for text in checker.findings:
        print(text)
    if checker.findings:
        print(f"{len(checker.findings)} findings in {count} files")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
