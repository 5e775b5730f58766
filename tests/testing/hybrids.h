// Small models with recurrent layers, as JSON: 61 tokens, a context of 200.
#pragma once

namespace toy::testing {

/// Three value heads for each key head, gated attention whose heads turn in part.
inline constexpr const char* kQwen35 =
    R"json({"architecture": "qwen35", "name": "qwen35", "d_model": 64, "n_layers": 4, "n_heads": 4, "n_kv": 2,
    "d_head": 32, "d_ff": 96, "vocab": 61, "context": 200, "tied": false, "rope_dims": 8,
    "delta_key_heads": 2, "delta_value_heads": 6, "delta_width": 16})json";
/// With experts, and beta and alpha in one tensor.
inline constexpr const char* kQwen3Next =
    R"json({"architecture": "qwen3next", "name": "qwen3next", "d_model": 64, "n_layers": 4, "n_heads": 4, "n_kv": 2,
    "d_head": 32, "d_ff": 32, "vocab": 61, "context": 200, "tied": false, "rope_dims": 16, "delta_key_heads": 2,
    "delta_value_heads": 4, "delta_width": 32, "experts": 4, "experts_used": 2, "shared_d_ff": 32})json";
/// Pages that are returned beside states.
inline constexpr const char* kHybridWithWindows =
    R"json({"architecture": "toy", "name": "windows", "d_model": 64, "n_layers": 6, "n_heads": 4, "n_kv": 2,
    "d_head": 32, "d_ff": 96, "vocab": 61, "context": 200, "tied": false,
    "delta_key_heads": 4, "delta_value_heads": 4, "delta_width": 16, "conv_width": 4,
    "layers": "gdn*2,attn(window=24)"})json";
/// The third layer takes keys and values of the first, the second and the last have none.
inline constexpr const char* kHybridWithSharedKv =
    R"json({"architecture": "toy", "name": "shared_kv", "d_model": 64, "n_layers": 4, "n_heads": 4, "n_kv": 2,
    "d_head": 32, "d_ff": 96, "vocab": 61, "context": 200, "tied": false,
    "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 16, "conv_width": 2,
    "layers": "attn,gdn,attn(shared_kv=true),gdn(shared_kv=true)"})json";
/// No pages at all. A convolution of one column keeps nothing, and the last layer has none.
inline constexpr const char* kOnlyRecurrent =
    R"json({"architecture": "toy", "name": "recurrent", "d_model": 64, "n_layers": 3, "n_heads": 4, "n_kv": 2,
    "d_head": 32, "d_ff": 96, "vocab": 61, "context": 200, "tied": false,
    "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 16,
    "layers": "gdn(conv_width=1),gdn(conv_width=3),gdn(conv_width=0)"})json";

}  // namespace toy::testing
