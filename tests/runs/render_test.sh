#!/usr/bin/env bash
# Renders a report and an SVG in headless Chromium: nothing is cut off or written over something else, the script runs
# without an error, and the pictures are not empty. Keeps report.png and loss.png in the folder given second.
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

python3 "$here/make_log.py" > "$work/events.jsonl"
"$toy" runs report "$work" --out "$work/report.html" > "$work/report.log"
"$toy" runs show "$work" --svg "$work/plots" > "$work/show.log"
# The page that is inspected is the report and a script that looks at where everything came to lie.
{ sed 's/script-src/script-src-elem/;/<\/body>/,$d' "$work/report.html"; echo "<script>"; cat "$here/inspect.js"; echo "</script></body></html>"; } \
  > "$work/inspected.html"

chromium() {
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
    --virtual-time-budget=3000 "$@" 2> "$work/browser.log"
}
fail() { echo "$*"; exit 1; }

for width in 1280 400; do
  chromium --window-size="$width,2400" --dump-dom "file://$work/inspected.html" > "$work/dom.html"
  result=$(grep -o 'data-inspected="[^"]*"' "$work/dom.html") || fail "$width px: the page's script did not run"
  [[ $result == 'data-inspected="ok"' ]] || fail "$width px: $result"
done
for dark in "" --force-dark-mode; do
  chromium ${dark:+"$dark"} --window-size=1280,2600 --screenshot="$keep/report${dark:+-dark}.png" "file://$work/report.html"
done
chromium --window-size=400,3600 --screenshot="$keep/report-narrow.png" "file://$work/report.html"
chromium --window-size=720,360 --screenshot="$keep/loss.png" "file://$work/plots/loss.svg"
for picture in report loss; do
  size=$(stat -c %s "$keep/$picture.png")
  ((size > 8000)) || fail "$picture.png has $size bytes: nothing was drawn"
done
echo "ok: $(ls "$keep"/*.png | wc -l) pictures"
