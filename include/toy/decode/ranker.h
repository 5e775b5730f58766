// Rerankers: how well documents answer a query.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/text_classifier.h"

namespace toy {

/// A query and a document as a model reads them: one text.
struct RankPair {
  std::vector<int32_t> ids;
  size_t second = 0;  ///< where the document begins, of models that have token types for both
  bool cut = false;   ///< the document's end was cut off
};

/// What a document got.
struct Ranked {
  size_t index = 0;    ///< of the document
  double logit = 0;    ///< what the model computes, any number; of one that says yes or no, the log-odds of yes
  double score = 0;    ///< 1 / (1 + exp(-logit)): 0 to 1
  bool cut = false;    ///< as in RankPair
  int64_t tokens = 0;  ///< of the pair
};

/// Scores documents with a model that has a ScoreHead: a cross-encoder (BERT with a head of one label), or a decoder
/// that says yes or no (Qwen3-Reranker). A pair has the same bits by itself and among others.
class Ranker {
 public:
  /// Device and model must outlive it. Throws Error{bad_input} for a model without such a head or without a tokenizer,
  /// and when memory will not suffice.
  Ranker(Device& device, const Model& model, const EncoderOptions& options = {});
  /// An encoder reads "[CLS] query [SEP] document [SEP]"; of a decoder, the file's template `rerank` says what it
  /// reads, or is that of Qwen3-Reranker. Of a document that is too long, the end is cut. Throws Error{bad_input} for a
  /// query that leaves no room for a document.
  RankPair pair(std::string_view query, std::string_view document) const;
  /// The logit of each pair.
  std::vector<double> logits(std::span<const RankPair> pairs);
  /// All documents, the best first; equal ones in their order. The `top` best; 0: all.
  std::vector<Ranked> rank(std::string_view query, std::span<const std::string> documents, size_t top = 0);

 private:
  RankPair pair_of_encoder(std::string_view query, std::string_view document) const;
  RankPair pair_of_decoder(std::string_view query, std::string_view document) const;

  const Model& model_;
  Scorer scorer_;
  std::string template_;  // of a decoder
};

/// Throws Error{bad_input} for a model that does not rank.
void require_ranker(const Model& model);

/// The `top` best documents for a query, the best first; 0: all of them.
///
///     const Model model = load_model("ms-marco-minilm.gguf", *device);
///     const auto best = rerank(*device, model, "where do badgers live", {"Otters swim.", "A badger lives in a den."},
///     1);
std::vector<Ranked> rerank(Device& device, const Model& model, std::string_view query,
                           std::span<const std::string> documents, size_t top = 0);

}  // namespace toy
