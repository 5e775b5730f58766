// A look as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "look/page.h"
#include "toy/base/utf8.h"
#include "toy/look/compare.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// Seven digits: those of an f32.
ordered_json number(double v) {
  if (!std::isfinite(v)) return nullptr;
  return std::strtod(fmt::format("{:.7g}", v).c_str(), nullptr);
}

template <class T>
ordered_json numbers(const std::vector<T>& list) {
  ordered_json j = ordered_json::array();
  for (const T v : list) j.push_back(number(double(v)));
  return j;
}

// Into an object: what a token writes.
void add_text(ordered_json& to, const Tokenizer* tokenizer, int32_t id) {
  if (!tokenizer) return;
  const std::string text = tokenizer->written(id);
  to["text"] = valid_utf8(text);
  if (is_utf8(text)) return;
  for (const char c : text) to["bytes"].push_back(static_cast<unsigned char>(c));
}

ordered_json top_json(const std::vector<TokenChance>& top, const Tokenizer* tokenizer) {
  ordered_json best = ordered_json::array();
  for (const TokenChance& c : top) {
    best.push_back({{"id", c.id}, {"probability", number(c.probability)}});
    add_text(best.back(), tokenizer, c.id);
  }
  return best;
}

ordered_json lens_json(const std::vector<LensPoint>& points, const Tokenizer* tokenizer) {
  const ordered_json none = ordered_json::array();
  ordered_json j{{"top", none}, {"entropy", none}, {"kl", none}, {"next", none}, {"rank", none}};
  for (const LensPoint& p : points) {
    j["top"].push_back(top_json(p.top, tokenizer));
    j["entropy"].push_back(number(p.entropy)), j["kl"].push_back(number(p.kl)), j["next"].push_back(number(p.next));
    j["rank"].push_back(p.rank ? ordered_json(*p.rank) : ordered_json(nullptr));
  }
  return j;
}

ordered_json head_json(const HeadLook& head) {
  const HeadScores& s = head.scores;
  return {{"previous_token", number(s.previous)},
          {"first_token", number(s.first)},
          {"induction", number(s.induction)},
          {"duplicate_token", number(s.duplicate)},
          {"entropy", number(s.entropy)},
          {"distance", number(s.distance)},
          {"roles", s.roles()}};
}

ordered_json attention_json(const HeadLook& head, size_t tokens) {
  ordered_json rows = ordered_json::array();
  for (size_t at = 0; at < head.weights.size(); at += tokens) {
    ordered_json& row = rows.emplace_back(ordered_json::array());
    for (size_t j = at; j < at + tokens; ++j)
      row.push_back(head.weights[j] == 0 ? ordered_json(0) : number(double(head.weights[j])));
  }
  return rows;
}

// `weights`: with those of attention.
ordered_json layer_json(const LayerLook& layer, size_t tokens, const Tokenizer* tokenizer, bool weights) {
  ordered_json j{{"mixer", layer.mixer}};
  if (!layer.heads.empty()) {
    j["window"] = layer.window;
    for (const HeadLook& h : layer.heads) j["heads"].push_back(head_json(h));
    for (const HeadLook& h : layer.heads)
      j["attention"].push_back(weights ? attention_json(h, tokens) : ordered_json::array());
  }
  for (const StateHead& s : layer.states)
    j["states"].push_back({{"decay", numbers(s.decay)},
                           {"strength", numbers(s.strength)},
                           {"written", numbers(s.written)},
                           {"norm", numbers(s.norm)}});
  if (!layer.experts.empty()) j["experts"] = layer.experts;
  j["added"] = ordered_json::object();
  for (const Addition& a : layer.added) j["added"][a.part] = {{"norm", numbers(a.norm)}, {"cosine", numbers(a.cosine)}};
  j["norm"] = numbers(layer.norm);
  if (!layer.lens.empty()) j.update(lens_json(layer.lens, tokenizer));
  return j;
}

ordered_json look_json(const Look& look, const Tokenizer* tokenizer, bool weights) {
  ordered_json j{{"ids", look.ids}, {"tokens", ordered_json::array()}, {"first_row", look.first_row}};
  if (!look.causal) j["causal"] = false;
  for (const ClassChance& c : look.classes)
    j["classes"].push_back({{"name", valid_utf8(c.name)}, {"probability", number(c.probability)}});
  for (size_t t = 0; t < look.ids.size(); ++t) {
    ordered_json& token = j["tokens"].emplace_back(ordered_json{{"id", look.ids[t]}});
    add_text(token, tokenizer, look.ids[t]);
    if (!look.predicts() || (t == 0 && look.causal)) continue;  // nothing predicts it
    const LensPoint& said = look.prediction(t);
    token["probability"] = number(said.next), token["rank"] = said.rank.value_or(0);
    token["surprise"] = number(-std::log(said.next));
  }
  j["random_tokens"] = look.random_tokens;
  j["embedding"] = {{"norm", numbers(look.norm)}};
  if (look.predicts()) j["embedding"].update(lens_json(look.lens, tokenizer));
  j["layers"] = ordered_json::array();
  for (const LayerLook& layer : look.layers)
    j["layers"].push_back(layer_json(layer, look.ids.size(), tokenizer, weights));
  return j;
}

}  // namespace

std::string text_of(const Tokenizer* tokenizer, int32_t id) {
  if (!tokenizer) return fmt::format("{}", id);
  const std::string text = tokenizer->written(id);
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = utf8_character(std::string_view(text).substr(at));
    shown += bytes > 0 ? text.substr(at, bytes) : fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
    at += std::max<size_t>(bytes, 1);
  }
  return shown;
}

ordered_json looking::to_json_without_weights(const Look& look, const Tokenizer* tokenizer) {
  return look_json(look, tokenizer, false);
}

ordered_json to_json(const Look& look, const Tokenizer* tokenizer) { return look_json(look, tokenizer, true); }

ordered_json to_json(const LookDifference& d, const Tokenizer* tokenizer) {
  ordered_json j{{"ids", d.ids}, {"tokens", ordered_json::array()}};
  const auto both = [](ordered_json before, ordered_json after) {
    return ordered_json{{"before", std::move(before)}, {"after", std::move(after)}};
  };
  for (size_t t = 0; t < d.ids.size(); ++t) {
    ordered_json& token = j["tokens"].emplace_back(ordered_json{{"id", d.ids[t]}});
    add_text(token, tokenizer, d.ids[t]);
    if (t > 0) token["loss"] = both(number(-std::log(d.before[t - 1].next)), number(-std::log(d.after[t - 1].next)));
    token["kl"] = number(d.after[t].kl);
    token["entropy"] = both(number(d.before[t].entropy), number(d.after[t].entropy));
    token["top"] = both(top_json(d.before[t].top, tokenizer), top_json(d.after[t].top, tokenizer));
  }
  j["loss"] = both(number(d.loss(d.before)), number(d.loss(d.after)));
  j["embedding"] = {{"kl", numbers(d.embedding.kl)}, {"rows", numbers(d.embedding.rows)}};
  j["layers"] = ordered_json::array();
  for (const LayerDifference& l : d.layers) {
    ordered_json& layer = j["layers"].emplace_back(ordered_json{{"kl", numbers(l.kl)}, {"rows", numbers(l.rows)}});
    for (const auto& head : l.attention) layer["attention"].push_back(numbers(head));
  }
  return j;
}

}  // namespace toy
