// The strings and numbers of a JSON Schema as expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "grammar/char_automaton.h"
#include "grammar/expr.h"
#include "grammar/schema_merge.h"

namespace toy::grammar {

/// @{
/// The texts of the strings or numbers of a schema without $ref, allOf and anyOf; nullopt: all of them.
std::optional<Expr> string_texts(const SchemaDocument& doc, const Json& schema, const std::string& pointer);
Expr integer_texts(const SchemaDocument& doc, const Json& schema, const std::string& pointer);
std::optional<Expr> number_texts(const SchemaDocument& doc, const Json& schema, const std::string& pointer);
/// @}

/// A count such as minLength; `otherwise` where it is absent.
int64_t count_of(const SchemaDocument& doc, const Json& schema, const char* key, int64_t otherwise,
                 const std::string& pointer);
/// Texts as they stand in a JSON string.
Expr json_string_of(CharAutomaton a);

}  // namespace toy::grammar
