#!/usr/bin/env python3
"""Writes bert_rank_tiny/, a BertForSequenceClassification of one label with random weights, qwen3_rank_tiny/, a
Qwen3ForCausalLM, and rerank.golden.json: the logits that transformers computes of pairs in f64, and how far its f32 is from
them. Of the decoder, the logit is that of "yes" minus that of "no" after the last token.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_rerank_golden.py
"""
import json
import os

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

import make_bert_golden as bert
from golden_files import HERE, both, write_json

PAIRS = [["the badger", "The badger runs under the river!"], ["otters?", "naïve café, 東京x"], ["runs", "!"],
         ["a river 1 2 3", "swimming old otter, " * 14 + "end"], ["x", "x"]]
QWEN = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
        "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, "
        "retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n")


def bert_rows():
    folder = os.path.join(HERE, "bert_rank_tiny")
    config = BertConfig(vocab_size=bert.V, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=36,
                        max_position_embeddings=bert.C, type_vocab_size=2, layer_norm_eps=1e-3, hidden_act="gelu", num_labels=1)
    model = BertForSequenceClassification(config)
    model.config._attn_implementation = "eager"
    model.eval()
    bert.weights(model)
    os.makedirs(folder, exist_ok=True)
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if "position_ids" not in k},
              os.path.join(folder, "model.safetensors"))
    write_json(folder, "config.json", {"architectures": ["BertForSequenceClassification"], "model_type": "bert",
                                       "vocab_size": bert.V, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
                                       "intermediate_size": 36, "max_position_embeddings": bert.C, "type_vocab_size": 2,
                                       "layer_norm_eps": 1e-3, "hidden_act": "gelu", "id2label": {"0": "LABEL_0"}})
    write_json(folder, "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(bert.WORDS) + "\n")
    tokenizer = BertTokenizer.from_pretrained(folder)
    rows = []
    for query, document in PAIRS:
        t = tokenizer(query, document, truncation="only_second", max_length=bert.C)
        inputs = {"input_ids": torch.tensor([t.input_ids]), "token_type_ids": torch.tensor([t.token_type_ids])}
        logit, error = both(model, lambda m: m(**inputs).logits[0, 0])
        logit = logit.item()
        rows.append({"query": query, "document": document, "ids": t.input_ids, "second": t.token_type_ids.index(1),
                     "logit": logit, "error": error})
    return rows


def qwen_rows():
    folder = "qwen3_rank_tiny"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = alphabet + ["ye", "yes", "no"]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = {t: i for i, t in enumerate(words + special)}
    # As Qwen2TokenizerFast splits.
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    tok = Tokenizer(models.BPE(vocab={t: i for t, i in tokens.items() if t not in special},
                               merges=[("y", "e"), ("ye", "s"), ("n", "o")]))
    from tokenizers import Regex
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(special)
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.save_pretrained(os.path.join(HERE, folder))
    config = Qwen3Config(vocab_size=len(tokens), hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=8, max_position_embeddings=700, rms_norm_eps=1e-3,
                         tie_word_embeddings=True, rope_theta=3000.0)
    model = Qwen3ForCausalLM(config)
    model.config._attn_implementation = "eager"
    model.eval()
    g = torch.Generator().manual_seed(13)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        p.data = 1 + 0.3 * r if "norm" in name else r if "embed" in name else 1.3 * r / p.shape[1] ** 0.5
    save_file({k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"},
              os.path.join(HERE, folder, "model.safetensors"))
    write_json(folder, "config.json", {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": len(tokens),
                                       "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
                                       "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                                       "max_position_embeddings": 700, "rms_norm_eps": 1e-3, "tie_word_embeddings": True,
                                       "rope_theta": 3000.0, "hidden_act": "silu"})
    rows = []
    for query, document in PAIRS:
        ids = fast(QWEN.replace("{query}", query).replace("{document}", document)).input_ids

        def call(m):
            logits = m(torch.tensor([ids])).logits[0, -1]
            return logits[tokens["yes"]] - logits[tokens["no"]]
        logit, error = both(model, call)
        logit = logit.item()
        rows.append({"query": query, "document": document, "ids": ids, "logit": logit, "error": error})
    return rows


def main():
    with open(os.path.join(HERE, "rerank.golden.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps({"bert": bert_rows(), "qwen3": qwen_rows()}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
