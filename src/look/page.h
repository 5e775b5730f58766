// The pages of a look and of a comparison, without their numbers; CMake makes them of page.html and compare.html.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "toy/look/look.h"

namespace toy::looking {

/// "@title@" and "@data@" stand where those come.
extern const std::string_view kPage, kComparePage;

/// to_json(), where the weights of each head are [].
nlohmann::ordered_json to_json_without_weights(const Look& look, const Tokenizer* tokenizer);

}  // namespace toy::looking
