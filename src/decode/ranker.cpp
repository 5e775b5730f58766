#include "toy/decode/ranker.h"

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/models/embedding_rule.h"
#include "toy/text/pair_separators.h"

namespace toy {
namespace {

constexpr std::string_view kQuery = "{query}", kDocument = "{document}";

std::string template_of(const Model& model) {
  if (!model.spec.causal) return "";
  const auto it = model.metadata.find(kRerankTemplateKey);
  if (it == model.metadata.end()) return kQwenRerankTemplate;
  const auto* text = std::get_if<std::string>(&it->second);
  const size_t query = text ? text->find(kQuery) : std::string::npos;
  const size_t document = query == std::string::npos ? query : text->find(kDocument, query);
  check(document != std::string::npos, "model {}: {} is no text with {} and, after it, {}", model.spec.name,
        kRerankTemplateKey, kQuery, kDocument);
  return *text;
}

const Model& checked(const Model& model) {
  require_ranker(model);
  return model;
}

EncoderOptions with_pairs(const Model& model, EncoderOptions o) {
  o.pairs = model.spec.token_types > 1;
  return o;
}

// Tokens that separate the two. Of a file that does not say: RoBERTa's kind has two, and is the one with a single token
// type.
int64_t separators(const Model& m) {
  const bool roberta = m.spec.token_types == 1 && m.spec.positions == PositionKind::learned;
  return separates_twice(*m.tokenizer).value_or(roberta) ? 2 : 1;
}

}  // namespace

void require_ranker(const Model& model) {
  check(!model.spec.score.classifies(), "model {}: it classifies texts and does not rank; use toy infer --prompt TEXT",
        model.spec.name);
  check(model.spec.score.there(),
        "model {}: it does not rank: it has no head that gives a text a score (cls.output); use a reranker, such as "
        "ms-marco-MiniLM, or Qwen3-Reranker from toy convert --reranker",
        model.spec.name);
  check(model.tokenizer != nullptr, "model {}: it has no tokenizer, so it cannot read texts", model.spec.name);
}

Ranker::Ranker(Device& device, const Model& model, const EncoderOptions& options)
    : model_(checked(model)), scorer_(device, model, with_pairs(model, options)), template_(template_of(model)) {}

RankPair Ranker::pair(std::string_view query, std::string_view document) const {
  return model_.spec.causal ? pair_of_decoder(query, document) : pair_of_encoder(query, document);
}

RankPair Ranker::pair_of_encoder(std::string_view query, std::string_view document) const {
  const Tokenizer& t = *model_.tokenizer;
  check(t.bos() && t.eos(), "model {}: its tokenizer has no tokens that begin, separate and end a pair",
        model_.spec.name);
  const int64_t most = most_tokens_to_embed(model_), between = separators(model_);
  RankPair pair{.ids = encode_for_embedding(t, query, 0)};
  if (pair.ids.front() != *t.bos()) pair.ids.insert(pair.ids.begin(), *t.bos());
  if (pair.ids.back() != *t.eos()) pair.ids.push_back(*t.eos());
  pair.ids.insert(pair.ids.end(), size_t(between - 1), *t.eos());
  pair.second = pair.ids.size();
  const int64_t room = most - int64_t(pair.second) - 1;
  check(room >= 1, "the query has {} tokens; the model '{}' takes {} with a document", pair.second, model_.spec.name,
        most);
  std::vector<int32_t> rest = t.encode(document, {.parse_special = true});
  pair.cut = int64_t(rest.size()) > room;
  if (pair.cut) rest.resize(size_t(room));
  pair.ids.insert(pair.ids.end(), rest.begin(), rest.end());
  pair.ids.push_back(*t.eos());
  return pair;
}

// Names of control tokens in query and document are letters.
RankPair Ranker::pair_of_decoder(std::string_view query, std::string_view document) const {
  const Tokenizer& t = *model_.tokenizer;
  const size_t at = template_.find(kQuery), then = template_.find(kDocument, at);
  std::string text = template_.substr(0, at);
  std::vector<size_t> letters;
  const auto add = [&](std::string_view part) {
    for (const size_t offset : t.control_names(part)) letters.push_back(text.size() + offset);
    text += part;
  };
  add(query);
  text += template_.substr(at + kQuery.size(), then - at - kQuery.size());
  const size_t head = encode_prompt(t, text, {.parse_special = true, .letters = letters}).size();
  add(document);
  const std::vector<int32_t> tail =
      t.encode(std::string_view(template_).substr(then + kDocument.size()), {.parse_special = true});
  RankPair pair{.ids = encode_prompt(t, text, {.parse_special = true, .letters = letters})};
  const int64_t most = most_tokens_to_embed(model_), room = most - int64_t(tail.size());
  check(int64_t(head) < room,
        "the query has {} tokens with the model's instructions; the model '{}' takes {} with a "
        "document",
        head + tail.size(), model_.spec.name, most);
  pair.cut = int64_t(pair.ids.size()) > room;
  if (pair.cut) pair.ids.resize(size_t(room));
  pair.ids.insert(pair.ids.end(), tail.begin(), tail.end());
  return pair;
}

std::vector<double> Ranker::logits(std::span<const RankPair> pairs) {
  std::vector<std::vector<int32_t>> texts;
  std::vector<size_t> second;
  for (const RankPair& p : pairs) {
    texts.push_back(p.ids);
    if (model_.spec.token_types > 1) second.push_back(p.second);
  }
  const std::vector<float> scores = scorer_.scores(texts, second);
  const auto labels = size_t(model_.spec.score.labels);
  std::vector<double> logits;
  for (const float* s = scores.data(); s < scores.data() + scores.size(); s += labels)
    logits.push_back(labels == 2 ? double(s[0]) - double(s[1]) : double(s[0]));
  return logits;
}

std::vector<Ranked> Ranker::rank(std::string_view query, std::span<const std::string> documents, size_t top) {
  std::vector<RankPair> pairs;
  for (const std::string& d : documents) pairs.push_back(pair(query, d));
  const std::vector<double> all = logits(pairs);
  std::vector<Ranked> list;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (!std::isfinite(all[i]))
      throw Error(ErrorCode::failure, "a score is not finite; the model's weights may be damaged");
    list.push_back({.index = i,
                    .logit = all[i],
                    .score = 1 / (1 + std::exp(-all[i])),
                    .cut = pairs[i].cut,
                    .tokens = int64_t(pairs[i].ids.size())});
  }
  std::ranges::stable_sort(list, [](const Ranked& a, const Ranked& b) { return a.logit > b.logit; });
  if (top > 0 && top < list.size()) list.resize(top);
  return list;
}

std::vector<Ranked> rerank(Device& device, const Model& model, std::string_view query,
                           std::span<const std::string> documents, size_t top) {
  return Ranker(device, model).rank(query, documents, top);
}

}  // namespace toy
