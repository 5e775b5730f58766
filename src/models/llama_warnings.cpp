#include "models/llama_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace toy {
namespace {

// Keys that are read (llama.cpp), or that state nothing to compute with.
constexpr std::array kReadKeys = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "expert_count",
    "tensor_data_layout",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.finetuned",
};

// Keys that converters write and that neither llama.cpp nor toy reads: harmless at the value that is computed with.
struct Fixed {
  const char* key;
  double value;
};

bool is_value(const gguf::Value& v, double wanted) {
  return std::visit(
      [&](const auto& x) {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(x)>>)
          return std::abs(double(x) - wanted) <= 1e-6 * std::abs(wanted);
        else
          return false;
      },
      v);
}

void warn_of_keys(const gguf::File& f, const ModelSpec& m, std::vector<std::string>& out) {
  const Fixed fixed[] = {{"rope.scaling.yarn_beta_fast", 32},
                         {"rope.scaling.yarn_beta_slow", 1},
                         {"rope.scaling.yarn_ext_factor", 1},
                         {"rope.scaling.yarn_attn_factor", 1},
                         {"attention.scale", 1 / std::sqrt(double(m.layers.front().d_head))},
                         {"expert_used_count", 0}};
  constexpr std::string_view prefix = "llama.";
  for (const auto& [key, value] : f.metadata()) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    if (std::find(kReadKeys.begin(), kReadKeys.end(), name) != kReadKeys.end()) continue;
    const Fixed* known =
        std::find_if(std::begin(fixed), std::end(fixed), [&](const Fixed& x) { return name == x.key; });
    if (known == std::end(fixed))
      out.push_back(fmt::format("metadata key {} is not known and has no effect", key));
    else if (!is_value(value, known->value))
      out.push_back(fmt::format("metadata key {} has no effect, as in llama.cpp: {:g} is used", key, known->value));
  }
}

void warn_of_rope(const gguf::File& f, std::vector<std::string>& out) {
  const bool none = f.get_string("llama.rope.scaling.type", "") == "none";
  const float factor = f.get_f32("llama.rope.scaling.factor", 1.0f);
  if (none && factor != 1)
    out.push_back(fmt::format("llama.rope.scaling.factor {:g} has no effect: llama.rope.scaling.type is none", factor));
}

}  // namespace

void warn_of_llama(const gguf::File& f, const ModelSpec& m, std::vector<std::string>& out) {
  warn_of_keys(f, m, out);
  warn_of_rope(f, out);
  if (const int64_t window = m.layers.front().window; window > 0 && window < m.context)
    out.push_back(
        fmt::format("the window of {} positions is used here; llama.cpp ignores it in the architecture llama "
                    "and will differ from position {} on",
                    window, window));
  if (std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.qk_norm; }))
    out.push_back("QK-norm in the architecture llama: llama.cpp does not load this file");
}

}  // namespace toy
