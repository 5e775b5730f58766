// The places where Hugging Face folders have chat templates.
#include "hf/chat_templates.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "folders.h"
#include "testing/files.h"
#include "toy/base/error.h"

namespace toy::hf::chat_templates_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class HfChatTemplates : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { testing::write_text(folder_.path(name), text); }
  ChatTemplates read(const json& tokenizer_config = json::object()) {
    return read_chat_templates(folder_.path(""), Config(tokenizer_config, "tokenizer_config.json"));
  }
  testing::Folder folder_;
};

TEST_F(HfChatTemplates, InTheOrderOfTransformers) {
  EXPECT_TRUE(read().empty());
  write("chat_template.json", R"({"chat_template": "of json"})");
  EXPECT_EQ(read(), (ChatTemplates{{"default", "of json"}}));
  EXPECT_EQ(read({{"chat_template", "of config"}}), (ChatTemplates{{"default", "of config"}}));
  const json list = {
      {"chat_template", {{{"name", "default"}, {"template", "usual"}}, {{"name", "tool_use"}, {"template", "tools"}}}}};
  EXPECT_EQ(read(list), (ChatTemplates{{"default", "usual"}, {"tool_use", "tools"}}));
  write("chat_template.jinja", "of jinja");
  fs::create_directory(folder_.path("additional_chat_templates"));
  write("additional_chat_templates/rag.jinja", "documents");
  write("additional_chat_templates/notes.txt", "no template");
  EXPECT_EQ(read(list), (ChatTemplates{{"default", "of jinja"}, {"rag", "documents"}, {"tool_use", "tools"}}));
}

TEST_F(HfChatTemplates, ThereAndBack) {
  const ChatTemplates all = {{"default", "usual"}, {"tool_use", "tools"}, {"rag", "documents"}};
  gguf::Writer writer("llama");
  write_chat_templates(all, writer);
  const std::string path = folder_.path("chat.gguf");
  writer.finish(path);
  const gguf::File file = gguf::File::open(path);
  EXPECT_EQ(file.get_string("tokenizer.chat_template.tool_use"), "tools");
  EXPECT_EQ(file.get_strings("tokenizer.chat_templates"), (std::vector<std::string>{"rag", "tool_use"}));
  save_chat_templates(file, folder_.path(""));
  EXPECT_EQ(read(), all);
}

TEST_F(HfChatTemplates, BrokenOnes) {
  EXPECT_THROW(read({{"chat_template", 5}}), Error);
  EXPECT_THROW(read({{"chat_template", {{{"name", 1}}}}}), Error);
  write("chat_template.jinja", "\xff");
  EXPECT_THROW(read(), Error);
}

}  // namespace
}  // namespace toy::hf::chat_templates_test
