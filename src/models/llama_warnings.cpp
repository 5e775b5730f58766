// What a `llama` file asks for and does not get, here or in llama.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "toy/base/memory.h"
#include "toy/formats/dequantize.h"
#include "toy/models/model.h"

namespace toy {
namespace {

// Keys that are read (llama.cpp), or that state nothing to compute with.
constexpr std::array kKnown = {
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
    if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) continue;
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

// Q8_0 takes 34 bytes for 32 values, f32 128.
void warn_of_types(const gguf::File& f, std::vector<std::string>& out) {
  size_t tensors = 0, stored = 0, loaded = 0;
  std::set<std::string> types;
  for (const gguf::TensorInfo& t : f.tensors())
    if (gguf::can_dequantize(t)) {
      ++tensors, stored += t.bytes, loaded += size_t(t.shape.count()) * 4;
      types.insert(t.type_name);
    }
  if (tensors)
    out.push_back(fmt::format("{} matrices are {} and are dequantized to f32 when loaded: {} in the file, {} in memory",
                              tensors, fmt::join(types, ", "), format_bytes(stored), format_bytes(loaded)));
}

}  // namespace

std::vector<std::string> warnings_of(const gguf::File& f, const ModelSpec& m) {
  std::vector<std::string> out;
  warn_of_types(f, out);
  warn_of_keys(f, m, out);
  warn_of_rope(f, out);
  if (const int64_t window = m.layers.front().window; window > 0 && window < m.context)
    out.push_back(
        fmt::format("the window of {} positions is used here; llama.cpp ignores it in the architecture llama "
                    "and will differ from position {} on",
                    window, window));
  if (std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.qk_norm; }))
    out.push_back("QK-norm in the architecture llama: llama.cpp does not load this file");
  if (const uint32_t v = f.get_u32("llama.vocab_size", uint32_t(m.vocab)); int64_t(v) != m.vocab)
    out.push_back(fmt::format("llama.vocab_size is {}, token_embd.weight has {} rows, which are used", v, m.vocab));
  return out;
}

}  // namespace toy
