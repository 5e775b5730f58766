#include "serve/api/sampler_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

void read_sampler(Fields& f, SamplerOptions& s) {
  f.number<double>("temperature", s.temperature, 0, 100);
  read_top_p(f, s);
  read_top_k(f, s);
  f.number<double>("min_p", s.min_p, 0, 1);
  f.number<double>("frequency_penalty", s.frequency_penalty, -2, 2);
  f.number<double>("presence_penalty", s.presence_penalty, -2, 2);
  f.number<double>("repeat_penalty", s.repeat_penalty, 0.01, 100);
  f.number<double>("repetition_penalty", s.repeat_penalty, 0.01, 100);  // vLLM's name
  f.number<int64_t>("repeat_last_n", s.penalty_last_n, -1, int64_t(1) << 31);
}

// The steps as llama-server's page sends them, a letter each.
std::string steps_of_letters(const std::string& letters) {
  static constexpr std::pair<char, const char*> kLetters[] = {
      {'e', "penalties"}, {'d', "dry"},   {'t', "temperature"}, {'s', "top_n_sigma"}, {'k', "top_k"},
      {'y', "typ_p"},     {'p', "top_p"}, {'m', "min_p"},       {'x', "xtc"}};
  std::string names;
  for (const char c : letters) {
    const auto* known = std::ranges::find(kLetters, c, &std::pair<char, const char*>::first);
    if (known == std::end(kLetters))
      refuse(fmt::format("'samplers' is '{}', expected an array of names, such as [\"top_k\", \"temperature\"], or "
                         "letters of edtskypmx",
                         one_line(letters)),
             "samplers");
    names += fmt::format("{}{}", names.empty() ? "" : ";", known->second);
  }
  return names;
}

std::vector<SamplerStep> sampler_steps_of(const ordered_json& names) {
  std::string all;
  if (names.is_string()) return parse_sampler_steps(steps_of_letters(names));
  if (!names.is_array()) refuse(R"('samplers' is not an array of names, such as ["top_k", "temperature"])", "samplers");
  for (const ordered_json& name : names) {
    if (!name.is_string()) refuse(R"('samplers' has an item that is not a name, such as "top_k")", "samplers");
    all += (all.empty() ? "" : ";") + name.get<std::string>();
  }
  try {
    return parse_sampler_steps(all);
  } catch (const Error& e) {
    refuse(one_line(e.what()), "samplers");
  }
}

// Names and values of llama-server.
void read_sampler_chain(Fields& f, CompletionRequest& r) {
  SamplerOptions& s = r.sampler;
  constexpr double kMost = 1e6;
  const auto above_0 = [&](const char* name, double& value, double most) {
    f.number<double>(name, value, 0, most);
    if (value == 0) refuse(fmt::format("'{}' is 0, expected above 0 and at most {:g}", name, most), name);
  };
  f.number<double>("dynatemp_range", s.dynatemp_range, 0, 100);
  above_0("dynatemp_exponent", s.dynatemp_exponent, kMost);
  above_0("typical_p", s.typical_p, 1);
  f.number<double>("top_n_sigma", s.top_n_sigma, 0, kMost);
  f.number<double>("xtc_probability", s.xtc_probability, 0, 1);
  above_0("xtc_threshold", s.xtc_threshold, 1);
  f.number<double>("dry_multiplier", s.dry_multiplier, 0, kMost);
  f.number<double>("dry_base", s.dry_base, 1, kMost);
  f.number<int64_t>("dry_allowed_length", s.dry_allowed_length, 0, kMostTokens);
  f.number<int64_t>("dry_penalty_last_n", s.dry_penalty_last_n, -1, kMostTokens);
  if (const ordered_json* breakers = f.take("dry_sequence_breakers"))
    r.dry_breakers = stops_of(breakers, "dry_sequence_breakers");
  int mirostat = 0;
  f.number<int>("mirostat", mirostat, 0, 2);
  if (mirostat == 1) refuse("'mirostat' is 1, expected 2, or 0 to turn it off", "mirostat");
  s.mirostat = mirostat == 2;
  above_0("mirostat_tau", s.mirostat_tau, kMost);
  above_0("mirostat_eta", s.mirostat_eta, kMost);
  if (const ordered_json* names = f.take("samplers")) s.steps = sampler_steps_of(*names);
  try {
    const Sampler options_go_together(s);
  } catch (const Error& e) {
    refuse(e.what(), s.mirostat ? "mirostat" : "samplers");
  }
}

// {"ID": number to add to the logit, ...}
void read_logit_bias(Fields& f, SamplerOptions& s) {
  const ordered_json* bias = f.take("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) refuse("'logit_bias' is not an object of token ids and numbers", "logit_bias");
  if (int64_t(bias->size()) > kMostBiases)
    refuse(fmt::format("'logit_bias' has {} tokens; use at most {}", bias->size(), kMostBiases), "logit_bias");
  for (const auto& [key, value] : bias->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      refuse(fmt::format("'logit_bias' has the key '{}', which is not a token id", one_line(key)), "logit_bias");
    try {
      s.logit_bias.emplace_back(id, json_number<double>(value, fmt::format("logit_bias of {}", id), -100, 100));
    } catch (const Error& e) {
      refuse(e.what(), "logit_bias");
    }
  }
}

}  // namespace

void read_top_p(Fields& f, SamplerOptions& s) {
  constexpr double kOnlyTheLikeliest = 1e-9;
  f.number<double>("top_p", s.top_p, 0, 1);
  if (s.top_p == 0) s.top_p = kOnlyTheLikeliest;
}

void read_top_k(Fields& f, SamplerOptions& s) {
  f.number<int>("top_k", s.top_k, -1, INT32_MAX);
  if (s.top_k == -1) s.top_k = 0;  // as 0: all
}

void read_sampler_fields(Fields& f, CompletionRequest& r) {
  read_sampler(f, r.sampler);
  read_logit_bias(f, r.sampler);
  read_sampler_chain(f, r);
}

}  // namespace toy::serve
