#include "talk/local.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "dialog/thoughts.h"
#include "talk/conversation.h"
#include "talk/input.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/decode/service.h"

namespace toy::talk {
namespace {

using nlohmann::ordered_json;

constexpr auto kBetweenStops = std::chrono::milliseconds(20), kBetweenCounts = std::chrono::milliseconds(1);

// An answer while it is written: the service's thread writes, the other waits.
struct Writing {
  std::mutex mutex;
  std::condition_variable changed;
  std::string text;
  std::optional<TextEnd> end;
  bool abandoned = false;  // the other does not wait any more
  int64_t tokens = 0;
  double first = 0, last = 0;  // when the tokens came
};

}  // namespace

struct LocalModel::State {
  Decoder& decoder;
  const Tokenizer& tokenizer;
  ChatTemplate chat;
  GenerationService service;
  std::thread thread;

  State(Decoder& d, const Model& model, ChatTemplate c)
      : decoder(d), tokenizer(*model.tokenizer), chat(std::move(c)), service(d, model.tokenizer.get()) {
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

  std::string render(const ordered_json& messages) const {
    return chat
        .render({.messages = messages,
                 .tools = {},
                 .documents = {},
                 .add_generation_prompt = true,
                 .variables = chat_variables(tokenizer)})
        .text;
  }

  int64_t length(const ordered_json& messages) const {
    return int64_t(encode_chat(tokenizer, render(messages)).size());
  }

  // How many of the oldest turns have to go for a prompt of at most `most` tokens; 0: it does not help.
  size_t turns_too_many(const ordered_json& messages, int64_t most) const {
    Conversation rest(messages);
    for (size_t dropped = 1; rest.turns() > 1; ++dropped) {
      rest.drop_oldest(1);
      if (length(rest.messages()) <= most) return dropped;
    }
    return 0;
  }

  void require_room(const ordered_json& messages, int64_t prompt) const {
    const int64_t most = context(), left = most - prompt;
    if (left >= 1) return;
    const size_t turns = turns_too_many(messages, most - std::max<int64_t>(1, most / 4));
    throw DoesNotFit(fmt::format("context: the conversation has {} tokens and the context {} positions", prompt, most),
                     turns);
  }
};

LocalModel::LocalModel(Decoder& decoder, const Model& model, ChatTemplate chat)
    : state_(std::make_unique<State>(decoder, model, std::move(chat))) {}

LocalModel::~LocalModel() = default;

Reply LocalModel::reply(const ordered_json& messages, const ReplySettings& settings, uint64_t again,
                        const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) {
  State& s = *state_;
  const std::string rendered = s.render(messages);
  TextRequest request{
      .prompt = encode_chat(s.tokenizer, rendered), .options = settings.generate, .stops = settings.stops};
  const int64_t prompt = int64_t(request.prompt.size()), shared = s.service.counts().shared_tokens;
  s.require_room(messages, prompt);
  int64_t& most = request.options.max_tokens;
  most = most < 0 ? s.context() - prompt : std::min(most, s.context() - prompt);
  request.options.sampler.seed += again;

  const auto w = std::make_shared<Writing>();
  // Where the template has begun a thought, the text of the message has its beginning, too.
  if (dialog::thought_state(rendered, s.chat.source()) == dialog::ThoughtState::begun)
    w->text = std::string(dialog::thought_marks(s.chat.source()).open) + "\n";
  if (!w->text.empty()) on_part({.text = w->text});
  request.on_text = [w, &on_part](const GeneratedToken&, const std::string& text) {
    const std::scoped_lock lock(w->mutex);
    if (w->abandoned) return false;
    w->last = steady_seconds();
    if (w->tokens++ == 0) w->first = w->last;
    w->text += text;
    if (!text.empty()) on_part({.text = text});
    return true;
  };
  request.on_end = [w, &on_part](const TextEnd& end) {
    const std::scoped_lock lock(w->mutex);
    if (w->abandoned) return;
    w->text += end.text;
    if (!end.text.empty()) on_part({.text = end.text});
    w->end = end;
    w->changed.notify_one();
  };
  const int64_t number = s.service.submit(std::move(request));

  std::unique_lock lock(w->mutex);
  while (!w->end && !stop()) w->changed.wait_for(lock, kBetweenStops);
  w->abandoned = true;
  if (!w->end) s.service.cancel(number);
  lock.unlock();
  for (ServiceCounts c; c = s.service.counts(), c.running + c.waiting > 0;) std::this_thread::sleep_for(kBetweenCounts);
  if (w->end && w->end->error) std::rethrow_exception(w->end->error);
  return {.message = {{"role", "assistant"}, {"content", w->text}},
          .end = !w->end                                            ? ReplyEnd::stopped
                 : w->end->generated.reason == FinishReason::length ? ReplyEnd::length
                                                                    : ReplyEnd::done,
          .tokens = w->tokens,
          .prompt_tokens = prompt,
          .computed = prompt - (s.service.counts().shared_tokens - shared),
          .seconds = w->last - w->first};
}

}  // namespace toy::talk
