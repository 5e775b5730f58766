#!/usr/bin/env bash
# toy train on two hosts: network namespaces with names and folders of their own, joined by a cable that can be cut.
#   two_hosts_test.sh TOY
set -euo pipefail
toy=$1
skip() { echo "skipped: $*"; exit 77; }
failed() { echo "FAILED: $*"; exit 1; }
command -v mpirun > /dev/null || skip "there is no mpirun (apt-get install libopenmpi-dev openmpi-bin)"
mpirun --version | grep -q 'Open MPI' || skip "mpirun is not Open MPI's"
[[ -e $(dirname "$toy")/libtoy_mpi.so ]] || skip "toy was built without MPI (apt-get install libopenmpi-dev openmpi-bin)"
((EUID == 0)) || skip "network namespaces need root"
for tool in ip unshare; do command -v $tool > /dev/null || skip "there is no $tool (apt-get install iproute2 util-linux)"; done

dir=$(mktemp -d)
a=toya$$ b=toyb$$
end() {
  ip netns pids $a 2> /dev/null | xargs -r kill -KILL 2> /dev/null || true
  ip netns pids $b 2> /dev/null | xargs -r kill -KILL 2> /dev/null || true
  ip netns del $a 2> /dev/null || true
  ip netns del $b 2> /dev/null || true
  rm -rf "$dir"
}
trap end EXIT
{ ip netns add $a && ip netns add $b && ip link add va$$ type veth peer name vb$$; } 2> "$dir/why" ||
  skip "network namespaces cannot be made here: $(head -n 1 "$dir/why")"
ip link set va$$ netns $a
ip link set vb$$ netns $b
ip -n $a addr add 10.77.0.1/24 dev va$$
ip -n $b addr add 10.77.0.2/24 dev vb$$
for n in $a $b; do ip -n $n link set lo up; done
cable() { ip -n $a link set va$$ "$1"; ip -n $b link set vb$$ "$1"; }  # up|down
cable up
unshare --uts true 2> /dev/null || skip "hosts cannot have names of their own here (unshare --uts)"

# Stands for ssh: the second host has an empty folder, and no other.
mkdir "$dir/a" "$dir/b"
cat > "$dir/agent" << END
#!/bin/bash
host=\$1
shift
[[ \$host == 10.77.0.2 ]] || exec bash -c "\$*"
cd $dir/b
exec ip netns exec $b unshare --uts bash -c "hostname hostb; cd $dir/b; \$*"
END
chmod +x "$dir/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mca=(--mca plm_rsh_agent "$dir/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24
     --mca oob_tcp_if_include 10.77.0.0/24)
cd "$dir/a"
"$toy" corpus stories --bytes 60000 --seed 1 --out book.txt
options=(--corpus book.txt --tokenizer bytes --size tiny --tokens 32 --batch 8 --shards 2 --threads 1 --seed 3)
on_both() {  # ARGUMENTS...
  ip netns exec $a unshare --uts bash -c 'hostname hosta; exec "$@"' run \
    mpirun --wdir /tmp "${mca[@]}" --host 10.77.0.1:1,10.77.0.2:1 -np 2 --bind-to none \
    bash -c 'case $(hostname) in hosta) cd '"$dir/a"' ;; *) cd '"$dir/b"' ;; esac; exec "$@"' run "$toy" "$@"
}
sum() { sha256sum < "$1"; }

# ---- the same bytes as on one
"$toy" train from-scratch "${options[@]}" --steps 30 --checkpoint-every 10 --out out/alone > log 2>&1
on_both train from-scratch "${options[@]}" --steps 30 --checkpoint-every 10 --out out/both > log 2>&1 || { cat log; failed "two hosts"; }
[[ $(sum out/both/model.gguf) == "$(sum out/alone/model.gguf)" ]] || failed "other bytes on two hosts"
[[ -z $(ls -A "$dir/b") ]] || failed "the second host has written files: $(ls -A "$dir/b")"
echo "two hosts: one sha256"

long=(train from-scratch "${options[@]}" --steps 150 --checkpoint-every 50 --rank-timeout 6s)
"$toy" "${long[@]}" --out out/calm > log 2>&1
start() {  # NAME: sets `job` and `begin`, and waits for the first checkpoint
  timeout -k 10 200 bash -c "$(declare -f on_both); $(declare -p mca toy dir a); on_both \"\$@\"" run "${long[@]}" --out "out/$1" > log 2>&1 &
  job=$! begin=$SECONDS
  while [[ ! -e out/$1/checkpoints ]] && kill -0 $job 2> /dev/null; do sleep 0.05; done
}
resumed() {  # NAME
  on_both train --resume --out "out/$1" > log 2>&1 || { cat log; failed "$1: resuming"; }
  [[ $(sum "out/$1/model.gguf") == "$(sum out/calm/model.gguf)" ]] || failed "$1: other bytes after it was resumed"
}

# ---- the rank on the second host dies, or hangs
gets() {  # SIGNAL
  local code=0 pid i
  start "$1"
  pid=$(comm -12 <(ip netns pids $b | sort) <(pgrep -f "^$toy train .*out/$1\$" | sort))
  [[ -n $pid ]] || { cat log; failed "$1: there is no rank on the second host"; }
  kill "-$1" "$pid"
  begin=$SECONDS
  wait $job || code=$?
  ((code != 0)) || { cat log; failed "a job whose second host's rank got SIG$1 ended with 0"; }
  [[ $1 == KILL ]] || grep -q 'rank 1 (host hostb) has not answered for 6 s' log || { cat log; failed "the rank that hangs is not named"; }
  for ((i = 0; i < 150; ++i)); do  # the launcher's daemon there ends it
    [[ -e /proc/$pid ]] || break
    sleep 0.2
  done
  [[ ! -e /proc/$pid ]] || failed "$1: the rank on the second host is still there"
  echo "SIG$1 on the second host: ended after $((SECONDS - begin)) s"
  resumed "$1"
}
gets KILL
gets STOP

# ---- the cable is cut
start cut
cable down
ranks_left() { pgrep -f "^$toy train .*out/cut\$" || true; }
for i in $(seq 300); do  # both ranks notice, each by itself
  [[ -n $(ranks_left) ]] || break
  sleep 0.2
done
[[ -z $(ranks_left) ]] || { cat log; failed "a rank is still there after the network was cut"; }
ip netns pids $a | xargs -r kill -KILL 2> /dev/null || true  # mpirun 4.1 waits for the other host for ever
ip netns pids $b | xargs -r kill -KILL 2> /dev/null || true
code=0
wait $job || code=$?
((code != 0)) || { cat log; failed "a job whose network was cut ended with 0"; }
grep -q 'rank 1 (host hostb) has not answered for 6 s' log || { cat log; failed "the lost host is not named"; }
tail -n 1 out/cut/events.jsonl | grep -q '"run_end".*hostb' || failed "no run_end in events.jsonl"
echo "the cable was cut: ended after $((SECONDS - begin)) s"
cable up
resumed cut
echo "ok"
