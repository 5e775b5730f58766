#!/usr/bin/env bash
# The C interface against the program, and what libtoy.so shows.
#   c_interface_test.sh TOY_BINARY C_PROGRAM LIBRARY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toy=$1 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
cd "$work"

"$toy" corpus stories --bytes 100000 --seed 1 --out book.txt > /dev/null
"$toy" train from-scratch --corpus book.txt --size tiny --tokenizer spm:300 --steps 12 --batch 2 --tokens 64 --out out/program \
  > /dev/null 2>&1
head -c 2500 book.txt > part.txt
"$2" out/program book.txt out/c part.txt > said.txt || fail "the C program"
cmp out/program/model.gguf out/c/model.gguf || fail "twelve steps, stopped and resumed, have other bytes"

"$toy" infer out/program --prompt "Once there was" -n 40 --temperature 0.9 --seed 7 2> /dev/null > text.txt
python3 - << 'END' || fail "another text, stream or score"
import json, subprocess, sys
said = open("said.txt", "rb").read()
text, rest = said[len(b"text "):].split(b"\nstream ", 1)
stream, score = rest.split(b"\nscore ", 1)
assert text.decode("utf-8", "replace") == open("text.txt", "rb").read()[:-1].decode("utf-8", "replace"), text
open("stream.txt", "wb").write(stream)
open("score.json", "wb").write(score)
END
"$toy" infer out/program --prompt "Once there was" -n 3 --json 2> /dev/null > line.json
"$toy" eval out/program --file part.txt --json 2> /dev/null > eval.json
python3 - << 'END' || fail "another stream or score"
import json
line = json.load(open("line.json"))
pairs = [p.split(":") for p in open("stream.txt").read().split()]
assert [int(i) for i, _ in pairs] == line["ids"], (pairs, line["ids"])
assert [float(p) for _, p in pairs] == line["logprobs"], (pairs, line["logprobs"])
mine, theirs = json.load(open("score.json")), json.load(open("eval.json"))
for key, value in mine.items():
    assert theirs[key] == value, (key, value, theirs[key])
END

if command -v ruby > /dev/null; then
  ruby "$here/../../examples/ruby/train.rb" "$3" book.txt out/ruby > ruby.txt || fail "the Ruby script"
  cmp out/program/model.gguf out/ruby/model.gguf || fail "twelve steps from Ruby have other bytes"
  [[ $(grep -c '^step ' ruby.txt) == 12 ]] || fail "Ruby saw other events"
else
  echo "no ruby: examples/ruby/train.rb was not tested (Debian: apt-get install ruby)"
fi

# The library shows the functions of the header, with a version, and nothing else.
nm -D --defined-only "$3" | awk '$2 != "A" { print $3 }' | sort > shown.txt
grep -oE '\btoy_[a-z_]+\(' "$here/../../include/toy/c/toy.h" | tr -d '(' | sort -u \
  | while read -r name; do grep -qE "TOY_API [^;]*\b$name\(" "$here/../../include/toy/c/toy.h" && echo "$name@@TOY_0"; done > declared.txt
diff declared.txt shown.txt || fail "the library does not show what its header declares"

# Programs that were built against an earlier version of this library still run: what it shows and declares is abi.txt.
# Where it has grown, add the new lines there; a line that changes or goes needs another TOY_ABI and soname.
{ cat shown.txt; "${CC:-cc}" -fpreprocessed -dD -E -P "$here/../../include/toy/c/toy.h"; } > abi.txt
diff "$here/abi.txt" abi.txt || fail "the interface is not that of tests/c/abi.txt"
