#!/usr/bin/env bash
# The page of `toy serve` in headless Chromium. With a folder, pictures of it are kept.
#   page_test.sh TOY_BINARY [PICTURES]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$python" -c 'import selenium' 2> /dev/null || { echo "no selenium; scripts/peers.sh installs it"; exit 77; }
for program in /usr/bin/chromium /usr/bin/chromedriver; do
  [[ -x $program ]] || { echo "no $program; Debian: apt-get install chromium chromium-driver"; exit 77; }
done
"$toy" corpus stories --bytes 300000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer spm:512 --steps 200 --lr 8e-3 \
  --out "$work/run" > /dev/null 2>&1
"$python" "$here/page_client.py" "$toy" "$work/run/model.gguf" "$work" "${@:2}"
