#!/usr/bin/env bash
# Renders reports, a report card, pages of `toy look` and SVGs in headless Chromium: at 1280, 700, 420 and 390 pixels
# nothing is cut off or written over something else, the script runs without an error, a look can be used with the
# keyboard, single SVGs are as wide as a page of 420 pixels, and the pictures are not empty. Keeps the pictures, light and dark, in the folder given second.
#
#   tests/runs/render_test.sh build/release/toy [FOLDER]        # exit code 77: chromium is not installed
set -euo pipefail
toy=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || true)
if [[ -z $browser ]]; then
  echo "skipped: chromium is not installed (Debian package chromium)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${2:-$work}
mkdir -p "$keep"

# The page that is inspected is the report and a script that looks at where everything came to lie.
for run in done failed; do
  mkdir "$work/$run"
  python3 "$here/make_log.py" "--$run" > "$work/$run/events.jsonl"
  "$toy" runs report "$work/$run" --out "$work/$run.html" > "$work/report.log"
done
# A report card of five stages with twelve kinds of question.
python3 - "$work" << 'END'
import json
import sys
kinds = [f"kind {i}:1" for i in range(12)]
share = {"accuracy": 0.375, "accuracy_error": 0.0123, "questions": 1}
rows = [{"kind": k, "question": "What is " + 40 * "long" + "?", "text": "It is " + 60 * "x", "answers": ["y"], "right": False}
        for k in kinds]
for name, temperature in (("likeliest", 0), ("drawn", 1)):
    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
        json.dump({**share, "questions": len(rows), "temperature": temperature, "kinds": {k: share for k in kinds}, "rows": rows}, file)
END
stages=() answers=()
for stage in 1-texts 2-chats 3-dpo 4-grpo 5-more; do
  mkdir "$work/$stage"
  sed "s/\"run_id\": \"[^\"]*\"/\"run_id\": \"$stage\"/" "$work/done/events.jsonl" > "$work/$stage/events.jsonl"
  stages+=("$work/$stage") answers+=(--answers "$work/likeliest.json" --drawn "$work/drawn.json")
done
"$toy" runs card "${stages[@]}" "${answers[@]}" --out "$work/card.html" > "$work/report.log"
# Looks into a hybrid, which has states, and into what a head adds; the model is nearly random.
seq -s ' ' 400 > "$work/numbers.txt"
"$toy" train from-scratch --corpus "$work/numbers.txt" --tokenizer bytes --size tiny --layers gdn,attn --batch 2 \
  --tokens 32 --steps 2 --lr 1e-3 --val-fraction 0 --out "$work/model" > "$work/train.log" 2>&1
text="Once upon a time there was a fox. It said: \"17 18 19\", averylongwordwithoutanyspaceinit, and $(printf 'x%.0s' {1..40})."
"$toy" look "$work/model" --prompt "$text" --out "$work/look.html" > "$work/look.log"
"$toy" look "$work/model" --prompt "$text" --ablate 1.0 --out "$work/ablated.html" > "$work/look.log"
for run in done failed card look ablated; do
  script=inspect.js
  if [[ $run == look || $run == ablated ]]; then script=inspect_look.js; fi
  { sed 's/script-src/script-src-elem/;/<\/body>/,$d' "$work/$run.html"; echo "<script>{"; cat "$here/$script"; echo "}</script></body></html>"; } \
    > "$work/inspected-$run.html"
done
"$toy" runs show "$work/done" --svg "$work/plots" > "$work/show.log"
runs=()
for i in 01 02 03 04 05 06 07 08 09 10 11 12; do
  mkdir "$work/run-$i"
  sed "s/\"run_id\": \"[^\"]*\"/\"run_id\": \"run-$i\"/" "$work/done/events.jsonl" > "$work/run-$i/events.jsonl"
  runs+=("$work/run-$i")
done
"$toy" runs compare "${runs[@]}" --svg "$work/compare.svg" > "$work/compare.log"
"$toy" describe tiny --graph train --format svg > "$work/graph.svg"
"$toy" describe tiny --memory train --format svg > "$work/memory.svg"

chromium() {
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --virtual-time-budget=3000 "$@" 2> "$work/browser.log"
}
fail() { echo "$*"; exit 1; }

for run in done failed card look ablated; do
  for width in 1280 700 420 390; do
    # In a frame: windows of Chromium are at least 500 pixels wide.
    cat > "$work/frame.html" << END
<body><script>onmessage = (e) => { document.body.dataset.inspected = e.data; }</script>
<iframe src="inspected-$run.html" style="border:0;width:${width}px;height:2400px"></iframe></body>
END
    chromium --window-size=1400,2500 --dump-dom "file://$work/frame.html" > "$work/dom.html"
    result=$(grep -o 'data-inspected="[^"]*"' "$work/dom.html") || fail "$run, $width px: the page's script did not run"
    [[ $result == 'data-inspected="ok"' ]] || fail "$run, $width px: $result"
  done
done
for svg in plots/loss compare graph memory; do
  cat > "$work/frame.html" << END
<body><div style="width:420px"><img src="$svg.svg"></div><script>
onload = () => { document.body.dataset.width = document.querySelector('img').offsetWidth; }</script>
END
  chromium --window-size=1400,2500 --dump-dom "file://$work/frame.html" > "$work/dom.html"
  width=$(grep -o 'data-width="[0-9]*"' "$work/dom.html") || fail "$svg.svg: the page's script did not run"
  [[ $width == 'data-width="420"' ]] || fail "$svg.svg in a page of 420 px: $width"
done
for dark in "" --force-dark-mode; do
  for picture in report:done.html:1280,2600 narrow:failed.html:420,5200 card:card.html:1200,4200 \
    look:look.html:1200,2600 ablated:ablated.html:1200,1600 loss:plots/loss.svg:720,360 \
    compare:compare.svg:720,380 graph:graph.svg:1800,900; do
    IFS=: read -r name file size <<< "$picture"
    chromium ${dark:+"$dark"} --window-size="$size" --screenshot="$keep/$name${dark:+-dark}.png" "file://$work/$file"
    bytes=$(stat -c %s "$keep/$name${dark:+-dark}.png")
    ((bytes > 8000)) || fail "$name.png has $bytes bytes: nothing was drawn"
  done
done
echo "ok: $(ls "$keep"/*.png | wc -l) pictures"
