#include "bind/text_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/decode/repack.h"
#include "toy/grammar/grammar.h"

namespace toy::bind {
namespace {

// How much of the continuation fits. Throws when it was asked for and does not.
int64_t length_of(const TextOptions& o, int64_t prompt, const ModelSpec& spec) {
  if (o.context > 0) spec.require_positions(o.context, "context");
  const int64_t room = o.context > 0 ? o.context : spec.context;
  const int64_t n =
      o.length_is_given ? o.generate.max_tokens : std::clamp<int64_t>(room - prompt, 1, o.generate.max_tokens);
  check(uint64_t(prompt) + uint64_t(n) <= uint64_t(room),
        "context: {} prompt tokens and {} to generate need {} positions of {}; use a {} or a larger context", prompt, n,
        uint64_t(prompt) + uint64_t(n), room, prompt < room ? "smaller max_tokens" : "shorter prompt");
  return n;
}

}  // namespace

TextRun::TextRun(std::shared_ptr<BoundModel> model, std::vector<int32_t> prompt, TextOptions options,
                 std::vector<int32_t> named)
    : model_(std::move(model)), options_(std::move(options)), prompt_tokens_(int64_t(prompt.size())) {
  model_->check_ids(prompt);
  check(options_.stop.empty() || model_->model().tokenizer, "stop: the model has no tokenizer; leave it out");
  options_.generate.max_tokens = length_of(options_, prompt_tokens_, model_->model().spec);
  const StopFilter stops_are_sound(options_.stop);
  if (const Tokenizer* t = model_->model().tokenizer.get())
    stream_ = std::make_unique<TextStream>(*t, prompt, options_.stop, std::move(named));
  const Turn turn(model_->device());
  repack_ = !options_.exact && repack_pays(model_->model(), options_.generate.max_tokens, 0);
  decoder_ = model_->take_decoder(prompt_tokens_ + options_.generate.max_tokens, options_, repack_);
  begin(std::move(prompt));
}

void TextRun::begin(std::vector<int32_t> prompt) {
  scheduler_ = std::make_unique<Scheduler>(*decoder_);
  GenerateRequest r{
      .prompt = std::move(prompt), .eos = {}, .options = options_.generate, .on_token = {}, .on_done = {}};
  if (const Tokenizer* t = model_->model().tokenizer.get()) r.eos = t->end_of_generation();
  r.on_token = [this](const GeneratedToken& token) {
    ready_.push_back({token, stream_ ? stream_->push(token.chosen.id) : ""});
    return !(stream_ && stream_->stopped());
  };
  r.on_done = [this](const Generated& done) {
    reason_ = done.reason;
    std::string rest = stream_ ? stream_->finish() : "";
    if (rest.empty()) return;
    if (ready_.empty()) ready_.push_back({.token = {.chosen = {.id = -1}, .best = {}}, .text = {}});
    ready_.back().text += rest;
  };
  scheduler_->add(std::move(r));
}

TextRun::~TextRun() {
  scheduler_.reset();
  if (decoder_) model_->give_back(std::move(decoder_), options_, repack_);
}

std::optional<TextPart> TextRun::next() {
  std::optional<TextPart> part;
  return next_is_ready(part) ? part : next(Turn(model_->device()));
}

std::optional<TextPart> TextRun::next(const Turn&) {
  const std::scoped_lock lock(mutex_);
  while (ready_.empty() && !reason_ && scheduler_->step()) {
  }
  return taken();
}

bool TextRun::next_is_ready(std::optional<TextPart>& part) {
  const std::scoped_lock lock(mutex_);
  const bool is_ready = !ready_.empty() || reason_;
  if (is_ready) part = taken();
  return is_ready;
}

std::optional<TextPart> TextRun::taken() {
  if (ready_.empty()) return std::nullopt;
  TextPart part = std::move(ready_.front());
  ready_.pop_front();
  return part;
}

std::string TextRun::reason() const {
  const std::scoped_lock lock(mutex_);
  if (!reason_ || !ready_.empty()) return "";
  return *reason_ == FinishReason::length     ? "length"
         : *reason_ == FinishReason::eos      ? "eos"
         : *reason_ == FinishReason::complete ? "complete"
                                              : "stop";
}

std::unique_ptr<TextRun> continue_text(std::shared_ptr<BoundModel> model, std::vector<int32_t> prompt,
                                       TextOptions options) {
  const dialog::TextForm& form = options.form;
  if (form.kind != dialog::TextForm::any) {
    const Grammar grammar = form.kind == dialog::TextForm::gbnf ? parse_gbnf(form.grammar, "grammar")
                                                                : json_schema_grammar(form.schema, "json_schema");
    options.generate.sampler.constraint = grammar.constraint(TokenTrie(model->tokenizer()));
  }
  return std::make_unique<TextRun>(std::move(model), std::move(prompt), std::move(options));
}

}  // namespace toy::bind
