#!/usr/bin/env python3
"""Writes golden.json: what transformers computes in f32 for the models of scripts/real_models.sh.

  PY=$(scripts/peers.sh) && $PY tests/real/make_golden.py build/release/toy      # 10 minutes

toy writes the long texts (`toy corpus stories`). transformers reads the GGUFs themselves and dequantizes their weights.
All log-probabilities are natural, of each token after the first. llama.cpp says what rounding of activations may cost.
real_models_test.py reads the file.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("TOY_MODELS", "/opt/toy-models")
TEXTS = [
    "The quick brown fox jumps over the lazy dog. In 1969, 3 people flew 384,400 km to the Moon!\n\nWhy?",
    "def gcd(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n\n\nprint(gcd(48, 36))  # 12\n",
    "Füße, naïve café — 東京 こんにちは 🙂👍🏽 \t¿Qué? x² ≤ y\u00a0z",
]
PROMPTS = ["The capital of France is", "Once upon a time, there was a little girl who"]
CHATS = [
    [{"role": "user", "content": "What is 2+2?"}, {"role": "assistant", "content": "4"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <b>you</b>"},
     {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Bye"},
     {"role": "assistant", "content": "Bye."}],
]
GREEDY = 24
STORIES = ["stories", "--bytes", "3000", "--seed", "1"]
BUCKET = 128  # tokens whose losses become a mean
FAR = ["stories", "--bytes", "150000", "--seed", "1"]  # more than 32,768 tokens
FAR_CONTEXT, FAR_BUCKET, PART = 8192, 1024, 512
ROUNDING = ["stories", "--bytes", "5000", "--seed", "1"]
ROUNDING_CONTEXT = 512
MODELS = ["smollm2-135m-instruct.gguf", "gemma-3-270m.gguf"]


def log_probabilities(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1].double()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def story(words):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "stories")
        subprocess.run([sys.argv[1], "corpus", *words, "--out", file], check=True, stdout=subprocess.DEVNULL)
        with open(file, encoding="utf-8", newline="") as f:
            return f.read()


def losses_of_window(model, ids, targets):
    """In parts, so that neither attention nor logits take all memory."""
    cache, values = None, []
    for i in range(0, len(ids), PART):
        with torch.no_grad():
            out = model(torch.tensor([ids[i:i + PART]]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        for row, target in zip(out.logits[0], targets[i:i + PART]):
            row = row.double()
            values.append((torch.logsumexp(row, -1) - row[target]).item())
    return values


def far(model, tokenizer):
    """Losses by position, in windows as `toy eval --ctx C --stride C` has them."""
    ids, values = tokenizer(story(FAR)).input_ids, []
    for i in range(0, len(ids) - 1, FAR_CONTEXT):
        window = ids[i:min(i + FAR_CONTEXT, len(ids) - 1)]
        if i and tokenizer.bos_token_id == ids[0]:
            window[0] = ids[0]
        values += losses_of_window(model, window, ids[i + 1:])
    full = len(values) // FAR_BUCKET * FAR_BUCKET
    return {"corpus": FAR, "ctx": FAR_CONTEXT, "ids": len(ids), "bucket": FAR_BUCKET,
            "means": [round(v, 6) for v in torch.tensor(values[:full], dtype=torch.float64).view(-1, FAR_BUCKET).mean(1).tolist()]}


def rounding(path):
    """What llama.cpp's rounding of activations costs, nats per token."""
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "stories")
        with open(text, "w", encoding="utf-8", newline="") as f:
            f.write(story(ROUNDING))
        script = os.path.join(HERE, "..", "..", "bench", "peers", "quant_accuracy.py")
        table = subprocess.run([sys.executable, script, path, text, "--types", "file", "--activations", "--ctx",
                                str(ROUNDING_CONTEXT), "--toy", sys.argv[1]], check=True, capture_output=True, text=True)
    heads, _, cells = ([cell.strip() for cell in line.split("|")] for line in table.stdout.splitlines())
    return {"corpus": ROUNDING, "ctx": ROUNDING_CONTEXT, "llama_cpp": float(cells[heads.index("activations, llama.cpp")])}


def golden(name):
    path = os.path.join(FOLDER, name)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=name, dtype=torch.float32).eval()
    out = {"sha256": hashlib.sha256(open(path, "rb").read()).hexdigest(), "texts": [], "greedy": [], "chats": []}
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        values = [round(v, 6) for v in log_probabilities(model, ids).tolist()]
        out["texts"].append({"text": text, "ids": ids, "logprobs": values})
    for prompt in PROMPTS:
        ids = tokenizer(prompt).input_ids
        made = model.generate(torch.tensor([ids]), max_new_tokens=GREEDY, min_new_tokens=GREEDY, do_sample=False,
                              repetition_penalty=1.0)[0, len(ids):].tolist()
        out["greedy"].append({"prompt": prompt, "ids": made, "text": tokenizer.decode(made)})
    if tokenizer.chat_template:
        for messages in CHATS:
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            out["chats"].append({"messages": messages, "text": text,
                                 "ids": tokenizer(text, add_special_tokens=False).input_ids})
    ids = tokenizer(story(STORIES)).input_ids
    values = -log_probabilities(model, ids)
    out["long"] = {"corpus": STORIES, "ids": len(ids), "bucket": BUCKET,
                   "means": [round(v.mean().item(), 6) for v in values.split(BUCKET)]}
    out["far"] = far(model, tokenizer)
    out["rounding"] = rounding(path)
    return out


if __name__ == "__main__":
    result = {name: golden(name) for name in MODELS}
    with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, ensure_ascii=False, indent=1)
        f.write("\n")
