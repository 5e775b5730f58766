// From the hidden states of a text to its embedding.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/models/model.h"

namespace toy {

/// Which hidden states of a text make its embedding.
enum class Pooling {
  mean,   ///< their mean
  last,   ///< that after the last token
  first,  ///< that after the first token ("cls")
  none,   ///< all of them: an embedding for each token
};

/// What becomes of hidden states.
struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = true;   ///< to length 1
  int64_t dimensions = 0;  ///< only the first so many elements, before they are normalized; 0: all
};

/// "mean", "last", "cls" or "none". Throws Error{bad_input} naming the word.
Pooling pooling_of(std::string_view word);
/// Which state of a text the head of a reranker or classifier takes.
Pooling pooling_of_scores(const ScoreHead& head, const ModelSpec& spec);
/// What the model's file says. `pooling`, if it is not "", replaces it. Throws Error{bad_input} where neither says it.
EmbedOptions embed_options(const Model& model, const std::string& pooling = "");

/// The embedding whose hidden states have this sum. In f64 and in a fixed order. Throws Error{failure} where it is to
/// be normalized, and is zero or not finite.
std::vector<float> embedding_of(std::span<const double> sum, int64_t rows, const EmbedOptions& options);
/// The embedding of hidden states [N,width]: its elements, with Pooling::none those of N embeddings. The same bits in
/// any batch.
std::vector<float> pooled(std::span<const float> hidden, int64_t width, const EmbedOptions& options);

/// The ids of a text whose embedding is wanted, between the tokens that the tokenizer begins and ends texts with. Of a
/// longer text the end is cut, so that there are `most` of them; 0: none is too long.
std::vector<int32_t> encode_for_embedding(const Tokenizer& tokenizer, std::string_view text, int64_t most);
/// How many tokens of a text count: what the file says, at most the context.
int64_t most_tokens_to_embed(const Model& model);

}  // namespace toy
