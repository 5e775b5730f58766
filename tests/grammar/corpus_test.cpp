// The fuzzers' inputs, without a fuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "fuzz/grammar_fuzz.h"
#include "testing/files.h"
#include "toy/base/json_text.h"

namespace toy::corpus_test {
namespace {

TEST(GrammarCorpus, InputsAreRefusedOrFollowed) {
  const std::filesystem::path folder = std::filesystem::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus";
  int count = 0;
  for (const char* kind : {"gbnf", "json_schema"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / kind)) {
      const std::string input = testing::slurp(entry.path());
      if (input.empty()) continue;
      const std::string text = input.substr(1);
      fuzz_grammar(uint8_t(input[0]) % 40, [&] {
        if (kind[0] == 'g') return parse_gbnf(text);
        return json_schema_grammar(read_json<nlohmann::ordered_json>("schema", text));
      });
      ++count;
    }
  }
  EXPECT_GE(count, 16);
}

}  // namespace
}  // namespace toy::corpus_test
