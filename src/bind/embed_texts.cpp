#include "bind/embed_texts.h"

#include "bind/adapters.h"
#include "toy/base/error.h"

namespace toy::bind {

std::vector<std::vector<int32_t>> ids_to_embed(const Model& model, const std::string& path,
                                               std::span<const TextToEmbed> texts, const std::string& prefix,
                                               const char* way_out, std::vector<bool>& cut) {
  const int64_t most = most_tokens_to_embed(model);
  std::vector<std::vector<int32_t>> all;
  for (const TextToEmbed& t : texts) {
    std::vector<int32_t> ids = t.ids;
    cut.push_back(false);
    if (ids.empty()) {
      require_tokenizer(model, path, way_out);
      ids = encode_for_embedding(*model.tokenizer, prefix + t.text, 0);
      cut.back() = int64_t(ids.size()) > most;
      if (cut.back()) ids = encode_for_embedding(*model.tokenizer, prefix + t.text, most);
    }
    check(!ids.empty(), "{}: it is empty; give a text", t.where);
    check(int64_t(ids.size()) <= model.spec.context, "{}: it has {} ids; the model takes at most {}", t.where,
          ids.size(), model.spec.context);
    for (const int32_t id : ids)
      check(id >= 0 && id < model.spec.vocab, "{}: token id {} is outside the vocabulary; use 0 to {}", t.where, id,
            model.spec.vocab - 1);
    all.push_back(std::move(ids));
  }
  return all;
}

EmbedOptions EmbedTextOptions::of(const Model& model, std::string_view dash) const {
  EmbedOptions o = embed_options(model, pooling);
  o.dimensions = dimensions;
  o.normalize = normalize;
  check(dimensions <= model.spec.d_model, "{}dimensions is {}; the embeddings of this model have {}", dash, dimensions,
        model.spec.d_model);
  return o;
}

}  // namespace toy::bind
