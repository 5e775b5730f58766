#include "toy/decode/usual_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "toy/formats/sampling_keys.h"

namespace toy {
namespace {

std::optional<double> number(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, float>)
          return std::round(double(v) * 1e6) / 1e6;  // 0.95, not 0.949999988
        else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
          return double(v);
        else
          return std::nullopt;
      },
      value);
}

bool among(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool UsualSampling::says(std::string_view name) const { return among(said, name); }

std::string UsualSampling::text(const std::vector<std::string_view>& given) const {
  std::string list;
  bool of_file = false;
  SamplerOptions::fields(options, [&](const Option& option, const auto& value) {
    if (among(given, option.name) || (option.name != "temperature" && !says(option.name))) return;
    list += fmt::format("{}{} {:g}", list.empty() ? "" : ", ", option.name, double(value));
    of_file = of_file || says(option.name);
  });
  return list + (of_file ? " (the file's)" : "");
}

UsualSampling usual_sampling(const std::map<std::string, gguf::Value, std::less<>>& metadata) {
  UsualSampling usual;
  SamplerOptions::fields(usual.options, [&](const Option& option, auto& value) {
    using T = std::decay_t<decltype(value)>;
    const auto key = std::find_if(std::begin(kSamplingKeys), std::end(kSamplingKeys),
                                  [&](const SamplingKey& k) { return k.field == option.name; });
    const auto it = key == std::end(kSamplingKeys) ? metadata.end() : metadata.find(key->gguf);
    const std::optional<double> v = it == metadata.end() ? std::nullopt : number(it->second);
    if (!v || !option.limits.hold(*v) || (std::is_integral_v<T> && (*v != std::floor(*v) || std::fabs(*v) > 1e9)))
      return;
    value = T(*v);
    usual.said.push_back(option.name);
  });
  return usual;
}

SamplerOptions with_usual(SamplerOptions options, const UsualSampling& usual,
                          const std::vector<std::string_view>& given) {
  SamplerOptions::fields(options, [&](const Option& option, auto& value) {
    if (among(given, option.name)) return;
    SamplerOptions::fields(usual.options, [&](const Option& other, const auto& its) {
      if constexpr (std::is_same_v<std::decay_t<decltype(its)>, std::decay_t<decltype(value)>>)
        if (other.name == option.name && usual.says(option.name)) value = its;
    });
  });
  turn_off_left_out(options, given);
  return options;
}

uint64_t new_seed() {
  constexpr uint64_t kMost = 999'999;
  return 1 + std::random_device()() % kMost;
}

}  // namespace toy
