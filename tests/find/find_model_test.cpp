// Models by any name.
#include "toy/find/find_model.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/errors.h"
#include "testing/files.h"

namespace toy::find_model_test {
namespace {

using testing::message_of;

class FindModel : public ::testing::Test, protected testing::Folder {
 protected:
  FindModel() {
    for (const char* place : {"HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME", "HOME"})
      ::setenv(place, path(place).c_str(), 1);
    finder_.say = [this](const std::string& line) { said_ += line + "\n"; };
  }
  std::string said_;
  ModelFinder finder_{.roots = {path()}};
};

TEST_F(FindModel, AFileIsItself) {
  const std::string file = write("model.gguf", "GGUF");
  EXPECT_EQ(finder_.model(file), file);
  EXPECT_EQ(said_, "");
}

TEST_F(FindModel, AFolderOfARunIsItsModel) {
  const std::string file = write("out/tiny/model.gguf", "GGUF");
  write("out/tiny/events.jsonl", "{}\n");
  EXPECT_EQ(finder_.model(path("out/tiny")), file);
  EXPECT_EQ(finder_.tokenizer(path("out/tiny")), file);
  EXPECT_EQ(finder_.tokenizer("spm:512"), "spm:512");
  EXPECT_NE(message_of([&] { finder_.model(path("out")); }).find("a folder of runs; give one of"), std::string::npos);
}

TEST_F(FindModel, ANameOfTheListIsToldWithItsFile) {
  write("HF_HUB_CACHE/models--someone--small/refs/main", "abc");
  const std::string file = write("HF_HUB_CACHE/models--someone--small/snapshots/abc/small.gguf", "GGUF");
  EXPECT_EQ(finder_.model("someone/small"), file);
  EXPECT_EQ(said_, "using " + file + "\n");
  EXPECT_NE(
      message_of([&] { finder_.model("someone/small/smll.gguf"); }).find("did you mean 'someone/small/small.gguf'"),
      std::string::npos);
}

TEST_F(FindModel, TheBeginningOfANameSuggestsIt) {
  const std::string file = write("SmolLM2-135M-Instruct.gguf", "GGUF");
  for (const char* part : {"smollm2", "SmolLM2-135M"})
    EXPECT_NE(message_of([&] { finder_.model(path(part)); }).find("did you mean '" + file + "'?"), std::string::npos)
        << part;
  EXPECT_EQ(message_of([&] { finder_.model(path("sm")); }).find("did you mean"), std::string::npos);
}

TEST_F(FindModel, AnAdapterIsNoModel) {
  write("out/letters/adapter.gguf", "GGUF");
  EXPECT_EQ(finder_.adapter(path("out/letters")), path("out/letters/adapter.gguf"));
  EXPECT_NE(message_of([&] { finder_.model(path("out/letters")); }).find("the run made an adapter"), std::string::npos);
  // The commands that a message shows can be copied.
  write("out/my letters/adapter.gguf", "GGUF");
  EXPECT_NE(
      message_of([&] { finder_.model(path("out/my letters")); }).find("--lora '" + path("out/my letters") + "' --out"),
      std::string::npos);
}

TEST_F(FindModel, ATextIsNoModel) {
  EXPECT_NE(message_of([&] { finder_.model("Once upon"); }).find("the model is the first argument"), std::string::npos);
}

}  // namespace
}  // namespace toy::find_model_test
