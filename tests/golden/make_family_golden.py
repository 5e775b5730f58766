#!/usr/bin/env python3
"""Make the golden files of the model families: what transformers computes with small random models.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_family_golden.py              # all, beside this script
  $PY tests/golden/make_family_golden.py --only gemma2,qwen3 --out DIR

FAMILY.family.gguf holds the metadata that llama.cpp's converter writes for a model, the names and shapes of its tensors, and
results; the weights follow from a formula (`weights_of`), so that the file is small. See README.md beside this script.

transformers computes in f64: `in_f64` makes f64 of what it otherwise computes in f32 whatever the dtype (norms, rope, softmax).
The parameters that it gets are functions of the file's tensors, so its gradients are those of the file's tensors.

Before anything is written, llama.cpp reads the same model from a complete file and must compute the same logits.

Letters: D model width, H query heads, K kv heads, P head width, F ffn width, V vocabulary, L layers, E experts.
"""
import argparse
import contextlib
import math
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peer"))

import gguf
import numpy as np
import torch
import transformers as hf

CONTEXT = 512
LONG, SHORT = 300, 64          # tokens of the sequence; of them, those of the loss
ROWS = [*range(8), 15, 30, 31, 32, 33, 62, 63, 64, 65, 80, 100, 127, 128, 129, 192, 255, 256, 257, 298, 299]
STEPS = 10
ADAMW = {"lr": 2e-4, "betas": (0.9, 0.95), "eps": 1e-2, "weight_decay": 0.0}
PROJECTIONS = 4                # numbers that stand for the gradient of one tensor
BASE = 5000.0
EPS = float(np.float32(2e-3))  # cannot be mistaken for a usual one

# How far llama.cpp may be: all in f32, logits of rms 1 to 2. It takes gelu from a table of f16.
EXACT, GELU_TABLE = 2e-4, 2e-2


# --- weights ----------------------------------------------------------------------------------------------------------

def hashes(name, n):
    """n numbers of 64 bits that depend on the name: splitmix64 from the FNV-1a hash of the name."""
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001b3) % 2**64
    z = np.uint64(h) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return z ^ (z >> np.uint64(31))


def uniform(name, n):
    """n f64 numbers in [-0.5, 0.5), multiples of 2^-24."""
    return (hashes(name, n) >> np.uint64(40)).astype(np.float64) * 2.0**-24 - 0.5


def spread(name, shape):
    """What a tensor is like: its mean, and the width of the interval of its values."""
    sigma, mean = 1.3 / math.sqrt(shape[-1]), 0.0
    if name == "token_embd.weight":
        sigma = 1 / math.sqrt(shape[-1])
    elif name.endswith("norm.weight"):
        sigma, mean = 0.3, 1.0
    elif name.endswith("ssm_a"):  # -2.25 to -0.15
        sigma, mean = 1.05 / math.sqrt(3), -1.2
    elif name.endswith("ssm_dt.bias"):
        sigma, mean = 1.0, -1.5
    elif name.endswith(".bias") or "sinks" in name:
        sigma = 0.5
    elif "output_scale" in name:
        sigma, mean = 0.1, 1.0
    return np.float32(mean), np.float32(sigma * math.sqrt(12))


def weights_of(shapes):
    """Name -> f32 array."""
    out = {}
    for name, shape in shapes.items():
        mean, width = spread(name, shape)
        values = np.float64(mean) + np.float64(width) * uniform(name, math.prod(shape))
        out[name] = values.astype(np.float32).reshape(shape)
    return out


# --- families ---------------------------------------------------------------------------------------------------------

def f32(x):
    """The number that a file holds."""
    return float(np.float32(x))


def halves(a, heads):
    """Rows of q or k, or of their biases, from neighbouring pairs (arch llama) to transformers' order."""
    return a.reshape(heads, -1, 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


class Family:
    """One model. Subclasses say what is different; the rest is Llama's."""
    model, config_class, arch = "Llama", None, None
    model_class = None            # in transformers, if not model + "ForCausalLM"
    D, H, K, P, F, V, L = 60, 6, 2, 14, 56, 90, 3
    tied = True
    neighbours = False            # pairs of rope
    norm_plus_1 = False           # the file holds 1 + w
    qk_norm = None                # "heads", "rows"
    norms = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    biases = ()
    eps = EPS
    rows = ROWS                   # whose logits are kept
    tolerance = EXACT             # of llama.cpp
    steps = False                 # does the file have ten steps of AdamW?

    def __init__(self, name):
        self.name, self.arch = name, self.arch or name

    # what the file has

    def layer_shapes(self):
        D, H, K, P, F = self.D, self.H, self.K, self.P, self.F
        shapes = {n + ".weight": (D,) for n in self.norms}
        shapes |= {"attn_q.weight": (H * P, D), "attn_k.weight": (K * P, D), "attn_v.weight": (K * P, D)}
        if self.qk_norm:
            whole = self.qk_norm == "rows"
            shapes |= {"attn_q_norm.weight": (H * P if whole else P,), "attn_k_norm.weight": (K * P if whole else P,)}
        shapes |= {"attn_output.weight": (D, H * P)} | self.ffn_shapes()
        return shapes | {b + ".bias": shapes[b + ".weight"][:1] for b in self.biases}

    def shapes_of_layer(self, i):
        return self.layer_shapes()

    def ffn_shapes(self):
        return {"ffn_gate.weight": (self.F, self.D), "ffn_up.weight": (self.F, self.D), "ffn_down.weight": (self.D, self.F)}

    def shapes(self):
        out = {"token_embd.weight": (self.V, self.D)}
        for i in range(self.L):
            out |= {f"blk.{i}.{name}": shape for name, shape in self.shapes_of_layer(i).items()}
        out["output_norm.weight"] = (self.D,)
        return out if self.tied else out | {"output.weight": (self.V, self.D)}

    def metadata(self, w):
        w.add_name(self.name)
        w.add_block_count(self.L)
        w.add_context_length(CONTEXT)
        w.add_embedding_length(self.D)
        w.add_feed_forward_length(self.widths())
        w.add_head_count(self.H)
        w.add_head_count_kv(self.kv_heads())
        w.add_rope_freq_base(BASE)
        w.add_layer_norm_rms_eps(self.eps)
        if self.P != self.D // self.H:
            w.add_key_length(self.P)
            w.add_value_length(self.P)
        w.add_file_type(gguf.LlamaFileType.ALL_F32)
        w.add_vocab_size(self.V)  # converters leave it to the vocabulary
        w.add_tokenizer_model("none")
        self.more_metadata(w)

    def widths(self):
        return self.F

    def kv_heads(self):
        return self.K

    def more_metadata(self, w):
        pass

    def extra_tensors(self):
        """Those that are no weights."""
        return {}

    # what transformers has

    def config(self):
        """Arguments of its config class."""
        return {}

    def of_llama_cpp(self):
        """The family as llama.cpp computes it, where that is another."""
        return self

    def more_results(self, weights, ids, targets):
        """Name -> array, of what only some files hold."""
        return ten_steps(self, weights, ids, targets) if self.steps else {}

    def check_more(self, path, ids):
        """Compares more with llama.cpp.  Returns the largest difference."""
        return 0.0

    def hf_config(self):
        make = getattr(hf, self.config_class or self.model + "Config")
        config = dict(vocab_size=self.V, hidden_size=self.D, intermediate_size=self.F, num_hidden_layers=self.L,
                      num_attention_heads=self.H, num_key_value_heads=self.K, head_dim=self.P, rms_norm_eps=self.eps,
                      max_position_embeddings=CONTEXT, tie_word_embeddings=self.tied, attn_implementation="eager",
                      experts_implementation="eager",  # the other one cannot compute in f64
                      rope_parameters={"rope_type": "default", "rope_theta": BASE}, pad_token_id=0)
        return make(**(config | self.config()))

    def layer_parameters(self, w, i):
        """Its parameters of layer i, from the file's tensors `w` of that layer."""
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        for part, heads in (("q", self.H), ("k", self.K), ("v", 1), ("output", 1)):
            for kind in (".weight", ".bias"):
                if f"attn_{part}{kind}" in w:
                    a = w[f"attn_{part}{kind}"]
                    turned = halves(a, heads) if self.neighbours and part in "qk" else a
                    out[f"self_attn.{part[0]}_proj{kind}"] = turned
        if self.qk_norm:
            out |= {f"self_attn.{p}_norm.weight": w[f"attn_{p}_norm.weight"] for p in "qk"}
        return out | self.ffn_parameters(w)

    def ffn_parameters(self, w):
        return {f"mlp.{part}_proj{kind}": w[f"ffn_{part}{kind}"] for part in ("gate", "up", "down")
                for kind in (".weight", ".bias") if f"ffn_{part}{kind}" in w}

    def parameters(self, w):
        out = {"model.embed_tokens.weight": w["token_embd.weight"], "model.norm.weight": w["output_norm.weight"]}
        for i in range(self.L):
            start = f"blk.{i}."
            layer = self.layer_parameters({n.removeprefix(start): a for n, a in w.items() if n.startswith(start)}, i)
            out |= {f"model.layers.{i}.{name}": a for name, a in layer.items()}
        if self.norm_plus_1:
            out = {name: a - 1 if name.endswith("norm.weight") else a for name, a in out.items()}
        out["lm_head.weight"] = w["token_embd.weight" if self.tied else "output.weight"]
        return out


class Llama(Family):
    """With the factors of Llama 3.1, of which P = 10 needs all three kinds."""
    model, P, neighbours, tied = "Llama", 10, True, False
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}

    def more_metadata(self, w):
        w.add_rope_dimension_count(self.P)

    def extra_tensors(self):
        s = self.scaling
        wavelengths = 2 * math.pi * BASE ** (np.arange(self.P // 2) * 2 / self.P)
        turns = s["original_max_position_embeddings"] / wavelengths
        smooth = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
        return {"rope_freqs.weight": np.float32(1 / ((1 - smooth) / s["factor"] + smooth))}

    def config(self):
        return {"rope_parameters": {"rope_type": "llama3", "rope_theta": BASE} | self.scaling}


class Gpt2(Family):
    """Layer norms, learned positions, biases, fused q, k and v; transformers keeps matrices of layers as [in,out]."""
    model, model_class, H, P, K, tolerance = "GPT2", "GPT2LMHeadModel", 6, 10, 6, GELU_TABLE
    parts = {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2",
             "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}

    def shapes(self):
        D, F = self.D, self.F
        layer = {"attn_norm": (D,), "attn_qkv": (3 * D, D), "attn_output": (D, D), "ffn_norm": (D,), "ffn_up": (F, D),
                 "ffn_down": (D, F)}
        out = {"token_embd.weight": (self.V, D), "position_embd.weight": (CONTEXT, D)}
        for i in range(self.L):
            for name, shape in layer.items():
                out |= {f"blk.{i}.{name}.weight": shape, f"blk.{i}.{name}.bias": shape[:1]}
        return out | {"output_norm.weight": (D,), "output_norm.bias": (D,)}

    def metadata(self, w):
        w.add_name(self.name)
        w.add_block_count(self.L)
        w.add_context_length(CONTEXT)
        w.add_embedding_length(self.D)
        w.add_feed_forward_length(self.F)
        w.add_head_count(self.H)
        w.add_layer_norm_eps(EPS)
        w.add_file_type(gguf.LlamaFileType.ALL_F32)
        w.add_vocab_size(self.V)
        w.add_tokenizer_model("none")

    def hf_config(self):
        return hf.GPT2Config(vocab_size=self.V, n_positions=CONTEXT, n_embd=self.D, n_layer=self.L, n_head=self.H,
                             n_inner=self.F, layer_norm_epsilon=EPS, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                             bos_token_id=None, eos_token_id=None, attn_implementation="eager")

    def parameters(self, w):
        out = {"lm_head.weight": w["token_embd.weight"]}
        for name, a in w.items():
            *blk, part, kind = name.split(".")
            top = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}
            if not blk:
                out[f"transformer.{top[part]}.{kind}"] = a
            else:
                out[f"transformer.h.{blk[1]}.{self.parts[part]}.{kind}"] = a.T if a.ndim == 2 else a
        return out


class Qwen2(Family):
    model, P, biases, tied, steps = "Qwen2", 10, ("attn_q", "attn_k", "attn_v"), False, True

    def more_metadata(self, w):
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(4.0)
        w.add_rope_scaling_orig_ctx_len(64)

    def config(self):
        return {"use_sliding_window": False, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": BASE, "factor": 4.0, "original_max_position_embeddings": 64}}


class Qwen3(Family):
    model, qk_norm = "Qwen3", "heads"


class SmolLM3(Family):
    model, P, L, neighbours = "SmolLM3", 10, 5, True

    def more_metadata(self, w):
        w.add_rope_dimension_count(self.P)

    def config(self):
        return {"use_sliding_window": False, "no_rope_layer_interval": 4}


class Olmo2(Family):
    model, P, qk_norm, tied = "Olmo2", 10, "rows", False
    norms = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}


class Olmo3(Olmo2):
    """Three of four layers have a window, and rope that is not scaled."""
    model, arch, L, W = "Olmo3", "olmo2", 5, 32

    def more_metadata(self, w):
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(8.0)
        w.add_rope_scaling_orig_ctx_len(64)
        w.add_rope_scaling_yarn_attn_factor(f32(0.1 * math.log(8) + 1))
        w.add_sliding_window(self.W)
        w.add_sliding_window_pattern([(i + 1) % 4 != 0 for i in range(self.L)])
        w.add_rope_freq_base_swa(BASE)

    def config(self):
        return {"sliding_window": self.W, "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": BASE},
            "full_attention": {"rope_type": "yarn", "rope_theta": BASE, "factor": 8.0,
                               "original_max_position_embeddings": 64}}}


class Gemma(Family):
    model, norm_plus_1, tolerance = "Gemma", True, GELU_TABLE

    def config(self):
        return {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh"}


class Gemma2(Gemma):
    model, L, W = "Gemma2", 5, 32
    norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
             "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

    def more_metadata(self, w):
        w.add_attn_logit_softcapping(5.0)
        w.add_final_logit_softcapping(4.0)
        w.add_sliding_window(self.W)

    def config(self):
        return super().config() | {"sliding_window": self.W, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0,
                                   "query_pre_attn_scalar": self.P}


class Gemma3(Gemma2):
    model, config_class, L, qk_norm = "Gemma3", "Gemma3TextConfig", 8, "heads"

    def more_metadata(self, w):
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(8.0)
        w.add_rope_freq_base_swa(700.0)
        w.add_sliding_window(self.W)

    def config(self):
        return {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": self.W, "query_pre_attn_scalar": self.P,
                "layer_types": ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(self.L)],
                "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": BASE, "factor": 8.0},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}}


class Gemma4(Family):
    """Wider heads in full layers, where v is what k's map gives; no window in every third layer."""
    model, arch, config_class, L, W, P, full = "Gemma4", "gemma4", "Gemma4TextConfig", 3, 32, 10, 16
    qk_norm, tolerance, norms, turned = "heads", GELU_TABLE, Gemma2.norms, 5  # pairs of a full head that turn
    k_is_v, shared, width = True, 0, 0                                        # width: of the layers' embeddings

    def is_full(self, i):
        return (i + 1) % 3 == 0

    def of_layer(self, i):
        """Head width, kv heads, ffn width."""
        full, wide = self.is_full(i), i >= self.L - self.shared and self.shared
        return self.full if full else self.P, 1 if full and self.k_is_v else self.K, self.F * (2 if wide else 1)

    def kv_heads(self):
        return [self.of_layer(i)[1] for i in range(self.L)] if self.k_is_v else self.K

    def widths(self):
        return [self.of_layer(i)[2] for i in range(self.L)] if self.shared else self.F

    def shapes_of_layer(self, i):
        D, H, E = self.D, self.H, self.width
        P, K, F = self.of_layer(i)
        shapes = {n + ".weight": (D,) for n in self.norms}
        shapes |= {"attn_q.weight": (H * P, D), "attn_q_norm.weight": (P,), "attn_output.weight": (D, H * P)}
        if i < self.L - self.shared:
            shapes |= {"attn_k.weight": (K * P, D), "attn_k_norm.weight": (P,)}
            if not (self.is_full(i) and self.k_is_v):
                shapes["attn_v.weight"] = (K * P, D)
        shapes |= {"ffn_gate.weight": (F, D), "ffn_up.weight": (F, D), "ffn_down.weight": (D, F), "layer_output_scale.weight": (1,)}
        if E:
            shapes |= {"inp_gate.weight": (E, D), "proj.weight": (D, E), "post_norm.weight": (D,)}
        return shapes

    def shapes(self):
        E = self.width
        more = {"per_layer_token_embd.weight": (self.V, self.L * E), "per_layer_model_proj.weight": (self.L * E, self.D),
                "per_layer_proj_norm.weight": (E,)} if E else {}
        return super().shapes() | more

    def more_metadata(self, w):
        w.add_shared_kv_layers(self.shared)
        w.add_embedding_length_per_layer_input(self.width)
        w.add_sliding_window(self.W)
        w.add_sliding_window_pattern([not self.is_full(i) for i in range(self.L)])
        w.add_key_length(self.full)
        w.add_value_length(self.full)
        w.add_key_length_swa(self.P)
        w.add_value_length_swa(self.P)
        w.add_rope_dimension_count(self.full)
        w.add_rope_dimension_count_swa(self.P)
        w.add_rope_freq_base_swa(700.0)
        w.add_final_logit_softcapping(4.0)

    def extra_tensors(self):
        return {"rope_freqs.weight": np.float32([1.0] * self.turned + [1e30] * (self.full // 2 - self.turned))}

    def config(self):
        return {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": self.W, "final_logit_softcapping": 4.0,
                "layer_types": ["full_attention" if self.is_full(i) else "sliding_attention" for i in range(self.L)],
                "global_head_dim": self.full, "attention_k_eq_v": self.k_is_v,
                "num_global_key_value_heads": 1 if self.k_is_v else None, "num_kv_shared_layers": self.shared,
                "use_double_wide_mlp": self.shared > 0, "hidden_size_per_layer_input": self.width,
                "vocab_size_per_layer_input": self.V, "rope_parameters": {
                    "full_attention": {"rope_type": "proportional", "rope_theta": BASE,
                                       "partial_rotary_factor": 2 * self.turned / self.full},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}}

    def layer_parameters(self, w, i):
        names = {"attn_output": "self_attn.o_proj", "inp_gate": "per_layer_input_gate", "proj": "per_layer_projection",
                 "post_norm": "post_per_layer_input_norm"} | self.norms
        names |= {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"} | {f"attn_{p}_norm": f"self_attn.{p}_norm" for p in "qk"}
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in names.items() if name + ".weight" in w}
        return out | {"layer_scalar": w["layer_output_scale.weight"]} | self.ffn_parameters(w)

    def parameters(self, w):
        out = super().parameters(w)
        if self.width:
            out |= {"model.embed_tokens_per_layer.weight": w["per_layer_token_embd.weight"],
                    "model.per_layer_model_projection.weight": w["per_layer_model_proj.weight"],
                    "model.per_layer_projection_norm.weight": w["per_layer_proj_norm.weight"]}
        return out


class Gemma4E(Gemma4):
    """Embeddings of each layer; the last three layers use keys and values of those before, and have wider ffns."""
    k_is_v, shared, width, L = False, 3, 8, 6


class Phi3(Family):
    """Fused q, k, v and gate, up; 6 of 10 elements of a head turn; long and short factors."""
    model, P, tied, turned, original = "Phi3", 10, False, 6, 256

    def layer_shapes(self):
        shapes = super().layer_shapes()
        for part in "qkv":
            del shapes[f"attn_{part}.weight"]
        return shapes | {"attn_qkv.weight": ((self.H + 2 * self.K) * self.P, self.D)}

    def ffn_shapes(self):
        return {"ffn_up.weight": (2 * self.F, self.D), "ffn_down.weight": (self.D, self.F)}

    def factors(self):
        n = self.turned // 2
        return np.float32(1 + 0.2 * np.arange(n)), np.float32(2 + 1.5 * np.arange(n))

    def attn_factor(self):
        return f32(math.sqrt(1 + math.log(CONTEXT / self.original) / math.log(self.original)))

    def more_metadata(self, w):
        w.add_rope_scaling_orig_ctx_len(self.original)
        w.add_rope_dimension_count(self.turned)
        w.add_sliding_window(0)
        w.add_rope_scaling_attn_factors(self.attn_factor())

    def extra_tensors(self):
        short, long = self.factors()
        return {"rope_factors_long.weight": long, "rope_factors_short.weight": short}

    def config(self):
        short, long = self.factors()
        return {"sliding_window": None, "original_max_position_embeddings": self.original, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": BASE, "short_factor": short.astype(float).tolist(),
            "long_factor": long.astype(float).tolist(), "attention_factor": self.attn_factor(),
            "original_max_position_embeddings": self.original, "partial_rotary_factor": self.turned / self.P}}

    def layer_parameters(self, w, i):
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        return out | {"self_attn.qkv_proj.weight": w["attn_qkv.weight"], "self_attn.o_proj.weight": w["attn_output.weight"],
                      "mlp.gate_up_proj.weight": w["ffn_up.weight"], "mlp.down_proj.weight": w["ffn_down.weight"]}


class Granite(Family):
    model, neighbours, P = "Granite", True, 10

    def more_metadata(self, w):
        w.add_rope_dimension_count(self.P)
        w.add_attention_scale(0.17)
        w.add_embedding_scale(7.0)
        w.add_residual_scale(0.6)
        w.add_logit_scale(3.0)

    def config(self):
        return {"attention_multiplier": f32(0.17), "embedding_multiplier": 7.0, "residual_multiplier": f32(0.6),
                "logits_scaling": 3.0}


class Mixture(Family):
    """E experts in every layer, U of them for each row."""
    E, U, F = 7, 3, 24
    experts_key, used_key = "num_local_experts", "num_experts_per_tok"
    block = "mlp"

    def ffn_shapes(self):
        return {"ffn_gate_inp.weight": (self.E, self.D), "ffn_gate_exps.weight": (self.E, self.F, self.D),
                "ffn_up_exps.weight": (self.E, self.F, self.D), "ffn_down_exps.weight": (self.E, self.D, self.F)}

    def more_metadata(self, w):
        w.add_expert_count(self.E)
        w.add_expert_used_count(self.U)

    def config(self):
        return {self.experts_key: self.E, self.used_key: self.U}

    def ffn_parameters(self, w):
        return {f"{self.block}.gate.weight": w["ffn_gate_inp.weight"],
                f"{self.block}.experts.gate_up_proj": torch.cat([w["ffn_gate_exps.weight"], w["ffn_up_exps.weight"]], 1),
                f"{self.block}.experts.down_proj": w["ffn_down_exps.weight"]}


class Mixtral(Mixture):
    model, arch, neighbours, tied = "Mixtral", "llama", True, False

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_rope_dimension_count(self.P)

    def config(self):
        return super().config() | {"sliding_window": None}


class Qwen3Moe(Mixture):
    model, qk_norm, experts_key, steps = "Qwen3Moe", "heads", "num_experts", True

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_feed_forward_length(self.F * 5)  # of dense layers, of which there are none
        w.add_expert_feed_forward_length(self.F)

    def config(self):
        return super().config() | {"moe_intermediate_size": self.F, "intermediate_size": self.F * 5, "norm_topk_prob": True,
                                   "decoder_sparse_step": 1, "mlp_only_layers": []}


class Olmoe(Mixture):
    """K = H, and weights that do not sum to 1."""
    model, qk_norm, experts_key, P, K, tied = "Olmoe", "rows", "num_experts", 10, 6, False

    def config(self):
        return super().config() | {"norm_topk_prob": False, "clip_qkv": None}


class GraniteMoe(Mixture):
    """With an expert for every row."""
    model, arch, neighbours, P, shared = "GraniteMoeShared", "granitemoe", True, 10, 20

    def ffn_shapes(self):
        return super().ffn_shapes() | {"ffn_gate_shexp.weight": (self.shared, self.D), "ffn_up_shexp.weight": (self.shared, self.D),
                                       "ffn_down_shexp.weight": (self.D, self.shared)}

    def more_metadata(self, w):
        Granite.more_metadata(self, w)
        super().more_metadata(w)
        w.add_expert_shared_feed_forward_length(self.shared)

    def config(self):
        return super().config() | Granite.config(self) | {"shared_intermediate_size": self.shared}

    def ffn_parameters(self, w):
        return {"block_sparse_moe.router.weight": w["ffn_gate_inp.weight"],
                "block_sparse_moe.experts.gate_up_proj": torch.cat([w["ffn_gate_exps.weight"], w["ffn_up_exps.weight"]], 1),
                "block_sparse_moe.experts.down_proj": w["ffn_down_exps.weight"],
                "shared_mlp.input_linear.weight": torch.cat([w["ffn_gate_shexp.weight"], w["ffn_up_shexp.weight"]]),
                "shared_mlp.output_linear.weight": w["ffn_down_shexp.weight"]}


class GptOss(Mixture):
    """Biases everywhere, attention sinks, YaRN whose ramp is not rounded to whole pairs."""
    model, arch, tied, L, W = "GptOss", "gpt-oss", False, 4, 32
    norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}
    biases = ("attn_q", "attn_k", "attn_v", "attn_output")
    truncate = False

    def layer_shapes(self):
        return super().layer_shapes() | {"attn_sinks.weight": (self.H,)}

    def ffn_shapes(self):
        return super().ffn_shapes() | {"ffn_gate_inp.bias": (self.E,), "ffn_gate_exps.bias": (self.E, self.F),
                                       "ffn_up_exps.bias": (self.E, self.F), "ffn_down_exps.bias": (self.E, self.D)}

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(8.0)
        w.add_rope_scaling_orig_ctx_len(64)
        w.add_sliding_window(self.W)
        w.add_expert_feed_forward_length(self.F)

    def config(self):
        return super().config() | {"sliding_window": self.W, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": BASE, "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": self.truncate, "original_max_position_embeddings": 64}}

    def of_llama_cpp(self):
        other = GptOss(self.name)
        other.truncate = True
        return other

    def layer_parameters(self, w, i):
        return super().layer_parameters(w, i) | {"self_attn.sinks": w["attn_sinks.weight"]}

    def ffn_parameters(self, w):
        def both(kind):  # rows in turns
            return torch.stack([w["ffn_gate_exps" + kind], w["ffn_up_exps" + kind]], 2).flatten(1, 2)
        return {"mlp.router.weight": w["ffn_gate_inp.weight"], "mlp.router.bias": w["ffn_gate_inp.bias"],
                "mlp.experts.gate_up_proj": both(".weight").transpose(1, 2), "mlp.experts.gate_up_proj_bias": both(".bias"),
                "mlp.experts.down_proj": w["ffn_down_exps.weight"].transpose(1, 2),
                "mlp.experts.down_proj_bias": w["ffn_down_exps.bias"]}


FAMILIES = [Qwen2("qwen2"), Qwen3("qwen3"), SmolLM3("smollm3"), Olmo2("olmo2"), Olmo3("olmo3"), Gemma("gemma"),
            Gemma2("gemma2"), Gemma3("gemma3"), Gemma4("gemma4"), Gemma4E("gemma4_e"), Phi3("phi3"), Granite("granite"),
            Mixtral("mixtral"), Qwen3Moe("qwen3moe"), Olmoe("olmoe"), GraniteMoe("granitemoe"), GptOss("gpt_oss"),
            Llama("llama"), Gpt2("gpt2")]


# --- transformers -----------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def in_f64():
    """f32 is f64 for whoever asks torch for it."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept
        torch.set_default_dtype(kept[0])


class Peer:
    """The model of transformers with these weights, as a function of ids [B,T]."""

    def __init__(self, family, weights):
        with in_f64():
            make = getattr(hf, family.model_class or family.model + "ForCausalLM")
            self.model = make(family.hf_config()).double().eval()
        self.family = family
        self.w = {name: torch.tensor(a, dtype=torch.float64, requires_grad=True) for name, a in weights.items()}
        has = {name: tuple(p.shape) for name, p in self.model.named_parameters()}
        buffers = ("layer_scalar", "e_score_correction_bias", "expert_bias")
        has |= {name: tuple(b.shape) for name, b in self.model.named_buffers() if name.endswith(buffers)}
        gives = {name: tuple(a.shape) for name, a in family.parameters(self.w).items()}
        if family.tied:
            gives.pop("lm_head.weight"), has.pop("lm_head.weight", None)
        assert has == gives, f"{family.name}: parameters differ: {set(has.items()) ^ set(gives.items())}"

    def __call__(self, ids):
        with in_f64():
            out = torch.func.functional_call(self.model, self.family.parameters(self.w),
                                             kwargs={"input_ids": torch.tensor(np.array(ids), dtype=torch.long), "use_cache": False})
        return out.logits


def projections(tensors):
    """[tensors,PROJECTIONS], f64."""
    return np.stack([[float((a.flatten().numpy() * uniform(f"{name} {k}", a.numel())).sum()) for k in range(PROJECTIONS)]
                     for name, a in tensors.items()])


def ten_steps(family, weights, ids, targets):
    """The loss before each of ten steps on the file's tensors, and how far these have moved after them, projected; but for
    ssm_a, which is -exp of what is trained and has moved; f64. Not for gpt_oss: the scores of two experts come within 2e-7, so
    that f32 cannot tell which one a row uses."""
    peer, ids = Peer(family, weights), ids[:SHORT]
    trained = dict(peer.w)
    logs = {name: (-a.detach()).log().requires_grad_() for name, a in peer.w.items() if name.endswith("ssm_a")}
    trained |= logs
    first = {name: a.detach().clone() for name, a in trained.items()}
    optimizer = torch.optim.AdamW(list(trained.values()), **ADAMW)
    losses = []
    for _ in range(STEPS):
        peer.w.update({name: -a.exp() for name, a in logs.items()})
        loss = torch.nn.functional.cross_entropy(peer([ids])[0], torch.tensor(targets, dtype=torch.long))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"adamw_losses": np.array(losses),
            "adamw_moved": projections({name: a.detach() - first[name] for name, a in trained.items()})}


def compute(family, weights, ids, targets):
    """The golden numbers, in f64."""
    peer = Peer(family, weights)
    with torch.no_grad():
        out = {"logits": peer([ids])[0][family.rows].numpy()}
    logits = peer([ids[:SHORT]])[0]
    # In contexts of up to `original` positions phi3's angles are others.
    out["short_logits"] = logits.detach()[[r for r in family.rows if r < SHORT]].numpy()
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(targets, dtype=torch.long))
    grads = torch.autograd.grad(loss, list(peer.w.values()), materialize_grads=True)  # what only selects experts: 0
    out["loss"] = loss.detach().reshape(1).numpy()
    out["gradients"] = projections(dict(zip(peer.w, grads)))
    return out | family.more_results(weights, ids, targets)


# --- llama.cpp --------------------------------------------------------------------------------------------------------

def check_llama_cpp(family, path, ids, golden):
    """Asserts the golden logits.  Returns the largest difference."""
    from llama_cpp_greedy import LlamaCpp
    worst = 0.0
    for n, kind in ((LONG, "logits"), (SHORT, "short_logits")):
        model = LlamaCpp(path, n_ctx=n)
        rows = [r for r in family.rows if r < n]
        logits = model.logits(ids[:n].tolist())[rows]
        worst = max(worst, np.abs(logits - golden[kind]).max())
        model.close()
    worst = max(worst, family.check_more(path, ids))
    assert worst < family.tolerance, f"{family.name}: logits differ from llama.cpp by {worst:.2e}"
    return worst


# --- files ------------------------------------------------------------------------------------------------------------

def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(path, family, weights):
    w = gguf.GGUFWriter(path, family.arch)
    family.metadata(w)
    for name, a in (weights | family.extra_tensors()).items():
        w.add_tensor(name, a)
    finish(w)


def write_golden(path, family, ids, targets, golden):
    w = gguf.GGUFWriter(path, family.arch)
    family.metadata(w)
    shapes = family.shapes()
    w.add_array("golden.names", list(shapes))
    w.add_array("golden.shapes", [",".join(map(str, s)) for s in shapes.values()])
    w.add_array("golden.means", [float(spread(n, s)[0]) for n, s in shapes.items()])
    w.add_array("golden.widths", [float(spread(n, s)[1]) for n, s in shapes.items()])
    w.add_array("golden.rows", family.rows)
    for name, a in family.extra_tensors().items():
        w.add_tensor(name, a)
    w.add_tensor("golden.ids", ids)
    w.add_tensor("golden.targets", targets)
    for name, a in golden.items():
        w.add_tensor("golden." + name, a.astype(np.float32))
    finish(w)


def make(family, out):
    weights = weights_of(family.shapes())
    ids = (hashes("ids", LONG) % np.uint64(family.V)).astype(np.int32)
    targets = ids[1:SHORT + 1].copy()
    golden = compute(family, weights, ids, targets)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        model = pathlib.Path(scratch) / f"{family.name}.gguf"
        write_model(model, family, weights)
        peer = family.of_llama_cpp()
        cpp = check_llama_cpp(peer, model, ids, golden if peer is family else compute(peer, weights, ids, targets))
        path = pathlib.Path(scratch) / "golden.gguf"
        write_golden(path, family, ids, targets, golden)
        final = out / f"{family.name}.family.gguf"
        os.replace(path, final)
    print(f"{family.name}: {sum(a.size for a in weights.values())} weights, logits rms "
          f"{np.sqrt((golden['logits'] ** 2).mean()):.2f}, loss {golden['loss'][0]:.3f}, from llama.cpp {cpp:.1e}, "
          f"{final.stat().st_size} bytes", flush=True)


def main(families=None, description=__doc__):
    ap = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=HERE, help="folder to write to (default: beside this script)")
    ap.add_argument("--only", default="", help="names, comma separated")
    a = ap.parse_args()
    torch.set_num_threads(1)  # one order of summation
    a.out.mkdir(parents=True, exist_ok=True)
    for family in families or FAMILIES:
        if not a.only or family.name in a.only.split(","):
            make(family, a.out)


if __name__ == "__main__":
    main()
