// What decides the numbers of a run, as JSON: two runs whose configs are equal write the same bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "train/run.h"

namespace toy {

/// May change when a run is resumed, and is not in its config: what changes no number, and `epochs`, of which `steps`
/// follow.
bool is_free(std::string_view option);

/// What decides the numbers of a run, by name.
template <class Options>
nlohmann::ordered_json json_of(const Options& o) {
  nlohmann::ordered_json j;
  Options::fields(o, [&](const Option& option, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    if (is_free(option.name)) return;
    nlohmann::ordered_json& here = j[std::string(option.name)];
    if constexpr (Named<T>)
      here = name_in_list(value);
    else if constexpr (std::is_same_v<T, DType>)
      here = name_of(value);
    else if constexpr (std::is_same_v<T, OptimizerOptions>)
      here = nlohmann::ordered_json{{"kind", name_in_list(value.kind)}}, here.update(json_of(value));
    else if constexpr (std::is_constructible_v<nlohmann::ordered_json, const T&>)
      here = value;
  });
  return j;
}
/// Everything but what changes no number: folder, threads, when to save, what to check. `texts` identifies the corpora,
/// see Dataset::config().
nlohmann::ordered_json config_of(const RecipeOptions& options, const ModelSource& source, const Device& device,
                                 const ModelSpec& spec, nlohmann::ordered_json texts);
/// What the run uses for options that have no value of their own: runs::RunStart::effective.
nlohmann::ordered_json effective_options(const RecipeOptions& options);
/// "options.lr is 0.001 there and 0.002 here", for every difference; paths do not count.
std::vector<std::string> differences(const nlohmann::ordered_json& there, const nlohmann::ordered_json& here);
/// The first few of them, for a message.
std::string short_list(const std::vector<std::string>& differences);

}  // namespace toy
