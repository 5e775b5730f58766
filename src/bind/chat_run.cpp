#include "bind/chat_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bind/adapters.h"
#include "dialog/normalized.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/options.h"
#include "toy/chat/builtin.h"
#include "toy/dialog/dialog_input.h"

namespace toy {

std::optional<ChatTemplate> chat_template_of(const Model& model, const std::string& path, const std::string& name) {
  if (!name.empty()) {
    require_tokenizer(model, path);
    return chat_template_named(name, *model.tokenizer);
  }
  std::string of_adapters;
  for (const AdapterSpec& a : model.spec.adapters) {
    check(of_adapters.empty() || a.chat_template.empty() || a.chat_template == of_adapters,
          "the adapters were trained with different chat templates; give one with --chat-template");
    if (!a.chat_template.empty()) of_adapters = a.chat_template;
  }
  if (!of_adapters.empty()) return ChatTemplate(of_adapters, "chat template of the adapter");
  return load_chat_template(gguf::File::open(path));
}

namespace bind {
namespace {

using nlohmann::ordered_json;

ChatTemplate template_for(const BoundModel& model, const std::string& name) {
  model.tokenizer();
  const auto chat = chat_template_of(model.model(), model.path(), name);
  const std::vector<std::string> usable = usable_chat_templates(model.tokenizer());
  check(chat.has_value(), "{}: the model has no chat template; give {} as chat_template, or use generate", model.path(),
        usable.empty() ? "a file" : alternatives(usable));
  return *chat;
}

}  // namespace

ChatRun::ChatRun(const std::shared_ptr<BoundModel>& model, const std::string& messages, TextOptions options)
    : model_(model),
      dialog_(model->tokenizer(), template_for(*model, options.chat_template)),
      thoughts_(dialog::thought_marks(dialog_.chat().source())),
      constraints_(model->tokenizer(), dialog_.form(), thoughts_) {
  const auto given = read_json<ordered_json>("messages", messages);
  const ordered_json tools = dialog::normalized_tools(options.tools);
  const std::vector<int32_t> prompt = dialog_.render({.messages = given, .tools = tools, .documents = {}}).ids;
  if (!options.length_is_given) {  // as many as fit
    const int64_t room = options.context > 0 ? options.context : model->model().spec.context;
    options.generate.max_tokens = std::max<int64_t>(1, room - int64_t(prompt.size()));
  }
  auto [constraint, reader] = dialog::prepare_answer(dialog_, thoughts_, constraints_, prompt, tools, options.form, 0);
  if (constraint) options.generate.sampler.constraint = constraint;
  parser_.emplace(std::move(reader.parser));
  run_ = std::make_unique<TextRun>(model, prompt, std::move(options), std::move(reader.named));
}

std::optional<dialog::Piece> ChatRun::next() {
  std::optional<TextPart> part;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return std::nullopt;
    if (run_->next_is_ready(part)) return read(part);
  }
  const Turn turn(model_->device());
  const std::scoped_lock lock(mutex_);
  return ended_ ? std::nullopt : std::optional(read(run_->next(turn)));
}

dialog::Piece ChatRun::read(const std::optional<TextPart>& part) {
  dialog::Piece piece = part ? parser_->push(part->text) : parser_->finish();
  ended_ = !part;
  parts_.add(piece);
  return piece;
}

std::string ChatRun::message() const {
  const std::scoped_lock lock(mutex_);
  return json_text(parts_.message());
}

}  // namespace bind
}  // namespace toy
