// Templates that are probably wrong are said.
#include "toy/dialog/template_doubt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialog/control_tokens.h"
#include "testing/errors.h"
#include "toy/dialog/dialog_input.h"

namespace toy::template_doubt_test {
namespace {

const std::string kPlain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|im_end|>{% endfor %}";
const std::string kDeaf =
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}";
const char* kNotShown =
    "the chat template does not show what the user says, so answers cannot depend on it; use another "
    "--chat-template";

class TemplateDoubt : public ::testing::Test {
 protected:
  std::string doubt(const std::string& chat) const { return template_doubt(Dialog(*tokenizer_, ChatTemplate(chat))); }
  LearnedDialog learned(const std::string& chat, const char* messages) const {
    return Dialog(*tokenizer_, ChatTemplate(chat)).learned({.messages = nlohmann::ordered_json::parse(messages)});
  }
  std::string error_of(const std::string& chat, const char* messages) const {
    return testing::error_of([&] { learned(chat, messages); });
  }
  std::shared_ptr<const Tokenizer> tokenizer_ = testing::control_tokens({"<bos>", "<|im_end|>"});
};

TEST_F(TemplateDoubt, OfATemplate) {
  EXPECT_EQ(doubt(kPlain), "");
  EXPECT_EQ(doubt("{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}" + kPlain), "");
  EXPECT_EQ(doubt("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + kPlain), "");
  EXPECT_EQ(doubt(kDeaf), kNotShown);
  const std::string refused = doubt("{{ messages[0].text.upper() }}");
  EXPECT_TRUE(refused.starts_with("the chat template refuses a plain question: ")) << refused;
  EXPECT_NE(refused.find("'text' is undefined"), std::string::npos) << refused;
}

TEST_F(TemplateDoubt, OfRows) {
  const char* row = R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
  EXPECT_EQ(learned(kDeaf, row).notes, std::vector<std::string>{kNotShown});
  EXPECT_EQ(learned(kPlain, row).notes, std::vector<std::string>{});
  EXPECT_EQ(error_of("{{ messages[0].content }}", row),
            "message 2: the chat template does not show it, so it cannot be learned; use another --chat-template");
  EXPECT_EQ(
      error_of(kPlain, R"([{"role": "bot", "content": "q"}])"),
      "no message is the assistant's (the roles are bot), so there is nothing to learn (toy data show prints rows)");
}

}  // namespace
}  // namespace toy::template_doubt_test
