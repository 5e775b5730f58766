// Which endpoints there are, and those that need no texts of the model.
#include "serve/endpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/anthropic.h"
#include "serve/page.h"
#include "toy/base/utf8.h"

namespace toy::serve {

using nlohmann::ordered_json;

const Server::Route* Server::route_of(const std::string& target, const std::string& method) {
  static constexpr Route kRoutes[] = {
      {"GET", "/", &Server::page},
      {"GET", "/health", &Server::health},
      {"GET", "/metrics", &Server::metrics},
      {"GET", "/v1/models", &Server::models},
      {"POST", "/apply-template", &Server::apply_template},
      {"POST", "/tokenize", &Server::tokenize},
      {"POST", "/detokenize", &Server::detokenize},
      {"POST", "/v1/completions", &Server::completions},
      {"POST", "/v1/embeddings", &Server::embeddings},
      {"POST", "/v1/responses", &Server::responses},
      {"POST", "/v1/messages", &Server::messages, anthropic_error},
      {"POST", "/v1/messages/count_tokens", &Server::count_tokens, anthropic_error},
      {"POST", "/v1/chat/completions", &Server::chat_completions},
      {"POST", "/v1/state", &Server::state},
      {"GET", "/v1/state", &Server::list_states},
  };
  const auto* r = std::ranges::find(kRoutes, target, &Route::target);
  if (r == std::end(kRoutes)) return nullptr;
  for (const auto* other = r; other != std::end(kRoutes); ++other)  // few have several methods
    if (target == other->target && method == other->method) return other;
  return r;
}

ErrorBody Server::errors_of(const std::string& target) {
  const Route* r = route_of(target);
  return r ? r->errors : error_body;
}

void Server::route(const std::shared_ptr<Exchange>& exchange) {
  const std::string& target = exchange->request.target;
  const std::string method = exchange->request.method == "HEAD" ? "GET" : exchange->request.method;
  if (const std::string prefix = "/v1/models/"; target.starts_with(prefix)) {
    if (exchange->request.method != "GET" && exchange->request.method != "HEAD")
      throw ApiError(405,
                     fmt::format("{} does not take {}; use GET", one_line(target), one_line(exchange->request.method)));
    const std::string name = target.substr(prefix.size());
    if (name.empty()) throw ApiError(404, "there is no model without a name; GET /v1/models lists them");
    require_model(name);
    return send_json(*exchange, model_json(name));
  }
  const Route* r = route_of(target, method);
  if (r == nullptr)
    throw ApiError(404, fmt::format("there is no {}; docs/serving.md lists the endpoints", one_line(target)));
  if (method != r->method)
    throw ApiError(405, fmt::format("{} does not take {}; use {}", target, one_line(method), r->method));
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
  if (name != options_.name) j["parent"] = options_.name;
  return j;
}

void Server::models(const std::shared_ptr<Exchange>& exchange) {
  ordered_json list = ordered_json::array({model_json(options_.name)});
  for (const std::string& name : options_.adapters) list.push_back(model_json(name));
  send_json(*exchange, {{"object", "list"}, {"data", list}});
}

void Server::apply_template(const std::shared_ptr<Exchange>& exchange) {
  const TemplateRequest r = parse_apply_template(exchange->request.body);
  const ChatPrompt prompt = prompts_.chat(r.messages, r.tools);
  send_json(*exchange, {{"prompt", prompt.text}, {"tokens", prompt.ids}});
}

void Server::tokenize(const std::shared_ptr<Exchange>& exchange) {
  const TokenizeRequest r = parse_tokenize(exchange->request.body);
  const EncodeOptions o{.parse_special = r.parse_special};
  const std::vector<int32_t> ids =
      r.add_special ? encode_prompt(tokenizer_, r.content, o) : tokenizer_.encode(r.content, o);
  send_json(*exchange, {{"tokens", ids}, {"count", ids.size()}});
}

void Server::detokenize(const std::shared_ptr<Exchange>& exchange) {
  const std::vector<int32_t> ids = parse_detokenize(exchange->request.body);
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
