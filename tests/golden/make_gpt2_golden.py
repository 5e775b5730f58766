#!/usr/bin/env python3
"""Make the golden files of architecture `gpt2`: small models, and what PyTorch computes with them.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_gpt2_golden.py             # writes beside this script
  $PY tests/golden/make_gpt2_golden.py --out DIR                             # writes elsewhere

As make_llama_golden.py, from which all that is not GPT-2's own comes: for each shape NAME.model.gguf and NAME.golden.gguf,
computed in f64 from f32 weights by the model below.  Before anything is written the script asserts that transformers'
GPT2LMHeadModel in f64 has the same logits, loss and gradients, and llama.cpp the same logits from the file.

AdamW's epsilon is 1e-3 here.  Softmax does not see the bias of k, so its gradient is zero but for rounding; with 1e-8 the steps
would be lr * sign(rounding), and the bias after ten steps would say nothing.
"""
import argparse
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import gguf
import numpy as np
import torch
import torch.nn.functional as F

from make_llama_golden import B, T, check_file, check_llama_cpp, compute, finish, linear, report_f32, write_golden

ADAM_EPS = 1e-3
HF_TOLERANCE = 1e-10  # f64 throughout
# llama.cpp takes gelu from a table of f16: logits of rms 1 differ by 1e-3 to 3e-3.
LLAMA_CPP_TOLERANCE = 6e-3


class Shape(NamedTuple):
    name: str
    D: int
    H: int
    F: int
    V: int
    L: int
    context: int
    tied: bool
    eps: float
    seed: int
    dtype: str = "f32"
    adamw: bool = True


SHAPES = [
    Shape("gpt2_tied",   D=24, H=4, F=40, V=48, L=2, context=64, tied=True,  eps=1e-5, seed=1),
    # Odd widths (P = 5), an eps that cannot be mistaken, and not one position more than the batch has.
    Shape("gpt2_untied", D=15, H=3, F=33, V=31, L=3, context=T,  tied=False, eps=1e-2, seed=2),
]


# --- the model --------------------------------------------------------------------------------------------------------

def make_weights(s, rng):
    """Name -> f32 array, in the file's names and shapes."""
    def normal(scale, *shape):
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    w = {}

    def linear_map(name, rows, cols):
        w[name + ".weight"] = normal(1.3 / np.sqrt(cols), rows, cols)
        w[name + ".bias"] = normal(0.5, rows)

    def norm(name):
        w[name + ".weight"] = (1 + 0.3 * rng.standard_normal(s.D)).astype(np.float32)
        w[name + ".bias"] = normal(0.5, s.D)

    w["token_embd.weight"] = normal(1 / np.sqrt(s.D) if s.tied else 1, s.V, s.D)
    w["position_embd.weight"] = normal(0.15, s.context, s.D)
    for i in range(s.L):
        blk = f"blk.{i}."
        norm(blk + "attn_norm")
        linear_map(blk + "attn_qkv", 3 * s.D, s.D)
        linear_map(blk + "attn_output", s.D, s.D)
        norm(blk + "ffn_norm")
        linear_map(blk + "ffn_up", s.F, s.D)
        linear_map(blk + "ffn_down", s.D, s.F)
    norm("output_norm")
    if not s.tied:
        w["output.weight"] = normal(1.3 / np.sqrt(s.D), s.V, s.D)
    return w


def layer_norm(x, w, name, eps):
    centred = x - x.mean(-1, keepdim=True)
    return w[name + ".weight"] * centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) + w[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x ** 3)))


def attention(h, w, blk, s):
    """h: [B,T,D] -> [B,T,D].  Causal."""
    n_seq, n_tokens, _ = h.shape
    q, k, v = (t.view(n_seq, n_tokens, s.H, s.D // s.H) for t in linear(h, w, blk + "attn_qkv").split(s.D, -1))
    scores = torch.einsum("bihp,bjhp->bhij", q, k) / (s.D // s.H) ** 0.5
    future = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)
    prob = scores.masked_fill(future, float("-inf")).softmax(-1)
    return linear(torch.einsum("bhij,bjhp->bihp", prob, v).reshape(n_seq, n_tokens, s.D), w, blk + "attn_output")


def forward(tokens, w, s):
    """tokens: [B,T] -> logits [B*T,V].  Positions restart with every sequence."""
    x = w["token_embd.weight"][tokens] + w["position_embd.weight"][:tokens.shape[1]]
    for i in range(s.L):
        blk = f"blk.{i}."
        x = x + attention(layer_norm(x, w, blk + "attn_norm", s.eps), w, blk, s)
        up = linear(layer_norm(x, w, blk + "ffn_norm", s.eps), w, blk + "ffn_up")
        x = x + linear(gelu(up), w, blk + "ffn_down")
    head = w["token_embd.weight"] if s.tied else w["output.weight"]
    return (layer_norm(x, w, "output_norm", s.eps) @ head.T).reshape(-1, s.V)


# --- the other implementations ----------------------------------------------------------------------------------------

def hf_name(name):
    """File name -> GPT2LMHeadModel parameter name."""
    top = {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f",
           "output": "lm_head"}
    part = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
            "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
    *blk, kind, which = name.split(".")
    return f"transformer.h.{blk[1]}.{part[kind]}.{which}" if blk else f"{top[kind]}.{which}"


def to_hf(name, a):
    """transformers keeps these matrices as [inputs, outputs]."""
    return a.T if a.ndim == 2 and name.startswith("blk.") else a


def check_transformers(weights, s, tokens, targets, golden):
    """Asserts that transformers in f64 has the golden logits, loss and gradients.  Returns the largest difference."""
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(vocab_size=s.V, n_positions=s.context, n_embd=s.D, n_layer=s.L, n_head=s.H, n_inner=s.F,
                                       layer_norm_epsilon=s.eps, tie_word_embeddings=s.tied, resid_pdrop=0, embd_pdrop=0,
                                       attn_pdrop=0, bos_token_id=None, eos_token_id=None,
                                       attn_implementation="eager")).double().eval()
    params = dict(model.named_parameters())
    assert {hf_name(name) for name in weights} == set(params), "transformers has other parameters than the file"
    with torch.no_grad():
        for name, a in weights.items():
            params[hf_name(name)].copy_(torch.tensor(to_hf(name, a)))
    logits = model(input_ids=torch.tensor(tokens, dtype=torch.long), use_cache=False).logits.reshape(-1, s.V)
    loss = F.cross_entropy(logits, torch.tensor(targets, dtype=torch.long).reshape(-1))
    loss.backward()
    pairs = [("logits", logits.detach().numpy()), ("loss", loss.detach().reshape(1).numpy())]
    pairs += [("grad." + name, to_hf(name, params[hf_name(name)].grad.numpy())) for name in weights]
    worst = 0.0
    for name, theirs in pairs:
        difference = np.abs(golden[name] - theirs).max()
        assert difference < HF_TOLERANCE, f"{s.name}: {name} differs from transformers by {difference:.2e}"
        worst = max(worst, difference)
    return worst


# --- files ------------------------------------------------------------------------------------------------------------

def write_model(path, s, weights):
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_name(s.name)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_vocab_size(s.V)
    w.add_context_length(s.context)
    w.add_embedding_length(s.D)
    w.add_block_count(s.L)
    w.add_feed_forward_length(s.F)
    w.add_head_count(s.H)
    w.add_layer_norm_eps(s.eps)
    w.add_tokenizer_model("none")
    for name, a in weights.items():
        w.add_tensor(name, a)
    finish(w)


def make(s, out):
    rng = np.random.RandomState(s.seed)  # the legacy generator: its stream is frozen across numpy versions
    weights = make_weights(s, rng)
    ids = rng.randint(0, s.V, size=(B, T + 1)).astype(np.int32)
    tokens, targets = ids[:, :-1].copy(), ids[:, 1:].copy()
    golden = compute(weights, s, tokens, targets, torch.float64, forward, ADAM_EPS)
    hf = check_transformers(weights, s, tokens, targets, golden)
    model_name, golden_name = f"{s.name}.model.gguf", f"{s.name}.golden.gguf"
    with tempfile.TemporaryDirectory(dir=out) as scratch:  # nothing wrong is left beside the script
        scratch = pathlib.Path(scratch)
        write_model(scratch / model_name, s, weights)
        write_golden(scratch / golden_name, s, tokens, targets, golden, ADAM_EPS)
        check_file(scratch / model_name, weights)
        check_file(scratch / golden_name,
                   {"tokens": tokens, "targets": targets} | {n: a.astype(np.float32) for n, a in golden.items()})
        cpp = check_llama_cpp(scratch / model_name, s, tokens, golden, LLAMA_CPP_TOLERANCE)
        for name in (model_name, golden_name):
            os.replace(scratch / name, out / name)
    print(f"{s.name}: {sum(a.size for a in weights.values())} weights, logits rms {np.sqrt((golden['logits'] ** 2).mean()):.2f}, "
          f"loss {golden['adamw.losses'][0]:.4f} -> {golden['adamw.losses'][-1]:.4f}; from transformers {hf:.1e}, "
          f"from llama.cpp {cpp:.1e}")
    report_f32(golden, compute(weights, s, tokens, targets, torch.float32, forward, ADAM_EPS))
    for name in (model_name, golden_name):
        print(f"  {name}: {(out / name).stat().st_size} bytes")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to (default: beside this script)")
    a = ap.parse_args()
    torch.set_num_threads(1)  # one order of summation
    a.out.mkdir(parents=True, exist_ok=True)
    for s in SHAPES:
        make(s, a.out)


if __name__ == "__main__":
    main()
