#include "hf/peft_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kAny = R"(.*\.)";  // PEFT writes it in front of experts

bool is_plain(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return std::isalnum(c & 0xff) || c == '_' || c == '.'; });
}

int64_t rank_in(const ordered_json& value, const std::string& path, const std::string& what) {
  const bool whole = value.is_number_unsigned() && value > 0 && value <= INT32_MAX;
  check(whole, "{}: '{}' is {}, expected a whole number above 0", path, what, json_text(value));
  return value.get<int64_t>();
}

bool is_named(const std::string& target, const std::string& name) {
  return target == name || target.ends_with("." + name);
}

}  // namespace

double PeftConfig::scale_of(const std::string& target, int64_t of_tensors) const {
  const auto own = std::find_if(alphas.begin(), alphas.end(), [&](const auto& a) { return is_named(target, a.first); });
  return (own == alphas.end() ? alpha : own->second) / (rslora ? std::sqrt(double(of_tensors)) : double(of_tensors));
}

void PeftConfig::require_rank(const std::string& where, const std::string& target, int64_t of_tensors) const {
  if (rank == 0) return;
  const auto own = std::find_if(ranks.begin(), ranks.end(), [&](const auto& r) { return is_named(target, r.first); });
  const int64_t said = own == ranks.end() ? rank : own->second;
  const bool may =
      other_patterns && std::any_of(ranks.begin(), ranks.end(), [&](const auto& r) { return r.second == of_tensors; });
  check(said == of_tensors || may,
        "{}: its config says rank {} for '{}', and the tensors have rank {}; {} is of another adapter, or damaged",
        where, said, target, of_tensors, kPeftConfig);
}

bool PeftConfig::has_parameter(const std::string& target) const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const std::string& name) { return is_named(target, name); });
}

PeftConfig PeftConfig::read(const std::string& folder) {
  const std::string path = folder + "/" + kPeftConfig;
  std::ifstream in(path, std::ios::binary);
  check(bool(in), "{}: cannot be read", path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const ordered_json j = parse_json<ordered_json>(text);
  check(j.is_object(), "{}: it is no JSON object", path);
  const auto at = [&](const char* key) { return j.contains(key) ? j.at(key) : ordered_json(nullptr); };
  const ordered_json type = at("peft_type");
  check(type == "LORA", "{}: 'peft_type' is {}; only LORA is supported", path, json_text(type));
  for (const char* key : {"lora_bias", "use_qalora", "use_bdlora", "arrow_config", "kasa_config", "monteclora_config",
                          "modules_to_save", "layer_replication", "trainable_token_indices", "alora_invocation_tokens"})
    check(at(key).is_null() || at(key) == false || at(key).empty(), "{}: '{}' is {}, which is not supported", path, key,
          json_text(at(key)));
  check(at("bias").is_null() || at("bias") == "none", "{}: 'bias' is {}; only none is supported", path,
        json_text(at("bias")));
  for (const char* flag : {"use_rslora", "use_dora"})
    check(at(flag).is_null() || at(flag).is_boolean(), "{}: '{}' is {}, expected true or false", path, flag,
          json_text(at(flag)));
  const ordered_json start = at("init_lora_weights");
  for (const char* kind : {"pissa", "olora", "corda", "loftq"})
    check(!start.is_string() || !start.get<std::string>().starts_with(kind),
          "{}: 'init_lora_weights' is {}, so PEFT changed the base; save the adapter with "
          "path_initial_model_for_weight_conversion",
          path, json_text(start));
  check(at("lora_alpha").is_number(), "{}: 'lora_alpha' is {}, expected a number", path, json_text(at("lora_alpha")));
  PeftConfig config{j.at("lora_alpha").get<double>(), at("use_rslora") == true, at("use_dora") == true};
  if (const ordered_json base = at("base_model_name_or_path"); base.is_string()) config.base = base.get<std::string>();
  const ordered_json alphas = at("alpha_pattern");
  check(alphas.is_null() || alphas.is_object(), "{}: 'alpha_pattern' is {}, expected an object", path,
        json_text(alphas));
  for (const auto& [pattern, value] : alphas.items()) {
    const std::string name = pattern.substr(pattern.starts_with(kAny) ? kAny.size() : 0);
    check(value.is_number(), "{}: 'alpha_pattern' has {} for '{}', expected a number", path, json_text(value), name);
    check(is_plain(name), "{}: 'alpha_pattern' has '{}'; only names of modules are supported, not other patterns", path,
          name);
    config.alphas.emplace_back(name, value.get<double>());
  }
  if (!at("r").is_null()) config.rank = rank_in(at("r"), path, "r");
  const ordered_json ranks = at("rank_pattern");
  check(ranks.is_null() || ranks.is_object(), "{}: 'rank_pattern' is {}, expected an object", path, json_text(ranks));
  for (const auto& [pattern, value] : ranks.items()) {
    const std::string name = pattern.substr(pattern.starts_with(kAny) ? kAny.size() : 0);
    config.ranks.emplace_back(name, rank_in(value, path, "rank_pattern"));
    if (!is_plain(name)) config.other_patterns = true;
  }
  const ordered_json parameters = at("target_parameters");
  check(parameters.is_null() || parameters.is_array(), "{}: 'target_parameters' is {}, expected a list", path,
        json_text(parameters));
  for (const ordered_json& name : parameters) {
    check(name.is_string(), "{}: 'target_parameters' has {}, expected names", path, json_text(name));
    config.parameters.push_back(name.get<std::string>());
  }
  return config;
}

}  // namespace toy::hf
