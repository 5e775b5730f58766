#!/usr/bin/env python3
"""Writes bert_tiny/, a folder as sentence-transformers has it, with a BertModel of random weights, and bert.golden.json:
what transformers computes with it in f64, and how far its f32 is from that.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_bert_golden.py
"""
import json
import os

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, BertTokenizer

from golden_files import HERE, write_json

FOLDER = os.path.join(HERE, "bert_tiny")
WORDS = ("[PAD] [UNK] [CLS] [SEP] [MASK] the a ##s ##ing badger swim ##m otter run ##n river under old ! , . ' ? - 1 2 3 c "
         "##a ##f ##e n ##ai ##ve 東 京 x ##x u ##b ##c").split()
TEXTS = ["The badger!", "Otters swimming under the OLD river...", "naïve café, 東京x? runs-running\tbadgers", "", "xxxx 1'2 zzz [MASK]"]
V, C = 61, 80


def weights(model):
    g = torch.Generator().manual_seed(11)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "embeddings.LayerNorm" in name or "LayerNorm" in name:
            r = 1 + 0.3 * r if name.endswith("weight") else 0.4 * r
        elif name.endswith("bias"):
            r = 0.4 * r
        elif "embeddings" not in name:
            r = 1.3 * r / p.shape[1] ** 0.5
        p.data = r


def main():
    config = BertConfig(vocab_size=V, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=36,
                        max_position_embeddings=C, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu")
    model = BertModel(config)
    model.config._attn_implementation = "eager"
    model.eval()
    weights(model)
    os.makedirs(FOLDER, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if "position_ids" not in k},
              os.path.join(FOLDER, "model.safetensors"))
    write_json(FOLDER, "config.json", {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": V, "hidden_size": 24,
                               "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 36,
                               "max_position_embeddings": C, "type_vocab_size": 2, "layer_norm_eps": 1e-3,
                               "hidden_act": "gelu"})
    write_json(FOLDER, "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    write_json(FOLDER, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])
    write_json(FOLDER, "1_Pooling/config.json", {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True})
    write_json(FOLDER, "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": False})
    with open(os.path.join(FOLDER, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(WORDS) + "\n")
    tokenizer = BertTokenizer.from_pretrained(FOLDER)
    g = torch.Generator().manual_seed(5)
    out = {"texts": [], "rows": []}
    for text in TEXTS:
        out["texts"].append({"text": text, "ids": tokenizer(text).input_ids})
    for n in (1, 2, 7, 33, 60):
        ids = torch.randint(0, V, (1, n), generator=g)
        with torch.no_grad():
            f32 = model.float()(ids).last_hidden_state[0].double()
            f64 = model.double()(ids).last_hidden_state[0]
        model.float()
        out["rows"].append({"ids": ids[0].tolist(), "error": (f32 - f64).abs().max().item(),
                            "hidden": [[round(x, 9) for x in row] for row in f64.tolist()]})
    with open(os.path.join(HERE, "bert.golden.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(out, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
