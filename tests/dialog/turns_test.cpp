// Turns of long conversations: found among a few messages as among all.
#include "dialog/turns.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "dialog/control_tokens.h"
#include "dialog/left_out.h"
#include "dialog/normalized.h"
#include "dialog/token_begins.h"
#include "testing/errors.h"
#include "toy/base/error.h"
#include "toy/chat/chat_input.h"

namespace toy::dialog::turns_test {
namespace {

using nlohmann::ordered_json;

// As the first templates of Gemma 4: results are a part of the message with the calls, and so is what follows them.
const std::string kResponses =
    "{# <|tool_call>call: <tool_call|> #}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in "
    "messages "
    "%}<|turn>{{ m.role }}\n{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}{{ "
    "c.function.arguments|tojson }}<tool_call|>{% endfor %}{% for r in m.tool_responses or [] %}<|tool_response>{{ "
    "r.name }}{{ r.response }}<tool_response|>{% endfor %}{{ m.content }}{% if m.content or not m.tool_responses %}"
    "<turn|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|turn>assistant\n{% endif %}";
// As its later ones: results are found by their ids, and written in front of what was said beside the calls.
const std::string kBehind =
    "{# <|tool_call>call: <tool_call|> tool_responses tool_call_id #}{% for t in tools or [] %}{{ t.function.name }}"
    "{% endfor %}{% set ns = namespace(last='') %}{% for m in messages %}{% if m.role != 'tool' %}{% if m.role != "
    "ns.last "
    "%}<|turn>{{ m.role }}\n{% endif %}{% set ns.last = m.role %}{% for c in m.tool_calls or [] %}<|tool_call>call:{{ "
    "c.function.name }}{{ c.function.arguments|tojson }}<tool_call|>{% endfor %}{% set ns.on = m.tool_calls %}{% for r "
    "in "
    "messages[loop.index:] %}{% if r.role != 'tool' %}{% set ns.on = false %}{% elif ns.on %}<|tool_response>{{ r.name "
    "}}:{{ r.content }}<tool_response|>{% endif %}{% endfor %}{{ m.content }}{% if not m.tool_calls %}<turn|>\n{% "
    "endif "
    "%}{% endif %}{% endfor %}{% if add_generation_prompt and ns.last == 'user' %}<|turn>assistant\n{% endif %}";

// Questions with a call each and an answer, or one question with many calls.
ordered_json talk(size_t rounds, bool one_question) {
  ordered_json messages = {{{"role", "system"}, {"content", "Be kind."}}};
  for (size_t i = 0; i < rounds; ++i) {
    const std::string id = "call" + std::to_string(10000 + i);
    if (i == 0 || !one_question) messages.push_back({{"role", "user"}, {"content", "q" + std::to_string(i % 3)}});
    const ordered_json function = {{"name", i % 2 ? "rain" : "now"}, {"arguments", {{"city", std::to_string(i % 4)}}}};
    messages.push_back({{"role", "assistant"},
                        {"content", i % 5 == 1 ? "I look." : ""},
                        {"tool_calls", ordered_json::array({{{"id", id}, {"function", function}}})}});
    messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "r" + std::to_string(i % 2)}});
    if (i + 1 == rounds || !one_question)
      messages.push_back({{"role", "assistant"}, {"content", "a" + std::to_string(i % 4)}});
  }
  return messages;
}

class Turns : public ::testing::Test {
 protected:
  void use(const ChatTemplate& chat, const ordered_json& messages, bool unlearned) {
    chat_ = std::make_unique<ChatTemplate>(chat);
    const CallForm* known = call_form_of(chat.source(), tokenizer_.get());
    const CallForm& form = known ? *known : general_form();
    const auto fitting = [&](TemplateInput in) { return known ? input_for(form, chat.source(), std::move(in)) : in; };
    const Shown shown = shown_by([&](TemplateInput in) { return rendered(fitting(std::move(in)), true); }, true);
    in_ = fitting(with_left_out(form, shown, {normalized_messages(messages), tools_}));
    learned_.clear();
    for (ordered_json& message : in_.messages) {
      const bool turn = !unlearned || learned_.size() % 4 < 2;
      learned_.push_back({turn, turn && !message.contains(kAnswerUnlearned), !message.contains(kEndUnlearned)});
      message.erase(kAnswerUnlearned), message.erase(kEndUnlearned);
    }
    const RenderedChat all = render(in_.messages, false);
    text_ = all.text, generated_ = all.generated;
    ids_ = tokenizer_->encode(text_, {.parse_special = true});
    begins_ = token_begins(*tokenizer_, text_, ids_, {});
  }
  // The spans, for messages and errors as text.
  std::vector<std::string> found(size_t few) {
    renderings_ = largest_ = 0;
    const auto each = [&](const ordered_json& messages, bool asks) {
      ++renderings_, largest_ = std::max(largest_, messages.size());
      return rendered({messages, in_.tools}, asks);
    };
    TurnFinder finder(*tokenizer_, {in_.messages, learned_, text_, ids_, begins_}, each, few);
    std::vector<std::string> list;
    for (const TextSpan& s : chat_->marks_generation() ? finder.generated(generated_) : finder.turns())
      list.push_back(std::to_string(s.begin) + ":" + text_.substr(s.begin, s.end - s.begin));
    list.insert(list.end(), finder.notes().begin(), finder.notes().end());
    return list;
  }
  RenderedChat render(const ordered_json& messages, bool asks) const {
    return chat_->render({.messages = messages,
                          .tools = in_.tools,
                          .add_generation_prompt = asks,
                          .variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                          .now = 0});
  }
  std::optional<std::string> rendered(const TemplateInput& in, bool asks) {
    in_.tools = in.tools;
    try {
      return render(in.messages, asks).text;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const ordered_json tools_ = ordered_json::parse(
      R"([{"type": "function", "function": {"name": "rain", "description": "", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])");
  std::shared_ptr<const Tokenizer> tokenizer_ =
      testing::control_tokens({"<s>", "</s>", "<|im_end|>", "<|tool_response>", "<turn|>", "<|call|>"});
  std::unique_ptr<ChatTemplate> chat_;
  TemplateInput in_;
  std::vector<Learned> learned_;
  std::string text_;
  std::vector<TextSpan> generated_;
  std::vector<int32_t> ids_;
  std::vector<size_t> begins_;
  size_t renderings_ = 0, largest_ = 0;
};

TEST_F(Turns, AreFoundAmongAFewMessagesAsAmongAll) {
  std::map<std::string, ChatTemplate> chats = {{"responses", ChatTemplate(kResponses)},
                                               {"behind", ChatTemplate(kBehind)}};
  const std::string folder = TOY_SOURCE_DIR "/tests/golden/";
  const ordered_json golden = ordered_json::parse(std::ifstream(folder + "chat_templates.golden.json"));
  for (const auto& [family, texts] : golden.at("families").items())
    chats.emplace(family, load_chat_template_file(folder + "chat/" + family + ".jinja"));
  for (const auto& [name, chat] : chats)
    for (const bool one_question : {true, false}) {
      use(chat, talk(one_question ? 33 : 17, one_question), chat.marks_generation());
      const auto all = found(1000);
      EXPECT_GE(all.size(), 16u) << name;
      EXPECT_EQ(found(0), all) << name << " " << one_question;
      // As many turns as are needed, and no more messages in any rendering.
      use(chat, talk(one_question ? 80 : 40, one_question), chat.marks_generation());
      found(TurnFinder::kFew);
      EXPECT_LE(largest_, 24u) << name << " " << one_question;
      EXPECT_LE(renderings_, 80 * 8u) << name << " " << one_question;
    }
}

// Also without questions, or where the assistant begins.
TEST_F(Turns, OfConversationsWithFewQuestions) {
  const ChatTemplate chat("{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}");
  for (const size_t questions : {0, 1, 30}) {
    ordered_json messages = ordered_json::array();
    for (size_t i = 0; i < 60; ++i) {
      messages.push_back({{"role", "assistant"}, {"content", std::to_string(i % 7)}});
      if (i < questions) messages.push_back({{"role", "user"}, {"content", "q"}});
    }
    use(chat, messages, false);
    const auto all = found(1000);
    EXPECT_EQ(all.size(), 60u);
    EXPECT_EQ(found(0), all) << questions;
    EXPECT_LE(largest_, 24u) << questions;
  }
}

// Where a message shows how many there were, all are rendered for each turn, up to some number of turns.
TEST_F(Turns, OfTemplatesThatCountMessages) {
  const ChatTemplate chat(
      "{% for m in messages %}{{ loop.index }} {{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}");
  const auto chatter = [](size_t turns) {
    ordered_json messages = ordered_json::array();
    for (size_t i = 0; i < turns; ++i) {
      messages.push_back({{"role", "user"}, {"content", "q"}});
      messages.push_back({{"role", "assistant"}, {"content", "a"}});
    }
    return messages;
  };
  use(chat, chatter(20), false);
  const auto all = found(1000);
  EXPECT_EQ(all.size(), 20u);
  EXPECT_EQ(found(0), all);
  use(chat, chatter(1001), false);
  EXPECT_NE(testing::error_of([&] { found(0); }).find("at most 1000 turns"), std::string::npos);
}

}  // namespace
}  // namespace toy::dialog::turns_test
