// /v1/rerank: how well documents answer a query.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/decode/ranker.h"

namespace toy::serve {

/// A request to rank documents.
struct RerankRequest {
  std::string model;  ///< "": not said
  std::string query;
  std::vector<std::string> documents;
  std::optional<int64_t> top_n = {};
  bool return_documents = false;
  bool raw_scores = false;  ///< logits instead of 0 to 1
  /// Jina's and Cohere's reply, or that of Text Embeddings Inference, whose documents are `texts`.
  enum Form { usual, texts } form = usual;
};
/// From the body of a request. Throws FieldError naming the field.
RerankRequest parse_rerank(const std::string& body);
/// The reply. `ranked`: the best first. `tokens`: of all pairs.
std::string rerank_body(const RerankRequest& request, std::span<const Ranked> ranked, const std::string& model,
                        int64_t tokens);

}  // namespace toy::serve
