#include "serve/api/embeddings.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <bit>
#include <iterator>

#include "dialog/fields.h"
#include "serve/api/ollama.h"
#include "serve/api/reply_format.h"
#include "serve/http/request_body.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 holds little-endian numbers");

std::string base64_of(const std::vector<float>& v) {
  const size_t bytes = v.size() * sizeof(float);
  std::string text((bytes + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock ends it with a zero
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(v.data()),
                  int(bytes));
  text.pop_back();
  return text;
}

Pooling pooling_of(const std::string& name) {
  if (name == "mean") return Pooling::mean;
  if (name == "last") return Pooling::last;
  if (name == "cls") return Pooling::first;
  refuse(fmt::format("'pooling' is '{}', expected mean, last or cls", one_line(name)), "pooling");
}

}  // namespace

void append_numbers(std::string& text, const std::vector<float>& numbers) {
  fmt::format_to(std::back_inserter(text), "[{}]", fmt::join(numbers, ","));
}

void read_inputs(Fields& f, EmbeddingsRequest& r, const char* field) {
  r.inputs = sources_of(&f.needed(field), field);
  if (int64_t(r.inputs.size()) > kMostInputs)
    refuse_at(field, fmt::format("has {} texts; use at most {}", r.inputs.size(), kMostInputs));
  if (!f.has("dimensions")) return;
  int64_t n = 0;
  f.number<int64_t>("dimensions", n, 1, INT32_MAX);
  r.dimensions = n;
}

EmbeddingsRequest parse_embeddings(const std::string& body) {
  const nlohmann::ordered_json j = parse_body(body);
  Fields f(j);
  EmbeddingsRequest r;
  r.model = f.text("model");
  read_inputs(f, r, "input");
  if (const std::string pooling = f.text("pooling"); !pooling.empty()) r.pooling = pooling_of(pooling);
  const std::string encoding = f.text("encoding_format");
  if (!encoding.empty() && encoding != "float" && encoding != "base64")
    refuse(fmt::format("'encoding_format' is '{}', expected float or base64", one_line(encoding)), "encoding_format");
  r.base64 = encoding == "base64";
  f.finish();
  return r;
}

Pooling pooling_of(const EmbeddingsRequest& request, const std::string& states) {
  if (request.pooling) return *request.pooling;
  if (states == "rank") refuse("the model ranks texts and has no pooling of its own; give one in 'pooling'", "pooling");
  return states.empty() ? Pooling::mean : pooling_of(states);
}

std::string_view pooling_warning(const EmbeddingsRequest& request, const std::string& states) {
  if (request.pooling || !states.empty()) return {};
  return "the model's file states no pooling, so these are the means of all tokens; send \"pooling\": \"mean\", "
         "\"last\" "
         "or \"cls\", or serve a model of embeddings";
}

std::string embeddings_body(const std::vector<std::vector<float>>& embeddings, const std::string& model, bool base64,
                            int64_t prompt_tokens, std::string_view warning) {
  std::string text = R"({"object":"list","data":[)";
  for (size_t i = 0; i < embeddings.size(); ++i) {
    text += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i > 0 ? "," : "", i);
    if (base64)
      text += '"' + base64_of(embeddings[i]) + '"';
    else
      append_numbers(text, embeddings[i]);
    text += '}';
  }
  text += fmt::format(R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}})",
                      json_text(nlohmann::ordered_json(model)), prompt_tokens, prompt_tokens);
  if (!warning.empty()) text += fmt::format(R"(,"warning":{})", json_text(nlohmann::ordered_json(warning)));
  return text + "}";
}

TextRequest EmbeddingsJob::add(std::vector<int32_t> ids) {
  const size_t i = embeddings_.size();
  embeddings_.emplace_back();
  prompt_tokens_ += int64_t(ids.size());
  TextRequest t{.prompt = std::move(ids), .options = {.max_tokens = 0}};
  t.embed = EmbedOptions{.pooling = pooling_};
  t.on_end = [job = shared_from_this(), i](const TextEnd& end) {
    try {
      job->finish(i, end);
    } catch (...) {
      job->fail(std::current_exception());
    }
  };
  return t;
}

void EmbeddingsJob::finish(size_t i, const TextEnd& end) {
  ++done_;
  if (failed_) return;
  if (end.error) return fail(end.error);
  embeddings_[i] = end.embedding;
  if (done_ < embeddings_.size()) return;
  exchange_->note([this](RequestNotes& n) { n.prompt = prompt_tokens_; });
  exchange_->send({.body = form_ == EmbeddingsRequest::openai
                               ? embeddings_body(embeddings_, model_, base64_, prompt_tokens_, warning_)
                               : ollama_embeddings_body(embeddings_, model_, form_, prompt_tokens_)});
}

void EmbeddingsJob::fail(const std::exception_ptr& error) noexcept {
  failed_ = true;
  try {
    exchange_->send(error_reply(api_error(error), form_ == EmbeddingsRequest::openai ? error_body : ollama_error));
  } catch (...) {  // not even memory for that: the connection ends with the exchange
  }
}

}  // namespace toy::serve
