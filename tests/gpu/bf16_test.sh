#!/usr/bin/env bash
# The program trains in bf16 on the device cuda, with the driver and the cuBLASLt of tests, which have no GPU: the model is
# that of the device emulated, resuming gives the same bytes, and another arithmetic is named.
#
#   tests/gpu/bf16_test.sh TOY FOLDER_OF_BOTH_LIBRARIES
set -euo pipefail
toy=$1 libraries=$2
failed() { echo "FAILED: $*"; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cuda() { LD_LIBRARY_PATH=$libraries "$toy" "$@" --device cuda; }
LD_LIBRARY_PATH=$libraries "$toy" devices | grep -q '^cuda *yes' || { echo "skipped: the build has no kernels for CUDA (nvcc)"; exit 77; }
LD_LIBRARY_PATH=$libraries "$toy" devices | grep -q 'cuBLASLt 13.1.0' || failed "toy devices does not name the library"

"$toy" corpus stories --bytes 20000 --seed 5 --out book.txt > /dev/null
train=(train from-scratch --corpus book.txt --tokenizer bytes --size tiny --batch 1 --tokens 8 --eval-tokens 16 --data-cache none --seed 7
       --steps 4 --checkpoint-every 2)
"$toy" "${train[@]}" --compute bf16 --device emulated --out emulated > log 2>&1 || { cat log; failed "emulated"; }
cuda "${train[@]}" --compute bf16 --out library > log 2>&1 || { cat log; failed "with cuBLASLt"; }
cmp emulated/model.gguf library/model.gguf || failed "another model with the library of tests, which adds as toy's kernels do"
cuda "${train[@]}" --compute auto --out auto > log 2>&1 || { cat log; failed "--compute auto"; }
grep -q "compute: bf16; its products run on tensor cores here (sm_90, cuBLASLt 13.1.0, 0 SMs)" log || { cat log; failed "auto takes f32"; }
cmp emulated/model.gguf auto/model.gguf || failed "auto"

# A run that was cut after its second step.
rm -r library/model.gguf library/finished.json library/weights library/checkpoints/step_000004 library/checkpoints/best 2> /dev/null || true
TOY_CUBLASLT=off cuda train --resume --out library > log 2>&1 && failed "resumed with another arithmetic"
grep -q 'arithmetic is "sm_90, cuBLASLt 13.1.0, 0 SMs" there and "sm_90" here' log || { cat log; failed "the arithmetic is not named"; }
cuda train --resume --out library > log 2>&1 || { cat log; failed "resuming"; }
cmp emulated/model.gguf library/model.gguf || failed "another model after resuming"
