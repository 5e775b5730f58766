#!/usr/bin/env python3
"""Make the golden files of `toy look`: attention weights, rows between layers and logit lens of small random models.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_look_golden.py              # all, beside this script
  $PY tests/golden/make_look_golden.py --only gemma3 --out DIR

The models are those of NAME.family.gguf (make_family_golden.py, make_hybrid_golden.py). transformers computes in f64, with
output_attentions and output_hidden_states. NAME.look.gguf holds, for the first TOKENS of the family's ids:

  golden.attention  [layers with attention, H, rows, TOKENS], of the tokens in `golden.rows`
  golden.norms      [L + 1, TOKENS], of the embedded tokens and of the rows after each layer
  golden.lens       [L + 1, rows, V], probabilities by the final norm and the output projection of these rows
"""
import argparse
import pathlib

import gguf
import numpy as np
import torch

import make_family_golden as base
import make_hybrid_golden as hybrid

TOKENS = 48
ROWS = [0, 1, 7, 31, 32, 33, 47]
NAMES = ["llama", "gpt2", "gemma2", "gemma3", "gpt_oss", "qwen35", "granite"]


class Eager(base.Peer):
    """Attention as matrices, which fused kernels never hold."""

    def __init__(self, family, weights):
        made = family.hf_config

        def config():
            c = made()
            c._attn_implementation = "eager"
            return c

        family.hf_config = config
        super().__init__(family, weights)
        family.hf_config = made

    def look(self, ids):
        """Attention, and the rows that each layer gets and the last one returns."""
        inner = getattr(self.model, "transformer", None) or self.model.model
        layers = getattr(inner, "h", None) or inner.layers
        norm = getattr(inner, "ln_f", None) or inner.norm
        rows, parameters = [], self.family.parameters(self.w)
        hooks = [layers[0].register_forward_pre_hook(lambda m, args: rows.append(args[0]))]
        hooks += [b.register_forward_hook(lambda m, args, out: rows.append(out[0] if isinstance(out, tuple) else out)) for b in layers]
        with base.in_f64():
            call = {"input_ids": torch.tensor(ids[None], dtype=torch.long), "use_cache": False, "output_attentions": True}
            out = torch.func.functional_call(self.model, parameters, kwargs=call)
            for h in hooks:
                h.remove()
            head = [n for n, p in self.model.named_parameters() if n.endswith(("lm_head.weight", "embed_tokens.weight", "wte.weight"))]
            head = parameters["lm_head.weight"] if "lm_head.weight" in parameters else parameters[head[0]]
            owner = [n for n, m in self.model.named_modules() if m is norm][0]
            own = {n[len(owner) + 1:]: p for n, p in parameters.items() if n.startswith(owner + ".")}
            lens = []
            for x in rows:
                z = torch.func.functional_call(norm, own, (x,)) @ head.T
                z = z / getattr(self.model.config, "logits_scaling", 1.0)
                cap = getattr(self.model.config, "final_logit_softcapping", None)
                lens.append(cap * torch.tanh(z / cap) if cap else z)
        assert float((lens[-1] - out.logits).abs().max()) < 1e-12, "the lens does not end at the logits"
        attention = [a for a in out.attentions if a is not None]
        return {"attention": torch.stack([a[0][:, ROWS] for a in attention]), "norms": torch.stack([x[0].norm(dim=-1) for x in rows]),
                "lens": torch.stack([torch.softmax(z[0], -1)[ROWS] for z in lens])}


def make(family, out):
    ids = (base.hashes("ids", base.LONG) % np.uint64(family.V)).astype(np.int32)[:TOKENS]
    with torch.no_grad():
        golden = Eager(family, base.weights_of(family.shapes())).look(ids)
    path = out / f"{family.name}.look.gguf"
    w = gguf.GGUFWriter(path, "golden")
    w.add_array("golden.rows", ROWS)
    w.add_tensor("golden.ids", ids)
    for name, a in golden.items():
        w.add_tensor("golden." + name, np.ascontiguousarray(a.numpy().astype(np.float32)))
    base.finish(w)
    print(f"{family.name}: attention {tuple(golden['attention'].shape)}, largest {float(golden['attention'][:, :, -1].max()):.3f}, "
          f"{path.stat().st_size} bytes", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=pathlib.Path, default=base.HERE, help="folder to write to (default: beside this script)")
    ap.add_argument("--only", default="", help="names, comma separated")
    a = ap.parse_args()
    torch.set_num_threads(1)  # one order of summation
    families = {f.name: f for f in [*base.FAMILIES, *hybrid.FAMILIES]}
    for name in NAMES:
        if not a.only or name in a.only.split(","):
            make(families[name], a.out)


if __name__ == "__main__":
    main()
