#!/usr/bin/env python3
"""Compare `toy convert` with transformers and llama.cpp, for every family of tests/golden/make_family_golden.py and
make_hybrid_golden.py, the text parts of multimodal models, and classes that become another family's file.

  PY=$(scripts/peers.sh) && $PY tests/peer/hf_folder.py --toy build/release/toy [--only qwen2,gemma3]

transformers writes a folder with save_pretrained; `toy convert` makes a GGUF of it; `toy infer` must give transformers'
log probabilities, and llama.cpp must load the file and give them, too. `toy convert` makes a folder of the GGUF again;
transformers must load it, with the same logits. The same for tokenizers: ids of texts.

Exit code 0: equal. 1: a difference.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "golden"))

import make_family_golden as golden  # noqa: E402
import make_gemma4_tokenizer_golden as gemma4_golden
import make_hybrid_golden as hybrid
import numpy as np
import tokenizers as tk
import torch
import transformers as hf
from llama_cpp_greedy import LlamaCpp

TOLERANCE = 3e-4  # of log probabilities; all compute in f32
IDS = [79, 11, 9, 23, 45, 0, 88, 3, 17, 52, 60, 61, 5, 30, 31, 7] * 5  # beyond windows of 32


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def logprobs_of(logits):
    return torch.log_softmax(torch.as_tensor(logits).double(), -1).numpy()


def of_transformers(model, ids):
    with torch.no_grad():
        return logprobs_of(model(torch.tensor([ids])).logits[0, -1])


def of_toy(toy, gguf, ids, *options):
    answer = json.loads(run(toy, "infer", gguf, *options, "--prompt-ids", ",".join(map(str, ids)), "--n", 1, "--temperature", 0, "--json", "--kv", "f32",
                            "--exact", "--temperature", 0, "--ignore-eos", "--top-logprobs", 1 << 20))
    out = np.full(len(answer["top_logprobs"][0]), np.nan)
    for token in answer["top_logprobs"][0]:
        out[token["id"]] = token["logprob"]
    return out


def of_llama_cpp(gguf, ids):
    model = LlamaCpp(gguf, n_ctx=len(ids))
    out = logprobs_of(model.logits(ids)[-1])
    model.close()
    return out


def differ(name, what, got, want, tolerance=TOLERANCE):
    d = np.abs(got - want).max()
    if not d <= tolerance:
        sys.exit(f"{name}: {what} differs by {d:.2e}, more than {tolerance:g}")
    return f"{what} {d:.1e}"


def check_model(a, name, model, folder, tolerance_of_llama_cpp, as_llama_cpp):
    """There and back. `as_llama_cpp`: the model that llama.cpp computes."""
    ids = IDS
    want = of_transformers(model, ids)
    gguf, back = folder / "model.gguf", folder / "back"
    run(a.toy, "convert", folder / "hf", gguf)
    found = [differ(name, "toy", of_toy(a.toy, gguf, ids), want),
             differ(name, "llama.cpp", of_llama_cpp(gguf, ids), of_transformers(as_llama_cpp, ids), tolerance_of_llama_cpp)]
    run(a.toy, "convert", gguf, back)
    again, info = hf.AutoModelForCausalLM.from_pretrained(back, attn_implementation="eager", dtype="auto",
                                                          experts_implementation="eager",
                                                          output_loading_info=True)
    left = {k: v for k, v in info.items() if v}
    if left:
        sys.exit(f"{name}: transformers loads what toy wrote with {left}")
    found.append(differ(name, "back in transformers", of_transformers(again.eval(), ids), want, 1e-5))
    print(f"{name}: {', '.join(found)}", flush=True)


def family_model(family):
    w = {n: torch.tensor(v) for n, v in golden.weights_of(family.shapes()).items()}
    model = getattr(hf, family.model_class or family.model + "ForCausalLM")(family.hf_config()).eval()
    parameters = {n: torch.as_tensor(v) for n, v in family.parameters(w).items()}
    left = model.load_state_dict(parameters, strict=False)
    assert not left.unexpected_keys, left
    return model


def multimodal_gemma3():
    """The text part is the family's; what sees pictures is left out of a GGUF."""
    family = next(f for f in golden.FAMILIES if f.name == "gemma3")
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
    config = hf.Gemma3Config(text_config=family.hf_config().to_dict(), vision_config=vision, mm_tokens_per_image=4,
                             attn_implementation="eager", image_token_index=family.V - 1, boi_token_index=family.V - 2,
                             eoi_token_index=family.V - 3)
    model = hf.Gemma3ForConditionalGeneration(config).eval()
    text = family_model(family)
    model.model.language_model.load_state_dict(text.model.state_dict())
    return model


def multimodal_qwen35(name):
    """The same of Qwen3.5, dense or with experts."""
    family = next(f for f in hybrid.FAMILIES if f.name == name)
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=family.D, patch_size=2,
                  num_position_embeddings=16)
    config = getattr(hf, family.model + "Config")(text_config=family.hf_config().to_dict(), vision_config=vision,
                                                  attn_implementation="eager", tie_word_embeddings=family.tied)
    model = getattr(hf, family.model + "ForConditionalGeneration")(config).eval()
    text = family_model(family)
    model.model.language_model.load_state_dict(text.model.state_dict())
    model.lm_head.load_state_dict(text.lm_head.state_dict())
    return model


def scattered(model):
    """Else all logits are nearly equal, and an order of rows makes no difference."""
    for parameter in model.parameters():
        parameter.data = parameter.data * 5 if parameter.ndim > 1 else parameter.data + torch.randn_like(parameter) / 5
    return model


def dense_qwen3next():
    """What a GGUF of Qwen3-Next cannot be: it becomes one of Qwen3.5."""
    config = hybrid.Qwen3Next("qwen3next").hf_config()
    config.mlp_only_layers = list(range(config.num_hidden_layers))
    torch.manual_seed(1)
    model = hf.Qwen3NextForCausalLM(config).eval()
    return scattered(model)


def bamba():
    """A GGUF of granitehybrid in which half of each head turns."""
    torch.manual_seed(2)
    return scattered(hf.BambaForCausalLM(hf.BambaConfig(
        vocab_size=90, hidden_size=64, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=12,
        mamba_chunk_size=32, max_position_embeddings=512, rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        pad_token_id=0, attn_implementation="eager")).eval())


def granitehybrid_without_mamba():
    """As small Granite 4 are: in a GGUF a Granite."""
    config = hybrid.GraniteHybrid("granitehybrid", E=0, U=0, F=56, shared=56, rope=True).hf_config()
    config.layer_types = ["full_attention"] * config.num_hidden_layers
    torch.manual_seed(3)
    return scattered(hf.GraniteMoeHybridForCausalLM(config).eval())


# --- tokenizers

def cut_by(regex):
    return tk.pre_tokenizers.Sequence([tk.pre_tokenizers.Split(tk.Regex(regex), "isolated"),
                                       tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")


def byte_level(pre, corpus, ignore_merges=False):
    t = tk.Tokenizer(tk.models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre, tk.decoders.ByteLevel()
    t.train_from_iterator([corpus], tk.trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|begin|>", "<|im_end|>"], initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return t


def sentencepiece(corpus, prefix):
    """As Llama's."""
    mark = "\u2581"
    t = tk.Tokenizer(tk.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    replace = tk.normalizers.Replace(" ", mark)
    t.normalizer = tk.normalizers.Sequence([tk.normalizers.Prepend(mark), replace]) if prefix else replace
    steps = [tk.decoders.Replace(mark, " "), tk.decoders.ByteFallback(), tk.decoders.Fuse()]
    t.decoder = tk.decoders.Sequence(steps + ([tk.decoders.Strip(" ", 1, 0)] if prefix else []))
    special = ["<unk>", "<|begin|>", "<|im_end|>"] + [f"<0x{b:02X}>" for b in range(256)]
    words = corpus.replace(" ", f"\n{mark}").split("\n")  # SentencePiece learns within words
    trained = tk.Tokenizer(tk.models.BPE())
    trained.train_from_iterator(words, tk.trainers.BpeTrainer(vocab_size=400, special_tokens=special[:3], show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = [p for p, _ in sorted(model["vocab"].items(), key=lambda x: x[1]) if p not in special]
    vocab = {p: i for i, p in enumerate(special + pieces)}
    # The merges as SentencePiece's converter lists them: every way to make a piece, those of the first piece first.
    merges = []
    for p in pieces:
        merges += [(p[:i], p[i:]) for i in range(1, len(p)) if p[:i] in vocab and p[i:] in vocab]
    t.model = tk.models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    t.add_special_tokens(["<unk>", "<|begin|>", "<|im_end|>"])
    return t


def gemma4(corpus, added=()):
    t = gemma4_golden.gemma4([corpus], 1500, 150)
    t.add_tokens([tk.AddedToken(text, normalized=normalized) for text, normalized in added])
    return add_bos(t, "<bos>")


def add_bos(t, bos="<|begin|>"):
    t.post_processor = tk.processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])
    return t


def texts_of(corpus):
    rnd = random.Random(1)
    kinds = [lambda: rnd.randrange(32, 127), lambda: rnd.randrange(0x80, 0x2000), lambda: rnd.randrange(0x3000, 0x9fff),
             lambda: 0x20, lambda: 0x0a]
    return [corpus[:2000], "Hello  world's 12345 \u00e9\u6f22\u5b57\n\n \t x", "  leading", "a\r\nb 'S 'll  "] + [
        "".join(chr(rnd.choice(kinds)()) for _ in range(40)) for _ in range(40)]


def check_tokenizer(a, name, t, texts, folder):
    dimensions = dict(vocab_size=t.get_vocab_size() + 7, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                      num_attention_heads=2, num_key_value_heads=1)
    is_gemma4 = name.startswith("gemma4")
    if is_gemma4:
        config = hf.Gemma4TextConfig(**dimensions, head_dim=8, global_head_dim=8, hidden_size_per_layer_input=0,
                                     num_kv_shared_layers=0, layer_types=["full_attention"])
        hf.Gemma4ForCausalLM(config).save_pretrained(folder / "hf")
    else:
        hf.Qwen2ForCausalLM(hf.Qwen2Config(**dimensions)).save_pretrained(folder / "hf")
    bos, eos = ("<bos>", "<eos>") if is_gemma4 else ("<|begin|>", "<|im_end|>")
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=t, bos_token=bos, eos_token=eos)
    fast.chat_template = "{{ messages[0].content }}"
    fast.save_pretrained(folder / "hf")
    run(a.toy, "convert", folder / "hf", folder / "model.gguf")
    run(a.toy, "convert", folder / "model.gguf", folder / "back")
    back = hf.PreTrainedTokenizerFast.from_pretrained(folder / "back")  # AutoTokenizer makes every one of a Qwen 2 Qwen's
    if back.chat_template != fast.chat_template:
        sys.exit(f"{name}: the chat template became {back.chat_template!r}")
    llama_cpp = LlamaCpp(folder / "model.gguf", vocab_only=True) if is_gemma4 else None
    for text in texts:
        (folder / "text").write_bytes(text.encode())
        want = t.encode(text, add_special_tokens=False).ids
        got = json.loads(run(a.toy, "tokenizer", "encode", folder / "model.gguf", "--file", folder / "text", "--no-bos",
                             "--json"))
        if got != want:
            sys.exit(f"{name}: {text!r} is {want} in tokenizers and {got} in toy")
        if llama_cpp and llama_cpp.tokenize(text) != want:
            sys.exit(f"{name}: {text!r} is {want} in tokenizers and {llama_cpp.tokenize(text)} in llama.cpp")
        for special in (False, True):
            want = t.encode(text, add_special_tokens=special).ids
            got = back(text, add_special_tokens=special).input_ids
            if got != want:
                sys.exit(f"{name}: {text!r} is {want}, and {got} with what toy wrote")
        if back.decode(want, skip_special_tokens=True) != fast.decode(want, skip_special_tokens=True):
            sys.exit(f"{name}: {text!r} decodes to another text with what toy wrote")
    print(f"{name}: ids of {len(texts)} texts are equal", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--toy", required=True)
    ap.add_argument("--only", default="", help="names, comma separated")
    a = ap.parse_args()
    hf.utils.logging.disable_progress_bar()
    only = set(filter(None, a.only.split(",")))

    def each(named):
        for name, make in named.items():
            if not only or name in only:
                with tempfile.TemporaryDirectory() as scratch:
                    yield name, make(), pathlib.Path(scratch)

    families = {f.name: f for f in golden.FAMILIES + hybrid.FAMILIES}
    makers = {n: lambda f=f: family_model(f) for n, f in families.items()} | {
        "gemma3 multimodal": multimodal_gemma3, "qwen35 multimodal": lambda: multimodal_qwen35("qwen35"),
        "qwen35moe multimodal": lambda: multimodal_qwen35("qwen35moe"), "qwen3next dense": dense_qwen3next,
        "granitehybrid bamba": bamba, "granitehybrid without mamba": granitehybrid_without_mamba}
    for name, model, folder in each(makers):
        # Several files, as of large models.
        model.save_pretrained(folder / "hf", max_shard_size="200KB")
        family = families[name.split()[0]]
        other = family.of_llama_cpp()
        check_model(a, name, model, folder, other.tolerance, model if other is family else family_model(other))
    corpus = (HERE.parent.parent / "README.md").read_text()
    digits = tk.pre_tokenizers.Sequence([tk.pre_tokenizers.Digits(individual_digits=True),
                                         tk.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    kinds = {"bpe gpt-2": lambda: byte_level(tk.pre_tokenizers.ByteLevel(add_prefix_space=False), corpus),
             "bpe llama-bpe": lambda: add_bos(byte_level(cut_by(LLAMA3), corpus, ignore_merges=True)),
             "bpe qwen2": lambda: byte_level(cut_by(QWEN2), corpus),
             "bpe qwen35": lambda: byte_level(cut_by(QWEN35), corpus),
             "bpe smollm": lambda: byte_level(digits, corpus),
             "spm": lambda: add_bos(sentencepiece(corpus, True)),
             "spm without a space in front": lambda: sentencepiece(corpus, False),
             "gemma4 tokenizer": lambda: gemma4(corpus),
             "gemma4 tokenizer with added ones": lambda: gemma4(corpus, [("\u2581\u2581", True), ("\n\n", False), ("toy", False),
                                                                         ("\u2581the", False), ("<unused0>", False)])}
    for name, tokenizer, folder in each(kinds):
        check_tokenizer(a, name, tokenizer, texts_of(corpus), folder)


if __name__ == "__main__":
    main()
