#!/usr/bin/env python3
"""One step of training in PyTorch, timed: the work of `toy bench train`, with the same keys.

  PY=$(scripts/peers.sh) && $PY bench/peers/pytorch_step.py --shape smollm2-135m --batch 1 --tokens 256

Forward, mean next-token cross-entropy, backward and fused AdamW, without clipping; f32, or bf16 by autocast. Llama shapes use
PyTorch's own rms_norm and attention, GPT-2 and the hybrids (Qwen3.5) are transformers' models. --compile: torch.compile.
--checkpoint: activations of a block are recomputed in backward (torch.utils.checkpoint). One JSON line on stdout.
"""
import argparse
import json
import os
import resource
import statistics
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SHAPES = {  # D, F, L, H, K, P, V
    "tiny": (64, 176, 4, 4, 2, 16, 256),
    "stories15m": (288, 768, 6, 6, 6, 48, 32000),
    "smollm2-135m": (576, 1536, 30, 9, 3, 64, 49152),
    "tinyllama-1b": (2048, 5632, 22, 32, 4, 64, 32000),
    "smollm2-360m": (960, 2560, 32, 15, 5, 64, 49152),
    "gpt2-124m": (768, 3072, 12, 12, 12, 64, 50257),
    "hybrid-tiny": (64, 176, 4, 4, 2, 16, 256),
    "hybrid-60m": (512, 1536, 12, 8, 2, 64, 32000),
}
UNTIED = ("tinyllama-1b",)  # the head is a matrix of its own


def llama(torch, shape, recompute, tied):
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint
    d_model, d_ff, n_layers, heads, kv_heads, d_head, vocab = shape

    def dense(inputs, outputs):
        return nn.Linear(inputs, outputs, bias=False)

    def split(x, n):  # [B,T,n*P] -> [B,n,T,P]
        return x.unflatten(-1, (n, d_head)).transpose(1, 2)

    def rotated(x, cos, sin):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.ones(d_model))
            self.q, self.o = dense(d_model, heads * d_head), dense(heads * d_head, d_model)
            self.k, self.v = dense(d_model, kv_heads * d_head), dense(d_model, kv_heads * d_head)
            self.gate, self.up, self.down = dense(d_model, d_ff), dense(d_model, d_ff), dense(d_ff, d_model)

        def forward(self, x, cos, sin):
            h = F.rms_norm(x, (d_model,), self.attn_norm, 1e-5)
            q, k, v = split(self.q(h), heads), split(self.k(h), kv_heads), split(self.v(h), kv_heads)
            k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (rotated(k, cos, sin), v))
            a = F.scaled_dot_product_attention(rotated(q, cos, sin), k, v, is_causal=True)
            x = x + self.o(a.transpose(1, 2).flatten(2))
            h = F.rms_norm(x, (d_model,), self.ffn_norm, 1e-5)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocab, d_model)
            nn.init.normal_(self.embedding.weight, std=0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(n_layers))
            self.norm = nn.Parameter(torch.ones(d_model))
            self.head = self.embedding if tied else dense(d_model, vocab)

        def forward(self, ids, targets):
            frequencies = 1e4 ** -(torch.arange(0, d_head, 2, device=ids.device) / d_head)
            angles = torch.outer(torch.arange(ids.shape[1], device=ids.device), frequencies).repeat(1, 2)
            x = self.embedding(ids)
            for block in self.blocks:
                arguments = (x, angles.cos(), angles.sin())
                x = checkpoint(block, *arguments, use_reentrant=False) if recompute else block(*arguments)
            logits = F.linear(F.rms_norm(x, (d_model,), self.norm, 1e-5), self.head.weight)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Llama()


def of_transformers(torch, shape, recompute, make):
    model = make(*shape)
    if recompute:
        model.gradient_checkpointing_enable()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, targets):
            logits = self.model(input_ids=ids).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return Model()


def gpt2(d_model, _, n_layers, heads, __, ___, vocab):
    import transformers
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=vocab, n_embd=d_model, n_layer=n_layers, n_head=heads, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def hybrid(d_model, d_ff, n_layers, heads, kv_heads, d_head, vocab):
    import transformers
    return transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(
        vocab_size=vocab, hidden_size=d_model, intermediate_size=d_ff, num_hidden_layers=n_layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=d_head, linear_num_key_heads=heads, linear_num_value_heads=heads,
        linear_key_head_dim=d_head, linear_value_head_dim=d_head, linear_conv_kernel_dim=4, tie_word_embeddings=True))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", default="smollm2-135m", choices=SHAPES)
    ap.add_argument("--compute", default="f32", choices=["f32", "bf16"])
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--tokens", type=int, default=256)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--warmup", type=int, default=2)
    ap.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--checkpoint", action="store_true")
    a = ap.parse_args()
    import torch
    torch.manual_seed(0)
    torch.set_num_threads(a.threads)
    shape = SHAPES[a.shape]
    d_model, _, n_layers, heads, _, d_head, vocab = shape
    if a.shape.startswith(("gpt2", "hybrid")):
        model = of_transformers(torch, shape, a.checkpoint, gpt2 if a.shape.startswith("gpt2") else hybrid).train()
    else:
        model = llama(torch, shape, a.checkpoint, a.shape not in UNTIED).train()
    model.to(a.device)
    params = sum(p.numel() for p in model.parameters())
    read = d_model * vocab if a.shape in UNTIED else 0  # rows of a table, no product
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if a.compile else model
    window = torch.randint(0, vocab, (a.batch, a.tokens + 1), device=a.device)
    ids, targets = window[:, :-1].contiguous(), window[:, 1:].contiguous()

    times = []
    for _ in range(a.warmup + a.steps):
        begin = time.perf_counter()
        with torch.autocast(a.device, torch.bfloat16, enabled=a.compute == "bf16"):
            loss = run(ids, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = loss.item()
        times.append(time.perf_counter() - begin)
    seconds, rows = statistics.median(times[a.warmup:]), a.batch * a.tokens
    flops = 6 * (params - read) * rows + 12 * n_layers * heads * d_head * a.tokens * rows / 2
    print(json.dumps(dict(
        peer="torch " + torch.__version__, shape=a.shape, compute=a.compute, compile=a.compile, checkpoint=a.checkpoint,
        threads=a.threads, batch=a.batch, tokens=a.tokens, params=params, ms=1e3 * seconds,
        ms_min=1e3 * min(times[a.warmup:]), tokens_per_s=rows / seconds, gflops=flops / seconds / 1e9, loss=loss,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


if __name__ == "__main__":
    main()
