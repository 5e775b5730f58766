// Where files say how tokens are to be drawn.
#pragma once

#include <string_view>

namespace toy {

/// A setting: its name here (SamplerOptions::fields()), its key in a GGUF, which is llama.cpp's, and its name in
/// generation_config.json of Hugging Face ("": it has none there).
struct SamplingKey {
  std::string_view field, gguf, hugging_face;
  bool is_integer = false;
};
inline constexpr SamplingKey kSamplingKeys[] = {
    {"temperature", "general.sampling.temp", "temperature"},
    {"top_k", "general.sampling.top_k", "top_k", true},
    {"top_p", "general.sampling.top_p", "top_p"},
    {"min_p", "general.sampling.min_p", "min_p"},
    {"xtc_probability", "general.sampling.xtc_probability", ""},
    {"xtc_threshold", "general.sampling.xtc_threshold", ""},
    {"repeat_last_n", "general.sampling.penalty_last_n", "", true},
    {"repeat_penalty", "general.sampling.penalty_repeat", "repetition_penalty"},
};

}  // namespace toy
