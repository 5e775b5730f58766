#!/usr/bin/env bash
# Installs what is missing, builds, checks the sources and runs the tests.
#
#   scripts/test.sh                # all labels except slow; peer only if its environment exists
#   scripts/test.sh --quick        # only the label unit
#   scripts/test.sh --slow         # also label slow
#   scripts/test.sh --asan         # also the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer (needs
#                                  # clang), and the team of threads and ranks that are threads under ThreadSanitizer
#   scripts/test.sh --tsan         # also kernels, every op, training, the scheduler, the generation service and the server
#                                  # under ThreadSanitizer
#   scripts/test.sh --fuzz [S]     # also each fuzzer: its corpus, then S seconds (default 30) of new inputs; needs clang
#
# Runs from any folder, with or without a folder ../shared of test data. Skipped tests are named with the reason. The
# last line is `N passed, N failed, N skipped`; the exit code is 0 if nothing failed.
# Logs: build/test/. Environment: TOY_JOBS (default: all cores), TOY_PEERS (default /opt/toy-peers; scripts/peers.sh).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
exec < /dev/null  # nothing here asks questions

quick='' slow='' asan='' tsan='' fuzz=''
while (($#)); do
  case $1 in
    --quick) quick=1 ;;
    --slow) slow=1 ;;
    --asan) asan=1 ;;
    --tsan) tsan=1 ;;
    --fuzz) fuzz=30; if [[ ${2:-} =~ ^[0-9]+$ ]]; then fuzz=$2; shift; fi ;;
    -h | --help) sed -nE '2,/^set /{s/^# ?//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "test: unknown argument '$1' (--help shows all)" >&2; exit 2 ;;
  esac
  shift
done

jobs=${TOY_JOBS:-$(nproc 2> /dev/null || echo 1)}
peers=${TOY_PEERS:-/opt/toy-peers}
export TOY_PEERS=$peers
logs=$root/build/test
rm -rf "$logs"
mkdir -p "$logs"
checks=$logs/checks.tsv
: > "$checks"
summary=(python3 scripts/test_summary.py --checks "$checks")

record() { printf '%s\t%s\t%s\n' "$1" "$2" "${3:-}" >> "$checks"; }  # passed|failed|skipped NAME [REASON]

# Runs a command with its output in a log; says how long it took, and on failure shows the log's end.
stage() {  # NAME COMMAND...
  local name=$1 log=$logs/${1//[^a-zA-Z0-9]/-}.log begin=$SECONDS code=0
  shift
  echo "test: $name ..."
  "$@" > "$log" 2>&1 || code=$?
  if ((code == 0)); then
    echo "test: $name: ok, $((SECONDS - begin)) s"
  else
    echo "test: $name: exit code $code after $((SECONDS - begin)) s; the end of $log:"
    tail -n 40 "$log" | sed 's/^/  /'
  fi
  return "$code"
}

check() {  # NAME COMMAND...: a stage that counts as one test
  if stage "$@"; then record passed "$1"; else record failed "$1" "see its output above"; fi
}

finish() { "${summary[@]}"; exit $?; }

# A failed configuration or build counts as a failed test, so the last line shows it.
must() {  # NAME COMMAND...
  local code=0
  stage "$@" || code=$?
  ((code == 0)) || record failed "$1" "see its output above"
  return "$code"
}
configure() { must "configure $1" cmake --preset "$1"; }  # PRESET
build() { must "build $1" cmake --build --preset "$1" -j "$jobs" "${@:2}"; }  # PRESET [--target NAME...]

# Runs the tests of a build folder that the arguments of ctest select. The summary decides whether they passed.
run_tests() {  # NAME FOLDER LIST-ARGUMENTS... -- SELECT-ARGUMENTS...
  local name=$1 folder=$2 list=() begin=$SECONDS
  shift 2
  while [[ $1 != -- ]]; do list+=("$1"); shift; done
  shift
  echo "test: tests of $folder ..."
  ctest --test-dir "$folder" "${list[@]}" --show-only=json-v1 > "$logs/$name.json" 2> "$logs/$name-list.log" || true
  # One more than there are cores: some tests wait for seconds, such as those of lost processes.
  ctest --test-dir "$folder" "${list[@]}" "$@" -j "$((jobs + 1))" --timeout 300 --output-junit "$logs/$name.xml" \
    > "$logs/$name.log" 2>&1 || true
  echo "test: tests of $folder: done, $((SECONDS - begin)) s (log: $logs/$name.log)"
}

if ! bash scripts/setup.sh; then
  record failed setup "packages are missing; run the command shown above"
  finish
fi

# ---- sources
check "include directions" python3 scripts/check_includes.py
code=0
stage "format" bash scripts/format.sh --check || code=$?
case $code in
  0) record passed format ;;
  3) record skipped format "clang-format 14 is not installed; run scripts/setup.sh --dev" ;;
  *) record failed format "see its output above" ;;
esac

code=0
stage "API reference" bash scripts/docs.sh --check || code=$?
case $code in
  0) record passed "API reference" ;;
  3) record skipped "API reference" "doxygen is not installed; run scripts/docs.sh" ;;
  *) record failed "API reference" "see its output above" ;;
esac

# ---- release
configure release || finish
check "public headers compile alone" cmake --build --preset release -j "$jobs" --target check_headers
build release || finish
check "tiles and streams" python3 scripts/check_tiles.py build/release/toy

select=() not_run=()
if [[ -n $quick ]]; then
  select=(-L '^unit$')
  for label in model cli example install shared python peer real slow protected emulated; do not_run+=(--not-run "$label" "--quick runs only the label unit"); done
else
  leave_out=()
  if [[ -z $slow ]]; then
    leave_out+=(slow)
    not_run+=(--not-run slow "takes minutes; run scripts/test.sh --slow")
  fi
  if [[ ! -x $peers/bin/python ]]; then
    leave_out+=(peer)
    not_run+=(--not-run peer "no environment at $peers; run scripts/peers.sh")
  fi
  if [[ ! -d ../shared ]]; then
    leave_out+=(shared)
    not_run+=(--not-run shared "the folder ../shared does not exist")
  fi
  if ((${#leave_out[@]})); then select=(-LE "^($(IFS='|'; echo "${leave_out[*]}"))\$"); fi
fi
# Fuzzers are built while the tests run, with what these leave.
fuzz_build=''
build_fuzzers() {
  cmake -S tests/fuzz -B build/fuzz -G Ninja && nice -n 19 cmake --build build/fuzz -j "$jobs"
}
fuzzers_are_built() { wait "$fuzz_build" || { cat "$logs/fuzzers.log"; return 1; }; }
if [[ -n $fuzz ]] && command -v clang++ > /dev/null; then
  build_fuzzers > "$logs/fuzzers.log" 2>&1 &
  fuzz_build=$!
fi
run_tests release build/release -- "${select[@]}"
summary+=(--run "" "$logs/release.json" "$logs/release.xml" "${not_run[@]}")

# ---- sanitizers: the unit tests; every finding is fatal. Impossible allocations fail as they do without a sanitizer.
if [[ -n $asan ]]; then
  if ! command -v clang++ > /dev/null; then
    record skipped asan "clang++ is not installed; run scripts/setup.sh --dev"
  elif configure asan && build asan --target unit_tests; then
    export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1:${ASAN_OPTIONS:-}
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}
    run_tests asan build/asan -L '^unit$' --
    summary+=(--run asan "$logs/asan.json" "$logs/asan.xml")
  fi
fi

# ---- ThreadSanitizer: the thread pool and messages of ranks, and with --tsan everything that runs on it
if [[ -n $asan$tsan ]]; then
  suites=("test_base ThreadPool.*:LocalCommunicator.*")
  if [[ -n $tsan ]]; then
    suites+=("test_backend *" "test_ops *.Threads" "test_runtime *" "test_train Trainer*:Accumulat*:Ranks.*:Shards.*:LocalSteps.Re*"
             "test_decode SchedulerTest.*:ServiceTest.*:SpeculationOfServices.*" "test_serve *")
  fi
  export TSAN_OPTIONS=halt_on_error=1
  if configure tsan && build tsan --target "${suites[@]%% *}"; then
    for suite in "${suites[@]}"; do
      check "${suite%% *} under tsan" "build/tsan/tests/${suite%% *}" "--gtest_filter=${suite#* }"
    done
  fi
fi

# ---- fuzzers: every file of the corpus, then new inputs
if [[ -n $fuzz ]]; then
  if [[ -z $fuzz_build ]]; then
    record skipped fuzz "clang++ is not installed; run scripts/setup.sh --dev"
  else
    names=()
    for source in tests/fuzz/*_fuzz.cpp; do name=${source##*/}; names+=("${name%_fuzz.cpp}"); done
    if must "build fuzzers" fuzzers_are_built; then
      for name in "${names[@]}"; do
        finds=$root/build/fuzz/finds/$name  # inputs that crash are kept here
        mkdir -p "$finds/new"
        check "fuzz $name" "build/fuzz/fuzz_$name" "-max_total_time=$fuzz" -timeout=120 -rss_limit_mb=2048 \
          -print_final_stats=1 "-artifact_prefix=$finds/" "$finds/new" "tests/fuzz/corpus/$name" &
      done
      wait
    fi
  fi
fi

finish
