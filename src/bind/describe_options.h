// The options of calls as data: for docstrings, stubs and manuals of bindings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy::bind {

/// Names of the recipes, as `toy train` has them.
std::vector<std::string> recipe_names();
/// A JSON list of the options of a call, of a model ("load", "generate", "chat", "score", "logits", "embed", "choices",
/// "answers", "kl", "lmc", "sts", "retrieval"), of a graph ("minimize", "session"), of files ("quantize", "merge",
/// "convert") or a recipe: name (with underscores), help, group, type ("bool", "int", "float", "str", "list[str]",
/// "object"), takes (what a value may be, or ""), default (null: none, or it follows from others) and required. Throws
/// Error{bad_input} for another name.
std::string options_json(std::string_view call);

}  // namespace toy::bind
