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

#include "dialog/constraints.h"
#include "dialog/thoughts.h"
#include "serve/anthropic.h"
#include "serve/api.h"
#include "serve/embeddings.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include "serve/page.h"
#include "serve/prompts.h"
#include "serve/replies.h"
#include "serve/responses.h"
#include "serve/states.h"
#include "serve/text_job.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// Seconds that streams pause, about, for the prompts of others.
constexpr double kLongestPause = 0.15;

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
        form_(chat ? call_form_of(chat->source(), model.tokenizer.get()) : nullptr),
        prompts_(*model.tokenizer, chat, form_, context_of(decoder), decoder.vocab()),
        width_(model.spec.d_model),
        cache_bytes_(int64_t(decoder.state().bytes())),
        pooling_(stated_pooling(model.metadata)),
        template_(chat ? chat->source() : ""),
        thoughts_(thought_marks(template_)),
        constraints_(*model.tokenizer, form_, thoughts_),
        ids_(fmt::format("{:016x}", random_number())) {
    service_.limit_pause(kLongestPause);
    if (!options.state_folder.empty())
      states_ = std::make_unique<States>(options.state_folder, options.adapters, model, decoder);
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

  // Any thread may call it.
  void handle(const std::shared_ptr<Exchange>& exchange) {
    answer(exchange, [&] {
      require_key(*exchange);
      route(exchange);
    });
  }

 private:
  // Sends what `call` throws.
  template <class Call>
  void answer(const std::shared_ptr<Exchange>& exchange, Call&& call) {
    try {
      call();
    } catch (...) {
      const Route* r = route_of(exchange->request.target);
      send(*exchange, error_reply(api_error(std::current_exception()), r ? r->errors : error_body));
    }
  }

  struct Route {
    const char *method, *target;
    void (Server::*handler)(const std::shared_ptr<Exchange>&);
    ErrorBody errors = error_body;
  };
  // That of another method where there is none of this one.
  static const Route* route_of(const std::string& target, const std::string& method = "") {
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
    if (!has_key(exchange.request, options_.api_keys))
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

  ordered_json model_json(const std::string& name) const {
    ordered_json j{{"id", name}, {"object", "model"}, {"created", started_}, {"owned_by", "toy"}, {"meta", meta_}};
    if (name != options_.name) j["parent"] = options_.name;
    return j;
  }
  void models(const std::shared_ptr<Exchange>& exchange) {
    ordered_json list = ordered_json::array({model_json(options_.name)});
    for (const std::string& name : options_.adapters) list.push_back(model_json(name));
    send_json(*exchange, {{"object", "list"}, {"data", list}});
  }
  // Factors of the adapters for a model; "": the base.
  std::vector<float> adapters_of(const std::string& model) const {
    std::vector<float> factors(options_.adapters.size());
    if (model.empty() || model == options_.name) return factors;
    const auto adapter = std::ranges::find(options_.adapters, model);
    if (adapter == options_.adapters.end()) {
      const std::string others = factors.empty() ? "" : fmt::format(", '{}'", fmt::join(options_.adapters, "', '"));
      throw ApiError(
          404, fmt::format("the model '{}' is not served here; use '{}'{}", one_line(model), options_.name, others),
          "model", "model_not_found");
    }
    factors[size_t(adapter - options_.adapters.begin())] = 1;
    return factors;
  }
  std::vector<float> adapters_of(const CompletionRequest& r) const {
    std::vector<float> factors = adapters_of(r.model);
    if (!r.lora) return factors;
    if (name_of(r.model) != options_.name)
      throw ApiError(400, fmt::format("'lora' is for the model '{}'; remove 'lora' or 'model'", options_.name), "lora");
    for (const auto& [id, factor] : *r.lora) {
      if (size_t(id) >= factors.size())
        throw ApiError(400, fmt::format("'lora' has the id {}; there are {} adapters", id, factors.size()), "lora");
      factors[size_t(id)] = float(factor);
    }
    return factors;
  }
  void require_model(const std::string& name) const { adapters_of(name); }
  const std::string& name_of(const std::string& model) const { return model.empty() ? options_.name : model; }

  void apply_template(const std::shared_ptr<Exchange>& exchange) {
    const TemplateRequest r = parse_apply_template(exchange->request.body);
    const ChatPrompt prompt = prompts_.chat(r.messages, r.tools);
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
    std::map<int, int64_t> replies;
    {
      const std::scoped_lock lock(mutex_);
      replies = replies_;
    }
    send(*exchange,
         {.body = metrics_text(service_.counts(), cache_bytes_, replies), .type = "text/plain; version=0.0.4"});
  }

  ReplyHead head(const char* prefix, const CompletionRequest& r) {
    return {.id = fmt::format("{}{}{:08x}", prefix, ids_, numbers_++),
            .model = name_of(r.model),
            .created = std::time(nullptr)};
  }

  void completions(const std::shared_ptr<Exchange>& exchange) {
    const CompletionRequest r = parse_completion(exchange->request.body, false);
    start(exchange, r, std::make_unique<CompletionFormat>(head("cmpl-", r), r, tokenizer_));
  }
  void chat_completions(const std::shared_ptr<Exchange>& exchange) {
    const CompletionRequest r = parse_completion(exchange->request.body, true);
    start(exchange, r, std::make_unique<ChatFormat>(head("chatcmpl-", r), r, tokenizer_));
  }

  void responses(const std::shared_ptr<Exchange>& exchange) {
    const ResponsesRequest r = parse_responses(exchange->request.body);
    start(exchange, r.completion, std::make_unique<ResponsesFormat>(head("", r.completion), r.settings));
  }
  void messages(const std::shared_ptr<Exchange>& exchange) {
    require_anthropic_version(exchange->request.anthropic_version);
    const CompletionRequest r = parse_messages(exchange->request.body);
    start(exchange, r, std::make_unique<MessagesFormat>(head("msg_", r)));
  }
  void count_tokens(const std::shared_ptr<Exchange>& exchange) {
    require_anthropic_version(exchange->request.anthropic_version);
    const CompletionRequest r = parse_messages(exchange->request.body, true);
    require_model(r.model);
    send_json(*exchange, {{"input_tokens", prompts_.of(r).front().size()}});
  }

  void embeddings(const std::shared_ptr<Exchange>& exchange) {
    const EmbeddingsRequest r = parse_embeddings(exchange->request.body);
    require_model(r.model);
    if (r.dimensions && *r.dimensions != width_)
      refuse(fmt::format("'dimensions' is {}; this model's embeddings have {}", *r.dimensions, width_), "dimensions");
    if (int64_t(r.inputs.size()) > kMostNumbers / width_)
      refuse(fmt::format("'input' has {} texts; use at most {}", r.inputs.size(), kMostNumbers / width_), "input");
    const auto job = std::make_shared<EmbeddingsJob>(exchange, r, pooling_of(r, pooling_), name_of(r.model),
                                                     [this](int status) { count(status); });
    std::vector<TextRequest> texts;
    for (std::vector<int32_t>& ids : prompts_.complete(r.inputs)) {
      prompts_.require_fits(int64_t(ids.size()), "input");
      texts.push_back(job->add(std::move(ids)));
      texts.back().adapters = adapters_of(r.model);
    }
    submit(*exchange, std::move(texts));
  }

  States& states() {
    if (!states_) throw ApiError(404, "this server keeps no states; start it with --state DIR");
    return *states_;
  }
  void list_states(const std::shared_ptr<Exchange>& exchange) { send_json(*exchange, states().list()); }
  void state(const std::shared_ptr<Exchange>& exchange) {
    States& states = this->states();
    const StateRequest r = parse_state(exchange->request.body);
    switch (r.action) {
      case StateRequest::save:
        return save_state(exchange, r);
      case StateRequest::restore:
        return restore_state(exchange, r.name);
      case StateRequest::fork:
        return send_json(*exchange, states.fork(r.name, r.to));
      case StateRequest::remove:
        return send_json(*exchange, states.remove(r.name));
    }
  }
  void save_state(const std::shared_ptr<Exchange>& exchange, const StateRequest& r) {
    TextRequest t{.prompt = tokens_to_save(r, prompts_), .options = {.max_tokens = 0}};
    t.adapters = adapters_of(r.prompt);
    t.keep_state = true;
    t.on_end = [this, exchange, turn = states_->take_turn(), name = r.name, tokens = t.prompt,
                adapters = t.adapters](const TextEnd& end) {
      answer(exchange, [&] {
        if (end.error) std::rethrow_exception(end.error);
        states_->run([=, this, state = end.state] {
          answer(exchange, [&] {
            const auto written = [&] {
              const States::TurnEnd before_the_answer(*turn);
              return states_->write(name, tokens, adapters, std::move(*state));
            };
            send_json(*exchange, written());
          });
        });
      });
    };
    std::vector<TextRequest> one;
    one.push_back(std::move(t));
    submit(*exchange, std::move(one));
  }
  void restore_state(const std::shared_ptr<Exchange>& exchange, const std::string& name) {
    states_->describe(name);  // is it there?
    states_->run([this, exchange, name, turn = states_->take_turn()] {
      answer(exchange, [&] {
        try {
          std::vector<TextRequest> one;
          one.push_back(states_->read(name));
          one.back().on_end = [this, exchange, turn, description = states_->describe(name)](const TextEnd& end) {
            turn->end();
            answer(exchange, [&] {
              if (end.error) std::rethrow_exception(end.error);
              send_json(*exchange, description);
            });
          };
          submit(*exchange, std::move(one));
        } catch (...) {
          turn->end();
          throw;
        }
      });
    });
  }

  // Submits the texts of a request, whose reply has this form.
  void start(const std::shared_ptr<Exchange>& exchange, const CompletionRequest& r,
             std::unique_ptr<ReplyFormat> format) {
    require_model(r.model);
    for (const auto& [id, bias] : r.sampler.logit_bias) prompts_.require_ids({id}, "logit_bias");
    const auto job =
        std::make_shared<TextJob>(exchange, std::move(format), r.stream, [this](int status) { count(status); });
    const uint64_t seed = r.seed ? *r.seed : random_number();
    const auto deadline = deadline_of(r);
    const std::vector<std::vector<int32_t>> prompts = prompts_.of(r);
    const ThoughtState thinks =
        r.chat ? thought_state_after(prompts.front(), tokenizer_, template_) : ThoughtState::ended;
    if (r.variables.value("enable_thinking", ordered_json()) == false && thinks == ThoughtState::begun)
      throw ApiError(400, "thinking is switched off, but the model's chat template begins a thought all the same",
                     "chat_template_kwargs");
    const auto constraint = constraints_.of(r, thinks);
    std::vector<int32_t> dry_breakers;
    if (r.sampler.dry_multiplier > 0 && r.dry_breakers != std::vector<std::string>{"none"})
      dry_breakers = tokens_with(tokenizer_, r.dry_breakers);
    const auto tools = calls_tools(r) ? std::make_shared<std::vector<Tool>>(r.tools) : nullptr;
    std::vector<TextRequest> texts;
    int64_t logprobs = 0;
    for (const std::vector<int32_t>& prompt : prompts) {
      const int64_t n = prompts_.length(r, int64_t(prompt.size()));
      logprobs += r.logprobs ? r.n * (n + int64_t(r.echo ? prompt.size() : 0)) * (1 + *r.logprobs) : 0;
      if (logprobs > kMostLogprobs)
        throw ApiError(400,
                       fmt::format("the reply would have more than {} log probabilities; use fewer tokens, choices "
                                   "or alternatives",
                                   kMostLogprobs),
                       "logprobs");
      job->add_prompt(int64_t(prompt.size()));
      for (int64_t k = 0; k < r.n; ++k) {
        TextRequest text = text_request(r, prompt, n, seed + uint64_t(k));
        text.options.sampler.constraint = constraint;
        text.options.sampler.dry_breakers = dry_breakers;
        text.deadline = deadline;
        std::optional<ThoughtSplitter> thoughts;
        std::unique_ptr<CallParser> calls;
        const bool channels = form_ && form_->kind == CallForm::channels;  // which have the thoughts
        if (r.chat) {
          text.named = constraints_.marks(tools != nullptr || channels || r.form.kind != TextForm::any);
          if (!channels) thoughts.emplace(thoughts_, thinks == ThoughtState::begun);
        }
        if (tools || (r.chat && channels))
          calls = std::make_unique<CallParser>(*form_, tools ? tools : std::make_shared<std::vector<Tool>>(),
                                               salt(prompt, k));
        texts.push_back(job->add_choice(std::move(text), r.echo ? tokenizer_.decode(prompt) : "",
                                        OutputParser(std::move(thoughts), std::move(calls))));
      }
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

  // Makes the ids of calls follow from the prompt, so that an answer does not depend on others.
  static std::string salt(const std::vector<int32_t>& prompt, int64_t choice) {
    return std::string(reinterpret_cast<const char*>(prompt.data()), prompt.size() * sizeof(int32_t)) +
           std::to_string(choice);
  }

  static std::optional<std::chrono::steady_clock::time_point> deadline_of(const CompletionRequest& r) {
    using Clock = std::chrono::steady_clock;
    if (!r.timeout) return {};
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*r.timeout));
  }

  TextRequest text_request(const CompletionRequest& r, const std::vector<int32_t>& prompt, int64_t n,
                           uint64_t seed) const {
    TextRequest t{.prompt = prompt, .options = {.max_tokens = n, .sampler = r.sampler}, .stops = r.stops};
    t.adapters = adapters_of(r);
    t.options.sampler.seed = seed;
    t.options.top_logprobs = r.logprobs.value_or(0);
    t.options.ignore_eos = r.ignore_eos;
    t.score_prompt = r.echo && r.logprobs;
    t.priority = r.priority;
    return t;
  }

  const ServerOptions& options_;
  const Tokenizer& tokenizer_;
  GenerationService service_;
  const CallForm* const form_;  // of calls; nullptr: none is known
  const Prompts prompts_;
  const int64_t width_, cache_bytes_;
  const std::string pooling_;   // stated_pooling() of the model
  const std::string template_;  // of chats
  const ThoughtMarks thoughts_;
  Constraints constraints_;
  ordered_json meta_;      // of the model
  const std::string ids_;  // what the ids of replies begin with
  std::atomic<uint64_t> numbers_ = 0;
  std::atomic<bool> stopping_ = false;
  const int64_t started_ = std::time(nullptr);
  std::mutex mutex_;
  std::map<int, int64_t> replies_;  // by status
  std::unique_ptr<States> states_;  // nullptr: none are kept. Its thread ends before the rest is gone
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
           [&] { server.stop(); }, [&] { server.service().close(false); });
  server.service().close(false);
  computing.join();
  if (broken) std::rethrow_exception(broken);
}

}  // namespace toy::serve
