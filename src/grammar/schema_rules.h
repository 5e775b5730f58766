// A JSON Schema as rules.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "grammar/expr.h"

namespace toy::grammar {

/// The rules of a schema, of which the first is a complete text. Throws as json_schema_grammar().
std::vector<Rule> schema_rules(const nlohmann::ordered_json& schema, const std::string& name);

}  // namespace toy::grammar
