// What is said of a scored text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "toy/eval/score.h"

namespace toy::bind {

/// What `toy eval --json` says of a text, without where it came from.
nlohmann::ordered_json score_fields(const TextScore& score);
/// The same as text.
std::string score_json(const TextScore& score);

}  // namespace toy::bind
