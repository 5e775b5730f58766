// `toy convert`: a model in another form, for the program and for bindings.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bind/files.h"
#include "toy/find/find_model.h"

namespace toy::bind {

/// Which model becomes what.
struct Conversion {
  enum class Kind { folder_to_gguf, gguf_to_folder, gguf_to_gguf };
  Kind kind;
  std::string in;  ///< the folder from Hugging Face, or the GGUF file
};
/// What becomes of the model that `what` names (of a run its model) when it is converted to `out`, which messages call
/// `name`. Throws Error{bad_input} for an adapter, a folder whose `out` is no name of a GGUF, and a new folder that is
/// called like a file.
Conversion plan_conversion(const ModelFinder& finder, const std::string& what, const std::string& out,
                           std::string_view name);

/// How `convert` writes a folder or a file.
struct ConvertFileOptions {
  std::string type, chat_template;
  bool tokenizer = true, reranker = false, overwrite = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f(text_option("type", "Type of matrices; by default as they are", "Output", "f32|f16|bf16"), o.type);
    f({"tokenizer", "Write the tokenizer, too", {}, "Output"}, o.tokenizer);
    f({"reranker", "The folder is a Qwen3-Reranker, which answers yes or no", {}, "Output"}, o.reranker);
    f(text_option("chat_template", "Chat template to write; by default the model's", "Output", "NAME|FILE"),
      o.chat_template);
    f(kOverwrite, o.overwrite);
  }
};

/// Writes a Hugging Face folder as a GGUF, a GGUF as such a folder, or with another type or chat template as a GGUF.
/// Returns warnings.
std::vector<std::string> convert(const std::string& model, const std::string& out, std::string_view json,
                                 const Between& between);

}  // namespace toy::bind
