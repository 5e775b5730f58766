// The forms in which people publish rows for fine-tuning, as one.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "toy/data/examples.h"

namespace toy {

/// A row with its meaning told: which of the other members are set depends on `kind`.
struct RowForm {
  using json = nlohmann::ordered_json;
  RowKind kind = RowKind::text;
  std::string text;                          ///< text
  std::string prompt, answer, rejected;      ///< completion, rated, preference, where they are texts
  json messages, answers, rejected_answers;  ///< lists of messages: what is asked, and the answers; null: texts
  /// The texts of instruction rows, for models without a chat template.
  bool instruction = false;
  json tools, documents, variables = json::object();  ///< of messages
  bool good = true;                                   ///< rated
  bool has_prompt = false;                            ///< preference: the prompt is stated, and may be empty
  std::vector<std::string> unused;                    ///< names of fields that have no effect
  /// Is an answer that is learned empty, or does it have blanks only?
  bool says_nothing() const;
};

/// Reads a row by its fields; docs/data.md has the table. `renamed`: which field of the row has the meaning of a name,
/// by name. Throws Error{bad_input} naming the field.
RowForm row_form(const nlohmann::ordered_json& row, const std::map<std::string, std::string>& renamed = {});

}  // namespace toy
