#include "serve/encoder_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>

#include "serve/access_log.h"
#include "serve/api/embeddings.h"
#include "serve/api/ollama.h"
#include "serve/api/replies.h"
#include "serve/api/rerank.h"
#include "serve/prompts.h"
#include "serve/read_body.h"
#include "serve/requests.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;
using ExchangePointer = const std::shared_ptr<Exchange>&;

// Handlers compute on their own thread, one at a time: a request is a batch.
class EncoderServer {
 public:
  // One of the two.
  EncoderServer(Encoder* encoder, Ranker* ranker, const Model& model, const ServerOptions& options, OriginRules origins)
      : encoder_(encoder),
        ranker_(ranker),
        model_(model),
        options_(options),
        origins_(std::move(origins)),
        rule_(encoder ? embed_options(model) : EmbedOptions()),
        prompts_(*model.tokenizer, nullptr, model.spec.context, model.spec.vocab),
        log_(options.log) {}

  struct Route {
    const char *method, *target;
    void (EncoderServer::*handler)(ExchangePointer);
    enum { both, encoders, rankers } of = both;
    bool is_of(bool ranks) const { return of == both || (of == rankers) == ranks; }
  };
  static const Route kRoutes[];

  Admission admit(HttpRequest& header) const {
    return admit_with_key(header, origins_, options_.api_keys, errors_of(header.target));
  }
  void handle(ExchangePointer exchange) {
    try {
      require_plain_body(exchange->request);
      route(exchange);
    } catch (...) {
      exchange->send(error_reply(api_error(std::current_exception()), errors_of(exchange->request.target)));
    }
  }
  void stop() { stopping_ = true; }
  void answered(const Answered& a) { log_.write(a); }

 private:
  static ErrorBody errors_of(std::string_view target) {
    return target.starts_with("/api/") ? ollama_error : error_body;
  }

  void route(ExchangePointer exchange);
  static void send_json(Exchange& exchange, const ordered_json& j) { exchange.send({.body = json_text(j)}); }

  int64_t width() const { return model_.spec.d_model; }
  void health(ExchangePointer exchange) { send_json(*exchange, {{"status", "ok"}}); }
  void models(ExchangePointer exchange) {
    ordered_json list = ordered_json::array();
    const auto add = [&](const std::string& name) {
      list.push_back({{"id", name},
                      {"object", "model"},
                      {"created", started_},
                      {"owned_by", "toy"},
                      {"meta", {{"architecture", model_.spec.architecture}, {"width", width()}}}});
    };
    add(options_.name);
    for (const std::string& alias : options_.aliases) add(alias);
    send_json(*exchange, {{"object", "list"}, {"data", list}});
  }
  void embeddings(ExchangePointer exchange) { embed(exchange, read_body(exchange, options_.strict, parse_embeddings)); }
  void ollama_embed(ExchangePointer exchange) {
    embed(exchange, read_body(exchange, options_.strict,
                              [](const std::string& body) { return parse_ollama_embeddings(body, false); }));
  }
  void ollama_embeddings(ExchangePointer exchange) {
    embed(exchange, read_body(exchange, options_.strict,
                              [](const std::string& body) { return parse_ollama_embeddings(body, true); }));
  }

  void embed(ExchangePointer exchange, const EmbeddingsRequest& r) {
    EmbedOptions o = rule_;
    if (r.pooling) o.pooling = *r.pooling;
    o.dimensions = r.dimensions.value_or(0);
    if (o.dimensions > width())
      refuse(fmt::format("'dimensions' is {}; this model's embeddings have {}", o.dimensions, width()), "dimensions");
    if (int64_t(r.inputs.size()) > kMostNumbers / width())
      refuse(fmt::format("'input' has {} texts; use at most {}", r.inputs.size(), kMostNumbers / width()), "input");
    const std::vector<std::vector<int32_t>> texts = prompts_.complete(r.inputs);
    int64_t tokens = 0;
    for (const std::vector<int32_t>& ids : texts) {
      prompts_.require_fits(int64_t(ids.size()), "input");
      tokens += int64_t(ids.size());
    }
    std::vector<std::vector<float>> vectors;
    {
      const std::scoped_lock lock(mutex_);
      vectors = encoder_->embed(texts, o);
    }
    exchange->note([&](RequestNotes& n) { n.prompt = tokens; });
    const std::string name = r.model.empty() ? options_.name : r.model;
    exchange->send({.body = r.form == EmbeddingsRequest::openai
                                ? embeddings_body(vectors, name, r.base64, tokens)
                                : ollama_embeddings_body(vectors, name, r.form, tokens)});
  }

  void rerank(ExchangePointer exchange) {
    const RerankRequest r = read_body(exchange, options_.strict, parse_rerank);
    std::vector<Ranked> ranked;
    try {
      const std::scoped_lock lock(mutex_);
      ranked = ranker_->rank(r.query, r.documents);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      throw ApiError(400, e.what(), "query", "context_length_exceeded");
    }
    int64_t tokens = 0;
    for (const Ranked& one : ranked) tokens += one.tokens;
    if (r.top_n && *r.top_n < int64_t(ranked.size())) ranked.resize(size_t(*r.top_n));
    exchange->note([&](RequestNotes& n) { n.prompt = tokens; });
    exchange->send({.body = rerank_body(r, ranked, r.model.empty() ? options_.name : r.model, tokens)});
  }

  Encoder* encoder_;
  Ranker* ranker_;
  const Model& model_;
  const ServerOptions& options_;
  const OriginRules origins_;
  const EmbedOptions rule_;
  const Prompts prompts_;
  AccessLog log_;
  std::mutex mutex_;  // of the encoder
  std::atomic<bool> stopping_ = false;
  const int64_t started_ = std::time(nullptr);
};

const EncoderServer::Route EncoderServer::kRoutes[] = {
    {"GET", "/health", &EncoderServer::health},
    {"GET", "/v1/models", &EncoderServer::models},
    {"POST", "/v1/embeddings", &EncoderServer::embeddings, Route::encoders},
    {"POST", "/api/embed", &EncoderServer::ollama_embed, Route::encoders},
    {"POST", "/api/embeddings", &EncoderServer::ollama_embeddings, Route::encoders},
    {"POST", "/v1/rerank", &EncoderServer::rerank, Route::rankers},
    {"POST", "/v1/reranking", &EncoderServer::rerank, Route::rankers},  // llama-server
    {"POST", "/v2/rerank", &EncoderServer::rerank, Route::rankers},     // Cohere
};

void EncoderServer::route(ExchangePointer exchange) {
  const std::string& target = exchange->request.target;
  const std::string method = exchange->request.method == "HEAD" ? "GET" : exchange->request.method;
  const bool ranks = ranker_ != nullptr;
  const auto* r = std::ranges::find_if(kRoutes, [&](const Route& route) {
    return route.is_of(ranks) && (target == route.target || "/v1" + target == route.target);
  });
  if (r == std::end(kRoutes))
    throw ApiError(404, fmt::format("there is no {}: the model '{}' {}; the endpoints are {}", one_line(target),
                                    options_.name, ranks ? "ranks documents" : "is an encoder, which gives embeddings",
                                    fmt::join(encoder_endpoints(ranks), ", ")));
  if (method != r->method)
    throw ApiError(405, fmt::format("{} does not take {}; use {}", target, one_line(method), r->method));
  if (stopping_) throw ApiError(503, "the server is shutting down");
  (this->*r->handler)(exchange);
}

}  // namespace

std::vector<std::string_view> encoder_endpoints(bool ranks) {
  std::vector<std::string_view> targets;
  for (const EncoderServer::Route& r : EncoderServer::kRoutes)
    if (r.is_of(ranks)) targets.emplace_back(r.target);
  return targets;
}

static void run(HttpServer& http, Encoder* encoder, Ranker* ranker, const Model& model, const ServerOptions& options) {
  check(model.tokenizer != nullptr, "serve: the model {} has no tokenizer", model.spec.name);
  EncoderServer server(encoder, ranker, model, options,
                       {.host = options.host,
                        .port = http.port(),
                        .tls = options.tls,
                        .loopback = http.loopback(),
                        .keyless = options.api_keys.empty(),
                        .cors = options.cors});
  http.run({.handle = [&](const std::shared_ptr<Exchange>& exchange) { server.handle(exchange); },
            .bad = [](int status, const std::string& message) { return error_reply(ApiError(status, message)); },
            .stopping =
                [&](size_t requests) {
                  server.stop();
                  if (options.stopping) options.stopping(requests);
                },
            .ending = [] {},
            .admit = [&](HttpRequest& header) { return server.admit(header); },
            .answered = [&](const Answered& a) { server.answered(a); },
            .stuck = options.stuck});
}

void serve_encoder(HttpServer& http, Encoder& encoder, const Model& model, const ServerOptions& options) {
  run(http, &encoder, nullptr, model, options);
}

void serve_ranker(HttpServer& http, Ranker& ranker, const Model& model, const ServerOptions& options) {
  run(http, nullptr, &ranker, model, options);
}

}  // namespace toy::serve
