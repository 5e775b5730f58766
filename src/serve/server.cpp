#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "serve/anthropic.h"
#include "serve/api.h"
#include "serve/embeddings.h"
#include "serve/page.h"
#include "serve/prompts.h"
#include "serve/replies.h"
#include "serve/text_job.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

uint64_t random_number() {
  std::random_device device;
  return (uint64_t(device()) << 32) | device();
}

// Positions of one text: the shared pages bound them, too.
int64_t context_of(Decoder& decoder) {
  const DecodeState& state = decoder.state();
  if (state.shape().shared_pages == 0 || !state.shared_pool()) return decoder.context();
  return std::min(decoder.context(), state.shape().shared_pages * kPagePositions);
}

class Server {
 public:
  Server(Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat, const ServerOptions& options)
      : options_(options),
        tokenizer_(*model.tokenizer),
        service_(decoder, model.tokenizer.get(), options.most_waiting, options.speculation),
        prompts_(*model.tokenizer, chat, context_of(decoder), decoder.vocab()),
        width_(model.spec.d_model),
        ids_(fmt::format("{:016x}", random_number())) {
    const ModelSpec& spec = model.spec;
    meta_ = {{"architecture", spec.architecture}, {"parameters", parameter_count(spec)},
             {"layers", spec.layers.size()},      {"width", spec.d_model},
             {"vocabulary", spec.vocab},          {"context", context_of(decoder)},
             {"chat_template", chat.has_value()}};
  }

  GenerationService& service() { return service_; }
  // Finishes the texts that there are and refuses others.
  void stop() {
    stopping_ = true;
    service_.close(true);
  }

  void handle(const std::shared_ptr<Exchange>& exchange) {
    const auto refuse = [&](const ApiError& e) {
      const Route* r = route_of(exchange->request.target);
      send(*exchange, error_reply(e, r ? r->errors : error_body));
    };
    try {
      require_key(*exchange);
      route(exchange);
    } catch (const ApiError& e) {
      refuse(e);
    } catch (const ServiceBusy& e) {
      refuse(ApiError(e.closed() ? 503 : 429, e.what(), "", e.closed() ? "" : "overloaded"));
    } catch (const Error& e) {
      refuse(ApiError(e.code() == ErrorCode::bad_input ? 400 : 500, e.what()));
    } catch (const std::exception& e) {
      refuse(ApiError(500, e.what()));
    }
  }

 private:
  struct Route {
    const char *method, *target;
    void (Server::*handler)(const std::shared_ptr<Exchange>&);
    ErrorBody errors = error_body;
  };
  static const Route* route_of(const std::string& target) {
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
        {"POST", "/v1/messages", &Server::messages, anthropic_error},
        {"POST", "/v1/messages/count_tokens", &Server::count_tokens, anthropic_error},
        {"POST", "/v1/chat/completions", &Server::chat_completions},
    };
    const auto* r = std::ranges::find(kRoutes, target, &Route::target);
    return r == std::end(kRoutes) ? nullptr : r;
  }

  void send(Exchange& exchange, HttpReply reply) {
    count(reply.status);
    exchange.send(std::move(reply));
  }
  void send_json(Exchange& exchange, const ordered_json& j) { send(exchange, {.body = json_text(j)}); }

  void count(int status) {
    const std::scoped_lock lock(mutex_);
    ++replies_[status];
  }

  void require_key(const Exchange& exchange) const {
    if (options_.api_keys.empty() || exchange.request.target == "/health" || exchange.request.target == "/") return;
    const std::string& bearer = exchange.request.authorization;
    constexpr std::string_view kBearer = "Bearer ";
    const std::string given = !exchange.request.api_key.empty() ? exchange.request.api_key
                              : bearer.starts_with(kBearer)     ? bearer.substr(kBearer.size())
                                                                : "";
    bool right = false;
    for (const std::string& key : options_.api_keys) right = same_secret(given, key) || right;  // whichever is right
    if (!right)
      throw ApiError(401, "the API key is missing or wrong; send 'Authorization: Bearer KEY' or 'X-Api-Key: KEY'", "",
                     "invalid_api_key");
  }

  void route(const std::shared_ptr<Exchange>& exchange) {
    const std::string& target = exchange->request.target;
    const std::string method = exchange->request.method == "HEAD" ? "GET" : exchange->request.method;
    if (const std::string prefix = "/v1/models/"; target.starts_with(prefix)) {
      if (exchange->request.method != "GET" && exchange->request.method != "HEAD")
        throw ApiError(
            405, fmt::format("{} does not take {}; use GET", one_line(target), one_line(exchange->request.method)));
      require_model(target.substr(prefix.size()));
      return send_json(*exchange, model_json());
    }
    const Route* r = route_of(target);
    if (r == nullptr)
      throw ApiError(404, fmt::format("there is no {}; docs/serving.md lists the endpoints", one_line(target)));
    if (method != r->method)
      throw ApiError(405, fmt::format("{} does not take {}; use {}", target, one_line(method), r->method));
    (this->*r->handler)(exchange);
  }

  void page(const std::shared_ptr<Exchange>& exchange) {
    send(*exchange, {.body = std::string(kPage),
                     .type = "text/html; charset=utf-8",
                     .headers = {{"Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}}});
  }

  void health(const std::shared_ptr<Exchange>& exchange) {
    if (stopping_) throw ApiError(503, "the server is shutting down");
    send_json(*exchange, {{"status", "ok"}});
  }

  ordered_json model_json() const {
    return {{"id", options_.name}, {"object", "model"}, {"created", started_}, {"owned_by", "toy"}, {"meta", meta_}};
  }
  void models(const std::shared_ptr<Exchange>& exchange) {
    send_json(*exchange, {{"object", "list"}, {"data", ordered_json::array({model_json()})}});
  }
  void require_model(const std::string& name) const {
    if (name != options_.name)
      throw ApiError(404, fmt::format("the model '{}' is not served here; use '{}'", one_line(name), options_.name),
                     "model", "model_not_found");
  }

  void apply_template(const std::shared_ptr<Exchange>& exchange) {
    const ChatPrompt prompt = prompts_.chat(parse_apply_template(exchange->request.body).messages);
    send_json(*exchange, {{"prompt", prompt.text}, {"tokens", prompt.ids}});
  }

  void tokenize(const std::shared_ptr<Exchange>& exchange) {
    const TokenizeRequest r = parse_tokenize(exchange->request.body);
    const EncodeOptions o{.parse_special = r.parse_special};
    const std::vector<int32_t> ids =
        r.add_special ? encode_prompt(tokenizer_, r.content, o) : tokenizer_.encode(r.content, o);
    send_json(*exchange, {{"tokens", ids}, {"count", ids.size()}});
  }

  void detokenize(const std::shared_ptr<Exchange>& exchange) {
    const std::vector<int32_t> ids = parse_detokenize(exchange->request.body);
    prompts_.require_ids(ids, "tokens");
    send_json(*exchange, {{"content", tokenizer_.decode(ids)}});
  }

  void metrics(const std::shared_ptr<Exchange>& exchange) {
    const ServiceCounts c = service_.counts();
    std::string text;
    const auto add = [&](const char* name, const char* type, const char* help, int64_t value) {
      text += fmt::format("# HELP toy_{0} {1}\n# TYPE toy_{0} {2}\ntoy_{0} {3}\n", name, help, type, value);
    };
    add("requests_running", "gauge", "Texts that have a sequence.", c.running);
    add("requests_waiting", "gauge", "Texts that wait for a sequence.", c.waiting);
    add("steps_total", "counter", "Calls of the decoder.", c.steps);
    add("preemptions_total", "counter", "Texts preempted because the cache was full.", c.preemptions);
    add("prompt_tokens_total", "counter", "Tokens of prompts.", c.prompt_tokens);
    add("prompt_tokens_shared_total", "counter", "Tokens of prompts that were not computed again.", c.shared_tokens);
    add("generated_tokens_total", "counter", "Tokens of texts that have ended.", c.tokens);
    add("draft_tokens_total", "counter", "Tokens that the draft proposed.", c.proposed);
    add("draft_tokens_accepted_total", "counter", "Proposed tokens that became part of a text.", c.accepted);
    add("cache_pages", "gauge", "Pages of keys and values.", c.pages);
    add("cache_pages_used", "gauge", "Pages that hold something.", c.pages_used);
    text += "# HELP toy_replies_total Replies by HTTP status.\n# TYPE toy_replies_total counter\n";
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [status, n] : replies_)
        text += fmt::format("toy_replies_total{{status=\"{}\"}} {}\n", status, n);
    }
    send(*exchange, {.body = text, .type = "text/plain; version=0.0.4"});
  }

  ReplyHead head(const char* prefix) {
    return {.id = fmt::format("{}{}{:08x}", prefix, ids_, numbers_++),
            .model = options_.name,
            .created = std::time(nullptr)};
  }

  void completions(const std::shared_ptr<Exchange>& exchange) {
    const CompletionRequest r = parse_completion(exchange->request.body, false);
    start(exchange, r, std::make_unique<CompletionFormat>(head("cmpl-"), r, tokenizer_));
  }
  void chat_completions(const std::shared_ptr<Exchange>& exchange) {
    const CompletionRequest r = parse_completion(exchange->request.body, true);
    start(exchange, r, std::make_unique<ChatFormat>(head("chatcmpl-"), r, tokenizer_));
  }

  void messages(const std::shared_ptr<Exchange>& exchange) {
    require_anthropic_version(exchange->request.anthropic_version);
    const CompletionRequest r = parse_messages(exchange->request.body);
    start(exchange, r, std::make_unique<MessagesFormat>(head("msg_")));
  }
  void count_tokens(const std::shared_ptr<Exchange>& exchange) {
    require_anthropic_version(exchange->request.anthropic_version);
    const CompletionRequest r = parse_messages(exchange->request.body, true);
    if (!r.model.empty()) require_model(r.model);
    if (!r.tools.empty()) throw ApiError(400, "tools are not supported yet", "tools");
    send_json(*exchange, {{"input_tokens", prompts_.of(r).front().size()}});
  }

  void embeddings(const std::shared_ptr<Exchange>& exchange) {
    const EmbeddingsRequest r = parse_embeddings(exchange->request.body);
    if (!r.model.empty()) require_model(r.model);
    if (r.dimensions && *r.dimensions != width_)
      throw ApiError(400, fmt::format("'dimensions' is {}; this model's embeddings have {}", *r.dimensions, width_),
                     "dimensions");
    if (int64_t(r.inputs.size()) > kMostNumbers / width_)
      throw ApiError(400, fmt::format("'input' has {} texts; use at most {}", r.inputs.size(), kMostNumbers / width_),
                     "input");
    const auto job = std::make_shared<EmbeddingsJob>(exchange, r, options_.name, [this](int status) { count(status); });
    std::vector<TextRequest> texts;
    for (std::vector<int32_t>& ids : prompts_.of(r.inputs, "input")) {
      prompts_.require_fits(int64_t(ids.size()), "input");
      texts.push_back(job->add(std::move(ids)));
    }
    submit(*exchange, std::move(texts));
  }

  // Submits the texts of a request, whose reply has this form.
  void start(const std::shared_ptr<Exchange>& exchange, const CompletionRequest& r,
             std::unique_ptr<ReplyFormat> format) {
    if (!r.model.empty()) require_model(r.model);
    if (!r.tools.empty() || r.form.kind != TextForm::any)
      throw ApiError(400, "tools and structured output are not supported yet",
                     r.tools.empty() ? r.form.field : "tools");
    for (const auto& [id, bias] : r.sampler.logit_bias) prompts_.require_ids({id}, "logit_bias");
    const auto job =
        std::make_shared<TextJob>(exchange, std::move(format), r.stream, [this](int status) { count(status); });
    const uint64_t seed = r.seed ? *r.seed : random_number();
    std::vector<TextRequest> texts;
    int64_t logprobs = 0;
    for (const std::vector<int32_t>& prompt : prompts_.of(r)) {
      const int64_t n = prompts_.length(r, int64_t(prompt.size()));
      logprobs += r.logprobs ? r.n * (n + int64_t(r.echo ? prompt.size() : 0)) * (1 + *r.logprobs) : 0;
      if (logprobs > kMostLogprobs)
        throw ApiError(400,
                       fmt::format("the reply would have more than {} log probabilities; use fewer tokens, choices "
                                   "or alternatives",
                                   kMostLogprobs),
                       "logprobs");
      job->add_prompt(int64_t(prompt.size()));
      for (int64_t k = 0; k < r.n; ++k)
        texts.push_back(
            job->add_choice(text_request(r, prompt, n, seed + uint64_t(k)), r.echo ? tokenizer_.decode(prompt) : ""));
    }
    submit(*exchange, std::move(texts));
  }

  // They end when the client goes.
  void submit(Exchange& exchange, std::vector<TextRequest> texts) {
    const std::vector<int64_t> numbers = service_.submit_all(std::move(texts));
    exchange.on_gone([this, numbers] {
      for (const int64_t number : numbers) service_.cancel(number);
      count(499);  // as nginx counts clients that have gone
    });
  }

  static TextRequest text_request(const CompletionRequest& r, const std::vector<int32_t>& prompt, int64_t n,
                                  uint64_t seed) {
    TextRequest t{.prompt = prompt, .options = {.max_tokens = n, .sampler = r.sampler}, .stops = r.stops};
    t.options.sampler.seed = seed;
    t.options.top_logprobs = r.logprobs.value_or(0);
    t.options.ignore_eos = r.ignore_eos;
    t.score_prompt = r.echo && r.logprobs;
    return t;
  }

  const ServerOptions& options_;
  const Tokenizer& tokenizer_;
  GenerationService service_;
  const Prompts prompts_;
  const int64_t width_;
  ordered_json meta_;      // of the model
  const std::string ids_;  // what the ids of replies begin with
  uint64_t numbers_ = 0;
  std::atomic<bool> stopping_ = false;
  const int64_t started_ = std::time(nullptr);
  std::mutex mutex_;
  std::map<int, int64_t> replies_;  // by status
};

}  // namespace

void serve(HttpServer& http, Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
           const ServerOptions& options) {
  check(model.tokenizer != nullptr, "serve: the model {} has no tokenizer", model.spec.name);
  Server server(decoder, model, chat, options);
  std::exception_ptr broken;
  std::thread computing([&] {
    try {
      server.service().serve();
    } catch (...) {
      broken = std::current_exception();
      server.service().close(false);
      http.stop();
    }
  });
  http.run([&](const std::shared_ptr<Exchange>& exchange) { server.handle(exchange); },
           [](int status, const std::string& message) { return error_reply(ApiError(status, message)); },
           [&] { server.stop(); });
  server.service().close(false);
  computing.join();
  if (broken) std::rethrow_exception(broken);
}

}  // namespace toy::serve
