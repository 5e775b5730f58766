// Against transformers: tests/golden/make_chat_golden.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

namespace toy::golden_test {
namespace {

using nlohmann::ordered_json;

const std::string kFolder = TOY_SOURCE_DIR "/tests/golden/";

ordered_json golden() {
  ::setenv("TZ", "UTC", 1);
  return ordered_json::parse(std::ifstream(kFolder + "chat_templates.golden.json"));
}

ChatInput input_of(const ordered_json& all, const ordered_json& one) {
  ChatInput in{.messages = one.at("messages"),
               .tools = one.value("tools", ordered_json()),
               .add_generation_prompt = one.value("add_generation_prompt", false),
               .variables = all.at("tokens"),
               .now = all.at("now").get<int64_t>()};
  const ordered_json more = one.value("variables", ordered_json::object());
  for (const auto& [name, value] : more.items()) in.variables[name] = value;
  return in;
}

// The text, or null where it is refused.
ordered_json rendered(const std::string& source, const ChatInput& in) {
  try {
    return ChatTemplate(source).render(in).text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find("line "), std::string::npos) << e.what();
    return nullptr;
  }
}

TEST(ChatGolden, ThirtyConversationsOfEachFamilyAreThoseOfTransformers) {
  const ordered_json all = golden();
  ASSERT_GE(all.at("families").size(), 8u);
  ASSERT_EQ(all.at("cases").size(), 30u);
  for (const auto& [family, texts] : all.at("families").items()) {
    const ChatTemplate source = load_chat_template_file(kFolder + "chat/" + family + ".jinja");
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(rendered(source.source(), input_of(all, all.at("cases")[i])), texts[i]) << family << " " << i;
  }
}

// Bytes of the first `characters` of a text.
size_t bytes_of(const std::string& text, size_t characters) {
  size_t at = 0;
  for (; characters > 0; --characters)
    for (++at; at < text.size() && (uint8_t(text[at]) & 0xc0) == 0x80;) ++at;
  return at;
}

TEST(ChatGolden, EveryConstructIsThatOfJinja) {
  const ordered_json all = golden();
  const ChatInput in = input_of(all, all.at("cases")[3]);
  for (const ordered_json& one : all.at("small")) {
    const auto source = one.at("template").get<std::string>();
    const ordered_json text = rendered(source, in);
    EXPECT_EQ(text, one.at("text")) << source;
    if (text.is_null() || text != one.at("text")) continue;
    const RenderedChat chat = ChatTemplate(source).render(in);
    ASSERT_EQ(chat.generated.size(), one.at("generated").size()) << source;
    for (size_t i = 0; i < chat.generated.size(); ++i) {
      EXPECT_EQ(chat.generated[i].begin, bytes_of(chat.text, one.at("generated")[i][0])) << source;
      EXPECT_EQ(chat.generated[i].end, bytes_of(chat.text, one.at("generated")[i][1])) << source;
    }
  }
}

}  // namespace
}  // namespace toy::golden_test
