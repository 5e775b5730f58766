#!/usr/bin/env bash
# From nothing to a chat in one command: installs what is missing, builds, and trains a small chat model in four stages.
# Every stage is one `toy` command, which is printed. docs/chat-from-nothing.md explains them.
#
#   scripts/chat.sh                     # on stories and questions that toy writes; six minutes of CPU time
#   scripts/chat.sh --texts FOLDER      # on your texts instead of the stories
#   scripts/chat.sh --quick             # all stages in ten seconds of CPU time, with a model that knows little
#   scripts/chat.sh --serve             # serves the model when it is done
#
#   --out DIR     folder of the results (default: out/chat)
#   --threads N   threads (default: all cores)
#   --toy FILE    use this program; builds nothing
#
# A second call skips what is done and resumes what was interrupted. Results: card.html, the report card, and
# 4-grpo/model.gguf, the model.
set -euo pipefail

usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
refuse() { echo "chat: $1" >&2; exit 2; }
# As toy reads texts: no binary files, and of a folder none whose name begins with a dot.
has_text() {
  if [[ -d $1 ]]; then (cd "$1" && LC_ALL=C grep -RIqs --exclude='.?*' --exclude-dir='.?*' '[^[:space:]]' .)
  else LC_ALL=C grep -Iqs '[^[:space:]]' "$1"; fi
}

out=out/chat texts='' toy='' threads=0 quick='' serve=''
while (($#)); do
  case $1 in
    --out | --texts | --threads | --toy)
      [[ -n ${2:-} && $2 != --* ]] || refuse "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --quick) quick=1 ;;
    --serve) serve=1 ;;
    -h | --help) usage; exit ;;
    *) refuse "there is no option '$1'; use --out, --texts, --threads, --toy, --quick, --serve or --help" ;;
  esac
  shift
done
[[ $threads =~ ^[0-9]+$ ]] || refuse "--threads is '$threads'; use a number"
# Paths are relative to the current folder.
start=$PWD
out=$(realpath -m -- "$out")
if [[ $texts ]]; then
  texts=$(realpath -e -- "$texts" 2> /dev/null) || refuse "--texts: there is no such file or folder"
  has_text "$texts" || refuse "--texts: $texts has no text; give a file or a folder with text files"
  # The held-out questions would be texts to learn from.
  [[ $out/ != "${texts%/}"/* ]] || refuse "--out $out is in the folder of --texts, and would be read as texts; give another --out"
fi
[[ -z $toy ]] || toy=$(realpath -e -- "$toy" 2> /dev/null) || refuse "--toy: there is no such file"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is trained, and for how long.
kinds=(letters:1 words copy spell reverse add:1 subtract:1 sort fact:1 json format tool)
size=small layers=conv,attn vocabulary=320 batch=16 tokens=128
text_steps=800 text_decay=200 text_bytes=1500000
chat_steps=900 chat_decay=300 chat_rows=40000
pair_steps=20 pairs=4000
reward_steps=50 reward_questions=24
asked=1200
# How far the first stage has to be below a 5-gram model of the same stories, in percent of that.
text_gain=20
# Points of the accuracy that a stage has to add: conversations to likeliest answers, the others to drawn ones. With
# preferences and rewards the likeliest answers may lose a few, and with preferences those of a kind below.
chat_gain=20 pair_gain=8 reward_gain=5 loss=3 kind_loss=10
# What the likeliest answers of the last stage have to reach, by kind: docs/chat-from-nothing.md derives it.
floors=(copy:2=40 json:2=90 letters:1=55 sort:2=35 spell:2=20 tool:2=80 words:2=45)
if [[ $quick ]]; then
  kinds=(letters:1 words:1)
  size=tiny layers=conv,attn batch=8
  text_steps=60 text_decay=20 text_bytes=200000 chat_steps=150 chat_decay=50 chat_rows=4000
  pair_steps=10 pairs=400 reward_steps=6 reward_questions=8 asked=200
  # A model that has learned nothing takes log(320) nats for a token: for its bytes, 4.6 times what a 5-gram model takes.
  text_gain=-200 chat_gain=20 pair_gain=3 reward_gain=3 loss=5
  floors=(letters:1=50 words:1=75)
fi

say() { echo; echo "== $*"; }
# Prints a command, also where its output goes to a file, and runs it.
exec 3>&1
run() {
  { printf '$ toy'; printf ' %q' "$@"; echo; } >&3
  "$toy" "$@"
}

if [[ -z $toy ]]; then
  toy=$PWD/build/release/toy log=build/chat.log
  bash scripts/setup.sh
  mkdir -p build
  echo "chat: building (log: $log) ..."
  if ! { cmake --preset release && cmake --build --preset release -j "$(nproc)" --target toy; } > "$log" 2>&1; then
    echo "chat: the build failed; the end of $log:" >&2
    tail -n 30 "$log" >&2
    exit 1
  fi
fi

# Results of other settings are not mixed with ours.
mkdir -p "$out"
settings="texts=$texts quick=$quick"
if [[ -f $out/settings ]]; then
  [[ $(< "$out/settings") == "$settings" ]] ||
    refuse "$out was made with $(< "$out/settings"), not $settings; give another --out, or remove that folder"
elif [[ -n $(ls -A "$out") ]]; then
  refuse "$out holds files that this script did not write; give another --out"
else
  echo "$settings" > "$out/settings"
fi
cd "$out"

kind_options=()
for kind in "${kinds[@]}"; do kind_options+=(--kind "$kind"); done
# made FILE COMMAND...: writes a file by its --out, once.
made() {
  local file=$1
  shift
  [[ -f $file ]] && return
  run "$@" --out "$file" > /dev/null
}
stages=(1-texts 2-chats 3-dpo 4-grpo)
# What was made of an earlier model of this stage is made again.
forget() {
  local stage from=''
  for stage in "${stages[@]}"; do
    if [[ $stage == "$1" ]]; then from=$stage; fi
    if [[ -z $from ]]; then continue; fi
    rm -f "answers/$stage-likeliest.json" "answers/$stage-drawn.json" "answers/$stage-stories.json"
    if [[ $stage == 3-dpo ]]; then rm -f 3-dpo.gguf; fi
    if [[ $stage != "$1" ]]; then rm -rf "$stage"; fi
  done
}
# trained FOLDER CHECKPOINT_EVERY RECIPE OPTION...: a stage, resumed where it was interrupted.
trained() {
  local folder=$1 every=$2 resume=()
  shift 2
  [[ -f $folder/finished.json ]] && { echo "$folder is done"; return; }
  if compgen -G "$folder/checkpoints/*" > /dev/null; then
    resume=(--resume)
  elif [[ -d $folder ]]; then  # it ended before its first checkpoint
    resume=(--overwrite)
  fi
  forget "$folder"
  run train "$@" --threads "$threads" --checkpoint-every "$every" --log-every 0 --out "$folder" "${resume[@]}"
}
# answered NAME MODEL: its likeliest answers to the held-out questions, and drawn ones.
answered() {
  local draw
  for draw in likeliest drawn; do
    local file=answers/$1-$draw.json heat=0
    [[ $draw == likeliest ]] || heat=1
    [[ -f $file ]] && continue
    run eval generate "$2" data/held-out.jsonl --chat-template chatml --n 60 --temperature "$heat" --seed 1 \
      --threads "$threads" --json --rows > "$file.part"
    mv "$file.part" "$file"
  done
  printf '  %s: %s%% of the likeliest answers are right, %s%% of drawn ones\n' "$1" \
    "$(accuracy "$1" likeliest)" "$(accuracy "$1" drawn)"
}
# The accuracy of all questions in percent; the first field of that name in a file.
accuracy() { grep -oE '"accuracy":[0-9.e-]+' "answers/$1-$2.json" | sed 's/.*://;q' | LC_ALL=C awk '{ printf "%.1f", 100 * $1 }'; }
# accuracy_of NAME KIND: that of the likeliest answers to one kind in percent; empty where none was asked.
accuracy_of() {
  local field="\"$2\":\{\"questions\":[0-9]+,\"accuracy\":[0-9.e-]+"
  { head -n 1 "answers/$1-likeliest.json" | grep -oE "$field" || true; } |
    LC_ALL=C awk -F: '{ printf "%.1f", 100 * $NF }'
}
at_least() { LC_ALL=C awk -v value="$1" -v least="$2" 'BEGIN { exit !(value != "" && value >= least) }'; }
failed=0
missed() { echo "chat: $1" >&2; failed=1; }
# rises BEFORE AFTER DRAW POINTS: the accuracy has to.
rises() {
  at_least "$(accuracy "$2" "$3")" "$(LC_ALL=C awk -v a="$(accuracy "$1" "$3")" -v d="$4" 'BEGIN { print a + d }')" ||
    missed "$3 answers: $2 should be at least $4 points above $1"
}
# kept BEFORE AFTER POINTS: of no kind that is promised may the likeliest answers fall further.
kept() {
  local floor kind before after
  for floor in "${floors[@]}"; do
    kind=${floor%=*} before=$(accuracy_of "$1" "$kind") after=$(accuracy_of "$2" "$kind")
    at_least "$after" "$(LC_ALL=C awk -v a="$before" -v d="$3" 'BEGIN { print a - d }')" ||
      missed "likeliest answers to $kind: $2 has $after%, more than $3 points below $1 with $before%"
  done
}
# reached NAME: the promised kinds are learned.
reached() {
  local floor kind found
  for floor in "${floors[@]}"; do
    kind=${floor%=*} found=$(accuracy_of "$1" "$kind")
    at_least "$found" "${floor#*=}" ||
      missed "likeliest answers to $kind: $1 has ${found:-none}%, and ${floor#*=}% are promised"
  done
}
# rate FILE: nats per byte.
rate() { grep -oE '"nats_per_byte":[0-9.e-]+' "$1" | sed 's/.*://'; }
# scored FILE COMMAND...: writes what a command prints, once.
scored() {
  local file=$1
  shift
  [[ -f $file ]] && return
  run "$@" > "$file.part"
  mv "$file.part" "$file"
}
# below_ngram: the model of texts is better than a 5-gram model of the same stories, at stories that neither has seen.
below_ngram() {
  local model ngram
  made data/held-out-stories.txt corpus stories --bytes 100000 --seed 6
  scored answers/5-gram.json corpus ngram --train data/stories.txt --file data/held-out-stories.txt --json
  scored answers/1-texts-stories.json eval 1-texts --file data/held-out-stories.txt --by-documents --ctx "$tokens" \
    --threads "$threads" --json
  model=$(rate answers/1-texts-stories.json) ngram=$(rate answers/5-gram.json)
  LC_ALL=C printf '  1-texts: %.3f nats per byte of new stories; a 5-gram model of the same stories has %.3f\n' \
    "$model" "$ngram"
  at_least "$(LC_ALL=C awk -v m="$model" -v n="$ngram" 'BEGIN { print 100 * (1 - m / n) }')" "$text_gain" ||
    missed "stories: 1-texts should take at least $text_gain% less nats per byte than a 5-gram model"
}

say "1. Texts, questions, conversations"
mkdir -p data answers
corpus=$texts
if [[ -z $texts ]]; then
  corpus=data/stories.txt
  made data/stories.txt corpus stories --bytes "$text_bytes" --seed 1
fi
made data/questions.txt corpus qa "${kind_options[@]}" --rows "$((chat_rows * 3 / 2))" --seed 1 --form text
made data/chats.jsonl corpus qa "${kind_options[@]}" --rows "$chat_rows" --seed 2 --form chats --mixed
made data/preferences.jsonl corpus qa "${kind_options[@]}" --rows "$pairs" --seed 3 --form preferences
made data/tasks.jsonl corpus qa "${kind_options[@]}" --rows "$((reward_steps * reward_questions))" --seed 4 --form chat-questions
if [[ ! -f data/held-out.jsonl ]]; then
  run corpus qa "${kind_options[@]}" --rows "$asked" --seed 5 --form chat-questions --held-out |
    awk '!seen[$0]++' > data/held-out.part  # some kinds have few questions
  mv data/held-out.part data/held-out.jsonl
fi
head -n 3 data/chats.jsonl

say "2. Tokenizer: byte-level BPE; the marks of the chat template are control tokens"
made vocabulary.gguf tokenizer train --corpus "$corpus" --data data/chats.jsonl --chat-template chatml \
  --tokenizer "bpe:$vocabulary"

say "3. Pretraining: the next token of stories and questions"
trained 1-texts 100 from-scratch --corpus "$corpus" --corpus-weight 1 --corpus data/questions.txt --corpus-weight 3 \
  --documents blank-lines --pack --tokenizer vocabulary.gguf --size "$size" --layers "$layers" --context 256 \
  --batch "$batch" --tokens "$tokens" --steps "$text_steps" --lr 4e-3 --schedule "wsd(decay=$text_decay)" \
  --eval-every 250 --eval-tokens 16384 --name chat
answered 1-texts 1-texts
[[ $texts ]] || below_ngram

say "4. Conversations: answers in four styles, a tenth of them wrong"
trained 2-chats 100 full-finetune --model 1-texts --data data/chats.jsonl --chat-template chatml \
  --batch "$batch" --tokens "$tokens" --steps "$chat_steps" --lr 4e-3 --schedule "wsd(decay=$chat_decay)" \
  --eval-every 250 --eval-tokens 16384 --name chat
answered 2-chats 2-chats
rises 1-texts 2-chats likeliest "$chat_gain"

say "5. Preferences (DPO): the answer alone is better than a sentence, a tail or a wrong one"
trained 3-dpo 10 dpo --model 2-chats --data data/preferences.jsonl \
  --batch 6 --tokens 256 --steps "$pair_steps" --lr 1e-3 --eval-tokens 8192
made 3-dpo.gguf merge 2-chats --lora 3-dpo
answered 3-dpo 3-dpo.gguf
rises 2-chats 3-dpo drawn "$pair_gain"
rises 2-chats 3-dpo likeliest "-$loss"
kept 2-chats 3-dpo "$kind_loss"

say "6. Rewards (GRPO): its own answers, judged by whether they are right"
trained 4-grpo 10 grpo --model 3-dpo.gguf --full --data data/tasks.jsonl --reward exact \
  --questions "$reward_questions" --group 8 --max-tokens 60 --steps "$reward_steps" --lr 5e-4 --batch 16 --name chat
answered 4-grpo 4-grpo
rises 3-dpo 4-grpo drawn "$reward_gain"
rises 3-dpo 4-grpo likeliest "-$loss"
reached 4-grpo

say "7. Report card"
card=("${stages[@]}")
for stage in "${stages[@]}"; do card+=(--answers "answers/$stage-likeliest.json" --drawn "answers/$stage-drawn.json"); done
run runs card "${card[@]}" --title "From nothing to a chat" --out card.html
"$toy" runs card "${card[@]}" --json > card.json

say "Done"
printf -v out %q "$(realpath -m --relative-to="$start" -- "$out")"
printf -v program %q "$(realpath --relative-to="$start" -- "$toy")"
echo "  report card:  $out/card.html (numbers: card.json)"
echo "  chat:         $program chat $out/4-grpo --temperature 0"
echo "  serve:        $program serve $out/4-grpo"
((failed == 0)) || exit 1
[[ -z $serve ]] || exec "$toy" serve 4-grpo
