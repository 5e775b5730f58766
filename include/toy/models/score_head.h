// Heads that give texts scores: what they take, and new ones for classifiers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toy/models/embedding_rule.h"
#include "toy/models/model.h"

namespace toy {

/// What the tensors of a ScoreHead are called.
inline constexpr const char* kScoreHead = "cls.*";
/// Metadata about it, after the architecture and a dot: the names of classes, and how states become one (modern-bert).
inline constexpr const char *kClassLabels = "classifier.output_labels", *kClassPooling = "classifier.pooling_type";
/// Is this tensor one of them?
inline bool is_of_score_head(std::string_view name) { return name.starts_with("cls."); }

/// The head of a classifier with these classes: that of the model where it has them already, else as transformers makes
/// it for the architecture. `rule`: where the model's file says how a text becomes one vector. Throws Error{bad_input}
/// for an architecture whose files hold none.
ScoreHead score_head(const ModelSpec& spec, const std::vector<std::string>& classes, const EmbeddingRule& rule);
/// Gives a model without such a head a new one, of weights as random_model() makes them.
void add_score_head(Model& model, const ScoreHead& head, uint64_t seed);

}  // namespace toy
