// Choosing a tokenizer by a file or by a word.
#include "toy/text/tokenizer.h"

#include <gtest/gtest.h>

#include "text_testing.h"

namespace toy::tokenizer_test {
namespace {

using namespace testing;

TEST(MakeTokenizer, AcceptsItsForms) {
  EXPECT_EQ(make_tokenizer("bytes", "")->kind(), "bytes");
  const auto spm = make_tokenizer("spm:320", training_text(3, 20000));
  EXPECT_EQ(spm->kind(), "spm");
  EXPECT_EQ(spm->vocab_size(), 320);
  const auto bpe = make_tokenizer("bpe:320", training_text(3, 20000));
  EXPECT_EQ(bpe->kind(), "bpe");
  EXPECT_EQ(bpe->vocab_size(), 320);
}

TEST(MakeTokenizer, NamesTheFormsItAccepts) {
  for (const char* spec : {"", "byte", "bpe", "bpe:x", "wordpiece:512", "spm", "spm:", "spm:x", "spm:512x", "spm: 512",
                           "spm:99999999999"}) {
    const std::string message = message_of([&] { make_tokenizer(spec, "text"); });
    expect_contains(message, spec);
    if (std::string(spec) == "spm:99999999999") expect_contains(message, "no vocabulary has 99999999999 tokens");
    const bool is_kind = std::string(spec) == "bpe" || std::string(spec) == "spm";
    expect_contains(message, is_kind ? "the number of its tokens is missing; write " + std::string(spec) + ":512"
                                     : "use \"bytes\", \"bpe:V\", \"spm:V\" or \"unigram:V\"");
  }
}

TEST(MakeTokenizer, ChecksTheRange) {
  for (const char* spec : {"spm:-1", "spm:0", "spm:259", "spm:299", "spm:1000001", "bpe:299", "bpe:1000001"}) {
    expect_contains(message_of([&] { make_tokenizer(spec, "text"); }), "must be within 300 and 1000000");
  }
}

TEST(LoadTokenizer, NothingThereIsNoError) {
  EXPECT_EQ(load_tokenizer(TemporaryGguf([](gguf::Writer&) {}).open()), nullptr);
  for (const char* model : {"none", "no_vocab"}) {
    const TemporaryGguf file(
        [&](gguf::Writer& writer) { writer.set("tokenizer.ggml.model", gguf::Value(std::string(model))); });
    EXPECT_EQ(load_tokenizer(file.open()), nullptr);
  }
}

TEST(LoadTokenizer, NamesFileAndModelItCannotRead) {
  const TemporaryGguf file(
      [](gguf::Writer& writer) { writer.set("tokenizer.ggml.model", gguf::Value(std::string("rwkv"))); });
  const std::string message = message_of([&] { load_tokenizer(file.open()); });
  expect_contains(message, file.path());
  expect_contains(message, "'rwkv' is not supported");
}

// Made by tests/fuzz/make_tokenizer_corpus.py.
TEST(LoadTokenizer, CorpusOfTheFuzzer) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus/tokenizer")) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".gguf")) continue;
    ++files;
    const gguf::File file = gguf::File::open(entry.path());
    const OptionalTokenizer loaded = try_load_tokenizer(file);
    if (name.starts_with("bad_")) {
      EXPECT_EQ(loaded.tokenizer, nullptr) << name;
      EXPECT_EQ(message_of([&] { load_tokenizer(file); }), loaded.warning) << name;
    } else {
      EXPECT_EQ(loaded.tokenizer == nullptr, name == "ok_none.gguf") << name << ": " << loaded.warning;
    }
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace toy::tokenizer_test
