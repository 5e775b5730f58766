#!/usr/bin/env bash
# Trains small models of two tokenizer kinds and a unigram vocabulary, and lets llama.cpp read the files: the same greedy tokens and log
# probabilities, the same tokenization.   llama_cpp_test.sh TOY_BINARY
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
"$toy" corpus stories --bytes 400000 --seed 1 --out "$work/train.txt" > /dev/null
"$toy" corpus stories --bytes 3000 --seed 2 --out "$work/texts.txt" > /dev/null
printf 'caf\xc3\xa9 \xe2\x82\xac 12  two spaces\n\ttab\n' >> "$work/texts.txt"
for tokenizer in bytes spm:512; do
  for dtype in f32 f16; do
    out=$work/$tokenizer-$dtype
    "$toy" train from-scratch --corpus "$work/train.txt" --size tiny --tokenizer "$tokenizer" --batch 8 --tokens 64 \
      --steps 150 --lr 5e-3 --dtype "$dtype" --out "$out" > /dev/null 2>&1
    # f16: llama.cpp rounds activations to f16 before a product with f16 weights, toy does not.
    tolerance=2e-3
    margin=1e-3
    if [[ $dtype == f16 ]]; then tolerance=2e-2 margin=2e-2; fi
    "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$out/model.gguf" --ids 79,110,99 --n 48 \
      --tolerance "$tolerance" --margin "$margin"
    "$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$out/model.gguf" --encode "$work/texts.txt"
  done
done
# llama.cpp has no byte fallback in unigram vocabularies, so the texts have no characters that training did not see.
"$toy" corpus stories --bytes 3000 --seed 3 --out "$work/stories.txt" > /dev/null
printf 'two  spaces\n\ttab\n' >> "$work/stories.txt"
"$toy" tokenizer train --corpus "$work/train.txt" --tokenizer unigram:400 --out "$work/unigram.gguf" > /dev/null 2>&1
"$python" "$here/check_against_llama_cpp.py" --toy "$toy" "$work/unigram.gguf" --encode "$work/stories.txt"
