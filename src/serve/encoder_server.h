// `toy serve` of an encoder: embeddings, and nothing else.
#pragma once

#include "serve/server.h"
#include "toy/decode/encoder.h"

namespace toy::serve {

/// The paths that clients of an encoder can ask for.
std::vector<std::string_view> encoder_endpoints();

/// As serve(), of a model that gives embeddings. Throws Error{bad_input} for a model without a tokenizer, and one whose
/// file does not say how it pools.
void serve_encoder(HttpServer& http, Encoder& encoder, const Model& model, const ServerOptions& options);

}  // namespace toy::serve
