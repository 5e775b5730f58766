// A JSON Schema as rules.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "grammar/expr.h"
#include "toy/grammar/grammar.h"

namespace toy::grammar {

/// The rules of a schema, or of the values of one property, of which the first is a complete text. Throws as
/// json_schema_grammar().
std::vector<Rule> schema_rules(const nlohmann::ordered_json& schema, const std::string& name, GrammarBudget& budget,
                               const std::optional<std::string>& property = {});

}  // namespace toy::grammar
