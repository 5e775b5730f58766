#include "talk/local.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "dialog/answer.h"
#include "talk/conversation.h"
#include "talk/tools.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/decode/service.h"
#include "toy/dialog/dialog.h"
#include "toy/dialog/dialog_input.h"

namespace toy::talk {
namespace {

using nlohmann::ordered_json;

constexpr auto kBetweenStops = std::chrono::milliseconds(20), kBetweenCounts = std::chrono::milliseconds(1);

// An answer while it is written: the service's thread writes, the other waits.
struct Writing {
  explicit Writing(dialog::OutputParser p) : parser(std::move(p)) {}

  std::mutex mutex;
  std::condition_variable changed;
  dialog::OutputParser parser;
  dialog::AnswerParts parts;
  std::optional<TextEnd> end;
  bool abandoned = false;  // the other does not wait any more
  int64_t tokens = 0;
  double first = 0, last = 0;  // when the tokens came

  void add(const dialog::Piece& piece, const std::function<void(const ReplyPart&)>& on_part) {
    parts.add(piece);
    if (!piece.thought.empty()) on_part({.text = piece.thought, .thought = true});
    if (!piece.text.empty()) on_part({.text = piece.text});
  }
};

}  // namespace

struct LocalModel::State {
  Decoder& decoder;
  const Tokenizer& tokenizer;
  Dialog dialog;
  const dialog::ThoughtMarks thoughts;
  dialog::Constraints constraints;
  const std::time_t began = std::time(nullptr);  // what templates tell, so that prompts begin as those before them
  GenerationService service;
  std::thread thread;

  State(Decoder& d, const Model& model, ChatTemplate c)
      : decoder(d),
        tokenizer(*model.tokenizer),
        dialog(tokenizer, std::move(c)),
        thoughts(dialog::thought_marks(dialog.chat().source())),
        constraints(tokenizer, dialog.form(), thoughts),
        service(d, model.tokenizer.get()) {
    thread = std::thread([this] { service.serve(); });
  }
  ~State() {
    service.close(false);
    thread.join();
  }

  // Positions of prompt and answer.
  int64_t context() const {
    const DecodeState& s = decoder.state();
    const bool shared = s.shape().shared_pages > 0 && s.shared_pool();
    return shared ? std::min(decoder.context(), s.shape().shared_pages * kPagePositions) : decoder.context();
  }

  std::vector<int32_t> prompt_of(const ordered_json& messages, const ordered_json& tools) const {
    return dialog.render({.messages = messages, .tools = tools, .documents = {}, .now = began}).ids;
  }

  // How many of the oldest turns have to go for a prompt of at most `most` tokens; 0: it does not help.
  size_t turns_too_many(const ordered_json& messages, const ordered_json& tools, int64_t most) const {
    Conversation rest(messages);
    for (size_t dropped = 1; rest.turns() > 1; ++dropped) {
      rest.drop_oldest(1);
      if (int64_t(prompt_of(rest.messages(), tools).size()) <= most) return dropped;
    }
    return 0;
  }

  void require_room(const ordered_json& messages, const ordered_json& tools, int64_t prompt) const {
    const int64_t most = context(), left = most - prompt;
    if (left >= 1) return;
    const size_t turns = turns_too_many(messages, tools, most - std::max<int64_t>(1, most / 4));
    throw DoesNotFit(fmt::format("context: the conversation has {} tokens and the context {} positions", prompt, most),
                     turns);
  }
};

LocalModel::LocalModel(Decoder& decoder, const Model& model, ChatTemplate chat)
    : state_(std::make_unique<State>(decoder, model, std::move(chat))) {}

LocalModel::~LocalModel() = default;

void LocalModel::require_tools(const ordered_json& tools) const {
  check(tools.is_null() || state_->dialog.form() != nullptr,
        "the model's chat template knows no tools, or has calls in a form that is not known here");
  const dialog::AnswerRules rules{.chat = true, .tools = callable_tools(tools)};
  state_->constraints.of(rules, dialog::ThoughtState::ended);
}

Reply LocalModel::reply(const ordered_json& messages, const ReplySettings& settings, uint64_t again,
                        const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) {
  State& s = *state_;
  TextRequest request{
      .prompt = s.prompt_of(messages, settings.tools), .options = settings.generate, .stops = settings.stops};
  const int64_t prompt = int64_t(request.prompt.size()), shared = s.service.counts().shared_tokens;
  s.require_room(messages, settings.tools, prompt);
  int64_t& most = request.options.max_tokens;
  most = most < 0 ? s.context() - prompt : std::min(most, s.context() - prompt);
  request.options.sampler.seed += again;

  auto [constraint, reader] = dialog::prepare_answer(s.dialog, s.thoughts, s.constraints, request.prompt,
                                                     settings.tools, settings.form, int64_t(again));
  if (constraint) request.options.sampler.constraint = constraint;
  request.named = std::move(reader.named);
  const auto w = std::make_shared<Writing>(std::move(reader.parser));
  request.on_text = [w, &on_part](const GeneratedToken&, const std::string& text) {
    const std::scoped_lock lock(w->mutex);
    if (w->abandoned) return false;
    w->last = steady_seconds();
    if (w->tokens++ == 0) w->first = w->last;
    w->add(w->parser.push(text), on_part);
    return true;
  };
  request.on_end = [w, &on_part](const TextEnd& end) {
    const std::scoped_lock lock(w->mutex);
    if (w->abandoned) return;
    w->add(w->parser.push(end.text), on_part);
    w->add(w->parser.finish(), on_part);
    w->end = end;
    w->changed.notify_one();
  };
  const int64_t number = s.service.submit(std::move(request));

  std::unique_lock lock(w->mutex);
  while (!w->end && !stop()) w->changed.wait_for(lock, kBetweenStops);
  w->abandoned = true;
  if (!w->end) {
    s.service.cancel(number);
    w->add(w->parser.finish(), on_part);
  }
  lock.unlock();
  for (ServiceCounts c; c = s.service.counts(), c.running + c.waiting > 0;) std::this_thread::sleep_for(kBetweenCounts);
  if (w->end && w->end->error) std::rethrow_exception(w->end->error);
  return {.message = w->parts.message(),
          .end = !w->end                                            ? ReplyEnd::stopped
                 : w->end->generated.reason == FinishReason::length ? ReplyEnd::length
                                                                    : ReplyEnd::done,
          .tokens = w->tokens,
          .prompt_tokens = prompt,
          .computed = prompt - (s.service.counts().shared_tokens - shared),
          .seconds = w->last - w->first};
}

}  // namespace toy::talk
