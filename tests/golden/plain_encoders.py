"""Encoders whose classes are not part of transformers, as plain PyTorch: the published mathematics of JinaBertModel
(Guenther et al. 2023) and of NomicBertModel with experts (Nussbaum and Duderstadt 2025), in any precision. Parameters have
the names of their files. model(ids) gives hidden states: ids [1,T] -> [1,T,D]."""
import torch
from torch import nn
from torch.nn.functional import gelu


def group(**modules):
    return nn.ModuleDict(modules)


def attend(q, k, v, heads, bias=None):
    """softmax(q k^T / sqrt(P) + bias) v, every token with every other. q, k, v: [1,T,D]"""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def alibi(heads, tokens, dtype):
    """-slope |i - j| of each head (Press et al. 2022): [H,T,T]"""
    def slopes(n):  # of a power of two
        return [2.0 ** (-8 * (h + 1) / n) for h in range(n)]
    power = 1
    while 2 * power <= heads:
        power *= 2
    all_of = slopes(power) + slopes(2 * power)[0::2][:heads - power]
    at = torch.arange(tokens)
    return -torch.tensor(all_of, dtype=dtype)[:, None, None] * (at[:, None] - at[None, :]).abs().to(dtype)


class JinaBert(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f, eps = c["hidden_size"], c["intermediate_size"], c["layer_norm_eps"]
        self.heads, self.width = c["num_attention_heads"], f
        self.embeddings = group(word_embeddings=nn.Embedding(c["vocab_size"], d), LayerNorm=nn.LayerNorm(d, eps),
                                token_type_embeddings=nn.Embedding(c["type_vocab_size"], d))
        self.encoder = group(layer=nn.ModuleList(group(
            attention=nn.ModuleDict({"self": group(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)),
                                     "output": group(dense=nn.Linear(d, d), LayerNorm=nn.LayerNorm(d, eps))}),
            mlp=group(gated_layers=nn.Linear(d, 2 * f, bias=False), wo=nn.Linear(f, d), layernorm=nn.LayerNorm(d, eps)))
            for _ in range(c["num_hidden_layers"])))

    def forward(self, ids):
        e = self.embeddings
        x = e["LayerNorm"](e["word_embeddings"](ids) + e["token_type_embeddings"].weight[0])
        bias = alibi(self.heads, ids.shape[1], x.dtype)
        for layer in self.encoder["layer"]:
            maps, out, mlp = layer["attention"]["self"], layer["attention"]["output"], layer["mlp"]
            y = attend(maps["query"](x), maps["key"](x), maps["value"](x), self.heads, bias)
            x = out["LayerNorm"](x + out["dense"](y))
            a, b = mlp["gated_layers"](x).split(self.width, -1)
            x = mlp["layernorm"](x + mlp["wo"](gelu(a) * b))
        return x


class Experts(nn.Module):
    """Of a row, those whose softmax is largest, weighed by it; the weights are not divided by their sum."""

    def __init__(self, d, f, count, used):
        super().__init__()
        self.router = group(layer=nn.Linear(d, count, bias=False))
        mlp = nn.Module()
        mlp.w1, mlp.w2 = nn.Parameter(torch.empty(count * f, d)), nn.Parameter(torch.empty(count * f, d))
        self.experts = group(mlp=mlp)
        self.count, self.used = count, used

    def forward(self, x):
        mlp = self.experts["mlp"]
        up, down = mlp.w1.unflatten(0, (self.count, -1)), mlp.w2.unflatten(0, (self.count, -1))
        p = self.router["layer"](x).softmax(-1)
        weight, chosen = p.topk(self.used, -1)
        p = torch.zeros_like(p).scatter(-1, chosen, weight)
        each = torch.einsum("btef,efd->bted", gelu(torch.einsum("btd,efd->btef", x, up)), down)
        return (p[..., None] * each).sum(2)


class Mlp(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, f), nn.Linear(f, d)

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


def rotate(x, base):
    """Element i of a head turns with i + P/2. x: [1,T,H,P]"""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * base ** (-torch.arange(half, dtype=x.dtype) / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x.split(half, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class NomicBertMoe(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f, eps = c["n_embd"], c["n_inner"], c["layer_norm_epsilon"]
        self.heads, self.base = c["n_head"], c["rotary_emb_base"]
        self.embeddings = group(word_embeddings=nn.Embedding(c["vocab_size"], d),
                                token_type_embeddings=nn.Embedding(c["type_vocab_size"], d))
        self.emb_ln = nn.LayerNorm(d, eps)
        self.encoder = group(layers=nn.ModuleList(group(
            attn=group(Wqkv=nn.Linear(d, 3 * d), out_proj=nn.Linear(d, d)), norm1=nn.LayerNorm(d, eps),
            mlp=Experts(d, f, c["num_experts"], c["moe_top_k"]) if i % c["moe_every_n_layers"] == 1 else Mlp(d, f),
            norm2=nn.LayerNorm(d, eps)) for i in range(c["n_layer"])))

    def forward(self, ids):
        e = self.embeddings
        x = self.emb_ln(e["word_embeddings"](ids) + e["token_type_embeddings"].weight[0])
        for layer in self.encoder["layers"]:
            q, k, v = layer["attn"]["Wqkv"](x).chunk(3, -1)
            q, k = (rotate(y.unflatten(-1, (self.heads, -1)), self.base).flatten(2) for y in (q, k))
            x = layer["norm1"](x + layer["attn"]["out_proj"](attend(q, k, v, self.heads)))
            x = layer["norm2"](x + layer["mlp"](x))
        return x
