#!/usr/bin/env bash
# Proves the wheel where nothing of toy is: in an empty virtual environment of a bare Debian it is installed, trains twelve
# steps and writes a text, with the bytes of the program in the wheel and of the build here.
#
#   scripts/wheel_check.sh            # builds the wheel with scripts/wheel.sh
#   scripts/wheel_check.sh --sdist    # also installs the source package there, which compiles toy (an hour on two cores)
#
# scripts/bare_root.sh says what it needs; exit code 77 where that is not here. Log: build/wheel_check.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
sdist=0
case ${1:-} in
  "") ;;
  --sdist) sdist=1 ;;
  -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
  *) echo "wheel_check: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
esac
mkdir -p build
log=$root/build/wheel_check.log
: > "$log"
say() { echo "wheel_check: $*" >&2; }
fail() { say "FAILED: $1; the end of $log:"; tail -n 15 "$log" >&2; exit 1; }
source scripts/bare_root.sh

toy=$(cd "${TOY_BUILD:-build/release}" && pwd)/toy
code=0
wheel=$(PYTHON=/usr/bin/python3 TOY_WHEEL_VENV=build/package-venv bash scripts/wheel.sh | tail -n 1) || code=$?
((code == 0)) || exit "$code"
stage=$work/bare folder=/root user=root:root
new_root "$stage"
cp "$wheel" "$stage/root/"
"$toy" corpus stories --bytes 100000 --seed 1 --out "$stage/root/book.txt" >> "$log"
in_bare() { say "$*"; inside "$@" >> "$log" 2>&1 || fail "$*"; }

# From PyPI as this machine reaches it: the bare Debian knows neither its proxies nor their certificates.
build/package-venv/bin/python -m pip download --quiet --disable-pip-version-check --only-binary :all: -d "$stage/root" \
  numpy "scikit-build-core>=0.10" "nanobind>=2.4" >> "$log" 2>&1 || { say "no PyPI here"; exit 77; }
in_bare apt-get update
in_bare apt-get install -y --no-install-recommends python3-venv
# What pip and the package say with the three steps of a user.
prove() {  # VENV FILE...
  in_bare python3 -m venv "$1"
  in_bare "$1/bin/pip" install --disable-pip-version-check --no-index --find-links . "${@:2}"
  cat > "$stage/root/use.py" << PYTHON
import toy
run = toy.train.from_scratch(corpus="book.txt", size="tiny", tokenizer="spm:300", steps=12, batch=2, tokens=64, out="$1-run")
open("$1.txt", "w", encoding="utf-8").write(toy.load(run.model).generate("Once there was", max_tokens=40, temperature=0.9, seed=7) + "\n")
PYTHON
  in_bare "$1/bin/python" use.py
  in_bare "$1/bin/toy" train from-scratch --corpus book.txt --size tiny --tokenizer spm:300 --steps 12 --batch 2 --tokens 64 \
    --out "$1-program"
  cmp "$stage/root/$1-run/model.gguf" "$stage/root/$1-program/model.gguf" || fail "the program of the wheel trains other bytes"
  cmp "$stage/root/$1-run/model.gguf" "$work/here/model.gguf" || fail "the build here trains other bytes"
  cmp "$stage/root/$1.txt" "$work/here.txt" || fail "the build here writes another text"
}
"$toy" train from-scratch --corpus "$stage/root/book.txt" --size tiny --tokenizer spm:300 --steps 12 --batch 2 --tokens 64 \
  --out "$work/here" >> "$log" 2>&1
"$toy" infer "$work/here" --prompt "Once there was" -n 40 --temperature 0.9 --seed 7 2>> "$log" \
  | python3 -c 'import sys; print(sys.stdin.buffer.read().decode("utf-8", "replace"), end="")' > "$work/here.txt"
prove wheel "./${wheel##*/}"
say "the wheel works in a bare Debian, with the same bytes"

if ((sdist)); then
  source=$(TOY_WHEEL_VENV=build/package-venv bash scripts/wheel.sh --sdist | tail -n 1)
  cp "$source" "$stage/root/"
  cp scripts/setup.sh "$stage/root/"
  in_bare bash setup.sh
  in_bare apt-get install -y --no-install-recommends python3-dev
  prove sdist "./${source##*/}"
  say "the source package works in a bare Debian, with the same bytes"
fi
