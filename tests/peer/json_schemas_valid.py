#!/usr/bin/env python3
"""Generates under every schema of a folder with a random model at temperature 1; each text has to be valid.

  json_schemas_valid.py TOY SCHEMAS WORK
"""
import json
import pathlib
import subprocess
import sys
import time

import jsonschema


def run(*words):
    r = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{r.stderr}")
    return r


def main():
    toy, schemas, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    files = sorted(schemas.glob("*.json"))
    # Random weights: one step that changes nothing. The vocabulary is that of JSON, so that tokens have quotes in them.
    corpus = work / "corpus.txt"
    corpus.write_text("\n".join(f.read_text() + json.dumps(json.loads(f.read_text())) for f in files))
    run(toy, "train", "from-scratch", "--corpus", corpus, "--size", "tiny", "--tokenizer", "spm:512", "--steps", 1, "--lr",
        1e-12, "--out", work / "run")
    model = work / "run" / "model.gguf"
    tokens, seconds, bad = 0, 0.0, []
    for i, f in enumerate(files):
        schema = json.loads(f.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        begin = time.time()
        out = json.loads(run(toy, "infer", model, "--prompt", "{", "--json-schema", f, "--temperature", 1, "--seed", i, "-n",
                             20000, "--ctx", 20100, "--json").stdout)
        seconds += time.time() - begin
        tokens += len(out["ids"])
        try:
            if out["finish_reason"] not in ("complete", "eos"):
                raise ValueError(f"it ended by {out['finish_reason']}")
            validator.validate(json.loads(out["text"]))
        except (ValueError, jsonschema.ValidationError) as e:
            bad.append(f"{f}: {str(e).splitlines()[0]}\n  {out['text'][:300]}")
    print(f"{len(files) - len(bad)} of {len(files)} texts are valid; {tokens} tokens in {seconds:.1f} s")
    print("\n".join(bad))
    sys.exit(1 if bad or len(files) < 200 else 0)


if __name__ == "__main__":
    main()
