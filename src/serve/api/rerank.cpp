#include "serve/api/rerank.h"

#include <fmt/format.h>

#include "dialog/fields.h"
#include "serve/api/embeddings.h"
#include "serve/http/request_body.h"
#include "toy/base/json_text.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// A text, or an object with one.
std::string document_of(const ordered_json& j, const std::string& path) {
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_object()) refuse_at(path, R"(is no text; use "words" or {"text": "words"})");
  Fields f(j, path);
  const ordered_json& text = f.needed("text");
  if (!text.is_string()) refuse_at(path + ".text", "is no text");
  f.rest();  // what else a document may say
  return text.get<std::string>();
}

}  // namespace

RerankRequest parse_rerank(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  RerankRequest r;
  r.model = f.text("model");
  r.query = f.needed_text("query");
  if (f.has("texts") && !f.has("documents")) r.form = RerankRequest::texts;
  const std::string name = r.form == RerankRequest::texts ? "texts" : "documents";
  const ordered_json& list = f.needed(name);
  if (!list.is_array() || list.empty()) refuse_at(name, "is no list of texts; give at least one");
  if (int64_t(list.size()) > kMostInputs)
    refuse_at(name, fmt::format("has {} documents; use at most {}", list.size(), kMostInputs));
  for (size_t i = 0; i < list.size(); ++i) r.documents.push_back(document_of(list[i], fmt::format("{}[{}]", name, i)));
  if (f.has("top_n")) {
    int64_t n = 0;
    f.number<int64_t>("top_n", n, 1, INT32_MAX);
    r.top_n = n;
  }
  r.return_documents = f.flag(r.form == RerankRequest::texts ? "return_text" : "return_documents", false);
  r.raw_scores = f.flag("raw_scores", false);
  for (const char* unused :
       {"truncate", "truncation_direction", "max_chunks_per_doc", "max_tokens_per_doc", "priority", "user"})
    f.ignore(unused);
  f.finish();
  return r;
}

std::string rerank_body(const RerankRequest& r, std::span<const Ranked> ranked, const std::string& model,
                        int64_t tokens) {
  ordered_json results = ordered_json::array();
  for (const Ranked& one : ranked) {
    const double score = r.raw_scores ? one.logit : one.score;
    ordered_json& j = results.emplace_back(ordered_json{{"index", one.index}});
    if (r.form == RerankRequest::texts) {
      j["score"] = score;
      if (r.return_documents) j["text"] = r.documents[one.index];
      continue;
    }
    j["relevance_score"] = score;
    if (r.return_documents) j["document"] = {{"text", r.documents[one.index]}};
  }
  if (r.form == RerankRequest::texts) return json_text(results);
  return json_text(ordered_json{{"object", "list"},
                                {"model", model},
                                {"results", results},
                                {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

}  // namespace toy::serve
