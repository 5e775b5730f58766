#!/usr/bin/env python3
"""Writes embeddings.golden.json: all-MiniLM-L6-v2 by PyTorch in f32, one text at a time, mean pooling, length 1.

  PY=$(scripts/peers.sh) && $PY tests/real/make_embedding_golden.py      # 3 minutes

embeddings_test.py reads the file. Of each text it has a checksum of the ids and 8 elements of the vector; of some, all.
"""
import json
import os
import zlib

import torch
from transformers import AutoModel, BertTokenizer

from embedding_texts import sampled, texts

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.environ.get("TOY_MODELS", "/opt/toy-models"), "all-minilm-l6-v2")
COMPLETE = range(0, 1000, 125)


def main():
    tokenizer = BertTokenizer.from_pretrained(FOLDER)
    model = AutoModel.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager").eval()
    rows = []
    for i, text in enumerate(texts()):
        ids = tokenizer(text, truncation=True, max_length=256).input_ids
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
        v = torch.nn.functional.normalize(hidden.mean(0), dim=0).tolist()
        row = {"tokens": len(ids), "crc": zlib.crc32(json.dumps(ids).encode()),
               "some": [round(v[k], 7) for k in sampled(i, len(v))]}
        if i in COMPLETE:
            row["ids"], row["all"] = ids, [round(x, 7) for x in v]
        rows.append(row)
    with open(os.path.join(HERE, "embeddings.golden.json"), "w", encoding="utf-8") as f:
        f.write('{"rows": [\n' + ",\n".join(json.dumps(r) for r in rows) + "\n]}\n")


if __name__ == "__main__":
    main()
