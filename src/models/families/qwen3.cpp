// `qwen3` (Yang et al. 2025): Llama with a norm of each head of q and k. As a reranker (Zhang et al. 2025) it has two
// more rows, "cls.output": those of the output for the tokens "yes" and "no"; as a classifier of texts, one per class.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace qwen3 {
namespace {

// Of a reranker, in this order.
const std::vector<std::string> kAnswers{"yes", "no"};

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_score_head(metadata, m, ScoreHead::none);
  const bool named = metadata.file().has(metadata.key("classifier.output_labels"));
  if (m.score.labels == 2 && (!named || m.score.names == kAnswers)) m.score.names.clear();
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_score_head(w, m);
  if (m.score.there() && !m.score.classifies()) w.texts("classifier.output_labels", kAnswers);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  if (m.score.classifies()) return require_labels(m);
  check(!m.score.there() || m.score.labels == 2,
        "model {}: its head has {} scores without names; a reranker of the architecture qwen3 has 2, yes and no",
        m.name, m.score.labels);
}

}  // namespace
}  // namespace qwen3

Family qwen3_family() {
  Family f = llama_like("qwen3", RopePairing::half);
  f.read = qwen3::read, f.write = qwen3::write, f.check = qwen3::check_model;
  f.holds.insert(f.holds.end(), {"labels", "label_names"});
  f.defaults.layers = {LayerSpec{.qk_norm = LayerSpec::head_norm}};
  return f;
}

}  // namespace toy
