// `toy serve` of a model that gives embeddings or ranks texts, and nothing else.
#pragma once

#include "serve/server.h"
#include "toy/decode/ranker.h"

namespace toy::serve {

/// The paths that clients of an encoder, or of a reranker, can ask for.
std::vector<std::string_view> encoder_endpoints(bool ranks);

/// As serve(), of a model that gives embeddings. Throws Error{bad_input} for a model without a tokenizer, and one whose
/// file does not say how it pools.
void serve_encoder(HttpServer& http, Encoder& encoder, const Model& model, const ServerOptions& options);
/// The same of a model that ranks.
void serve_ranker(HttpServer& http, Ranker& ranker, const Model& model, const ServerOptions& options);

}  // namespace toy::serve
