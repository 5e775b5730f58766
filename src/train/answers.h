// The answers of a batch: which places are theirs, what is summed over them, and prompts with each other's answers.
#pragma once

#include <span>
#include <vector>

#include "toy/data/corpus.h"
#include "toy/train/preference.h"

namespace toy {

/// Minus the sum of `nll`, of all places, over the targets of an answer that count.
double log_probability(const Windows& windows, const Answer& answer, std::span<const float> nll);
/// The same over those of its prompt, too, of which there are `places`.
double text_log_probability(const Answer& answer, std::span<const float> nll);
/// How many count.
int64_t counted_targets(const Windows& windows, const Answer& answer);
/// What each target is multiplied with: the slopes of its answer and text. [places]
std::vector<float> answer_weights(const Windows& windows, const PreferenceResult& loss);
/// Prompt k with the answer of others[k], each cut to `tokens`: one after the other in batches of `places` places.
std::vector<Windows> mismatched(const Windows& windows, std::span<const Answer> prompts, std::span<const Answer> others,
                                int64_t places, int64_t tokens);

}  // namespace toy
