// What a tokenizer for examples is made of.
#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/chat/builtin.h"
#include "toy/data/examples.h"

namespace toy::example_text_test {
namespace {

using Texts = std::vector<std::string>;

TEST(ExampleText, MarksOfTemplatesBecomeControlTokens) {
  const auto of = [](const ChatTemplate& chat) { return control_tokens_of(&chat); };
  const ControlTokens chatml = of(chat_template_named("chatml"));
  EXPECT_EQ(chatml.names, (Texts{"<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(chatml.end_of_turn, "<|im_end|>");
  EXPECT_EQ(of(chat_template_named("llama3")).end_of_turn, "<|eot_id|>");
  const ControlTokens zephyr = of(chat_template_named("zephyr"));  // ends with eos_token, which vocabularies have
  EXPECT_EQ(zephyr.names, (Texts{"<|user|>", "<|assistant|>", "<|system|>"}));
  EXPECT_EQ(zephyr.end_of_turn, "");
  EXPECT_TRUE(of(chat_template_named("plain")).names.empty());
  const ControlTokens own =
      of(ChatTemplate("{% for m in messages %}<turn>{{ m.role }}: {{ m.content }}</turn>{% endfor %}{% if tools "
                      "%}<|tool|>{% endif %}"));
  EXPECT_EQ(own.names, (Texts{"<turn>", "</turn>", "<|tool|>"}));
  EXPECT_EQ(own.end_of_turn, "</turn>");
  EXPECT_TRUE(control_tokens_of(nullptr).names.empty());
}

TEST(ExampleText, IsWhatATemplateMakesOfTrainingRows) {
  const testing::Folder folder;
  std::string rows;
  for (const char* answer : {"one", "two", "three", "four"})
    rows +=
        std::string(R"({"messages": [{"role": "user", "content": "<|im_end|>?"}, {"role": "assistant", "content": ")") +
        answer + "\"}]}\n";
  const std::vector<std::string> paths{folder.write("rows.jsonl", rows + "{\"bad\": 1}\n")};
  const ChatTemplate chat = chat_template_named("chatml");
  const auto files = list_text_files(paths).files;
  const std::string text = example_text(files, &chat, control_tokens_of(&chat), {}, 0.25, 1000, true);
  const std::string before = "\nuser\n<|im_end|>?\n\n\nassistant\n";                // what a user writes is letters
  EXPECT_EQ(text, before + "one\n\n" + before + "two\n\n" + before + "three\n\n");  // the last row is for validation
  EXPECT_EQ(example_text(files, &chat, control_tokens_of(&chat), {}, 0, 5, true), "\nuser");
}

}  // namespace
}  // namespace toy::example_text_test
