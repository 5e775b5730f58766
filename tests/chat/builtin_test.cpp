// Built-in chat templates: what they write, and which vocabularies they fit.
#include "toy/chat/builtin.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/chat/chat_input.h"
#include "toy/text/tokenizer.h"

namespace toy::builtin_test {
namespace {

using nlohmann::ordered_json;

// Byte-level BPE of the bytes and these control tokens, of which the first ends texts.
std::shared_ptr<const Tokenizer> with(const std::vector<std::string>& control, bool eos = true) {
  const testing::Folder folder;
  gguf::Writer bytes("llama"), all("llama");
  make_byte_tokenizer()->save(bytes);
  bytes.finish(folder.path("bytes.gguf"));
  std::vector<std::string> tokens = gguf::File::open(folder.path("bytes.gguf")).get_strings("tokenizer.ggml.tokens");
  std::vector<int32_t> types(tokens.size(), 1);
  for (const std::string& c : control) tokens.push_back(c), types.push_back(3);
  all.set("tokenizer.ggml.model", std::string("gpt2"));
  all.set("tokenizer.ggml.pre", std::string("gpt-2"));
  all.set("tokenizer.ggml.tokens", gguf::Array(tokens));
  all.set("tokenizer.ggml.token_type", gguf::Array(types));
  all.set("tokenizer.ggml.merges", gguf::Array(std::vector<std::string>{}));
  if (eos) all.set("tokenizer.ggml.eos_token_id", uint32_t(256));
  all.finish(folder.path("all.gguf"));
  return load_tokenizer(gguf::File::open(folder.path("all.gguf")));
}

std::string rendered(const std::string& name, const Tokenizer& t, bool prompt) {
  const ordered_json messages = ordered_json::parse(
      R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U\n"}, {"role": "assistant", "content": "A"}])");
  return builtin_chat_template(name, t)
      ->render({.messages = messages,
                .tools = {},
                .documents = {},
                .add_generation_prompt = prompt,
                .variables = chat_variables(t)})
      .text;
}

TEST(BuiltinTemplates, WriteTheirForms) {
  const auto t = with({"</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  EXPECT_EQ(rendered("chatml", *t, true),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU\n<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(rendered("llama3", *t, true),
            "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
            "U<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(rendered("zephyr", *t, false), "<|system|>\nS</s>\n<|user|>\nU\n</s>\n<|assistant|>\nA</s>\n");
  EXPECT_EQ(rendered("plain", *t, true), "System:\nS\n\nUser:\nU\n\n\nAssistant:\nA</s>\n\nAssistant:\n");
  EXPECT_FALSE(builtin_chat_template("gpt", *t));
}

// The prompt is the beginning of the conversation that answers it.
TEST(BuiltinTemplates, PromptsAreBeginningsOfAnsweredOnes) {
  const auto t = with({"</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  for (const std::string& name : builtin_chat_templates()) {
    const ChatTemplate chat = *builtin_chat_template(name, *t);
    const auto text = [&](const char* messages, bool prompt) {
      return chat
          .render({.messages = ordered_json::parse(messages),
                   .tools = {},
                   .documents = {},
                   .add_generation_prompt = prompt,
                   .variables = chat_variables(*t)})
          .text;
    };
    const std::string asked = text(R"([{"role": "user", "content": "U"}])", true),
                      answered =
                          text(R"([{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}])", false);
    EXPECT_TRUE(answered.starts_with(asked + "A")) << name << ": " << asked << " and " << answered;
    const std::vector<int32_t> ids = t->encode(answered, {.parse_special = true}), ends = t->end_of_generation();
    EXPECT_TRUE(std::any_of(ids.begin(), ids.end(), [&](int32_t id) {
      return std::binary_search(ends.begin(), ends.end(), id);
    })) << name;
  }
}

TEST(BuiltinTemplates, FitTheVocabulary) {
  const auto chatml = with({"</s>", "<|im_start|>", "<|im_end|>"}), none = with({"</s>"}, false);
  const auto refusal = [](const char* name, const Tokenizer& t) {
    return testing::message_of([&] { chat_template_named(name, t); });
  };
  testing::expect_contains(refusal("llama3", *chatml),
                           "the chat template llama3 needs tokens that the vocabulary lacks: <|start_header_id|>, "
                           "<|end_header_id|>, <|eot_id|>; use chatml (or plain, zephyr)");
  for (const char* name : {"plain", "zephyr"})
    testing::expect_contains(refusal(name, *none), "an end-of-sequence token, which the vocabulary lacks; use a file");
  testing::expect_contains(refusal("chatlm", *chatml), "'chatlm' is no file and none of chatml, llama3, plain, zephyr");
  const testing::Folder folder;
  EXPECT_EQ(chat_template_named(folder.write("own.jinja", "{{ 1 + 1 }}"), *none).source(), "{{ 1 + 1 }}");
}

}  // namespace
}  // namespace toy::builtin_test
