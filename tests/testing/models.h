// Models and token ids that are quickly computed.
#pragma once

#include <string>
#include <vector>

#include "toy/base/philox.h"
#include "toy/models/spec.h"

namespace toy::testing {

struct Dimensions {
  int64_t vocab, d_model, context;
  bool tied = true;
  int64_t layers = 2, heads, kv_heads, d_head, d_ff;
};

/// A named size ("tiny": a Llama; "gpt2-tiny") with these dimensions in its place.
inline ModelSpec small_model(const std::string& size, const Dimensions& d) {
  ModelSpec s = model_spec(size, d.vocab, d.context);
  s.d_model = d.d_model;
  s.tied = d.tied;
  LayerSpec layer = s.layers.front();
  layer.heads = d.heads, layer.kv_heads = d.kv_heads, layer.d_head = d.d_head, layer.d_ff = d.d_ff;
  s.layers.assign(size_t(d.layers), layer);
  return s;
}

/// Ids below `vocab`, all as likely.
inline std::vector<int32_t> random_ids(size_t n, int32_t vocab, const Philox& random) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(int32_t(random.below(i, uint64_t(vocab))));
  return ids;
}

}  // namespace toy::testing
