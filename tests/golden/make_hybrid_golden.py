#!/usr/bin/env python3
"""Make the golden files of models whose layers are recurrent: the same files as those of make_family_golden.py.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_hybrid_golden.py              # all, beside this script
  $PY tests/golden/make_hybrid_golden.py --only qwen35,qwen3next --out DIR

docs/hybrid-families.md describes the files. Each file holds ten steps of AdamW. llama.cpp
must compute the same logits with prompts of 1, 5, 70 and 130 tokens, in pieces, and token by token.
"""
import numpy as np
import torch

import make_family_golden as base
from make_family_golden import Family, f32


class Hybrid(Family):
    """Layers of two kinds."""
    eps = f32(1e-6)
    rows = sorted({*base.ROWS, 69})  # the last one of 70 tokens
    steps = True

    def check_more(self, path, ids):
        """What states do: prompts of several lengths, in pieces, token by token."""
        from llama_cpp_greedy import LlamaCpp
        n = 130
        with torch.no_grad():
            want = base.Peer(self, base.weights_of(self.shapes()))([ids[:n]])[0].numpy()
        model, worst = LlamaCpp(path, n_ctx=n), 0.0
        for pieces in ([1], [5], [70], [130], [7, 57, 1, 65], [1] * 80, [70] + [1] * 12, [5] + [1] * 12):
            model.clear()
            at, got = 0, []
            for size in pieces:
                got.append(model.decode(ids[at:at + size].tolist(), at, all_rows=True))
                at += size
            worst = max(worst, np.abs(np.concatenate(got) - want[:at]).max())
        model.close()
        return worst


# --- gated delta rule -------------------------------------------------------------------------------------------------

class Qwen35(Hybrid):
    """Gated delta rule in layers 0 and 2, gated attention in layer 1; R value heads for each key head.

    Hk key heads and Hv = Hk R value heads of width S; conv of W over C = 2 Hk S + Hv S channels."""
    model, config_class, tied = "Qwen3_5", "Qwen3_5TextConfig", False
    H, K, P, L, Hk, R, S, W, interval = 4, 2, 16, 3, 2, 3, 8, 4, 2
    norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}
    qk_norm, tiled, sections = "heads", True, [1, 1, 0, 0]
    list_of_layers = True         # in the file, beside the interval

    def __init__(self, name, **more):
        super().__init__(name)
        for key, value in more.items():
            setattr(self, key, value)
        self.Hv = self.Hk * self.R
        self.C = 2 * self.Hk * self.S + self.Hv * self.S

    def is_linear(self, i):
        return (i + 1) % self.interval != 0

    def shapes_of_layer(self, i):
        if not self.is_linear(i):
            shapes = self.layer_shapes()
            return shapes | {"attn_q.weight": (2 * self.H * self.P, self.D)}
        D, inner = self.D, self.Hv * self.S
        shapes = {n + ".weight": (D,) for n in self.norms}
        shapes |= {"attn_qkv.weight": (self.C, D), "attn_gate.weight": (inner, D)} | self.beta_and_alpha()
        shapes |= {"ssm_conv1d.weight": (self.C, self.W), "ssm_a": (self.Hv,), "ssm_dt.bias": (self.Hv,),
                   "ssm_norm.weight": (self.S,), "ssm_out.weight": (D, inner)}
        return shapes | self.ffn_shapes()

    def beta_and_alpha(self):
        return {"ssm_beta.weight": (self.Hv, self.D), "ssm_alpha.weight": (self.Hv, self.D)}

    def more_metadata(self, w):
        w.add_rope_dimension_count(self.P // 4)
        if self.sections:
            w.add_rope_dimension_sections(self.sections)
        w.add_ssm_conv_kernel(self.W)
        w.add_ssm_state_size(self.S)
        w.add_ssm_group_count(self.Hk)
        w.add_ssm_time_step_rank(self.Hv)
        w.add_ssm_inner_size(self.Hv * self.S)
        w.add_full_attention_interval(self.interval)
        if self.list_of_layers:
            w.add_array(f"{self.arch}.attention.recurrent_layers", [self.is_linear(i) for i in range(self.L)])

    def config(self):
        rope = {"rope_type": "default", "rope_theta": base.BASE, "partial_rotary_factor": 0.25}
        if self.sections:
            rope |= {"mrope_section": self.sections[:3], "mrope_interleaved": True}
        return {"rope_parameters": rope, "linear_num_key_heads": self.Hk, "linear_num_value_heads": self.Hv,
                "linear_key_head_dim": self.S, "linear_value_head_dim": self.S, "linear_conv_kernel_dim": self.W,
                "layer_types": ["linear_attention" if self.is_linear(i) else "full_attention" for i in range(self.L)]}

    def grouped(self, a, width, axis=0):
        """Value heads from the file's order, where all first ones of the groups come first, to transformers'."""
        if not self.tiled:
            return a
        parts = a.movedim(axis, 0).reshape(self.R, self.Hk, width, -1).swapaxes(0, 1)
        return parts.reshape(a.movedim(axis, 0).shape).movedim(0, axis)

    def values_grouped(self, a):
        """Only the rows of v of q, k and v."""
        n = 2 * self.Hk * self.S
        return torch.cat([a[:n], self.grouped(a[n:], self.S)])

    def layer_parameters(self, w, i):
        if not self.is_linear(i):
            return super().layer_parameters(w, i)
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        linear = {"conv1d.weight": self.values_grouped(w["ssm_conv1d.weight"]).unsqueeze(1),
                  "A_log": self.grouped((-w["ssm_a"]).log(), 1), "dt_bias": self.grouped(w["ssm_dt.bias"], 1),
                  "norm.weight": w["ssm_norm.weight"], "out_proj.weight": self.grouped(w["ssm_out.weight"], self.S, 1)}
        out |= {"linear_attn." + name: a for name, a in (linear | self.projections(w)).items()}
        return out | self.ffn_parameters(w)

    def projections(self, w):
        return {"in_proj_qkv.weight": self.values_grouped(w["attn_qkv.weight"]),
                "in_proj_z.weight": self.grouped(w["attn_gate.weight"], self.S),
                "in_proj_b.weight": self.grouped(w["ssm_beta.weight"], 1),
                "in_proj_a.weight": self.grouped(w["ssm_alpha.weight"], 1)}

    def parameters(self, w):
        out = super().parameters(w)
        return {n: a - 1 if n.endswith("norm.weight") and ".linear_attn." not in n else a for n, a in out.items()}


class Qwen35Moe(Qwen35):
    """E experts, U of them for each token, and one for every token with a gate of its own."""
    model, config_class = "Qwen3_5Moe", "Qwen3_5MoeTextConfig"
    E, U, Fe, Fs = 5, 2, 24, 20

    def ffn_shapes(self):
        D = self.D
        return {"ffn_gate_inp.weight": (self.E, D), "ffn_gate_exps.weight": (self.E, self.Fe, D),
                "ffn_up_exps.weight": (self.E, self.Fe, D), "ffn_down_exps.weight": (self.E, D, self.Fe),
                "ffn_gate_inp_shexp.weight": (1, D), "ffn_gate_shexp.weight": (self.Fs, D),
                "ffn_up_shexp.weight": (self.Fs, D), "ffn_down_shexp.weight": (D, self.Fs)}

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_expert_count(self.E)
        w.add_expert_used_count(self.U)
        w.add_expert_feed_forward_length(self.Fe)
        w.add_expert_shared_feed_forward_length(self.Fs)

    def config(self):
        return super().config() | {"num_experts": self.E, "num_experts_per_tok": self.U, "moe_intermediate_size": self.Fe,
                                   "shared_expert_intermediate_size": self.Fs}

    def ffn_parameters(self, w):
        shared = {f"mlp.shared_expert.{part}_proj.weight": w[f"ffn_{part}_shexp.weight"] for part in ("gate", "up", "down")}
        return shared | {"mlp.shared_expert_gate.weight": w["ffn_gate_inp_shexp.weight"],
                         "mlp.gate.weight": w["ffn_gate_inp.weight"], "mlp.experts.down_proj": w["ffn_down_exps.weight"],
                         "mlp.experts.gate_up_proj": torch.cat([w["ffn_gate_exps.weight"], w["ffn_up_exps.weight"]], 1)}


class Qwen3Next(Qwen35Moe):
    """Value heads in transformers' order; beta and alpha in one matrix, and in transformers q, k, v and z, by key heads."""
    model, config_class, tiled, sections = "Qwen3Next", None, False, None

    def beta_and_alpha(self):
        return {"ssm_ba.weight": (2 * self.Hv, self.D)}

    def config(self):
        return super().config() | {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}

    def projections(self, w):
        n = self.Hk * self.S
        qkv = w["attn_qkv.weight"]
        parts = [a.reshape(self.Hk, -1, self.D) for a in (qkv[:n], qkv[n:2 * n], qkv[2 * n:], w["attn_gate.weight"])]
        return {"in_proj_qkvz.weight": torch.cat(parts, 1).reshape(-1, self.D), "in_proj_ba.weight": w["ssm_ba.weight"]}


# --- Mamba 2 ----------------------------------------------------------------------------------------------------------

class Mamba2(Hybrid):
    """Only Mamba layers: Hm heads of width Pm with states of N, in G groups of heads that share B and C."""
    model, eps, tied, Hm, Pm, G, N, W = "Mamba2", base.EPS, True, 6, 20, 2, 12, 4
    embedding, output_norm, layers, mixer = "backbone.embeddings", "backbone.norm_f", "backbone.layers", "mixer"
    norms = {"attn_norm": "norm"}

    def __init__(self, name, **more):
        super().__init__(name)
        for key, value in more.items():
            setattr(self, key, value)
        self.inner = self.Hm * self.Pm
        self.C = self.inner + 2 * self.G * self.N

    def mamba_shapes(self):
        D, inner, C, Hm = self.D, self.inner, self.C, self.Hm
        return {"ssm_in.weight": (inner + C + Hm, D), "ssm_conv1d.weight": (C, self.W), "ssm_conv1d.bias": (C,),
                "ssm_dt.bias": (Hm,), "ssm_a": (Hm, 1), "ssm_d": (Hm, 1), "ssm_norm.weight": (self.G, inner // self.G),
                "ssm_out.weight": (D, inner)}

    def mamba_metadata(self, w):
        w.add_ssm_conv_kernel(self.W)
        w.add_ssm_inner_size(self.inner)
        w.add_ssm_state_size(self.N)
        w.add_ssm_time_step_rank(self.Hm)
        w.add_ssm_group_count(self.G)

    def mamba_parameters(self, w):
        return {"in_proj.weight": w["ssm_in.weight"], "conv1d.weight": w["ssm_conv1d.weight"].unsqueeze(1),
                "conv1d.bias": w["ssm_conv1d.bias"], "dt_bias": w["ssm_dt.bias"], "A_log": (-w["ssm_a"]).log().flatten(),
                "D": w["ssm_d"].flatten(), "norm.weight": w["ssm_norm.weight"].flatten(), "out_proj.weight": w["ssm_out.weight"]}

    def shapes_of_layer(self, i):
        return {"attn_norm.weight": (self.D,)} | self.mamba_shapes()

    def metadata(self, w):
        w.add_name(self.name)
        w.add_context_length(2**20)
        w.add_embedding_length(self.D)
        w.add_feed_forward_length(0)
        w.add_head_count(0)
        w.add_block_count(self.L)
        self.mamba_metadata(w)
        w.add_layer_norm_rms_eps(self.eps)
        w.add_file_type(base.gguf.LlamaFileType.ALL_F32)
        w.add_vocab_size(self.V)
        w.add_tokenizer_model("none")

    def config(self):
        return {"num_heads": self.Hm, "head_dim": self.Pm, "n_groups": self.G, "state_size": self.N, "conv_kernel": self.W,
                "expand": 2, "layer_norm_epsilon": self.eps, "chunk_size": 32, "max_position_embeddings": 2**20}

    def layer_parameters(self, w, i):
        return {"norm.weight": w["attn_norm.weight"]} | {f"mixer.{n}": a for n, a in self.mamba_parameters(w).items()}

    def parameters(self, w):
        out = {self.embedding + ".weight": w["token_embd.weight"], self.output_norm + ".weight": w["output_norm.weight"]}
        for i in range(self.L):
            start = f"blk.{i}."
            layer = self.layer_parameters({n.removeprefix(start): a for n, a in w.items() if n.startswith(start)}, i)
            out |= {f"{self.layers}.{i}.{name}": a for name, a in layer.items()}
        return out | {"lm_head.weight": w["token_embd.weight" if self.tied else "output.weight"]}


class GraniteHybrid(Mamba2):
    """Mamba layers around one of attention without positions; experts, and one for every token, in every layer."""
    model, arch, Pm, P, E, U, F, shared, rope = "GraniteMoeHybrid", "granitehybrid", 20, 10, 7, 3, 24, 20, False
    embedding, output_norm, layers = "model.embed_tokens", "model.norm", "model.layers"
    norms, neighbours = Family.norms, True
    attention_layer = 1

    metadata = Family.metadata

    def is_attention(self, i):
        return i == self.attention_layer

    def kv_heads(self):
        return [self.K if self.is_attention(i) else 0 for i in range(self.L)]

    def shapes_of_layer(self, i):
        mixer = {n: s for n, s in self.layer_shapes().items() if n.startswith("attn")} if self.is_attention(i) else self.mamba_shapes()
        return {n + ".weight": (self.D,) for n in self.norms} | mixer | self.ffn_shapes()

    def ffn_shapes(self):
        if not self.E:
            return Family.ffn_shapes(self)
        D, shared = self.D, self.shared
        return base.Mixture.ffn_shapes(self) | {"ffn_gate_shexp.weight": (shared, D), "ffn_up_shexp.weight": (shared, D),
                                                "ffn_down_shexp.weight": (D, shared)}

    def more_metadata(self, w):
        base.Granite.more_metadata(self, w)
        self.mamba_metadata(w)
        w.add_rope_scaling_finetuned(self.rope)
        w.add_expert_count(self.E)
        w.add_expert_used_count(self.U)
        if self.E:
            w.add_expert_shared_feed_forward_length(self.shared)

    def config(self):
        return base.Granite.config(self) | {
            "num_local_experts": self.E, "num_experts_per_tok": self.U, "shared_intermediate_size": self.shared,
            "mamba_n_heads": self.Hm, "mamba_d_head": self.Pm, "mamba_n_groups": self.G, "mamba_d_state": self.N,
            "mamba_d_conv": self.W, "mamba_expand": 2, "mamba_chunk_size": 32, "head_dim": self.P,
            "position_embedding_type": "rope" if self.rope else None,
            "layer_types": ["full_attention" if self.is_attention(i) else "linear_attention" for i in range(self.L)]}

    def layer_parameters(self, w, i):
        if self.is_attention(i):
            return Family.layer_parameters(self, w, i)
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        return out | {f"mamba.{n}": a for n, a in self.mamba_parameters(w).items()} | self.ffn_parameters(w)

    def ffn_parameters(self, w):
        if self.E:
            return base.GraniteMoe.ffn_parameters(self, w)
        return {"shared_mlp.input_linear.weight": torch.cat([w["ffn_gate.weight"], w["ffn_up.weight"]]),
                "shared_mlp.output_linear.weight": w["ffn_down.weight"]}


class NemotronH(Mamba2):
    """One thing a layer: Mamba, ffn, attention without positions."""
    model, arch, tied, Pm, P, F, L, kinds = "NemotronH", "nemotron_h", False, 14, 14, 56, 4, "M-*M"
    embedding, output_norm, layers = "model.embeddings", "model.norm_f", "model.layers"
    metadata, neighbours = Family.metadata, True

    def kv_heads(self):
        return [self.K if kind == "*" else 0 for kind in self.kinds]

    def widths(self):
        return [self.F if kind in "-E" else 0 for kind in self.kinds]

    def shapes_of_layer(self, i):
        kind = self.kinds[i]
        norm = {"attn_norm.weight": (self.D,)}
        if kind == "M":
            return norm | self.mamba_shapes()
        if kind == "*":
            return norm | {n: s for n, s in self.layer_shapes().items() if n.startswith("attn")}
        return norm | self.ffn_shapes()

    def ffn_shapes(self):
        return {"ffn_up.weight": (self.F, self.D), "ffn_down.weight": (self.D, self.F)}

    def more_metadata(self, w):
        w.add_layer_norm_eps(self.eps)  # llama.cpp wants it and does not use it
        w.add_rope_dimension_count(self.P)
        w.add_rope_scaling_finetuned(False)
        self.mamba_metadata(w)

    def config(self):
        names = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
        return {"layers_block_type": [names[kind] for kind in self.kinds], "mamba_num_heads": self.Hm, "mamba_head_dim": self.Pm,
                "n_groups": self.G, "ssm_state_size": self.N, "conv_kernel": self.W, "chunk_size": 32,
                "layer_norm_epsilon": self.eps, "time_step_min": 1e-9}  # llama.cpp has no such limit

    def layer_parameters(self, w, i):
        kind = self.kinds[i]
        if kind == "M":
            mixer = self.mamba_parameters(w)
        elif kind == "*":
            both = {"q": base.halves(w["attn_q.weight"], self.H), "k": base.halves(w["attn_k.weight"], self.K),
                    "v": w["attn_v.weight"], "o": w["attn_output.weight"]}
            mixer = {f"{n}_proj.weight": a for n, a in both.items()}
        else:
            mixer = self.ffn_parameters(w)
        return {"norm.weight": w["attn_norm.weight"]} | {f"mixer.{n}": a for n, a in mixer.items()}

    def ffn_parameters(self, w):
        return {"up_proj.weight": w["ffn_up.weight"], "down_proj.weight": w["ffn_down.weight"]}


class NemotronHMoe(NemotronH):
    """Experts without gates, in a narrower space, chosen with a bias; one for every token."""
    arch, kinds, E, U, F, Fs, latent, scale = "nemotron_h_moe", "ME*M", 7, 3, 24, 20, 30, 2.5

    def ffn_shapes(self):
        E, D, Z, F, Fs = self.E, self.D, self.latent, self.F, self.Fs
        return {"ffn_gate_inp.weight": (E, D), "exp_probs_b.bias": (E,), "ffn_latent_down.weight": (Z, D),
                "ffn_latent_up.weight": (D, Z), "ffn_up_exps.weight": (E, F, Z), "ffn_down_exps.weight": (E, Z, F),
                "ffn_up_shexp.weight": (Fs, D), "ffn_down_shexp.weight": (D, Fs)}

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_expert_used_count(self.U)
        w.add_expert_feed_forward_length(self.F)
        w.add_expert_shared_feed_forward_length(self.Fs)
        w.add_expert_count(self.E)
        w.add_expert_shared_count(1)
        w.add_expert_weights_norm(True)
        w.add_expert_weights_scale(self.scale)
        w.add_expert_group_count(1)
        w.add_uint32(f"{self.arch}.moe_latent_size", self.latent)

    def config(self):
        return super().config() | {"n_routed_experts": self.E, "num_experts_per_tok": self.U, "moe_intermediate_size": self.F,
                                   "moe_shared_expert_intermediate_size": self.Fs, "moe_latent_size": self.latent,
                                   "routed_scaling_factor": self.scale, "norm_topk_prob": True, "n_group": 1, "topk_group": 1}

    def ffn_parameters(self, w):
        return {"gate.weight": w["ffn_gate_inp.weight"], "gate.e_score_correction_bias": w["exp_probs_b.bias"],
                "fc1_latent_proj.weight": w["ffn_latent_down.weight"], "fc2_latent_proj.weight": w["ffn_latent_up.weight"],
                "experts.up_proj": w["ffn_up_exps.weight"], "experts.down_proj": w["ffn_down_exps.weight"],
                "shared_experts.up_proj.weight": w["ffn_up_shexp.weight"],
                "shared_experts.down_proj.weight": w["ffn_down_shexp.weight"]}


# --- short convolutions -----------------------------------------------------------------------------------------------

class Lfm2(Hybrid):
    """Convolutions between two gates, around a layer of attention."""
    model, eps, P, W, qk_norm = "Lfm2", base.EPS, 10, 3, "heads"
    norms = {"attn_norm": "operator_norm", "ffn_norm": "ffn_norm"}

    def is_attention(self, i):
        return i == 1

    def kv_heads(self):
        return [self.K if self.is_attention(i) else 0 for i in range(self.L)]

    def shapes(self):  # output_norm has this name
        return {n.replace("output_norm", "token_embd_norm"): s for n, s in super().shapes().items()}

    def shapes_of_layer(self, i):
        D = self.D
        conv = {"shortconv.conv.weight": (D, self.W), "shortconv.in_proj.weight": (3 * D, D), "shortconv.out_proj.weight": (D, D)}
        mixer = {n: s for n, s in self.layer_shapes().items() if n.startswith("attn")} if self.is_attention(i) else conv
        return {n + ".weight": (D,) for n in self.norms} | mixer | self.ffn_of_layer(i)

    def ffn_of_layer(self, i):
        return self.ffn_shapes()

    def more_metadata(self, w):
        w.add_shortconv_l_cache(self.W)

    def config(self):
        return {"norm_eps": self.eps, "conv_L_cache": self.W, "block_auto_adjust_ff_dim": False,
                "layer_types": ["full_attention" if self.is_attention(i) else "conv" for i in range(self.L)]}

    def layer_parameters(self, w, i):
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        if self.is_attention(i):
            names = {f"attn_{p}": f"self_attn.{p}_proj" for p in "qkv"} | {"attn_output": "self_attn.out_proj"}
            names |= {f"attn_{p}_norm": f"self_attn.{p}_layernorm" for p in "qk"}
            out |= {hf_name + ".weight": w[name + ".weight"] for name, hf_name in names.items()}
        else:
            out |= {"conv.conv.weight": w["shortconv.conv.weight"].unsqueeze(1),
                    "conv.in_proj.weight": w["shortconv.in_proj.weight"], "conv.out_proj.weight": w["shortconv.out_proj.weight"]}
        return out | self.ffn_parameters(w)

    def ffn_parameters(self, w):
        return {f"feed_forward.{n}.weight": w[f"ffn_{part}.weight"] for n, part in (("w1", "gate"), ("w2", "down"), ("w3", "up"))}

    def parameters(self, w):
        out = super().parameters(w | {"output_norm.weight": w["token_embd_norm.weight"]})
        return {n.replace("model.norm.", "model.embedding_norm."): a for n, a in out.items()}


class Lfm2Moe(Lfm2):
    """Experts in all layers but the first, chosen with a bias."""
    model, E, U, Fe, dense = "Lfm2Moe", 7, 3, 24, 1

    def ffn_of_layer(self, i):
        E, D, Fe = self.E, self.D, self.Fe
        return self.ffn_shapes() if i < self.dense else {
            "ffn_gate_inp.weight": (E, D), "exp_probs_b.bias": (E,), "ffn_gate_exps.weight": (E, Fe, D),
            "ffn_up_exps.weight": (E, Fe, D), "ffn_down_exps.weight": (E, D, Fe)}

    def more_metadata(self, w):
        super().more_metadata(w)
        w.add_expert_count(self.E)
        w.add_expert_used_count(self.U)
        w.add_expert_feed_forward_length(self.Fe)
        w.add_leading_dense_block_count(self.dense)
        w.add_expert_gating_func(base.gguf.ExpertGatingFuncType.SIGMOID)

    def config(self):
        return super().config() | {"num_experts": self.E, "num_experts_per_tok": self.U, "moe_intermediate_size": self.Fe,
                                   "num_dense_layers": self.dense}

    def ffn_parameters(self, w):
        if "ffn_gate.weight" in w:
            return super().ffn_parameters(w)
        return {"feed_forward.gate.weight": w["ffn_gate_inp.weight"], "feed_forward.expert_bias": w["exp_probs_b.bias"],
                "feed_forward.experts.gate_up_proj": torch.cat([w["ffn_gate_exps.weight"], w["ffn_up_exps.weight"]], 1),
                "feed_forward.experts.down_proj": w["ffn_down_exps.weight"]}


# --- Kimi delta attention ---------------------------------------------------------------------------------------------

class KimiLinear(Hybrid):
    """Delta rule with a decay of each channel, around a layer of latent attention without positions; experts but in layer 0.

    Heads of S in delta layers; Z: latent width; Pn and Pr: parts of keys from the latent and shared; Pv: of values."""
    model, arch, tied, H, P, S, W, Z, Pn, Pr, Pv = "KimiLinear", "kimi-linear", False, 4, 15, 8, 4, 18, 12, 4, 10
    E, U, Fe, dense, scale, full = 7, 3, 24, 1, 2.5, 1
    norms = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}

    def kv_heads(self):
        return [1 if i == self.full else 0 for i in range(self.L)]

    def shapes_of_layer(self, i):
        D, H, S, W, Z = self.D, self.H, self.S, self.W, self.Z
        if i == self.full:
            mixer = {"attn_q.weight": (H * (self.Pn + self.Pr), D), "attn_kv_a_mqa.weight": (Z + self.Pr, D),
                     "attn_kv_a_norm.weight": (Z,), "attn_k_b.weight": (H, Z, self.Pn), "attn_v_b.weight": (H, self.Pv, Z),
                     "attn_output.weight": (D, H * self.Pv)}
        else:
            mixer = {f"attn_{p}.weight": (H * S, D) for p in "qkv"} | {f"ssm_conv1d_{p}.weight": (1, H * S, 1, W) for p in "qkv"}
            mixer |= {"ssm_f_a.weight": (S, D), "ssm_f_b.weight": (H * S, S), "ssm_beta.weight": (H, D), "ssm_a": (1, 1, H, 1),
                      "ssm_dt.bias": (H * S,), "ssm_g_a.weight": (S, D), "ssm_g_b.weight": (H * S, S),
                      "ssm_norm.weight": (S,), "attn_output.weight": (D, H * S)}
        E, Fe = self.E, self.Fe
        moe = {"ffn_gate_inp.weight": (E, D), "exp_probs_b.bias": (E,), "ffn_gate_exps.weight": (E, Fe, D),
               "ffn_up_exps.weight": (E, Fe, D), "ffn_down_exps.weight": (E, D, Fe), "ffn_gate_shexp.weight": (Fe, D),
               "ffn_up_shexp.weight": (Fe, D), "ffn_down_shexp.weight": (D, Fe)}
        return {n + ".weight": (D,) for n in self.norms} | mixer | (self.ffn_shapes() if i < self.dense else moe)

    def more_metadata(self, w):
        w.add_ssm_conv_kernel(self.W)
        w.add_kda_head_dim(self.S)
        w.add_kv_lora_rank(self.Z)
        w.add_rope_dimension_count(self.Pr)
        w.add_key_length(self.Z + self.Pr)
        w.add_value_length(self.Z)
        w.add_key_length_mla(self.Pn + self.Pr)
        w.add_value_length_mla(self.Pv)
        w.add_expert_count(self.E)
        w.add_expert_used_count(self.U)
        w.add_expert_feed_forward_length(self.Fe)
        w.add_expert_shared_count(1)
        w.add_leading_dense_block_count(self.dense)
        w.add_expert_weights_scale(self.scale)
        w.add_expert_gating_func(base.gguf.ExpertGatingFuncType.SIGMOID)

    def config(self):
        return {"head_dim": self.Pr, "num_key_value_heads": self.H, "kv_lora_rank": self.Z, "q_lora_rank": None, "qk_nope_head_dim": self.Pn,
                "qk_rope_head_dim": self.Pr, "v_head_dim": self.Pv, "linear_head_dim": self.S, "linear_num_heads": self.H,
                "linear_conv_kernel_dim": self.W, "num_local_experts": self.E, "num_experts_per_tok": self.U,
                "moe_intermediate_size": self.Fe, "n_shared_experts": 1, "routed_scaling_factor": self.scale,
                "norm_topk_prob": True, "n_group": 1, "topk_group": 1,
                "layer_types": ["full_attention" if i == self.full else "linear_attention" for i in range(self.L)],
                "mlp_layer_types": ["dense" if i < self.dense else "sparse" for i in range(self.L)]}

    def layer_parameters(self, w, i):
        out = {hf_name + ".weight": w[name + ".weight"] for name, hf_name in self.norms.items()}
        if i == self.full:
            both = torch.cat([w["attn_k_b.weight"].transpose(1, 2), w["attn_v_b.weight"]], 1).flatten(0, 1)
            mixer = {"q_proj.weight": w["attn_q.weight"], "kv_a_proj_with_mqa.weight": w["attn_kv_a_mqa.weight"],
                     "kv_a_layernorm.weight": w["attn_kv_a_norm.weight"], "kv_b_proj.weight": both}
        else:
            conv = torch.cat([w[f"ssm_conv1d_{p}.weight"].reshape(-1, 1, self.W) for p in "qkv"])
            mixer = {f"{p}_proj.weight": w[f"attn_{p}.weight"] for p in "qkv"}
            mixer |= {"conv1d.weight": conv, "forget_gate.f_a_proj.weight": w["ssm_f_a.weight"],
                      "forget_gate.f_b_proj.weight": w["ssm_f_b.weight"], "forget_gate.dt_bias": w["ssm_dt.bias"],
                      "forget_gate.A_log": (-w["ssm_a"]).log(), "b_proj.weight": w["ssm_beta.weight"],
                      "g_a_proj.weight": w["ssm_g_a.weight"], "g_b_proj.weight": w["ssm_g_b.weight"],
                      "o_norm.weight": w["ssm_norm.weight"]}
        mixer["o_proj.weight"] = w["attn_output.weight"]
        return out | {f"self_attn.{n}": a for n, a in mixer.items()} | self.ffn_parameters(w)

    def ffn_parameters(self, w):
        if "ffn_gate.weight" in w:
            return super().ffn_parameters(w)
        shared = {f"mlp.shared_experts.{part}_proj.weight": w[f"ffn_{part}_shexp.weight"] for part in ("gate", "up", "down")}
        return shared | {"mlp.gate.weight": w["ffn_gate_inp.weight"], "mlp.gate.e_score_correction_bias": w["exp_probs_b.bias"],
                         "mlp.experts.gate_up_proj": torch.cat([w["ffn_gate_exps.weight"], w["ffn_up_exps.weight"]], 1),
                         "mlp.experts.down_proj": w["ffn_down_exps.weight"]}


ONE = {"R": 1, "tied": True, "list_of_layers": False}
FAMILIES = [Qwen35("qwen35"), Qwen35("qwen35_r1", arch="qwen35", **ONE), Qwen35Moe("qwen35moe"),
            Qwen35Moe("qwen35moe_r1", arch="qwen35moe", **ONE), Qwen3Next("qwen3next"),
            Qwen3Next("qwen3next_r1", arch="qwen3next", **ONE), Mamba2("mamba2"), GraniteHybrid("granitehybrid"),
            GraniteHybrid("granitehybrid_rope", arch="granitehybrid", E=0, U=0, F=56, shared=56, rope=True, G=1),
            NemotronH("nemotron_h"), NemotronHMoe("nemotron_h_moe"), Lfm2("lfm2"), Lfm2Moe("lfm2moe"), KimiLinear("kimi_linear")]

if __name__ == "__main__":
    base.main(FAMILIES, __doc__)
