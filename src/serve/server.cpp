#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "serve/api.h"
#include "serve/page.h"
#include "serve/replies.h"
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

// A request whose texts are being written. After it was submitted, only the service's thread changes it.
struct Job {
  std::shared_ptr<Exchange> exchange;
  CompletionRequest request;
  ReplyHead head;
  std::vector<Choice> choices;
  size_t left = 0;  // choices that are not done
  int64_t prompt_tokens = 0;
  bool begun = false, failed = false;
};

class Server {
 public:
  Server(Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat, const ServerOptions& options)
      : options_(options),
        tokenizer_(*model.tokenizer),
        chat_(chat),
        service_(decoder, model.tokenizer.get(), options.most_waiting),
        context_(decoder.context()),
        vocab_(decoder.vocab()),
        cache_bytes_(int64_t(decoder.state().bytes())),
        ids_(fmt::format("{:016x}", random_number())) {
    const DecodeState& state = decoder.state();
    if (state.shape().shared_pages > 0 && state.shared_pool())
      context_ = std::min(context_, state.shape().shared_pages * kPagePositions);
    const ModelSpec& spec = model.spec;
    meta_ = {{"architecture", spec.architecture}, {"parameters", parameter_count(spec)},
             {"layers", spec.layers.size()},      {"width", spec.d_model},
             {"vocabulary", spec.vocab},          {"context", context_},
             {"chat_template", chat.has_value()}};
  }

  GenerationService& service() { return service_; }

  void handle(const std::shared_ptr<Exchange>& exchange) {
    try {
      require_key(*exchange);
      route(exchange);
    } catch (const ApiError& e) {
      send_error(*exchange, e);
    } catch (const ServiceBusy& e) {
      send_error(*exchange, ApiError(e.closed() ? 503 : 429, e.what(), "", e.closed() ? "" : "overloaded"));
    } catch (const Error& e) {
      send_error(*exchange, ApiError(e.code() == ErrorCode::bad_input ? 400 : 500, e.what()));
    } catch (const std::exception& e) {
      send_error(*exchange, ApiError(500, e.what()));
    }
  }

  static HttpReply error_reply(const ApiError& e) {
    HttpReply reply{.status = e.status, .body = error_body(e.status, e.what(), e.param, e.code)};
    if (e.status == 429 || e.status == 503) reply.headers.emplace_back("Retry-After", "1");
    if (e.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }

 private:
  void send(Exchange& exchange, HttpReply reply) {
    count(reply.status);
    exchange.send(std::move(reply));
  }
  void send_error(Exchange& exchange, const ApiError& e) { send(exchange, error_reply(e)); }
  void send_json(Exchange& exchange, const ordered_json& j) { send(exchange, {.body = json_text(j)}); }

  void count(int status) {
    const std::scoped_lock lock(mutex_);
    ++replies_[status];
  }

  void require_key(const Exchange& exchange) const {
    if (options_.api_keys.empty() || exchange.request.target == "/health" || exchange.request.target == "/") return;
    const std::string& given = exchange.request.authorization;
    constexpr std::string_view kBearer = "Bearer ";
    bool right = false;
    for (const std::string& key : options_.api_keys)  // all of them, whichever is right
      right = (given.starts_with(kBearer) && same_secret(given.substr(kBearer.size()), key)) || right;
    if (!right)
      throw ApiError(401, "the API key is missing or wrong; send 'Authorization: Bearer KEY'", "", "invalid_api_key");
  }

  void route(const std::shared_ptr<Exchange>& exchange) {
    const std::string& target = exchange->request.target;
    using Handler = void (Server::*)(const std::shared_ptr<Exchange>&);
    struct Route {
      const char *method, *target;
      Handler handler;
    };
    static constexpr Route kRoutes[] = {
        {"GET", "/", &Server::page},
        {"GET", "/health", &Server::health},
        {"GET", "/metrics", &Server::metrics},
        {"GET", "/v1/models", &Server::models},
        {"POST", "/apply-template", &Server::apply_template},
        {"POST", "/tokenize", &Server::tokenize},
        {"POST", "/detokenize", &Server::detokenize},
        {"POST", "/v1/completions", &Server::completions},
        {"POST", "/v1/chat/completions", &Server::chat_completions},
    };
    const std::string method = exchange->request.method == "HEAD" ? "GET" : exchange->request.method;
    if (const std::string prefix = "/v1/models/"; target.starts_with(prefix)) {
      if (exchange->request.method != "GET" && exchange->request.method != "HEAD")
        throw ApiError(
            405, fmt::format("{} does not take {}; use GET", one_line(target), one_line(exchange->request.method)));
      require_model(target.substr(prefix.size()));
      return send_json(*exchange, model_json());
    }
    for (const Route& r : kRoutes)
      if (target == r.target) {
        if (method != r.method)
          throw ApiError(405, fmt::format("{} does not take {}; use {}", target, one_line(method), r.method));
        return (this->*r.handler)(exchange);
      }
    throw ApiError(404, fmt::format("there is no {}; docs/serving.md lists the endpoints", one_line(target)));
  }

  void page(const std::shared_ptr<Exchange>& exchange) {
    send(*exchange, {.body = std::string(kPage),
                     .type = "text/html; charset=utf-8",
                     .headers = {{"Content-Security-Policy",
                                  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}}});
  }

  void health(const std::shared_ptr<Exchange>& exchange) { send_json(*exchange, {{"status", "ok"}}); }

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
    const ChatPrompt prompt = chat_prompt(parse_apply_template(exchange->request.body));
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
    require_ids(ids, "tokens");
    send_json(*exchange, {{"content", tokenizer_.decode(ids)}});
  }

  void require_ids(const std::vector<int32_t>& ids, const char* param) const {
    for (const int32_t id : ids)
      if (id >= vocab_)
        throw ApiError(
            400, fmt::format("'{}': token id {} is outside the vocabulary; use 0 to {}", param, id, vocab_ - 1), param);
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
    add("cache_bytes", "gauge", "Bytes of pages, snapshots, and states of texts.", cache_bytes_);
    add("cache_pages", "gauge", "Pages of keys and values.", c.pages);
    add("cache_pages_used", "gauge", "Pages that hold something.", c.pages_used);
    add("cache_snapshots", "gauge", "Snapshots of windows and recurrent states that fit.", c.snapshots);
    add("cache_snapshots_used", "gauge", "Snapshots that are kept.", c.snapshots_used);
    text += "# HELP toy_replies_total Replies by HTTP status.\n# TYPE toy_replies_total counter\n";
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [status, n] : replies_)
        text += fmt::format("toy_replies_total{{status=\"{}\"}} {}\n", status, n);
    }
    send(*exchange, {.body = text, .type = "text/plain; version=0.0.4"});
  }

  void completions(const std::shared_ptr<Exchange>& exchange) { start(exchange, false); }
  void chat_completions(const std::shared_ptr<Exchange>& exchange) { start(exchange, true); }

  struct ChatPrompt {
    std::string text;
    std::vector<int32_t> ids;
  };
  ChatPrompt chat_prompt(const ordered_json& messages) const {
    if (!chat_)
      throw ApiError(400, "the model has no chat template; use /v1/completions, or a model with one", "messages");
    std::string text;
    try {
      text = chat_
                 ->render({.messages = messages,
                           .tools = {},
                           .documents = {},
                           .add_generation_prompt = true,
                           .variables = chat_variables(tokenizer_)})
                 .text;
    } catch (const Error& e) {
      throw ApiError(400, e.what(), "messages");
    }
    std::vector<int32_t> ids = tokenizer_.encode(text, {.parse_special = true});
    const auto bos = tokenizer_.bos();
    if (tokenizer_.adds_bos() && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
    return {std::move(text), std::move(ids)};
  }

  std::vector<std::vector<int32_t>> prompts(const CompletionRequest& r) const {
    if (r.chat) return {chat_prompt(r.messages).ids};
    std::vector<std::vector<int32_t>> result;
    for (const PromptSource& p : r.prompts) {
      const auto* ids = std::get_if<std::vector<int32_t>>(&p);
      if (ids) require_ids(*ids, "prompt");
      result.push_back(ids ? *ids : encode_prompt(tokenizer_, std::get<std::string>(p)));
      if (result.back().empty())
        throw ApiError(400, "the prompt is empty, and no beginning-of-sequence token is added", "prompt");
    }
    return result;
  }

  // How many tokens follow a prompt.
  int64_t length(const CompletionRequest& r, int64_t prompt) const {
    constexpr int64_t kUnsaid = 16;  // as OpenAI's
    const int64_t room = context_ - prompt, unsaid = r.chat ? room : std::min(room, kUnsaid);
    const int64_t wanted = r.max_tokens ? *r.max_tokens : std::max<int64_t>(unsaid, 1);
    if (wanted > room)
      throw ApiError(
          400,
          fmt::format(
              "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the {}, "
              "{} in the completion). Please reduce the length of the {} or completion.",
              context_, prompt + wanted, prompt, r.chat ? "messages" : "prompt", wanted,
              r.chat ? "messages" : "prompt"),
          r.chat ? "messages" : "prompt", "context_length_exceeded");
    return wanted;
  }

  void start(const std::shared_ptr<Exchange>& exchange, bool chat) {
    const auto job = std::make_shared<Job>();
    job->exchange = exchange;
    job->request = parse_completion(exchange->request.body, chat);
    const CompletionRequest& r = job->request;
    if (!r.model.empty()) require_model(r.model);
    job->head = {.id = fmt::format("{}-{}{:08x}", chat ? "chatcmpl" : "cmpl", ids_, numbers_++),
                 .model = options_.name,
                 .created = std::time(nullptr),
                 .chat = chat};
    for (const auto& [id, bias] : r.sampler.logit_bias) require_ids({id}, "logit_bias");
    const uint64_t seed = r.seed ? *r.seed : random_number();
    std::vector<TextRequest> texts;
    int64_t logprobs = 0;
    for (const std::vector<int32_t>& prompt : prompts(r)) {
      const int64_t n = length(r, int64_t(prompt.size()));
      logprobs += r.logprobs ? r.n * (n + int64_t(r.echo ? prompt.size() : 0)) * (1 + *r.logprobs) : 0;
      if (logprobs > kMostLogprobs)
        throw ApiError(400,
                       fmt::format("the reply would have more than {} log probabilities; use fewer tokens, choices "
                                   "or alternatives",
                                   kMostLogprobs),
                       "logprobs");
      job->prompt_tokens += int64_t(prompt.size());
      for (int64_t k = 0; k < r.n; ++k) {
        Choice& c = job->choices.emplace_back();
        c.index = int64_t(texts.size());
        c.prompt = prompt;
        if (r.echo) c.echoed = tokenizer_.decode(prompt);
        texts.push_back(text_request(job, texts.size(), prompt, n, seed + uint64_t(k)));
      }
    }
    job->left = texts.size();
    const std::vector<int64_t> numbers = service_.submit_all(std::move(texts));
    exchange->on_gone([this, numbers] {
      for (const int64_t number : numbers) service_.cancel(number);
      count(499);  // as nginx counts clients that have gone
    });
  }

  TextRequest text_request(const std::shared_ptr<Job>& job, size_t i, const std::vector<int32_t>& prompt, int64_t n,
                           uint64_t seed) {
    const CompletionRequest& r = job->request;
    TextRequest t{.prompt = prompt, .options = {.max_tokens = n, .sampler = r.sampler}, .stops = r.stops};
    t.options.sampler.seed = seed;
    t.options.top_logprobs = r.logprobs.value_or(0);
    t.options.ignore_eos = r.ignore_eos;
    t.score_prompt = r.echo && r.logprobs;
    t.on_text = [this, job, i](const GeneratedToken& token, const std::string& text) {
      job->choices[i].text += text;
      if (job->request.stream) stream(*job, i, token, text);
      return !job->failed;
    };
    t.on_end = [this, job, i](const TextEnd& end) { finish(*job, i, end); };
    return t;
  }

  void begin(Job& job) {
    if (std::exchange(job.begun, true)) return;
    job.exchange->begin("text/event-stream");
    if (!job.head.chat) return;
    for (const Choice& c : job.choices)
      job.exchange->write(stream_event(job.head, c.index, "", "", nullptr, true, job.request.include_usage));
  }

  void stream(Job& job, size_t i, const GeneratedToken& token, const std::string& text) {
    begin(job);
    ordered_json logprobs;
    if (job.request.logprobs && job.head.chat) logprobs = chat_logprobs(tokenizer_, {token}, job.request.token_ids);
    if (job.request.logprobs && !job.head.chat) {
      logprobs = completion_logprobs(tokenizer_, {token}, job.choices[i].offset);
      if (job.request.token_ids) logprobs.update(chat_logprobs(tokenizer_, {token}, true));
    }
    if (!text.empty() || job.request.logprobs)
      job.exchange->write(stream_event(job.head, int64_t(i), text, "", logprobs, false, job.request.include_usage));
  }

  void finish(Job& job, size_t i, const TextEnd& end) {
    Choice& c = job.choices[i];
    c.end = end;
    c.text += end.text;
    --job.left;
    if (job.failed) return;
    if (end.error) return fail(job, end.error);
    if (job.request.stream) {
      begin(job);
      job.exchange->write(stream_event(job.head, c.index, end.text, finish_reason(end.generated.reason), nullptr, false,
                                       job.request.include_usage));
    }
    if (job.left > 0) return;
    count(200);
    if (!job.request.stream)
      return job.exchange->send(
          {.body = reply_body(job.head, job.request, tokenizer_, job.choices, job.prompt_tokens)});
    int64_t tokens = 0;
    for (const Choice& done : job.choices) tokens += int64_t(done.end.generated.tokens.size());
    if (job.request.include_usage) job.exchange->write(usage_event(job.head, job.prompt_tokens, tokens));
    job.exchange->write("data: [DONE]\n\n");
    job.exchange->end();
  }

  void fail(Job& job, const std::exception_ptr& error) {
    job.failed = true;  // the other choices end with their next token
    std::string message = "the text could not be computed";
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      message = e.what();
    }
    if (!job.begun) return send_error(*job.exchange, ApiError(500, message));
    count(500);
    job.exchange->write("data: " + error_body(500, message) + "\n\n");
    job.exchange->end();
  }

  const ServerOptions& options_;
  const Tokenizer& tokenizer_;
  const std::optional<ChatTemplate>& chat_;
  GenerationService service_;
  int64_t context_, vocab_, cache_bytes_;
  ordered_json meta_;      // of the model
  const std::string ids_;  // what the ids of replies begin with
  uint64_t numbers_ = 0;
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
           [](int status, const std::string& message) { return Server::error_reply(ApiError(status, message)); },
           [&] { server.service().close(true); });
  server.service().close(false);
  computing.join();
  if (broken) std::rethrow_exception(broken);
}

}  // namespace toy::serve
