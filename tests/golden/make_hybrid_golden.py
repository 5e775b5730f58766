#!/usr/bin/env python3
"""Make the golden files of models whose layers are recurrent: the same files as those of make_family_golden.py.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_hybrid_golden.py              # all, beside this script
  $PY tests/golden/make_hybrid_golden.py --only qwen35,qwen3next --out DIR

docs/hybrid-families.md describes the files. In addition to the other families', a file holds `golden.adamw_losses`. llama.cpp
must compute the same logits with prompts of 1, 5, 70 and 130 tokens, in pieces, and token by token.
"""
import numpy as np
import torch

import make_family_golden as base
from make_family_golden import Family, f32

STEPS = 10
ADAMW = {"lr": 2e-4, "betas": (0.9, 0.95), "eps": 1e-2, "weight_decay": 0.0}


class Hybrid(Family):
    """Layers of two kinds."""
    eps = f32(1e-6)
    rows = sorted({*base.ROWS, 69})  # the last one of 70 tokens

    def more_results(self, weights, ids, targets):
        """The loss before each of ten steps on the file's tensors, but for ssm_a, which is -exp of what is trained; f64."""
        peer, ids = base.Peer(self, weights), ids[:base.SHORT]
        trained = dict(peer.w)
        logs = {name: (-a.detach()).log().requires_grad_() for name, a in peer.w.items() if name.endswith("ssm_a")}
        trained |= logs
        optimizer = torch.optim.AdamW(list(trained.values()), **ADAMW)
        losses = []
        for _ in range(STEPS):
            peer.w.update({name: -a.exp() for name, a in logs.items()})
            loss = torch.nn.functional.cross_entropy(peer([ids])[0], torch.tensor(targets, dtype=torch.long))
            losses.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return {"adamw_losses": np.array(losses)}

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


ONE = {"R": 1, "tied": True, "list_of_layers": False}
FAMILIES = [Qwen35("qwen35"), Qwen35("qwen35_r1", arch="qwen35", **ONE), Qwen35Moe("qwen35moe"),
            Qwen35Moe("qwen35moe_r1", arch="qwen35moe", **ONE), Qwen3Next("qwen3next"),
            Qwen3Next("qwen3next_r1", arch="qwen3next", **ONE)]


if __name__ == "__main__":
    base.main(FAMILIES, __doc__)
