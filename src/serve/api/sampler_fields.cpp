#include "serve/api/sampler_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dialog/hints.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// Names that other servers have.
constexpr std::pair<const char*, std::string_view> kAliases[] = {{"repetition_penalty", "repeat_penalty"}};  // vLLM's

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

// `given`: options that have a field of their own.
void read_chain(const ordered_json& names, SamplerOptions& s, const std::set<std::string_view>& given) {
  std::string all;
  if (names.is_string()) {
    all = steps_of_letters(names);
  } else {
    if (!names.is_array())
      refuse(R"('samplers' is not an array of names, such as ["top_k", "temperature"])", "samplers");
    for (const ordered_json& name : names) {
      if (!name.is_string() || name.get<std::string>().find_first_not_of(' ') == std::string::npos ||
          name.get<std::string>().find(';') != std::string::npos)
        refuse(R"('samplers' has an item that is not a name, such as "top_k")", "samplers");
      all += (all.empty() ? "" : ";") + name.get<std::string>();
    }
  }
  try {
    for (const std::string_view name : set_sampler_chain(s, all))
      check(!given.contains(name), "'{}' and the brackets of 'samplers' set the same; send one of them", name);
  } catch (const Error& e) {
    refuse(one_line(e.what()), "samplers");
  }
}

// Clients send numbers of all steps, and a list without some of them: these have no effect.
void ignore_left_out(SamplerOptions& s, const std::set<std::string_view>& given) {
  SamplerOptions without = s;
  turn_off_left_out(without, {});
  SamplerOptions::fields(s, [&](const Option& option, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (!given.contains(option.name)) return;
    SamplerOptions::fields(without, [&](const Option& other, const auto& off) {
      if constexpr (std::is_same_v<std::decay_t<decltype(off)>, T>)
        if (other.name == option.name && off != value) {
          ignore_at(std::string(option.name), "is of a step that is left out");
          value = off;
        }
    });
  });
}

// mirostat is a number, as in llama-server.
void read_steps(Fields& f, CompletionRequest& r, const std::set<std::string_view>& given) {
  SamplerOptions& s = r.sampler;
  if (s.temperature > kHottestTemperature)
    refuse(fmt::format("'temperature' is {:g}, which draws all tokens about equally; send 0 to {:g} (0 to 2 is usual)",
                       s.temperature, kHottestTemperature),
           "temperature");
  if (const ordered_json* breakers = f.take("dry_sequence_breakers"))
    r.dry_breakers = stops_of(breakers, "dry_sequence_breakers");
  int mirostat = 0;
  const bool said = f.has("mirostat");
  f.number<int>("mirostat", mirostat, 0, 2);
  if (mirostat == 1) refuse("'mirostat' is 1, expected 2, or 0 to turn it off", "mirostat");
  s.mirostat = mirostat == 2;
  if (const ordered_json* names = f.take("samplers")) read_chain(*names, s, given);
  if (said && s.mirostat != (mirostat == 2))
    refuse("'mirostat' is 0, and 'samplers' ends with it; send one of them", "mirostat");
  if (dialog::IgnoredFields::current()) ignore_left_out(s, given);
  turn_off_left_out(s, std::vector(given.begin(), given.end()));
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
      refuse(fmt::format("'logit_bias' has the key '{}', which is not a token id; /tokenize gives the ids of a text",
                         one_line(key)),
             "logit_bias");
    try {
      s.logit_bias.emplace_back(id, json_number<double>(value, fmt::format("logit_bias of {}", id), -100, 100));
    } catch (const Error& e) {
      refuse(e.what(), "logit_bias");
    }
  }
}

// Whether a setting of Ollama says how the answer is written, and is not off. Others, such as num_ctx, are about
// loading a model.
bool changes_answer(const std::string& name, const ordered_json& value) {
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (is({"num_predict", "seed"})) return !value.is_number() || (name == "seed" ? value != -1 : value > 0);  // -1: any
  bool ours = is({"mirostat", "samplers", "logit_bias", "ignore_eos", "repetition_penalty", "stop"});
  SamplerOptions s;
  SamplerOptions::fields(s, [&](const Option& option, const auto&) { ours |= option.name == name; });
  const dialog::Hint::Kind kind = dialog::hint_of(name, value).kind;
  return kind == dialog::Hint::changes || (ours && kind == dialog::Hint::unknown);
}

// Ollama's settings are in an object, those of the other APIs stand next to the messages.
void read_ollama_options(Fields& f, std::initializer_list<std::string_view> only) {
  const ordered_json* options = f.take("options");
  if (options == nullptr) return;
  if (!options->is_object() || options->empty()) return ignore_at(f.path("options"), "has no effect");
  for (const auto& [name, value] : options->items()) {
    const std::string path = fmt::format("{}.{}", f.path("options"), name);
    if (value.is_null()) continue;
    if (!changes_answer(name, value)) {
      ignore_at(path, "has no effect");
      continue;
    }
    const std::string other = f.other(name);
    const bool known = only.size() == 0 || !other.empty() || std::ranges::find(only, name) != only.end();
    refuse_at(
        path,
        known ? fmt::format("is of Ollama's API; write '{}' at the top level", other.empty() ? one_line(name) : other)
              : "is of Ollama's API, and not known to this one; use /v1/chat/completions",
        "unsupported_parameter");
  }
}

}  // namespace

void read_sampler_numbers(Fields& f, SamplerOptions& s, std::initializer_list<std::string_view> only) {
  read_ollama_options(f, only);
  SamplerOptions::fields(s, [&](const Option& option, auto& value) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (!std::is_same_v<T, uint64_t>) {  // the seed is read elsewhere: it may be negative, or any
      if (only.size() > 0 && std::ranges::find(only, option.name) == only.end()) return;
      const bool given = f.has(std::string(option.name));
      f.number<T>(std::string(option.name), value, option.limits);
      for (const auto& [alias, name] : kAliases) {
        if (name != option.name || !f.has(alias)) continue;
        const T here = value;
        f.number<T>(alias, value, option.limits);
        if (given && here != value)
          refuse(fmt::format("'{}' is {} and '{}' is {}; send one of them", name, here, alias, value), alias);
      }
    }
  });
}

void read_sampler_fields(Fields& f, CompletionRequest& r) {
  std::set<std::string_view> given;
  SamplerOptions::fields(r.sampler, [&](const Option& option, const auto&) {
    if (f.has(std::string(option.name))) given.insert(option.name);
  });
  for (const auto& [alias, name] : kAliases)
    if (f.has(alias)) given.insert(name);
  read_sampler_numbers(f, r.sampler);
  read_logit_bias(f, r.sampler);
  read_steps(f, r, given);
}

}  // namespace toy::serve
