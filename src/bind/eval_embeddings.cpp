#include "bind/eval_embeddings.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/data/examples.h"
#include "toy/decode/search_index.h"

namespace toy::bind {
namespace {

using nlohmann::ordered_json;

TextFile only_file(const std::string& file) {
  const std::vector<std::string> paths{file};
  return list_text_files(paths).files.at(0);
}

Vectors vectors_of(BoundModel& model, const std::string& file, const std::vector<std::string>& texts,
                   const EmbedTextOptions& options) {
  check(options.pooling != "none", "pooling is 'none', which gives a text several vectors; use mean, cls or last");
  const std::string json =
      json_text(ordered_json{{"pooling", options.pooling}, {"dimensions", options.dimensions}, {"normalize", true}});
  return embed_once(texts, [&](const std::vector<std::string>& different) {
    std::vector<TextToEmbed> all;
    for (const std::string& text : different) all.push_back({fmt::format("{}: a text", file), text});
    size_t width = 0;
    return model.embed(all, json, width);
  });
}

}  // namespace

Vectors embed_once(const std::vector<std::string>& texts,
                   const std::function<Vectors(const std::vector<std::string>& different)>& embed) {
  std::unordered_map<std::string_view, size_t> numbers;
  std::vector<size_t> number_of;
  std::vector<std::string> different;
  for (const std::string& text : texts) {
    const auto [it, is_new] = numbers.emplace(text, different.size());
    if (is_new) different.push_back(text);
    number_of.push_back(it->second);
  }
  const Vectors computed = embed(different);
  Vectors all;
  for (const size_t n : number_of) all.push_back(computed[n]);
  return all;
}

RatedTexts::RatedTexts(const std::string& file) : pairs(read_rated_pairs(only_file(file))) {
  for (const RatedPair& p : pairs) texts.push_back(p.first), texts.push_back(p.second);
}

ordered_json RatedTexts::fields(const Vectors& v) const {
  std::vector<double> wanted, cosines;
  for (size_t i = 0; i < pairs.size(); ++i) {
    wanted.push_back(pairs[i].score);
    cosines.push_back(inner_product(v[2 * i], v[2 * i + 1]));
  }
  return {{"pairs", pairs.size()}, {"spearman", spearman(wanted, cosines)}, {"pearson", pearson(wanted, cosines)}};
}

PairTexts::PairTexts(const std::string& file, const RetrievalOptions& o,
                     const std::function<void(const std::string&)>& warn)
    : pairs(read_pairs({only_file(file)}, {.renamed = parse_field_map(o.map), .warn = warn})) {
  std::unordered_map<std::string, int64_t> numbers;
  const auto add = [&](const std::string& prefix, const std::string& text) {
    texts.push_back(prefix + text);
    ids_.push_back(numbers.emplace(text, numbers.size()).first->second);
  };
  for (const TextPair& p : pairs) {
    add(o.anchor_prefix, p.anchor), add(o.passage_prefix, p.positive);
    if (p.negative) add(o.passage_prefix, *p.negative);
  }
}

RetrievalScores PairTexts::scores(const Vectors& v) const {
  RetrievalSet set(int64_t(v.front().size()));
  size_t at = 0;
  for (const TextPair& p : pairs) {
    set.add_pair(v[at], ids_[at], v[at + 1], ids_[at + 1]);
    if (p.negative) set.add_negative(v[at + 2], ids_[at + 2]);
    at += p.negative ? 3 : 2;
  }
  return set.scores(1);
}

ordered_json retrieval_fields(const RetrievalScores& s) {
  const MeanError first = s.recall_1(), five = s.recall_5();
  ordered_json j{{"anchors", s.anchors}, {"texts", s.texts}};
  j["recall_1"] = first.mean, j["recall_5"] = five.mean, j["mrr_10"] = s.reciprocal_ranks / double(s.anchors);
  if (std::isfinite(first.error)) j["recall_1_error"] = first.error, j["recall_5_error"] = five.error;
  return j;
}

std::string evaluate_sts(BoundModel& model, const std::string& file, std::string_view json) {
  const auto o = read_options<EvalEmbedOptions>("sts", json);
  const RatedTexts rated(file);
  return json_text(rated.fields(vectors_of(model, file, rated.texts, o.embed)));
}

std::string evaluate_retrieval(BoundModel& model, const std::string& file, std::string_view json) {
  const auto o = read_options<RetrievalCallOptions>("retrieval", json);
  const PairTexts texts(file, o.pairs, [](const std::string&) {});
  return json_text(retrieval_fields(texts.scores(vectors_of(model, file, texts.texts, o.embed))));
}

}  // namespace toy::bind
