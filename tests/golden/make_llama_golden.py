#!/usr/bin/env python3
"""Make the golden files of architecture `llama`: small models, and what PyTorch computes with them.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_llama_golden.py            # writes beside this script
  $PY tests/golden/make_llama_golden.py --out DIR                            # writes elsewhere

For each shape in SHAPES two GGUF files:

  NAME.model.gguf    a random model that llama.cpp loads (tokenizer "none"; not llama_qk_norm, llama_window)
  NAME.golden.gguf   its logits, loss and every gradient for one batch of B=3 sequences of T=17 tokens, and ten AdamW steps
                     where the shape says so; for models of narrow weights the logits alone

The model is written out below in plain PyTorch.  Weights are f32 values; everything is computed from them in f64 and
rounded once, to f32, when stored.  Moments and weights stay f64 throughout the ten steps.

Before anything is written the script asserts that
  - transformers' LlamaForCausalLM (with QK-norm: Qwen3ForCausalLM, with a window: MistralForCausalLM) gives the same logits and the same gradients (its rope
    pairs i with i + P/2, so the rows of q and k, of their biases and of their norms move; see `hf_rows`),
  - llama.cpp gives the same logits from NAME.model.gguf (in architecture llama it neither loads QK-norm nor heeds a window).
It also runs the same steps in f32 and prints the distance: what a correct f32 program may differ by.

Letters: B sequences, T tokens, D model width, H query heads, K kv heads, P head width, F ffn width, V vocabulary, L layers.
"""
import argparse
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peer"))

import gguf
import numpy as np
import torch
import torch.nn.functional as F

B, T, CONTEXT = 3, 17, 128
STEPS, LR, BETAS, ADAM_EPS, DECAY = 10, 1e-2, (0.9, 0.95), 1e-8, 0.1

# How far the three implementations may lie apart.  transformers computes norms and rope angles in f32 whatever the model's
# dtype, and llama.cpp computes all in f32; a structural mistake moves the logits (rms about 1) by more than 0.1.
HF_TOLERANCE = 5e-5
LLAMA_CPP_TOLERANCE = 1e-4
# llama.cpp rounds activations to the type of the weights before a product.
LLAMA_CPP_NARROW_TOLERANCE = {"f16": 3e-2, "bf16": 3e-1, "q8_0": 4e-1}

BIASED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class Shape(NamedTuple):
    name: str
    D: int
    H: int
    K: int
    P: int
    F: int
    V: int
    L: int
    tied: bool
    base: float
    eps: float
    seed: int
    biases: tuple = ()
    qk_norm: bool = False
    scaling: str = "none"  # none, linear, yarn: metadata; llama3: the tensor rope_freqs.weight
    factor: float = 1.0
    original: int = 0  # yarn, llama3: positions before scaling
    attn_factor: float = 1.0
    dtype: str = "f32"  # of the matrices
    adamw: bool = True
    window: int = 0  # keys that a query sees, its own with them; 0: all before it


# P >= 6 because at P = 4 the two orders of rope's rows cannot be told apart by direction; H*P != D everywhere.
# The seeds are the best conditioned of 1 to 8 for AdamW: its first steps are close to lr * sign(gradient), so one gradient
# element near zero (1e-8) makes an f32 program's weights differ by up to 1.5e-3 with other seeds; here by about 1e-6.
SHAPES = [
    Shape("llama_tied",   D=20, H=4, K=2, P=6,  F=28, V=48, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=2),
    Shape("llama_untied", D=24, H=6, K=2, P=8,  F=40, V=53, L=3, tied=False, base=500.0,   eps=1e-2, seed=8),
    Shape("llama_mqa",    D=16, H=3, K=1, P=10, F=33, V=31, L=2, tied=True,  base=10000.0, eps=1e-5, seed=2),
    Shape("llama_bias",   D=20, H=4, K=2, P=6,  F=28, V=48, L=2, tied=True,  base=500.0,   eps=1e-5, seed=4,
          biases=BIASED, scaling="llama3", factor=8.0, original=16),
    Shape("llama_qk_norm", D=16, H=4, K=2, P=6, F=24, V=31, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=7, qk_norm=True),
    Shape("llama_linear", D=16, H=9, K=3, P=6,  F=20, V=31, L=2, tied=False, base=500.0,   eps=1e-5, seed=1,
          scaling="linear", factor=4.0, adamw=False),
    Shape("llama_yarn10", D=12, H=10, K=2, P=10, F=20, V=31, L=2, tied=True, base=500.0,   eps=1e-5, seed=1,
          scaling="yarn", factor=4.0, original=32, adamw=False),
    Shape("llama_yarn24", D=12, H=3, K=1, P=24, F=20, V=31, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=1,
          biases=("attn_q", "attn_k", "attn_v"), scaling="yarn", factor=8.0, original=64, attn_factor=0.75, adamw=False),
    Shape("llama_window", D=20, H=4, K=2, P=6, F=28, V=31, L=2, tied=False, base=500.0,   eps=1e-5, seed=1, window=5,
          adamw=False),
    Shape("llama_f16",    D=16, H=6, K=2, P=8,  F=33, V=31, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=1, dtype="f16"),
    Shape("llama_bf16",   D=16, H=6, K=2, P=8,  F=33, V=31, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=2, dtype="bf16"),
    Shape("llama_q8_0",   D=32, H=4, K=2, P=8,  F=32, V=31, L=2, tied=True,  base=5000.0,  eps=1e-5, seed=1, dtype="q8_0"),
]


# --- the model --------------------------------------------------------------------------------------------------------

def make_weights(s, rng):
    """Name -> f32 array, in the file's names, shapes and row order; values are those of the stored type."""
    def matrix(rows, cols):
        return (1.3 / np.sqrt(cols) * rng.standard_normal((rows, cols))).astype(np.float32)

    def gain(width=s.D):
        return (1 + 0.3 * rng.standard_normal(width)).astype(np.float32)

    w = {}
    w["token_embd.weight"] = (rng.standard_normal((s.V, s.D)) / (np.sqrt(s.D) if s.tied else 1)).astype(np.float32)
    for i in range(s.L):
        w[f"blk.{i}.attn_norm.weight"] = gain()
        w[f"blk.{i}.attn_q.weight"] = matrix(s.H * s.P, s.D)
        w[f"blk.{i}.attn_k.weight"] = matrix(s.K * s.P, s.D)
        w[f"blk.{i}.attn_v.weight"] = matrix(s.K * s.P, s.D)
        w[f"blk.{i}.attn_output.weight"] = matrix(s.D, s.H * s.P)
        w[f"blk.{i}.ffn_norm.weight"] = gain()
        w[f"blk.{i}.ffn_gate.weight"] = matrix(s.F, s.D)
        w[f"blk.{i}.ffn_up.weight"] = matrix(s.F, s.D)
        w[f"blk.{i}.ffn_down.weight"] = matrix(s.D, s.F)
    w["output_norm.weight"] = gain()
    if not s.tied:
        w["output.weight"] = matrix(s.V, s.D)
    for i in range(s.L):  # after all else, so that models without these draw the same numbers as ever
        for name in s.biases:
            rows = len(w[f"blk.{i}.{name}.weight"])
            w[f"blk.{i}.{name}.bias"] = (0.5 * rng.standard_normal(rows)).astype(np.float32)
        if s.qk_norm:
            w[f"blk.{i}.attn_q_norm.weight"] = gain(s.P)
            w[f"blk.{i}.attn_k_norm.weight"] = gain(s.P)
    return {name: round_to(a, s.dtype) if a.ndim == 2 else a for name, a in w.items()}


def round_to(a, dtype):
    """What is left of f32 values that are stored as another type."""
    kind = gguf.GGMLQuantizationType[dtype.upper()]
    return gguf.quants.dequantize(gguf.quants.quantize(a, kind), kind).reshape(a.shape)


def rope_factors(s):
    """The tensor rope_freqs.weight [P/2] by which Llama 3's frequencies are divided (its low and high factors are 1 and 4)."""
    low, high = 1.0, 4.0
    factors = []
    for i in range(s.P // 2):
        wavelength = 2 * np.pi * s.base ** (2 * i / s.P)
        smooth = (s.original / wavelength - low) / (high - low)
        factors.append(1.0 if wavelength < s.original / high else s.factor if wavelength > s.original / low
                       else 1 / ((1 - smooth) / s.factor + smooth))
    return np.array(factors, np.float32)


def rope_turns(s):
    """Radians a position, one for each pair [P/2], and what cosines and sines are multiplied by."""
    i = torch.arange(s.P // 2, dtype=torch.float64)
    frequency = s.base ** (-2 * i / s.P)
    if s.scaling == "llama3":
        return frequency / torch.tensor(rope_factors(s), dtype=torch.float64), s.attn_factor
    if s.scaling == "linear":
        return frequency / s.factor, s.attn_factor
    if s.scaling == "yarn":  # Peng et al. 2023, with beta_fast 32 and beta_slow 1
        pair = [s.P * np.log(s.original / (2 * np.pi * turns)) / (2 * np.log(s.base)) for turns in (32, 1)]
        lo, hi = max(0, np.floor(pair[0])), min(s.P - 1, np.ceil(pair[1]))
        keep = 1 - ((i - lo) / max(0.001, hi - lo)).clamp(0, 1)
        return frequency * (keep + (1 - keep) / s.factor), s.attn_factor * (0.1 * np.log(s.factor) + 1)
    return frequency, s.attn_factor


def rms_norm(x, w, eps):
    return w * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def linear(h, w, name):
    y = h @ w[name + ".weight"].T
    return y + w[name + ".bias"] if name + ".bias" in w else y


def rope(x, s):
    """x: [B,T,heads,P].  Element 2i turns with 2i+1."""
    frequency, magnitude = rope_turns(s)
    position = torch.arange(x.shape[1], dtype=torch.float64)
    angle = torch.outer(position, frequency)[None, :, None, :]
    cos, sin = (magnitude * angle.cos()).to(x.dtype), (magnitude * angle.sin()).to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def attention(h, w, blk, s):
    """h: [B,T,D] -> [B,T,D].  Causal, and within the window; query head h reads kv head h div (H/K)."""
    n_seq, n_tokens, _ = h.shape
    q = linear(h, w, blk + "attn_q").view(n_seq, n_tokens, s.H, s.P)
    k = linear(h, w, blk + "attn_k").view(n_seq, n_tokens, s.K, s.P)
    v = linear(h, w, blk + "attn_v").view(n_seq, n_tokens, s.K, s.P)
    if s.qk_norm:
        q, k = rms_norm(q, w[blk + "attn_q_norm.weight"], s.eps), rms_norm(k, w[blk + "attn_k_norm.weight"], s.eps)
    q, k = rope(q, s), rope(k, s)
    k, v = (t.repeat_interleave(s.H // s.K, dim=2) for t in (k, v))
    scores = torch.einsum("bihp,bjhp->bhij", q, k) / s.P ** 0.5
    everywhere = torch.ones(n_tokens, n_tokens, dtype=torch.bool)
    unseen = everywhere.triu(1) | (everywhere.tril(-s.window) if s.window else ~everywhere)
    prob = scores.masked_fill(unseen, float("-inf")).softmax(-1)
    out = torch.einsum("bhij,bjhp->bihp", prob, v).reshape(n_seq, n_tokens, s.H * s.P)
    return linear(out, w, blk + "attn_output")


def ffn(h, w, blk):
    return linear(F.silu(linear(h, w, blk + "ffn_gate")) * linear(h, w, blk + "ffn_up"), w, blk + "ffn_down")


def forward(tokens, w, s):
    """tokens: [B,T] -> logits [B*T,V].  Positions restart with every sequence."""
    x = w["token_embd.weight"][tokens]
    for i in range(s.L):
        blk = f"blk.{i}."
        x = x + attention(rms_norm(x, w[blk + "attn_norm.weight"], s.eps), w, blk, s)
        x = x + ffn(rms_norm(x, w[blk + "ffn_norm.weight"], s.eps), w, blk)
    x = rms_norm(x, w["output_norm.weight"], s.eps)
    head = w["token_embd.weight"] if s.tied else w["output.weight"]
    return (x @ head.T).reshape(-1, s.V)


# --- what is recorded -------------------------------------------------------------------------------------------------

def compute(weights, s, tokens, targets, dtype, forward=forward, adam_eps=ADAM_EPS):
    """All golden values, in `dtype`: logits; of f32 models also loss, grad.*; and where the shape says so adamw.*."""
    w = {name: torch.tensor(a, dtype=dtype, requires_grad=True) for name, a in weights.items()}
    tokens, targets = torch.tensor(tokens, dtype=torch.long), torch.tensor(targets, dtype=torch.long)

    def loss_of(logits):
        return F.cross_entropy(logits, targets.reshape(-1))

    logits = forward(tokens, w, s)
    if s.dtype != "f32":
        return {"logits": logits.detach().numpy()}
    loss = loss_of(logits)
    grads = torch.autograd.grad(loss, list(w.values()))
    out = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    out |= {"grad." + name: g for name, g in zip(w, grads)}

    if not s.adamw:
        return {name: t.numpy() for name, t in out.items()}
    groups = [{"params": [p for p in w.values() if p.ndim >= 2], "weight_decay": DECAY},
              {"params": [p for p in w.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=adam_eps, foreach=False)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        step_loss = loss_of(forward(tokens, w, s))
        step_loss.backward()
        losses.append(step_loss.item())
        optimizer.step()
    out["adamw.losses"] = torch.tensor(losses, dtype=dtype)
    out |= {"adamw." + name: p.detach() for name, p in w.items()}
    return {name: t.numpy() for name, t in out.items()}


# --- the other implementations ----------------------------------------------------------------------------------------

def hf_rows(a, heads):
    """Rows of q or k from the file's order (2i+b in each head) to Hugging Face's (b*P/2 + i)."""
    return a.reshape(heads, -1, 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def hf_name(name):
    """File name -> LlamaForCausalLM parameter name."""
    top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
           "output.weight": "lm_head.weight"}
    part = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    if name in top:
        return top[name]
    _, layer, kind, which = name.split(".")
    return f"model.layers.{layer}.{part[kind]}.{which}"


def hf_rope(s):
    rope = {"rope_theta": s.base, "rope_type": "default" if s.scaling == "none" else s.scaling}
    if s.scaling != "none":
        rope["factor"] = s.factor
    if s.original:
        rope["original_max_position_embeddings"] = s.original
    if s.scaling == "llama3":
        rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    if s.attn_factor != 1:
        rope["attention_factor"] = rope_turns(s)[1]
    return rope


def hf_model(s):
    """A model of transformers that has what the shape asks for; its weights are still to be set."""
    from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen3Config,
                              Qwen3ForCausalLM)
    make_config, make_model = ((Qwen3Config, Qwen3ForCausalLM) if s.qk_norm else
                               (MistralConfig, MistralForCausalLM) if s.window else (LlamaConfig, LlamaForCausalLM))
    config = make_config(vocab_size=s.V, hidden_size=s.D, intermediate_size=s.F, num_hidden_layers=s.L,
                         num_attention_heads=1, num_key_value_heads=s.K, head_dim=s.P, rms_norm_eps=s.eps,
                         max_position_embeddings=CONTEXT, tie_word_embeddings=s.tied, attn_implementation="sdpa",
                         attention_bias="attn_q" in s.biases, rope_parameters=hf_rope(s))
    if s.window:
        config.sliding_window = s.window
    config.mlp_bias = "ffn_gate" in s.biases
    # Set afterwards: the constructor refuses a D that H does not divide (llama_mqa), the model itself uses head_dim only.
    config.num_attention_heads = s.H
    model = make_model(config).double().eval()
    if "attn_q" in s.biases and "attn_output" not in s.biases:  # transformers has all four or none
        for layer in model.model.layers:
            layer.self_attn.o_proj.register_parameter("bias", None)
    return model


def check_transformers(weights, s, tokens, targets, golden):
    """Asserts that transformers in f64 has the golden logits, loss and gradients.  Returns the largest difference."""
    model = hf_model(s)
    params = dict(model.named_parameters())
    assert {hf_name(name) for name in weights} == set(params), "transformers has other parameters than the file"

    def to_hf(name, a):
        heads = s.H if "attn_q." in name else s.K if "attn_k." in name else 1 if "_norm." in name and len(a) == s.P else None
        return hf_rows(a, heads) if heads else a

    with torch.no_grad():
        for name, a in weights.items():
            p = params[hf_name(name)]
            assert tuple(p.shape) == a.shape, f"{name}: shape {a.shape}, transformers has {tuple(p.shape)}"
            p.copy_(torch.tensor(to_hf(name, a)))
    logits = model(input_ids=torch.tensor(tokens, dtype=torch.long), use_cache=False).logits.reshape(-1, s.V)
    loss = F.cross_entropy(logits, torch.tensor(targets, dtype=torch.long).reshape(-1))
    loss.backward()

    worst = 0.0
    pairs = [("logits", logits.detach().numpy()), ("loss", loss.detach().reshape(1).numpy())]
    pairs += [("grad." + name, params[hf_name(name)].grad.numpy()) for name in weights]
    for name, theirs in (p for p in pairs if p[0] in golden):
        ours = to_hf(name, golden[name])
        difference = np.abs(ours - theirs).max()
        assert difference < HF_TOLERANCE, f"{s.name}: {name} differs from transformers by {difference:.2e}"
        worst = max(worst, difference)
    return worst


def check_llama_cpp(path, s, tokens, golden, tolerance=None):
    """Asserts that llama.cpp computes the golden logits of every sequence from the model file.  Returns the largest difference."""
    from llama_cpp_greedy import LlamaCpp
    model = LlamaCpp(path, n_ctx=64)
    worst = 0.0
    for b, ids in enumerate(tokens.tolist()):
        logits = model.logits(ids)
        assert logits.shape == (T, s.V), f"{path.name}: llama.cpp gives logits {logits.shape}"
        worst = max(worst, np.abs(logits - golden["logits"].reshape(B, T, s.V)[b]).max())
    tolerance = tolerance or LLAMA_CPP_NARROW_TOLERANCE.get(s.dtype, LLAMA_CPP_TOLERANCE)
    assert worst < tolerance, f"{path.name}: logits differ from llama.cpp by {worst:.2e}"
    return worst


# --- files ------------------------------------------------------------------------------------------------------------

def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(path, s, weights, matrices=None):
    """`matrices`: a type of ggml to store them in (default: the shape's own)."""
    w = gguf.GGUFWriter(path, "llama")  # numpy shape [rows, cols]; the writer stores it innermost first
    w.add_name(s.name)
    w.add_file_type({"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
                     "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[matrices or s.dtype])
    w.add_vocab_size(s.V)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(s.D)
    w.add_block_count(s.L)
    w.add_feed_forward_length(s.F)
    w.add_head_count(s.H)
    w.add_head_count_kv(s.K)
    w.add_key_length(s.P)
    w.add_value_length(s.P)
    w.add_layer_norm_rms_eps(s.eps)
    w.add_rope_dimension_count(s.P)
    w.add_rope_freq_base(s.base)
    if s.scaling in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(s.scaling))
        w.add_rope_scaling_factor(s.factor)
    if s.scaling == "yarn":
        w.add_rope_scaling_orig_ctx_len(s.original)
    if s.window:
        w.add_sliding_window(s.window)
    if s.attn_factor != 1:
        w.add_rope_scaling_attn_factors(s.attn_factor)
    w.add_tokenizer_model("none")
    if s.scaling == "llama3":
        w.add_tensor("rope_freqs.weight", rope_factors(s))
    kind = gguf.GGMLQuantizationType[(matrices or s.dtype).upper()]
    for name, a in weights.items():
        if a.ndim == 2 and kind != gguf.GGMLQuantizationType.F32:
            w.add_tensor(name, gguf.quants.quantize(a, kind), raw_dtype=kind)
        else:
            w.add_tensor(name, a)
    finish(w)


def write_golden(path, s, tokens, targets, golden, adam_eps=ADAM_EPS):
    w = gguf.GGUFWriter(path, "golden")
    w.add_name(s.name)
    w.add_description("what PyTorch computes in f64 from " + s.name + ".model.gguf")
    if s.adamw and s.dtype == "f32":
        w.add_uint32("golden.adamw.steps", STEPS)
        for key, value in [("lr", LR), ("beta1", BETAS[0]), ("beta2", BETAS[1]), ("eps", adam_eps), ("weight_decay", DECAY)]:
            w.add_float32("golden.adamw." + key, value)
    w.add_tensor("tokens", tokens)
    w.add_tensor("targets", targets)
    for name, a in golden.items():
        w.add_tensor(name, a.astype(np.float32))
    finish(w)


def check_file(path, expected):
    """Asserts that a file holds exactly these tensors, bit for bit (narrow ones: equal as f32)."""
    found = {t.name: t for t in gguf.GGUFReader(path).tensors if t.name != "rope_freqs.weight"}
    assert list(found) == list(expected), f"{path.name}: other tensors than expected"
    for name, a in expected.items():
        t = found[name]
        assert tuple(reversed(t.shape.tolist())) == a.shape, f"{path.name}: {name} has shape {t.shape}"
        data = t.data if t.data.dtype == a.dtype else gguf.quants.dequantize(t.data, t.tensor_type)
        assert data.dtype == a.dtype and np.array_equal(data.reshape(a.shape), a), f"{path.name}: {name} differs"
        assert np.isfinite(a).all(), f"{path.name}: {name} is not finite"


def report_f32(golden, single):
    """Prints how far the same computation in f32 lies from the golden values, per group of tensors."""
    groups = {"logits": ["logits"], "loss": ["loss"], "grad.*": [n for n in golden if n.startswith("grad.")],
              "adamw.losses": ["adamw.losses"],
              "adamw.*": [n for n in golden if n.startswith("adamw.") and n != "adamw.losses"]}
    print("  f32 - f64: " + ", ".join(
        f"{group} {max(np.abs(golden[n] - single[n]).max() for n in names):.1e}" for group, names in groups.items()
        if names and names[0] in golden))


def make(s, out):
    rng = np.random.RandomState(s.seed)  # the legacy generator: its stream is frozen across numpy versions
    weights = make_weights(s, rng)
    ids = rng.randint(0, s.V, size=(B, T + 1)).astype(np.int32)
    tokens, targets = ids[:, :-1].copy(), ids[:, 1:].copy()
    golden = compute(weights, s, tokens, targets, torch.float64)
    hf = check_transformers(weights, s, tokens, targets, golden)

    model_path, golden_path = out / f"{s.name}.model.gguf", out / f"{s.name}.golden.gguf"
    with tempfile.TemporaryDirectory(dir=out) as scratch:  # nothing wrong is left beside the script
        for path, write, args in [(model_path, write_model, (weights,)), (golden_path, write_golden, (tokens, targets, golden))]:
            write(pathlib.Path(scratch) / path.name, s, *args)
        check_file(pathlib.Path(scratch) / model_path.name, weights)
        check_file(pathlib.Path(scratch) / golden_path.name,
                   {"tokens": tokens, "targets": targets} | {n: a.astype(np.float32) for n, a in golden.items()})
        cpp = None if s.qk_norm or s.window else check_llama_cpp(pathlib.Path(scratch) / model_path.name, s, tokens, golden)
        for path in (model_path, golden_path):
            os.replace(pathlib.Path(scratch) / path.name, path)

    losses = f"loss {golden['adamw.losses'][0]:.4f} -> {golden['adamw.losses'][-1]:.4f}; " if "adamw.losses" in golden else ""
    print(f"{s.name}: {sum(a.size for a in weights.values())} weights, logits rms {np.sqrt((golden['logits'] ** 2).mean()):.2f}, "
          f"{losses}from transformers {hf:.1e}, from llama.cpp {'-' if cpp is None else format(cpp, '.1e')}")
    report_f32(golden, compute(weights, s, tokens, targets, torch.float32))
    for path in (model_path, golden_path):
        print(f"  {path.name}: {path.stat().st_size} bytes")


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
