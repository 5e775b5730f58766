// Which endpoints there are, and those that need no texts of the model.
#include "serve/endpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/api/anthropic.h"
#include "serve/api/ollama.h"
#include "serve/api/replies.h"
#include "serve/page.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy::serve {

using nlohmann::ordered_json;

const Server::Route Server::kRoutes[] = {
    {"GET", "/", &Server::page},
    {"GET", "/health", &Server::health},
    {"GET", "/metrics", &Server::metrics},
    {"GET", "/v1/models", &Server::models},
    {"POST", "/apply-template", &Server::apply_template},
    {"POST", "/tokenize", &Server::tokenize},
    {"POST", "/detokenize", &Server::detokenize},
    {"POST", "/v1/completions", &Server::completions},
    {"POST", "/v1/embeddings", &Server::embeddings},
    {"POST", "/v1/look", &Server::look},
    {"POST", "/v1/responses", &Server::responses},
    {"POST", "/v1/messages", &Server::messages, anthropic_error},
    {"POST", "/v1/messages/count_tokens", &Server::count_tokens, anthropic_error},
    {"POST", "/v1/chat/completions", &Server::chat_completions},
    {"POST", "/v1/state", &Server::state},
    {"GET", "/v1/state", &Server::list_states},
    {"GET", "/props", &Server::props},
    {"GET", "/slots", &Server::slots},
    {"POST", "/completion", &Server::completion},
    {"POST", "/infill", &Server::infill},
    {"GET", "/api/version", &Server::ollama_version, ollama_error},
    {"GET", "/api/tags", &Server::ollama_tags, ollama_error},
    {"GET", "/api/ps", &Server::ollama_running, ollama_error},
    {"POST", "/api/show", &Server::ollama_show, ollama_error},
    {"POST", "/api/chat", &Server::ollama_chat, ollama_error},
    {"POST", "/api/generate", &Server::ollama_generate, ollama_error},
    {"POST", "/api/embed", &Server::ollama_embed, ollama_error},
    {"POST", "/api/embeddings", &Server::ollama_embeddings, ollama_error},
};

const Server::Route* Server::route_of(const std::string& target, const std::string& method) {
  const auto* r = std::ranges::find(kRoutes, target, &Route::target);
  if (r == std::end(kRoutes)) {  // without /v1, or with two
    const bool twice = target.starts_with("/v1/v1/");
    return target.starts_with("/v1/") && !twice ? nullptr : route_of(twice ? target.substr(3) : "/v1" + target, method);
  }
  for (const auto* other = r; other != std::end(kRoutes); ++other)  // few have several methods
    if (target == other->target && method == other->method) return other;
  return r;
}

std::vector<std::string_view> endpoints() {
  std::vector<std::string_view> targets;
  for (const Server::Route& r : Server::kRoutes)
    if (std::ranges::find(targets, r.target) == targets.end()) targets.emplace_back(r.target);
  return targets;
}

// Does the path ask to rank texts, as other servers have it?
static bool ranks(std::string_view target) {
  if (target.starts_with("/v1/")) target.remove_prefix(3);
  return target == "/rerank" || target == "/reranking" || target == "/v2/rerank" || target == "/score";
}

// Does the path ask for other models, as Ollama's server has it?
static bool changes_models(std::string_view target) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"pull", "push", "create", "copy", "delete"},
                             [&](std::string_view word) { return target == "/api/" + std::string(word); });
}

// What to ask instead of other servers' paths.
static std::string_view instead_of(std::string_view target) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"/generate", "send {\"prompt\": ..., \"max_tokens\": ...} to /v1/completions"},
      {"/v1/audio/", "the model neither hears nor speaks"},
      {"/v1/images/", "the model makes no pictures"},
      {"/v1/moderations", "the model judges no texts"},
      {"/slots/", "POST /v1/state saves and restores what was read (toy serve --state DIR)"},
      {"/v1/files", "nothing is kept here; send texts in requests"},
      {"/v1/fine_tuning/", "toy train trains models"}};
  for (const auto& [path, text] : kOthers)
    if (target.starts_with(path)) return text;
  return "";
}

ErrorBody Server::errors_of(const std::string& target) {
  const Route* r = route_of(target);
  return r ? r->errors : error_body;
}

void Server::route(const std::shared_ptr<Exchange>& exchange) {
  const std::string& target = exchange->request.target;
  const std::string method = exchange->request.method == "HEAD" ? "GET" : exchange->request.method;
  const std::string prefix = target.starts_with("/models/") ? "/models/" : "/v1/models/";
  if (target.starts_with(prefix)) {
    if (exchange->request.method != "GET" && exchange->request.method != "HEAD")
      throw ApiError(405,
                     fmt::format("{} does not take {}; use GET", one_line(target), one_line(exchange->request.method)));
    const std::string name = target.substr(prefix.size());
    const std::string served = served_name(name);
    if (served != options_.name && std::ranges::find(options_.adapters, served) == options_.adapters.end())
      throw unknown_model(name);
    return send_json(*exchange, model_json(name));
  }
  const Route* r = route_of(target, method);
  if (r == nullptr && ranks(target))
    throw ApiError(404, fmt::format("there is no {}: the model '{}' does not rank; serve a reranker, or compare the "
                                    "vectors of /v1/embeddings",
                                    one_line(target), options_.name));
  if (r == nullptr && changes_models(target))
    throw ApiError(404, fmt::format("there is no {}: a server has one model, which it was started with; `toy fetch` "
                                    "downloads models",
                                    one_line(target)));
  if (const auto instead = instead_of(target); r == nullptr && !instead.empty())
    throw ApiError(404, fmt::format("there is no {}; {}", one_line(target), instead));
  if (r == nullptr) {
    const auto all = endpoints();
    const auto name = [](std::string_view path) { return path.substr(path.starts_with("/v1/") ? 4 : 1); };
    std::vector<std::string> names;
    for (const std::string_view path : all) names.emplace_back(name(path));
    std::string near = nearest(std::string(name(target)), names);  // of the names alone: /v1/ would make all alike
    constexpr size_t kLeast = 4;                                   // "chat"
    const std::string_view given = name(target);
    const auto begins = std::ranges::find_if(
        names, [&](const std::string& n) { return given.size() >= kLeast && n.starts_with(given); });
    if (near.empty() && begins != names.end()) near = *begins;
    if (!near.empty()) near = all[size_t(std::ranges::find(names, near) - names.begin())];
    throw ApiError(404, fmt::format("there is no {}; {}", one_line(target),
                                    near.empty() ? fmt::format("the endpoints are {}", fmt::join(all, ", "))
                                                 : fmt::format("did you mean {}?", near)));
  }
  if (method != r->method)
    throw ApiError(405, fmt::format("{} does not take {}; use {}", one_line(target), one_line(method), r->method));
  (this->*r->handler)(exchange);
}

void Server::page(const std::shared_ptr<Exchange>& exchange) {
  exchange->send({.body = std::string(kPage),
                  .type = "text/html; charset=utf-8",
                  .headers = {{"Content-Security-Policy",
                               "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}}});
}

void Server::health(const std::shared_ptr<Exchange>& exchange) {
  if (stopping_) throw ApiError(503, "the server is shutting down");
  send_json(*exchange, {{"status", "ok"}});
}

ordered_json Server::model_json(const std::string& name) const {
  ordered_json j{{"id", name}, {"object", "model"}, {"created", started_}, {"owned_by", "toy"}, {"meta", meta_}};
  if (!is_base(name)) j["parent"] = options_.name;
  return j;
}

void Server::models(const std::shared_ptr<Exchange>& exchange) {
  ordered_json list = ordered_json::array({model_json(options_.name)});
  for (const auto* names : {&options_.aliases, &options_.adapters})
    for (const std::string& name : *names) list.push_back(model_json(name));
  send_json(*exchange, {{"object", "list"}, {"data", list}});
}

void Server::apply_template(const std::shared_ptr<Exchange>& exchange) {
  const TemplateRequest r = read(exchange, parse_apply_template);
  const DialogText prompt =
      prompts_.chat(r.messages, r.tools, {.variables = r.variables, .answered = !r.add_generation_prompt});
  send_json(*exchange, {{"prompt", prompt.text}, {"tokens", prompt.ids}});
}

void Server::tokenize(const std::shared_ptr<Exchange>& exchange) {
  const TokenizeRequest r = read(exchange, parse_tokenize);
  const EncodeOptions o{.parse_special = r.parse_special};
  const std::vector<int32_t> ids =
      r.add_special ? encode_complete(tokenizer_, r.content, o) : tokenizer_.encode(r.content, o);
  ordered_json tokens = ids;
  if (r.with_pieces) {
    tokens = ordered_json::array();
    for (const int32_t id : ids) {
      const std::string piece = tokenizer_.written(id);
      tokens.push_back({{"id", id}, {"piece", is_utf8(piece) ? ordered_json(piece) : bytes_json(piece)}});
    }
  }
  send_json(*exchange, {{"tokens", tokens}, {"count", ids.size()}});
}

void Server::detokenize(const std::shared_ptr<Exchange>& exchange) {
  const std::vector<int32_t> ids = read(exchange, parse_detokenize);
  prompts_.require_ids(ids, "tokens");
  send_json(*exchange, {{"content", tokenizer_.decode(ids)}});
}

void Server::metrics(const std::shared_ptr<Exchange>& exchange) {
  std::map<int, int64_t> replies;
  {
    const std::scoped_lock lock(mutex_);
    replies = replies_;
  }
  exchange->send({.body = metrics_text(service_.counts(), cache_bytes_, replies) + timings_.text(options_.name),
                  .type = "text/plain; version=0.0.4"});
}

}  // namespace toy::serve
