// What decides the numbers of a run, as JSON: two runs whose configs are equal write the same bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run.h"

namespace toy {

/// Everything but what changes no number: folder, threads, when to save, what to check. `texts` identifies the corpora,
/// see Dataset::config().
nlohmann::ordered_json config_of(const RecipeOptions& options, const ModelSource& source, const Device& device,
                                 const ModelSpec& spec, nlohmann::ordered_json texts);
/// "options.lr is 0.001 there and 0.002 here", for every difference; paths do not count.
std::vector<std::string> differences(const nlohmann::ordered_json& there, const nlohmann::ordered_json& here);
/// The first few of them, for a message.
std::string short_list(const std::vector<std::string>& differences);

}  // namespace toy
