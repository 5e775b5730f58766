// A look as a page of HTML: the numbers as JSON, attention as 8 bits of square roots, in base64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "look/page.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/look/compare.h"

namespace toy {
namespace {

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - at);
    uint32_t word = 0;
    for (size_t i = 0; i < 3; ++i) word = word << 8 | (i < n ? bytes[at + i] : 0u);
    for (size_t i = 0; i < 4; ++i) text += i <= n ? kLetters[word >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Row r has first_row + r + 1 weights, those that a causal head can have; of an encoder all.
std::string packed(const std::vector<HeadLook>& heads, int64_t first_row, int64_t tokens, bool causal) {
  std::vector<uint8_t> bytes;
  for (const HeadLook& h : heads)
    for (int64_t row = first_row; row < tokens; ++row)
      for (int64_t j = 0; j < (causal ? row + 1 : tokens); ++j) {
        const double root = std::sqrt(double(h.weights[size_t((row - first_row) * tokens + j)]));
        bytes.push_back(uint8_t(std::lround(255 * std::min(1.0, root))));
      }
  return base64(bytes);
}

void replace(std::string& text, std::string_view what, const std::string& by) {
  const size_t at = text.find(what);
  if (at == text.npos) fail_internal("look: the page has no {}", what);
  text.replace(at, what.size(), by);
}

// The page with its numbers, of which `j` gets the title.
std::string page_of(std::string_view page_text, nlohmann::ordered_json j, const std::string& title) {
  j["title"] = title;
  std::string data = json_text(j);
  for (size_t at = 0; (at = data.find('<', at)) != data.npos;) data.replace(at, 1, "\\u003c");  // no end of the script
  std::string page(page_text);
  replace(page, "@title@", markup(title));
  replace(page, "@data@", data);
  return page;
}

}  // namespace

int64_t page_rows(int64_t tokens) {
  constexpr int64_t kAll = 128, kLast = 64;
  return tokens <= kAll ? tokens : kLast;
}

std::string to_html(const Look& look, const Tokenizer* tokenizer, const std::string& title) {
  const auto tokens = int64_t(look.ids.size());
  nlohmann::ordered_json j = looking::to_json_without_weights(look, tokenizer);
  for (size_t l = 0; l < look.layers.size(); ++l)
    if (!look.layers[l].heads.empty())
      j["layers"][l]["attention"] = packed(look.layers[l].heads, look.first_row, tokens, look.causal);
  return page_of(looking::kPage, std::move(j), title);
}

std::string to_html(const LookDifference& difference, const Tokenizer* tokenizer, const std::string& title,
                    const std::string& before, const std::string& after) {
  nlohmann::ordered_json j = to_json(difference, tokenizer);
  j["before"] = before, j["after"] = after;
  return page_of(looking::kComparePage, std::move(j), title);
}

}  // namespace toy
