#!/usr/bin/env bash
# scripts/chat.sh --quick from nothing to the report card: its margins hold and are checked, a second call does no work
# again, a run that was killed ends in the same bytes, and results of other settings are refused.
#
#   tests/cli/chat_script_test.sh build/release/toy
set -euo pipefail
toy=$(realpath -- "$1")
script=$(realpath -- "$(dirname "${BASH_SOURCE[0]}")/../../scripts/chat.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$1"; [[ -z ${2:-} ]] || tail -n 30 "$2"; exit 1; }
chat() { bash "$script" --toy "$toy" --quick "$@"; }

chat --out one > one.log 2>&1 || fail "the script failed" one.log
for stage in 1-texts 2-chats 3-dpo 4-grpo; do
  [[ -f one/$stage/finished.json ]] || fail "$stage has not finished" one.log
  grep -q "\"stage\":\"$stage\"" one/card.json || fail "the numbers have no $stage"
  grep -q "<dt>$stage</dt>" one/card.html || fail "the card shows no conversation after $stage"
done
(($(grep -c '^\$ toy train' one.log) == 4)) || fail "a stage is not one command" one.log

chat --out one > again.log 2>&1 || fail "the second call failed" again.log
! grep -q '^\$ toy \(train\|eval\|corpus\|tokenizer\|merge\)' again.log || fail "the second call did work again" again.log

# Killed in the stage of conversations, after a checkpoint.
setsid bash "$script" --toy "$toy" --quick --out two > killed.log 2>&1 &
group=$!
for _ in $(seq 6000); do
  compgen -G 'two/2-chats/checkpoints/step_*' > /dev/null && break
  kill -0 "$group" 2> /dev/null || fail "the run ended before it was killed" killed.log
  sleep 0.05
done
kill -KILL -- "-$group"
wait "$group" 2> /dev/null || true
[[ ! -f two/2-chats/finished.json ]] || fail "the stage was over before it was killed"
chat --out two > resumed.log 2>&1 || fail "the resumed run failed" resumed.log
grep -q 'train full-finetune .*--resume' resumed.log || fail "the stage was not resumed" resumed.log
! grep -q 'train from-scratch' resumed.log || fail "pretraining was done again" resumed.log
for file in 1-texts/model.gguf 2-chats/model.gguf 3-dpo.gguf 4-grpo/model.gguf answers/4-grpo-drawn.json; do
  cmp "one/$file" "two/$file" || fail "$file differs after a kill"
done

# A stage that is made again is asked again.
rm -r two/4-grpo
chat --out two > redone.log 2>&1 || fail "the last stage was not made again" redone.log
(($(grep -c '^\$ toy eval generate 4-grpo' redone.log) == 2)) || fail "the new model was not asked" redone.log
! grep -q 'train dpo' redone.log || fail "an earlier stage was made again" redone.log
cmp one/4-grpo/model.gguf two/4-grpo/model.gguf || fail "the model differs where its stage was made again"

# Each margin fails where a stage ends below it, and is named. The numbers of a finished run are changed for that.
missed() {
  local file=$1 change=$2 says=$3
  cp "one/$file" kept
  sed -i "1s/$change/" "one/$file"
  ! cmp -s kept "one/$file" || fail "nothing to change in $file"
  ! chat --out one > missed.log 2>&1 || fail "$file: a missed margin is no failure" missed.log
  grep -q "^chat: $says" missed.log || fail "$file: the margin is not named" missed.log
  cp kept "one/$file"
}
missed answers/1-texts-stories.json '"nats_per_byte":[0-9.]*/"nats_per_byte":3.5' 'stories: 1-texts should'
missed answers/4-grpo-likeliest.json '\("words:1":{"questions":[0-9]*,"accuracy":\)[0-9.]*/\10.74' \
  'likeliest answers to words:1: 4-grpo has 74.0%, and 75% are promised'
missed answers/3-dpo-likeliest.json '\("letters:1":{"questions":[0-9]*,"accuracy":\)[0-9.]*/\10.3' \
  'likeliest answers to letters:1: 3-dpo has 30.0%, more than 10 points below 2-chats'
missed answers/4-grpo-likeliest.json '"letters:1"/"letters:2"' 'likeliest answers to letters:1: 4-grpo has none%'
missed answers/2-chats-likeliest.json '"accuracy":[0-9.]*/"accuracy":0.19' 'likeliest answers: 2-chats should'
chat --out one > again.log 2>&1 || fail "the numbers were not put back" again.log

refused() {
  local code=0
  "$@" > refused.log 2>&1 || code=$?
  ((code == 2)) || fail "exit code $code instead of 2" refused.log
}
refused bash "$script" --toy "$toy" --out one  # made with --quick
refused chat --out one --texts one.log
refused chat --texts "$work/missing" --out three
refused chat --outt three
# Texts without text are refused before anything is built or written.
mkdir empty
printf ' \n\n' > empty/blank.txt
echo hidden > empty/.hidden.txt
printf '\377\330\0a' > empty/picture.jpg
for texts in empty empty/blank.txt; do
  refused bash "$script" --quick --texts "$texts" --out three
  grep -q "$texts has no text" refused.log || fail "it does not say that there is no text" refused.log
done
mkdir texts
echo some > texts/text.txt
for out in texts texts/out; do
  refused chat --texts texts --out "$out"
  grep -q "is in the folder of --texts" refused.log || fail "it does not say where the results are" refused.log
done
[[ ! -e three && ! -e texts/out && ! -e texts/settings ]] || fail "something was written"
mkdir other
echo mine > other/notes.txt
refused chat --out other
echo "ok"
