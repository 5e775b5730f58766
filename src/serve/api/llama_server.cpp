#include "serve/api/llama_server.h"

#include <fmt/format.h>

#include "dialog/fields.h"
#include "serve/api/replies.h"
#include "serve/api/sampler_fields.h"
#include "serve/http/request_body.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// llama-server has biases as pairs, too: [[15043, 1.5], [2, false]], where false forbids a token.
ordered_json with_object_biases(ordered_json j) {
  if (!j.contains("logit_bias") || !j["logit_bias"].is_array()) return j;
  ordered_json object = ordered_json::object();
  for (const ordered_json& pair : j["logit_bias"]) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer())
      refuse("'logit_bias' has an item that is not a pair of a token id and a number", "logit_bias");
    object[std::to_string(pair[0].get<int64_t>())] = pair[1] == false ? ordered_json(-100) : pair[1];
  }
  j["logit_bias"] = std::move(object);
  return j;
}

// What both have.
void read_rest(Fields& f, CompletionRequest& r) {
  r.model = f.text("model");
  r.max_tokens = kMostTokens;
  if (f.has("n_predict") || f.has("max_tokens")) {
    r.max_tokens.reset();
    read_max_tokens(f, r);
  }
  r.stream = f.flag("stream", false);
  int64_t probs = 0;
  f.number<int64_t>("n_probs", probs, 0, kMostTopLogprobs);
  if (probs > 0) r.logprobs = int(probs);
  r.token_ids = f.flag("return_tokens", false);
  read_common_fields(f, r);
  f.finish();
}

// llama-server's, where the file says nothing.
CompletionRequest with_defaults(const UsualSampling& usual) {
  CompletionRequest r(usual);
  const auto set = [&](const char* name, auto& value, auto otherwise) {
    if (!usual.says(name)) value = otherwise;
  };
  set("repeat_last_n", r.sampler.penalty_last_n, 64);
  set("top_k", r.sampler.top_k, 40);
  set("top_p", r.sampler.top_p, 0.95);
  set("min_p", r.sampler.min_p, 0.05);
  return r;
}

}  // namespace

CompletionRequest parse_llama_completion(const std::string& body, const UsualSampling& usual) {
  const ordered_json j = with_object_biases(parse_body(body));
  Fields f(j);
  CompletionRequest r = with_defaults(usual);
  r.prompts = sources_of(&f.needed("prompt"), "prompt");
  if (int64_t(r.prompts.size()) > 1)
    refuse(fmt::format("'prompt' has {} texts; send one, or use /v1/completions", r.prompts.size()), "prompt");
  read_rest(f, r);
  return r;
}

CompletionRequest parse_infill(const std::string& body, const UsualSampling& usual) {
  const ordered_json j = with_object_biases(parse_body(body));
  Fields f(j);
  CompletionRequest r = with_defaults(usual);
  if (!f.has("input_prefix") && !f.has("input_suffix"))
    refuse_at("input_prefix", "is missing; send the text before the gap, and the text after it as 'input_suffix'",
              "missing_required_parameter");
  r.hole = true;
  const std::string before = f.text("input_prefix");
  r.prompts = {before + f.text("prompt")};
  r.suffix = f.text("input_suffix");
  if (const ordered_json* extra = f.take("input_extra")) {
    if (!extra->is_array()) refuse(R"('input_extra' is not an array of {"filename", "text"})", "input_extra");
    for (size_t i = 0; i < extra->size(); ++i) {
      Fields file((*extra)[i], fmt::format("input_extra[{}]", i));
      r.files.push_back({file.text("filename"), file.text("text")});
      file.finish();
    }
  }
  read_rest(f, r);
  return r;
}

LlamaFormat::LlamaFormat(ReplyHead head, const CompletionRequest& request, const Tokenizer& tokenizer)
    : head_(std::move(head)),
      ids_(request.token_ids),
      logprobs_(request.logprobs.has_value()),
      settings_{{"temperature", request.sampler.temperature},
                {"top_k", request.sampler.top_k},
                {"top_p", request.sampler.top_p},
                {"min_p", request.sampler.min_p},
                {"stop", request.stops},
                {"n_predict", 0},
                {"stream", request.stream}},
      tokenizer_(tokenizer) {}

ordered_json LlamaFormat::probabilities(const std::vector<GeneratedToken>& tokens) const {
  ordered_json list = chat_logprobs(tokenizer_, tokens, true)["content"];
  for (ordered_json& token : list) {
    token.erase("special");
    for (ordered_json& other : token["top_logprobs"]) other.erase("special");
  }
  return list;
}

ordered_json LlamaFormat::part(const Choice& choice, const std::string& text) const {
  return {{"index", choice.index},
          {"content", text},
          {"tokens", ordered_json::array()},
          {"stop", false},
          {"id_slot", 0},
          {"tokens_predicted", of_.contains(choice.index) ? of_.at(choice.index) : 0},
          {"tokens_evaluated", choice.prompt.size()}};
}

ordered_json LlamaFormat::complete(const Choice& c, const Reply& reply) const {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const auto now = std::chrono::steady_clock::now();
  const auto first = reply.first.value_or(now);
  const double before = Milliseconds(first - begun_).count(), after = Milliseconds(now - first).count();
  const Generated& g = c.end.generated;
  const auto n = int64_t(g.tokens.size()), read = reply.prompt_tokens - reply.cached_tokens();
  const bool limit = g.reason == FinishReason::length || g.reason == FinishReason::deadline;
  ordered_json j = part(c, c.text);
  if (ids_)
    for (const GeneratedToken& t : g.tokens) j["tokens"].push_back(t.chosen.id);
  j["stop"] = true;
  j["model"] = head_.model;
  j["tokens_predicted"] = n;
  j["generation_settings"] = settings_;
  j["generation_settings"]["n_predict"] = n;
  j["prompt"] = tokenizer_.decode(c.prompt);
  j["has_new_line"] = c.text.find('\n') != std::string::npos;
  j["truncated"] = false;
  j["stop_type"] = limit ? "limit" : c.end.stop.empty() ? "eos" : "word";
  j["stopping_word"] = c.end.stop;
  j["tokens_cached"] = int64_t(c.prompt.size()) + n;
  j["timings"] = {{"cache_n", reply.cached_tokens()},
                  {"prompt_n", read},
                  {"prompt_ms", before},
                  {"predicted_n", n},
                  {"predicted_ms", after}};
  if (logprobs_) j["completion_probabilities"] = probabilities(g.tokens);
  return j;
}

std::string LlamaFormat::body(const Reply& reply) { return json_text(complete(reply.choices.front(), reply)); }

std::string LlamaFormat::piece(const Choice& choice, const Piece& piece) {
  ++of_[choice.index];
  if (piece.text.empty() && !logprobs_ && !ids_) return "";
  ordered_json j = part(choice, piece.text);
  if (ids_ && piece.token) j["tokens"].push_back(piece.token->chosen.id);
  if (logprobs_ && piece.token) j["completion_probabilities"] = probabilities({*piece.token});
  return "data: " + json_text(j) + "\n\n";
}

std::string LlamaFormat::choice_end(const Choice& choice, const Piece& rest) {
  return rest.text.empty() ? "" : "data: " + json_text(part(choice, rest.text)) + "\n\n";
}

std::string LlamaFormat::end(const Reply& reply) {
  ordered_json j = complete(reply.choices.front(), reply);
  j["content"] = "";  // it was streamed
  j["tokens"] = ordered_json::array();
  j.erase("completion_probabilities");
  return "data: " + json_text(j) + "\n\n";
}

}  // namespace toy::serve
