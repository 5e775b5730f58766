// Defaults of sampling: one temperature for all conversations, and what a model's file asks for.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/sampler.h"
#include "toy/formats/gguf.h"

namespace toy {

/// Above this temperature even the likeliest tokens are drawn about as often as all others.
inline constexpr double kHottestTemperature = 10;

/// The temperature of conversations, in `toy chat` and `toy serve`, with a model whose file says none. (SamplerOptions
/// by itself, and `toy infer`, take the likeliest token.)
inline constexpr double kUsualTemperature = 0.8;

/// Defaults of a model.
struct UsualSampling {
  SamplerOptions options{.temperature = kUsualTemperature};
  std::vector<std::string_view> said;      ///< names of SamplerOptions::fields() that the file sets
  bool says(std::string_view name) const;  ///< is it one of `said`?
  /// "temperature 0.6, top_k 20 (the file's)", "temperature 0.8" where the file says nothing; without what was given.
  std::string text(const std::vector<std::string_view>& given = {}) const;
};
/// Of the metadata of a file: kSamplingKeys. A value that the option does not take is left out.
UsualSampling usual_sampling(const std::map<std::string, gguf::Value, std::less<>>& metadata = {});

/// `options` with what the file says of those that are not `given`.
SamplerOptions with_usual(SamplerOptions options, const UsualSampling& usual,
                          const std::vector<std::string_view>& given);

/// A seed that is easy to type again, another one each time.
uint64_t new_seed();

}  // namespace toy
