#!/usr/bin/env python3
"""Writes roberta_tiny/, nomic_bert_tiny/, modern_bert_tiny/, gemma_embedding_tiny/ and others, folders of encoders with random
weights, and encoders.golden.json: what transformers computes with them in f64, and how far its f32 is from that. Of
jina_bert_tiny/ and nomic_moe_tiny/ it is plain_encoders.py, as transformers does not have them.

Texts are longer than the window of ModernBERT's local layers, bases of rotary angles differ, and gains and biases are
random.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_encoder_golden.py [NAME...]
"""
import json
import os
import sys
import tempfile

import sentencepiece as spm
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (Gemma3TextConfig, Gemma3TextModel, ModernBertConfig, ModernBertForSequenceClassification,
                          ModernBertModel, NomicBertConfig, NomicBertModel, PreTrainedTokenizerFast, RobertaConfig,
                          RobertaForSequenceClassification, RobertaModel, XLMRobertaConfig, XLMRobertaModel)

from golden_files import HERE, both, write_json
from make_family_golden import in_f64
from plain_encoders import JinaBert, NomicBertMoe

V, C = 263, 80
LENGTHS = (1, 2, 7, 33, 60)


def weights(model):
    g = torch.Generator().manual_seed(17)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name.lower() or "emb_ln" in name:
            r = 1 + 0.3 * r if name.endswith("weight") else 0.4 * r
        elif name.endswith("bias"):
            r = 0.4 * r
        elif "embeddings" not in name:
            r = 1.3 * r / p.shape[1] ** 0.5
        p.data = r


def row_of(ids, f64, error):
    return {"ids": ids[0].tolist(), "error": error, "hidden": [[round(x, 9) for x in row] for row in f64.tolist()]}


def hidden_rows(model, vocab):
    g = torch.Generator().manual_seed(5)
    rows = []
    for n in LENGTHS:
        ids = torch.randint(4, vocab, (1, n), generator=g)
        f64, error = both(model, lambda m: m(ids).last_hidden_state[0])
        rows.append(row_of(ids, f64, error))
    return rows


def byte_tokenizer(folder, special, first, last, post):
    """Byte-level BPE with a few merges; `special` are the first tokens."""
    tokens = special + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["th", "the", "Ġthe"]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[("t", "h"), ("th", "e"), ("Ġ", "the")]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(special)
    tok.post_processor = post
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=first, eos_token=last, cls_token=first, sep_token=last)
    fast.save_pretrained(os.path.join(HERE, folder))
    texts = ["the badger", "Into the river? naïve 東京", "the", ""]
    return [{"text": t, "ids": fast(t).input_ids} for t in texts], fast


def build(cls, config):
    config._attn_implementation = "eager"
    model = cls(config)
    model.config._attn_implementation = "eager"
    model.eval()
    weights(model)
    return model


def save(folder, tensors):
    save_file({k: v.float().contiguous() for k, v in tensors.items() if "position_ids" not in k},
              os.path.join(HERE, folder, "model.safetensors"))


ROBERTA = {"model_type": "roberta", "vocab_size": V, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
           "intermediate_size": 36, "max_position_embeddings": C, "type_vocab_size": 1, "layer_norm_eps": 1e-3,
           "hidden_act": "gelu", "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


def roberta():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    texts, _ = byte_tokenizer("roberta_tiny", special, "<s>", "</s>",
                              processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False))
    model = build(RobertaModel, RobertaConfig(**{k: v for k, v in ROBERTA.items() if k != "model_type"}))
    write_json("roberta_tiny", "config.json", {"architectures": ["RobertaModel"], **ROBERTA})
    save("roberta_tiny", model.state_dict())
    return {"texts": texts, "rows": hidden_rows(model, V)}


def roberta_rank():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    folder = "roberta_rank_tiny"
    _, fast = byte_tokenizer(folder, special, "<s>", "</s>",
                             processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False))
    model = build(RobertaForSequenceClassification,
                  RobertaConfig(**{k: v for k, v in ROBERTA.items() if k != "model_type"}, num_labels=1))
    write_json(folder, "config.json", {"architectures": ["RobertaForSequenceClassification"], **ROBERTA,
                                       "id2label": {"0": "LABEL_0"}})
    save(folder, model.state_dict())
    return pairs(model, fast)


def fields(data):
    """(number, bytes) of a protobuf message's fields of the kind bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        tag = varint()
        if tag & 7 == 2:
            n = varint()
            yield tag >> 3, data[at:at + n]
            at += n
        elif tag & 7 == 0:
            varint()
        else:
            at += {1: 8, 5: 4}[tag & 7]


def xlm_roberta():
    """SentencePiece's unigram pieces as XLM-RoBERTa's tokenizer.json has them, with two replacements of characters."""
    folder = "xlm_roberta_tiny"
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        rules, corpus = os.path.join(work, "rules.tsv"), os.path.join(work, "text")
        with open(rules, "w", encoding="utf-8") as f:
            f.write("9\t20\nFF21\t41\n2126\t3A9 3A9\n")  # tab, fullwidth A, ohm
        with open(corpus, "w", encoding="utf-8") as f:
            for i in range(200):
                f.write(f"the badger runs under the river {i * i % 13} times and A\u03a9 sleeps in the old den\n")
        spm.SentencePieceTrainer.train(input=corpus, model_prefix=os.path.join(work, "m"), vocab_size=36, model_type="unigram",
                                       normalization_rule_tsv=rules, minloglevel=2)
        with open(os.path.join(work, "m.model"), "rb") as f:
            proto = list(fields(f.read()))
        pieces = spm.SentencePieceProcessor(model_file=os.path.join(work, "m.model"))
    charsmap = next(v for n, v in fields(next(v for n, v in proto if n == 3)) if n == 2)
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab += [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(3, pieces.get_piece_size())] + [("<mask>", 0.0)]
    tok = Tokenizer(models.Unigram(vocab, unk_id=3))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(bytes(charsmap)), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tok.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tok.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
                                   unk_token="<unk>", pad_token="<pad>", mask_token="<mask>")
    fast.save_pretrained(os.path.join(HERE, folder))
    config = {**ROBERTA, "model_type": "xlm-roberta", "vocab_size": len(vocab)}
    model = build(XLMRobertaModel, XLMRobertaConfig(**{k: v for k, v in config.items() if k != "model_type"}))
    write_json(folder, "config.json", {"architectures": ["XLMRobertaModel"], **config})
    save(folder, model.state_dict())
    texts = ["the badger", "  the   river\tden ", "\uff21\u2126 runs, zebra!", "12 times \u6771", ""]
    return {"texts": [{"text": t, "ids": fast(t).input_ids} for t in texts], "rows": hidden_rows(model, len(vocab))}


def pairs(model, fast):
    rows = []
    for query, document in (("the badger", "Into the river"), ("otters?", "the"), ("a", "naïve 東京, the end")):
        ids = fast(query, document).input_ids
        f64, error = both(model, lambda m: m(torch.tensor([ids])).logits[0, 0])
        rows.append({"query": query, "document": document, "ids": ids, "logit": f64.item(), "error": error})
    return rows


def nomic():
    vocab = 61
    config = NomicBertConfig(vocab_size=vocab, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=36,
                             max_position_embeddings=C, type_vocab_size=2, layer_norm_eps=1e-3,
                             rope_parameters={"rope_type": "default", "rope_theta": 300.0})
    model = build(NomicBertModel, config)
    tensors, qkv = {}, {}
    for name, v in model.state_dict().items():  # as the authors' files have it
        name = name.replace("embeddings.LayerNorm", "emb_ln")
        if name.startswith("layers."):
            name = "encoder." + name
        for new, old in (("self_attn.o_proj", "attn.out_proj"), ("up_proj", "fc11"), ("gate_proj", "fc12"), ("down_proj", "fc2"),
                         ("post_attention_layernorm", "norm1"), ("post_mlp_layernorm", "norm2")):
            name = name.replace(new, old)
        if ".self_attn." in name:
            start, rest = name.split(".self_attn.")
            qkv.setdefault(start, {})[rest[0]] = v
        elif "pooler" not in name and "inv_freq" not in name:
            tensors[name] = v
    for start, parts in qkv.items():
        tensors[start + ".attn.Wqkv.weight"] = torch.cat([parts["q"], parts["k"], parts["v"]])
    write_json("nomic_bert_tiny", "config.json", {
        "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": vocab, "n_embd": 24, "n_layer": 3,
        "n_head": 4, "n_inner": 36, "n_positions": C, "type_vocab_size": 2, "layer_norm_epsilon": 1e-3,
        "rotary_emb_base": 300, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False,
        "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "activation_function": "swiglu",
        "use_rms_norm": False, "parallel_block": False, "max_trained_positions": 64})
    save("nomic_bert_tiny", tensors)
    return {"rows": hidden_rows(model, vocab)}


def plain(cls, config):
    model = cls(config).eval()
    weights(model)
    return model


def hidden_of_plain(model, vocab):
    g = torch.Generator().manual_seed(5)
    rows = []
    for n in LENGTHS:
        ids = torch.randint(4, vocab, (1, n), generator=g)
        f64, error = both(model, lambda m: m(ids)[0])
        rows.append(row_of(ids, f64, error))
    return rows


def nomic_moe():
    """Every third layer has experts: 1 and 4."""
    vocab = 61
    config = {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "vocab_size": vocab, "n_embd": 24, "n_layer": 5,
              "n_head": 4, "n_inner": 36, "n_positions": C, "type_vocab_size": 1, "layer_norm_epsilon": 1e-3,
              "rotary_emb_base": 300, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "prenorm": False,
              "qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "activation_function": "gelu",
              "use_rms_norm": False, "parallel_block": False, "max_trained_positions": C, "num_experts": 5, "moe_top_k": 2,
              "moe_every_n_layers": 3, "moe_normalize_expert_weights": False, "expert_choice_router": False,
              "num_shared_experts": 0, "ffn_div": 1}
    model = plain(NomicBertMoe, config)
    bias = {f"encoder.layers.{i}.mlp.experts.bias": torch.zeros(24) for i in (1, 4)}
    write_json("nomic_moe_tiny", "config.json", config)
    save("nomic_moe_tiny", {**model.state_dict(), **bias})
    return {"rows": hidden_of_plain(model, vocab)}


def jina():
    """Six heads, so that slopes are of both kinds."""
    vocab = 61
    config = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "position_embedding_type": "alibi",
              "feed_forward_type": "geglu", "emb_pooler": "mean", "vocab_size": vocab, "hidden_size": 24,
              "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 36, "max_position_embeddings": C,
              "type_vocab_size": 2, "layer_norm_eps": 1e-3, "hidden_act": "gelu"}
    model = plain(JinaBert, config)
    write_json("jina_bert_tiny", "config.json", config)
    save("jina_bert_tiny", model.state_dict())
    return {"rows": hidden_of_plain(model, vocab)}


MODERN = {"model_type": "modernbert", "vocab_size": V, "hidden_size": 24, "num_hidden_layers": 5, "num_attention_heads": 4,
          "intermediate_size": 36, "max_position_embeddings": C, "norm_eps": 1e-3, "local_attention": 8,
          "global_attn_every_n_layers": 3, "global_rope_theta": 3000.0, "local_rope_theta": 300.0,
          "hidden_activation": "gelu", "attention_bias": False, "norm_bias": False, "mlp_bias": False,
          "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "pad_token_id": 3}


def modern_tokenizer(folder):
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    post = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 1), ("[SEP]", 2)])
    return byte_tokenizer(folder, special, "[CLS]", "[SEP]", post)


def modern():
    folder = "modern_bert_tiny"
    texts, _ = modern_tokenizer(folder)
    model = build(ModernBertModel, ModernBertConfig(**{k: v for k, v in MODERN.items() if k != "model_type"}))
    write_json(folder, "config.json", {"architectures": ["ModernBertModel"], **MODERN})
    save(folder, model.state_dict())
    return {"texts": texts, "rows": hidden_rows(model, V)}


def modern_rank():
    folder = "modern_bert_rank_tiny"
    _, fast = modern_tokenizer(folder)
    config = ModernBertConfig(**{k: v for k, v in MODERN.items() if k != "model_type"}, num_labels=1, classifier_pooling="mean")
    model = build(ModernBertForSequenceClassification, config)
    write_json(folder, "config.json", {"architectures": ["ModernBertForSequenceClassification"], **MODERN,
                                       "classifier_pooling": "mean", "id2label": {"0": "LABEL_0"}})
    save(folder, model.state_dict())
    return pairs(model, fast)


GEMMA = {"model_type": "gemma3_text", "vocab_size": V, "hidden_size": 24, "num_hidden_layers": 7, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 36, "max_position_embeddings": C, "rms_norm_eps": 0.0009765625,
         "sliding_window": 8, "query_pre_attn_scalar": 8, "use_bidirectional_attention": True,
         "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 3000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}}


def gemma():
    """With the two dense layers of sentence-transformers after each token, whose mean is the same."""
    folder, inner = "gemma_embedding_tiny", 40
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    post = processors.TemplateProcessing("<bos> $A <eos>", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    texts, _ = byte_tokenizer(folder, special, "<bos>", "<eos>", post)
    model = build(Gemma3TextModel, Gemma3TextConfig(**{k: v for k, v in GEMMA.items() if k != "model_type"}))
    for name, p in model.named_parameters():
        if "norm" in name:  # a GGUF holds 1 + w, which is to be exact
            p.data = (p.data * 1024).round() / 1024
    g = torch.Generator().manual_seed(23)
    maps = [torch.randn(n, m, generator=g) / m ** 0.5 for n, m in ((inner, 24), (24, inner))]
    types = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
    write_json(folder, "config.json", {"architectures": ["Gemma3TextModel"], **GEMMA, "layer_types": types,
                                       "_sliding_window_pattern": 6})
    save(folder, model.state_dict())
    module = "sentence_transformers.models."
    modules = ["", "1_Pooling", "2_Dense", "3_Dense", "4_Normalize"]
    write_json(folder, "modules.json", [{"idx": i, "name": str(i), "path": p, "type": module + (p[2:] or "Transformer")}
                                        for i, p in enumerate(modules)])
    write_json(folder + "/1_Pooling", "config.json", {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True})
    for path, m in zip(modules[2:4], maps):
        write_json(f"{folder}/{path}", "config.json", {"in_features": m.shape[1], "out_features": m.shape[0], "bias": False,
                                                       "activation_function": "torch.nn.modules.linear.Identity"})
        save(f"{folder}/{path}", {"linear.weight": m})

    def states(m, ids):
        x = m(ids).last_hidden_state[0]
        for one in maps:
            x = x @ one.to(x.dtype).T
        return x
    rows = []
    g = torch.Generator().manual_seed(5)
    for n in LENGTHS:
        ids = torch.randint(4, V, (1, n), generator=g)
        with torch.no_grad():
            f32 = states(model, ids).double()
            with in_f64():  # angles and norms, too
                exact = Gemma3TextModel(model.config).double().eval()
                exact.load_state_dict(model.state_dict())
                f64 = states(exact, ids)
        rows.append(row_of(ids, f64, (f32 - f64).abs().max().item()))
    return {"texts": texts, "rows": rows}


def main():
    kinds = {"roberta": roberta, "nomic_bert": nomic, "modern_bert": modern, "xlm_roberta": xlm_roberta,
             "roberta_rank": roberta_rank, "modern_bert_rank": modern_rank, "gemma_embedding": gemma,
             "jina_bert": jina, "nomic_moe": nomic_moe}
    path = os.path.join(HERE, "encoders.golden.json")
    golden = json.load(open(path, encoding="utf-8")) if sys.argv[1:] else {}
    golden.update({name: kinds[name]() for name in sys.argv[1:] or kinds})
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
