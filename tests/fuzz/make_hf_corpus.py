#!/usr/bin/env python3
"""Writes the small files of tests/fuzz/corpus/hf_config, hf_index and hf_tokenizer: bad_* must be refused, ok_* must be
read.

Run it from anywhere; it needs nothing but Python. The same files come out every time. The configs are those that
transformers writes (tests/golden/hf.golden.json).
"""
import copy
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = json.loads((HERE.parent / "golden" / "hf.golden.json").read_text())
MARK = "\u2581"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|"
         r"\s+")


# --- config.json

def changed(values, **changes):
    out = copy.deepcopy(values)
    for key, value in changes.items():
        if value is ...:
            out.pop(key)
        else:
            out[key] = value
    return out


def configs():
    ok = {name: entry["config"] for name, entry in GOLDEN.items()}
    llama = {"model_type": "llama", "vocab_size": 90, "hidden_size": 60, "intermediate_size": 56, "num_hidden_layers": 2,
             "num_attention_heads": 6, "head_dim": 10}
    ok["llama"] = llama
    ok["llama3"] = changed(llama, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 8192})
    ok["linear"] = changed(llama, rope_scaling={"type": "linear", "factor": 2})
    ok["gpt2"] = {"model_type": "gpt2", "vocab_size": 90, "n_embd": 60, "n_layer": 2, "n_head": 6, "n_positions": 64}
    ok["multimodal"] = {"model_type": "gemma3", "text_config": GOLDEN["gemma3"]["config"], "vision_config": {}}
    hybrid, experts = GOLDEN["qwen35"]["config"], GOLDEN["qwen3next"]["config"]
    ok["qwen35_multimodal"] = {"model_type": "qwen3_5", "tie_word_embeddings": True,
                               "text_config": changed(hybrid, tie_word_embeddings=...), "vision_config": {}}
    ok["qwen35_interval"] = changed(hybrid, layer_types=..., full_attention_interval=3)
    ok["qwen3next_dense"] = changed(experts, mlp_only_layers=[0, 1, 2])
    mamba2, granite, nemotron, lfm2, kimi = (
        GOLDEN[name]["config"] for name in ("mamba2", "granitehybrid", "nemotron_h", "lfm2", "kimi_linear"))
    ok["granitehybrid_words"] = changed(granite, layer_types=["mamba", "attention", "mamba"], mamba_d_head="auto",
                                        position_embedding_type="nope", time_step_limit=...)
    ok["granitehybrid_dense"] = changed(GOLDEN["granitehybrid_rope"]["config"], layer_types=["full_attention"] * 3)
    ok["nemotron_h_pattern"] = changed(nemotron, layers_block_type=..., hybrid_override_pattern="M-*M")
    ok["lfm2_indices"] = changed(lfm2, layer_types=..., full_attn_idxs=[1], block_ff_dim=80, block_multiple_of=8,
                                 block_auto_adjust_ff_dim=True, tie_embedding=True)
    linear = {"full_attn_layers": [2], "kda_layers": [1, 3], "head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4}
    published = {"layer_types": ..., "mlp_layer_types": ..., "linear_head_dim": ..., "linear_num_heads": ...,
                 "linear_conv_kernel_dim": ...}
    ok["kimi_linear_published"] = changed(kimi, linear_attn_config=linear, first_k_dense_replace=1, **published)
    ok["bamba"] = {"model_type": "bamba", "vocab_size": 90, "hidden_size": 64, "intermediate_size": 56,
                   "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "attn_layer_indices": [1],
                   "mamba_n_heads": 8, "mamba_d_state": 12}
    qwen3 = GOLDEN["qwen3"]["config"]
    bad = {
        "list": [],
        "type": changed(qwen3, model_type="mamba"),
        "no_type": changed(qwen3, model_type=...),
        "layers": changed(qwen3, num_hidden_layers=5000),
        "no_layers": changed(qwen3, num_hidden_layers=0),
        "heads": changed(qwen3, num_attention_heads=0),
        "kv": changed(qwen3, num_key_value_heads=4),
        "width": changed(qwen3, hidden_size=1 << 40),
        "negative": changed(qwen3, vocab_size=-1),
        "fraction": changed(qwen3, hidden_size=60.5),
        "text": changed(qwen3, hidden_size="60"),
        "act": changed(qwen3, hidden_act="relu"),
        "rope": changed(qwen3, rope_parameters=..., rope_scaling={"rope_type": "dynamic", "factor": 2}),
        "theta": changed(qwen3, rope_parameters=..., rope_theta=0),
        "yarn": changed(llama, rope_scaling={"rope_type": "yarn", "factor": 0}),
        "longrope": changed(llama, rope_scaling={"rope_type": "longrope", "short_factor": [1], "long_factor": [1]}),
        "layer_types": changed(qwen3, use_sliding_window=True, layer_types=["full_attention"]),
        "experts": changed(GOLDEN["qwen3moe"]["config"], num_experts_per_tok=100),
        "delta_widths": changed(hybrid, linear_value_head_dim=16),
        "delta_heads": changed(hybrid, linear_num_value_heads=7),
        "delta_no_heads": changed(hybrid, linear_num_key_heads=0),
        "delta_conv": changed(hybrid, linear_conv_kernel_dim=0),
        "delta_layer_type": changed(hybrid, layer_types=["mamba", "full_attention", "linear_attention"]),
        "delta_one_kind": changed(hybrid, layer_types=["linear_attention"] * 3),
        "delta_interval": changed(hybrid, layer_types=..., full_attention_interval=-1),
        "delta_weights_of_experts": changed(experts, norm_topk_prob=False),
        "delta_some_dense": changed(experts, mlp_only_layers=[1]),
        "mamba2_expand": changed(mamba2, expand=3),
        "mamba2_heads": changed(mamba2, num_heads=0),
        "mamba2_conv": changed(mamba2, conv_kernel=0),
        "mamba2_groups": changed(mamba2, n_groups=4),
        "mamba2_steps": changed(mamba2, time_step_limit=[0.1, 5]),
        "mamba2_wide": changed(mamba2, num_heads=1 << 40, head_dim=1 << 40),
        "granitehybrid_kinds": changed(granite, layer_types=["mamba"] * 3),
        "granitehybrid_names": changed(granite, layer_types=["mamba", "conv", "mamba"]),
        "granitehybrid_width": changed(granite, mamba_d_head=10),
        "granitehybrid_positions": changed(granite, position_embedding_type="alibi"),
        "nemotron_h_pattern": changed(nemotron, hybrid_override_pattern="MM*-"),
        "nemotron_h_letters": changed(nemotron, layers_block_type=..., hybrid_override_pattern="M-*X"),
        "nemotron_h_layers": changed(nemotron, num_hidden_layers=5),
        "nemotron_h_no_layers": changed(nemotron, layers_block_type=...),
        "nemotron_h_mixed": changed(nemotron, layers_block_type=["mamba", "mlp", "attention", "moe"]),
        "nemotron_h_empty": changed(nemotron, layers_block_type=[]),
        "bamba_index": changed(ok["bamba"], attn_layer_indices=[3]),
        "bamba_rope": changed(ok["bamba"], partial_rotary_factor=0.25),
        "lfm2_indices": changed(lfm2, full_attn_idxs=[0]),
        "lfm2_index": changed(ok["lfm2_indices"], full_attn_idxs=[3]),
        "lfm2_no_layers": changed(lfm2, layer_types=...),
        "lfm2_multiple": changed(ok["lfm2_indices"], block_multiple_of=0),
        "lfm2_multiplier": changed(ok["lfm2_indices"], block_ffn_dim_multiplier=1e30),
        "lfm2_wide": changed(ok["lfm2_indices"], block_ff_dim=1 << 40, block_multiple_of=1 << 40),
        "lfm2moe_dense": changed(GOLDEN["lfm2moe"]["config"], num_dense_layers=3),
        "kimi_linear_twice": changed(ok["kimi_linear_published"], linear_attn_config={**linear, "kda_layers": [1, 2, 3]}),
        "kimi_linear_none": changed(ok["kimi_linear_published"], linear_attn_config={**linear, "kda_layers": [1]}),
        "kimi_linear_zero": changed(ok["kimi_linear_published"], linear_attn_config={**linear, "kda_layers": [0, 1, 3]}),
        "kimi_linear_lists": changed(kimi, linear_attn_config={**linear, "full_attn_layers": [1], "kda_layers": [2, 3]}),
        "kimi_linear_widths": changed(kimi, linear_attn_config={**linear, "head_dim": 16}),
        "kimi_linear_heads": changed(kimi, linear_num_heads=2),
        "kimi_linear_dense": changed(kimi, first_k_dense_replace=2),
        "kimi_linear_sparse": changed(kimi, mlp_layer_types=["sparse", "dense", "sparse"]),
        "kimi_linear_experts": changed(kimi, num_local_experts=8),
        "window": changed(GOLDEN["gemma3"]["config"], _sliding_window_pattern=0, layer_types=..., sliding_window=-1),
    }
    return ok, bad


# --- model.safetensors.index.json

def indices():
    def index(**files):
        return {"metadata": {"total_size": 1}, "weight_map": files}
    two = {"model.norm.weight": "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}
    ok = {"two": index(**two), "multimodal": index(**{"language_model.model.norm.weight": "a", "vision_tower.x": "b"})}
    bad = {"empty": {}, "no_files": index(), "list": {"weight_map": ["a"]}, "number": index(a=1), "up": index(a=".."),
           "here": index(a="."), "path": index(a="/etc/passwd"), "folder": index(a="../a"), "nul": index(a="b\0c"),
           "no_name": index(a="")}
    return ok, bad


# --- tokenizers

def printable():
    keep = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(0x100 + rest.index(b)) for b in range(256)]


def byte_level(pre, vocab, merges, added=(), **model):
    return {"added_tokens": [{"id": i, "content": c, "special": s} for i, c, s in added], "normalizer": None,
            "pre_tokenizer": pre, "post_processor": None,
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges, **model}}


BYTES = {"type": "ByteLevel", "add_prefix_space": False}
NO_REGEX = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
LETTERS = ["a", "b", "c", "\u0120", "ab", "\u0120ab"]
MERGES = ["a b", ["\u0120", "ab"]]


def cut_by(regex):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}, NO_REGEX]}


def template(*single):
    return {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A"}} if s is None else {"SpecialToken": {"id": s}} for s in single]}


def pieces(vocab, merges, **other):
    t = {"normalizer": {"type": "Sequence", "normalizers": [
             {"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]},
         "pre_tokenizer": None,
         "model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>",
                   "vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges}}
    return {**t, **other}


PIECES = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [MARK, "a", "b", "ab", MARK + "ab"]
PIECE_MERGES = [["a", "b"], [MARK, "ab"]]


def tokenizers():
    whole = byte_level(BYTES, printable() + LETTERS[4:], MERGES, [(258, "<|x|>", True), (259, "<y>", False)])
    small = byte_level(BYTES, LETTERS, MERGES)

    # Merges of one piece that are not together, which SentencePiece BPE cannot hold.
    gemma4 = pieces(PIECES + ["ba", "aba", "\n", "\n\n"], [["a", "b"], ["ab", "a"], ["b", "a"], ["a", "ba"], ["\n", "\n"]],
                    normalizer={"type": "Replace", "pattern": {"String": " "}, "content": MARK},
                    pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"})
    lines = {"type": "Split", "pattern": {"Regex": "\\n+"}, "behavior": "Isolated", "invert": False}

    def files(t, vocab=300, **more):
        return {"tokenizer.json": t, "vocab": vocab, **{name.replace("_json", ".json"): v for name, v in more.items()}}
    special = {"bos_token": "<|x|>", "eos_token": {"content": "<y>"}, "add_bos_token": True, "chat_template": "{{ x }}"}
    ok = {
        "bytes": files(whole),
        "small": files(small),
        "qwen2": files(byte_level(cut_by(QWEN2), printable() + LETTERS[4:], MERGES)),
        "smollm": files(byte_level({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, BYTES]}, LETTERS, MERGES)),
        "nfc": files({**small, "normalizer": {"type": "NFC"}}),
        "template": files({**whole, "post_processor": template("<|x|>", None, "<y>")}, tokenizer_config_json=special),
        "ids": files(whole, config_json={"bos_token_id": 1, "eos_token_id": [2, 3]},
                     generation_config_json={"eos_token_id": [2, 3, 4, 5]}, special_tokens_map_json=special),
        "pieces": files(pieces(PIECES, PIECE_MERGES)),
        "metaspace": files(pieces(PIECES, PIECE_MERGES, normalizer=None, pre_tokenizer={
            "type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False})),
        "pieces_added": files(pieces(PIECES, PIECE_MERGES, added_tokens=[{"id": 270, "content": "  "}])),
        "gemma4": files(gemma4, config_json={"model_type": "gemma4_text"}),
        "gemma4_lines": files({**gemma4, "pre_tokenizer": lines}, config_json={"model_type": "gemma4_text"}),
        "none": {"vocab": 10},
        "gap": files({**small, "model": {**small["model"], "vocab": {"a": 0, "b": 9, "ab": 5}, "merges": ["a b"]}}),
    }
    bad = {
        "empty": files({}),
        "type": files({**small, "model": {**small["model"], "type": "WordLevel"}}),
        "no_vocab": files(byte_level(BYTES, [], MERGES)),
        "no_merges": files({**small, "model": {"vocab": {"a": 0}}}),
        "many": files(small, vocab=3),
        "id": files({**small, "model": {**small["model"], "vocab": {"a": 16777215}}}),
        "id_negative": files({**small, "model": {**small["model"], "vocab": {"a": -1}}}),
        "id_twice": files({**small, "model": {**small["model"], "vocab": {"a": 0, "b": 0}}}),
        "merge_names": files(byte_level(BYTES, LETTERS, ["a c"])),
        "merge_one": files(byte_level(BYTES, LETTERS, ["ab"])),
        "merge_list": files(byte_level(BYTES, LETTERS, [["a", "b", "c"]])),
        "merge_number": files(byte_level(BYTES, LETTERS, [1])),
        "split": files(byte_level(cut_by("x+|y"), LETTERS, MERGES)),
        "split_empty": files(byte_level(cut_by(""), LETTERS, MERGES)),
        "split_bracket": files(byte_level(cut_by("("), LETTERS, MERGES)),
        "prefix": files(byte_level({**BYTES, "add_prefix_space": True}, LETTERS, MERGES)),
        "lower": files({**small, "normalizer": {"type": "Lowercase"}}),
        "added": files(byte_level(BYTES, LETTERS, MERGES, [(0, "z", False)])),
        "added_empty": files(byte_level(BYTES, LETTERS, MERGES, [(7, "", False)])),
        "template": files({**small, "post_processor": template("a", "b", None)}),
        "no_bytes": files(pieces(["<unk>", "a"], [], pre_tokenizer={"type": "Whitespace"})),
        "pieces_order": files(pieces(PIECES + ["ba"], PIECE_MERGES + [["b", "a"], ["a", "b"]])),
        "gemma4_prefix": files(pieces(PIECES, PIECE_MERGES), config_json={"model_type": "gemma4_text"}),
        "gemma4_merge": files({**gemma4, "model": {**gemma4["model"], "merges": [["a", "c"]]}},
                              config_json={"model_type": "gemma4_text"}),
        "pieces_lines": files({**gemma4, "pre_tokenizer": lines}),
        "decoder_id": {"vocab": 300, "tokenizer.model": "\n", "tokenizer_config.json": {"added_tokens_decoder": {"x": {}}}},
    }
    return ok, bad


def main():
    for kind, (ok, bad) in {"hf_config": configs(), "hf_index": indices(), "hf_tokenizer": tokenizers()}.items():
        folder = HERE / "corpus" / kind
        folder.mkdir(parents=True, exist_ok=True)
        for prefix, files in (("ok", ok), ("bad", bad)):
            for name, content in files.items():
                (folder / f"{prefix}_{name}.json").write_text(json.dumps(content, ensure_ascii=False))


if __name__ == "__main__":
    main()
