# What the tests with several processes share, which source it: a folder of their own, and jobs next to each other that
# leave nothing. Needs $toy.
failed() { echo "FAILED: $*"; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
needs_open_mpi() {
  command -v mpirun > /dev/null || skip "there is no mpirun (apt-get install libopenmpi-dev openmpi-bin)"
  [[ -e $(dirname "$toy")/libtoy_mpi.so ]] || skip "toy was built without MPI (apt-get install libopenmpi-dev openmpi-bin)"
}
sum() { sha256sum < "$1"; }

dir=$(mktemp -d)
cd "$dir"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# A job's processes end their command line with the full name of its folder, which no other test has.
processes() { pgrep -f "$dir/out/$1\$"; }  # NAME
at_end() {  # what a job left is ended, so that the folder can go
  local pid
  for pid in $(pgrep -f "$dir/out/"); do kill -KILL "$pid" 2> /dev/null || true; done
  rm -rf "$dir"
}
trap at_end EXIT

pids=()
begin() { "$@" & pids+=($!); }  # COMMAND...: next to others; most of the time they wait
all_ended() {  # of begin(): fails if one has failed
  local pid
  for pid in "${pids[@]}"; do wait "$pid" || exit 1; done
  pids=()
}
process_of() {  # NAME RANK: the number of that rank's process, by what Open MPI or MPICH tells it
  local pid
  for pid in $(processes "$1"); do
    tr '\0' '\n' < "/proc/$pid/environ" 2> /dev/null | grep -qxE "(OMPI_COMM_WORLD|PMI)_RANK=$2" && echo "$pid" && return
  done
  return 0
}
launcher_of() { pgrep -f "^mpirun .*$dir/out/$1\$" | head -1 || true; }  # NAME
# Runs the job, whose folder is out/NAME, and sends the signal to that rank, or to the launcher, after the first checkpoint
# and DELAY seconds. Sets `job`, which may still run.
struck() {  # NAME RANK|launcher SIGNAL DELAY COMMAND...
  local name=$1 rank=$2 signal=$3 delay=$4 pid try
  shift 4
  for try in 1 2 3 4 5; do  # it may be over first
    rm -rf "out/$name"
    "$@" --out "$dir/out/$name" > "$name.log" 2>&1 &
    job=$!
    while [[ -z $(find "out/$name/checkpoints" -name "step*" 2> /dev/null) ]] && kill -0 $job 2> /dev/null; do sleep 0.02; done
    ((try > 1)) || sleep "$delay"
    if [[ $rank == launcher ]]; then pid=$(launcher_of "$name")
    else pid=$(process_of "$name" "$rank")
    fi
    if [[ -n $pid ]] && kill "-$signal" "$pid" 2> /dev/null; then return; fi
    wait $job || { cat "$name.log"; failed "$name: it failed before $rank got SIG$signal"; }
  done
  failed "$name: it was over before $rank could get SIG$signal, $try times"
}
