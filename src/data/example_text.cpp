// What a tokenizer for examples is made of.
#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "toy/chat/chat_input.h"
#include "toy/data/examples.h"
#include "toy/text/tokenizer.h"

namespace toy {

namespace {

constexpr const char *kMark = R"(<[|/]?[A-Za-z_][\w/-]*\|?>|\[/?[A-Z_]+\])", *kMarkInSource = R"(<\|[A-Za-z_]\w*\|>)";
constexpr const char *kBos = "<|bos_token|>",
                     *kEos = "<|eos_token|>";  // which the vocabulary has, whatever it calls them

// What a template makes of a short conversation; "" where it refuses it.
std::string shown(const ChatTemplate& chat, std::initializer_list<std::pair<const char*, const char*>> messages) {
  ChatInput input{.variables = {{"bos_token", kBos}, {"eos_token", kEos}}};
  for (const auto& [role, content] : messages) input.messages.push_back({{"role", role}, {"content", content}});
  try {
    return chat.render(input).text;
  } catch (const Error&) {  // some know no system
    return {};
  }
}

}  // namespace

ControlTokens control_tokens_of(const ChatTemplate* chat) {
  if (!chat) return {};
  const std::string text = shown(*chat, {{"user", "Hello"}, {"assistant", "Yes"}});
  const std::string all = text + shown(*chat, {{"system", "Hello"}, {"user", "Hello"}});  // marks that are composed
  ControlTokens control;
  for (const auto& [from, form] : {std::pair(&all, kMark), {&chat->source(), kMarkInSource}}) {
    const std::regex mark(form);
    for (std::sregex_iterator at(from->begin(), from->end(), mark), end; at != end; ++at)
      if (const std::string name = at->str(); name != kBos && name != kEos)
        if (std::ranges::find(control.names, name) == control.names.end()) control.names.push_back(name);
  }
  std::smatch after;
  if (std::regex_search(text, after, std::regex(std::string("Yes\\s*(") + kMark + ")"))) control.end_of_turn = after[1];
  if (control.end_of_turn == kEos) control.end_of_turn.clear();
  return control;
}

std::string example_text(const std::vector<TextFile>& files, const ChatTemplate* chat, const ControlTokens& control,
                         const RowOptions& rows, double validation_fraction, size_t most, bool skip_bad_rows,
                         Preferences preferences) {
  const auto bytes = make_tokenizer("bytes", "", &control);
  const ExampleMaker maker(*bytes, chat, TrainOn::all, rows);
  const ExampleSet set = load_examples(
      files, maker, validation_fraction, skip_bad_rows, [](const std::string&) {}, preferences);
  std::string text;
  std::vector<int32_t> ids;
  const TokenView& all = set.text.training().ids;
  all.copy(0, int64_t(std::min<uint64_t>(uint64_t(all.size()), most)), ids);
  for (const int32_t id : ids) {
    const std::string byte = bytes->token_bytes(id);
    text += byte.empty() ? "\n" : byte;  // of a control token: no piece reaches across it
  }
  return text;
}

}  // namespace toy
