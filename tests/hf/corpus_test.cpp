// The inputs of the fuzzers of tests/fuzz: ok_* are read, bad_* refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "files_in_json.h"
#include "hf/models.h"
#include "hf/shards.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::corpus_test {
namespace {

namespace fs = std::filesystem;

void each_input(const std::string& fuzzer, const std::function<void(const hf::Config&)>& read) {
  int ok = 0, bad = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus" / fuzzer)) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(fuzzer + "/" + name);
    const auto use = [&] { read({read_json<nlohmann::json>(name, testing::slurp(entry.path().string())), name}); };
    if (name.starts_with("ok_")) {
      EXPECT_NO_THROW(use());
      ++ok;
    } else {
      testing::message_of(use);
      ++bad;
    }
  }
  EXPECT_GT(ok, 0);
  EXPECT_GT(bad, 0);
}

TEST(HfCorpus, Configs) {
  each_input("hf_config", [](hf::Config config) {
    const hf::HfModel& model = hf::model_of(config);
    const hf::Reading reading = hf::read_config(model, config);
    for (const FileTensor& t : file_tensors(reading.spec)) hf::hf_name(model, t.parts.front().name);
    hf::Config again(nlohmann::json(hf::write_config(hf::model_of(reading.spec), reading.spec)), "again");
    EXPECT_EQ(hf::read_config(hf::model_of(again), again).spec.architecture, reading.spec.architecture);
  });
}

TEST(HfCorpus, Indices) {
  each_input("hf_index", [](const hf::Config& index) { hf::files_of_index(index); });
}

TEST(HfCorpus, Tokenizers) {
  each_input("hf_tokenizer", [](const hf::Config& all) {
    std::vector<std::string> warnings;
    const auto tokenizer = hf::read_tokenizer(testing::files_in_json(all), all.integer("vocab"), warnings);
    if (!tokenizer) {
      EXPECT_EQ(warnings.size(), 1u);
      return;
    }
    EXPECT_EQ(tokenizer->vocab_size(), all.integer("vocab"));
    EXPECT_EQ(tokenizer->encode(""), std::vector<int32_t>());
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab")), "ab");
  });
}

}  // namespace
}  // namespace toy::corpus_test
