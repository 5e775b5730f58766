// Endpoints whose answers the model computes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <utility>

#include "dialog/answer_reader.h"
#include "serve/api/anthropic.h"
#include "serve/api/embeddings.h"
#include "serve/api/replies.h"
#include "serve/api/responses.h"
#include "serve/endpoints.h"
#include "serve/text_job.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

std::optional<std::chrono::steady_clock::time_point> deadline_of(const CompletionRequest& r) {
  using Clock = std::chrono::steady_clock;
  if (!r.timeout) return {};
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*r.timeout));
}

}  // namespace

std::string Server::served_name(const std::string& model) const {
  constexpr std::string_view kTag = ":latest";  // Ollama's
  const auto known = [this](const std::string& name) {
    return name == options_.name || std::ranges::find(options_.adapters, name) != options_.adapters.end();
  };
  if (model.ends_with(kTag) && !known(model)) {
    const std::string name = model.substr(0, model.size() - kTag.size());
    if (known(name)) return name;
  }
  return model.empty() || std::ranges::find(options_.aliases, model) != options_.aliases.end() ? options_.name : model;
}

bool Server::is_base(const std::string& model) const {
  if (served_name(model) == options_.name) return true;
  return !options_.strict && options_.adapters.empty();  // there is no other one
}

std::string Server::name_of(const std::string& model) const {
  const bool unknown = is_base(model) && served_name(model) != options_.name;
  return unknown || model.empty() ? options_.name : model;
}

void Server::note_model(const std::shared_ptr<Exchange>& exchange, const std::string& model) const {
  if (is_base(model) && served_name(model) != options_.name) ignore(exchange, "model", "is unknown");
}

void Server::ignore(const std::shared_ptr<Exchange>& exchange, const std::string& field,
                    const std::string& what) const {
  if (options_.strict) refuse_at(field, what, "unsupported_parameter");
  exchange->note([&](RequestNotes& n) { n.ignored += (n.ignored.empty() ? "" : ", ") + ignored_text({field}); });
}

ApiError Server::unknown_model(const std::string& model) const {
  const std::string others =
      options_.adapters.empty() ? "" : fmt::format(", '{}'", fmt::join(options_.adapters, "', '"));
  return {404, fmt::format("the model '{}' is not served here; use '{}'{}", one_line(model), options_.name, others),
          "model", "model_not_found"};
}

std::vector<float> Server::adapters_of(const std::string& model) const {
  std::vector<float> factors(options_.adapters.size());
  if (is_base(model)) return factors;
  const auto adapter = std::ranges::find(options_.adapters, served_name(model));
  if (adapter == options_.adapters.end()) throw unknown_model(model);
  factors[size_t(adapter - options_.adapters.begin())] = 1;
  return factors;
}

std::vector<float> Server::adapters_of(const CompletionRequest& r) const {
  std::vector<float> factors = adapters_of(r.model);
  if (!r.lora) return factors;
  if (!is_base(r.model))
    throw ApiError(400, fmt::format("'lora' is for the model '{}'; remove 'lora' or 'model'", options_.name), "lora");
  for (const auto& [id, factor] : *r.lora) {
    if (size_t(id) >= factors.size())
      throw ApiError(400, fmt::format("'lora' has the id {}; there are {} adapters", id, factors.size()), "lora");
    factors[size_t(id)] = float(factor);
  }
  return factors;
}

ReplyHead Server::head(const char* prefix, const CompletionRequest& r) {
  return {.id = fmt::format("{}{}{:08x}", prefix, ids_, numbers_++),
          .model = name_of(r.model),
          .created = std::time(nullptr)};
}

int64_t Server::prefix_owner(const Exchange& exchange) const {
  return options_.share_prefixes ? 0 : exchange.request.key;
}

void Server::completions(const std::shared_ptr<Exchange>& exchange) {
  const auto r = read(exchange, [this](const std::string& body) { return parse_completion(body, false, usual_); });
  start(exchange, r, std::make_unique<CompletionFormat>(head("cmpl-", r), r, tokenizer_));
}

void Server::chat_completions(const std::shared_ptr<Exchange>& exchange) {
  const auto r = read(exchange, [this](const std::string& body) { return parse_completion(body, true, usual_); });
  start(exchange, r, std::make_unique<ChatFormat>(head("chatcmpl-", r), r, tokenizer_));
}

void Server::responses(const std::shared_ptr<Exchange>& exchange) {
  const ResponsesRequest r = read(exchange, [this](const std::string& body) { return parse_responses(body, usual_); });
  start(exchange, r.completion, std::make_unique<ResponsesFormat>(head("", r.completion), r.settings));
}

void Server::messages(const std::shared_ptr<Exchange>& exchange) {
  require_anthropic_version(exchange->request.anthropic_version);
  const auto r = read(exchange, [this](const std::string& body) { return parse_messages(body, false, usual_); });
  start(exchange, r, std::make_unique<MessagesFormat>(head("msg_", r)));
}

void Server::count_tokens(const std::shared_ptr<Exchange>& exchange) {
  require_anthropic_version(exchange->request.anthropic_version);
  const auto r = read(exchange, [](const std::string& body) { return parse_messages(body, true); });
  require_model(r.model);
  note_model(exchange, r.model);
  send_json(*exchange, {{"input_tokens", prompts_.of(r).front().size()}});
}

void Server::embeddings(const std::shared_ptr<Exchange>& exchange) {
  embed(exchange, read(exchange, parse_embeddings));
}

// Computed in parts: the texts of others have calls in between.
void Server::look(const std::shared_ptr<Exchange>& exchange) {
  constexpr size_t kMost = 256;
  if (!options_.look) throw ApiError(404, "this server looks into no model");
  const LookRequest r = read(exchange, parse_look);
  require_model(r.model);
  note_model(exchange, r.model);
  const std::vector<int32_t>& ids = r.tokens;
  if (ids.empty() || ids.size() > kMost) refuse_at("tokens", fmt::format("has {} ids; use 1 to {}", ids.size(), kMost));
  prompts_.require_ids(ids, "tokens");
  prompts_.require_fits(int64_t(ids.size()), "tokens");
  if (looking_.exchange(true)) throw ApiError(429, "another look is being computed; try again", "", "overloaded");
  LookState state{.ids = ids, .adapters = {}, .turn = std::make_shared<LookTurn>(looking_)};
  state.adapters = adapters_of(r.model);
  exchange->on_gone([gone = state.gone] { *gone = true; });
  service_.between([this, exchange, state]() mutable { return compute_look(exchange, state); });
}

bool Server::compute_look(const std::shared_ptr<Exchange>& exchange, LookState& state) {
  bool more = false;
  if (*state.gone) return more;
  answer(exchange, [&] {
    std::optional<std::string> json;
    try {
      if (!state.parts) state.parts = options_.look(state.ids, state.adapters);
      json = state.parts();
    } catch (...) {
      state.turn->end();
      throw;
    }
    more = !json;
    if (more) return;
    state.turn->end();  // before the reply: a client that has it may ask again
    exchange->send({.body = std::move(*json)});
  });
  return more;
}

void Server::embed(const std::shared_ptr<Exchange>& exchange, const EmbeddingsRequest& r) {
  require_model(r.model);
  note_model(exchange, r.model);
  if (r.dimensions && *r.dimensions != width_)
    refuse(fmt::format("'dimensions' is {}; this model's embeddings have {}", *r.dimensions, width_), "dimensions");
  if (int64_t(r.inputs.size()) > kMostNumbers / width_)
    refuse(fmt::format("'input' has {} texts; use at most {}", r.inputs.size(), kMostNumbers / width_), "input");
  const auto job = std::make_shared<EmbeddingsJob>(exchange, r, pooling_, name_of(r.model));
  std::vector<TextRequest> texts;
  for (std::vector<int32_t>& ids : prompts_.complete(r.inputs)) {
    prompts_.require_fits(int64_t(ids.size()), "input");
    texts.push_back(job->add(std::move(ids)));
    texts.back().adapters = adapters_of(r.model);
    texts.back().owner = prefix_owner(*exchange);
  }
  submit(*exchange, std::move(texts));
}

void Server::start(const std::shared_ptr<Exchange>& exchange, const CompletionRequest& r,
                   std::unique_ptr<ReplyFormat> format) {
  require_model(r.model);
  note_model(exchange, r.model);
  if (r.continues && (r.form.kind != TextForm::any || r.tool_choice.kind == ToolChoice::required))
    throw ApiError(400,
                   "the last message is an answer to be continued, whose form cannot be bound any more; end with a "
                   "message of the user, or let the form be free",
                   r.source);
  for (const auto& [variable, field] : r.hints)
    if (!dialog_ || !dialog_->chat().one(calls_tools(r)).reads(variable))
      ignore(exchange, field, "is not known to the model's chat template");
  for (const auto& [id, bias] : r.sampler.logit_bias) prompts_.require_ids({id}, "logit_bias");
  const auto job = std::make_shared<TextJob>(exchange, std::move(format), r.stream, timings_);
  const uint64_t seed = r.seed ? *r.seed : random_number();
  const auto deadline = deadline_of(r);
  const std::vector<std::vector<int32_t>> prompts = prompts_.of(r);
  const ThoughtState thinks =
      r.chat ? thought_state_after(prompts.front(), tokenizer_, template_) : ThoughtState::ended;
  const auto wish = r.hints.find("enable_thinking");
  if (r.variables.value("enable_thinking", ordered_json()) == false && thinks == ThoughtState::begun &&
      (wish == r.hints.end() || wish->second.starts_with("chat_template_kwargs")))
    throw ApiError(400, "thinking is switched off, but the model's chat template begins a thought all the same",
                   "chat_template_kwargs");
  const Bound bound = constraints_.of(r, thinks);
  std::vector<int32_t> dry_breakers;
  if (r.sampler.dry_multiplier > 0 && r.dry_breakers != std::vector<std::string>{"none"})
    dry_breakers = tokens_with(tokenizer_, r.dry_breakers);
  const AnswerKind kind{.chat = r.chat,
                        .form = form_,
                        .thoughts = thoughts_,
                        .state = thinks,
                        .is_formed = r.form.kind != TextForm::any,
                        .tools = bound.tools};
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
      text.options.sampler.constraint = bound.constraint;
      text.options.sampler.dry_breakers = dry_breakers;
      text.deadline = deadline;
      text.owner = prefix_owner(*exchange);
      AnswerReader reader = answer_reader(kind, constraints_, call_salt(prompt, k));
      text.named = std::move(reader.named);
      texts.push_back(
          job->add_choice(std::move(text), r.echo ? tokenizer_.decode(prompt) : "", std::move(reader.parser)));
    }
  }
  submit(*exchange, std::move(texts));
  if (!r.stream) return;
  // What may still be wrong with it has a status of its own while no header was sent.
  const bool may_fail = r.timeout || r.form.kind == TextForm::gbnf;
  if (!may_fail) job->open();
  keep_alive_.add(job, !r.timeout);
}

void Server::submit(Exchange& exchange, std::vector<TextRequest> texts) {
  const std::vector<int64_t> numbers = service_.submit_all(std::move(texts));
  exchange.on_gone([this, numbers] {
    for (const int64_t number : numbers) service_.cancel(number);
  });
}

TextRequest Server::text_request(const CompletionRequest& r, const std::vector<int32_t>& prompt, int64_t n,
                                 uint64_t seed) const {
  TextRequest t{.prompt = prompt, .options = {.max_tokens = n, .sampler = r.sampler}, .stops = r.stops};
  t.adapters = adapters_of(r);
  t.options.sampler.seed = seed;
  t.options.logprobs = r.logprobs.has_value(), t.options.top_logprobs = r.logprobs.value_or(0);
  t.options.ignore_eos = r.ignore_eos;
  t.score_prompt = r.echo && r.logprobs;
  t.priority = r.priority;
  return t;
}

}  // namespace toy::serve
