// What ids prompts of completions and inputs of embeddings have, and how the latter pool.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/api/embeddings.h"
#include "serve/prompts.h"
#include "testing/errors.h"
#include "text/spm/spm.h"

namespace toy::serve::prompt_ids_test {
namespace {

using Ids = std::vector<int32_t>;

// Two letters, a mark of turns, bytes; bos and eos are added.
SpmTokenizer tokenizer() {
  SpmVocabulary v;
  v.source = "small";
  v.tokens = {"<unk>", "<s>", "</s>", "<turn>", "a", "b"};
  v.types = {2, 3, 3, 3, 1, 1};
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(fmt::format("<0x{:02X}>", byte)), v.types.push_back(6);
  v.scores.resize(v.tokens.size());
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_space_prefix = false;
  v.add_bos = v.add_eos = true;
  return SpmTokenizer(std::move(v));
}

class PromptIds : public ::testing::Test {
 protected:
  Ids of(const std::string& fields) const { return prompts_.of(parse_completion("{" + fields + "}", false)).at(0); }
  const SpmTokenizer tokenizer_ = tokenizer();
  const Prompts prompts_{tokenizer_, nullptr, 64, tokenizer_.vocab_size()};
};

TEST_F(PromptIds, OfCompletions) {
  EXPECT_EQ(of(R"("prompt": "a<turn>b")"), (Ids{1, 4, 3, 5}));
  EXPECT_EQ(of(R"("prompt": "a<turn>b", "parse_special": true)"), (Ids{1, 4, 3, 5}));
  EXPECT_EQ(of(R"("prompt": "<s>ab")"), (Ids{1, 4, 5}));
  EXPECT_EQ(of(R"("prompt": ["ab</s>"])"), (Ids{1, 4, 5, 2}));
  EXPECT_EQ(of(R"("prompt": [4, 3])"), (Ids{4, 3}));
  EXPECT_EQ(of(R"("prompt": "a<turn>b", "parse_special": false)").size(), 9u);
}

TEST_F(PromptIds, OfEmbeddings) {
  const auto ids = [&](const std::string& input) {
    return prompts_.complete(parse_embeddings(R"({"input": )" + input + "}").inputs).at(0);
  };
  EXPECT_EQ(ids(R"("a<turn>b")"), (Ids{1, 4, 3, 5, 2}));
  EXPECT_EQ(ids(R"("<s>a</s>")"), (Ids{1, 4, 2}));
  EXPECT_EQ(ids("[4, 5]"), (Ids{4, 5}));
}

TEST(EmbeddingPooling, IsTheRequestsOrTheModels) {
  const EmbeddingsRequest none = parse_embeddings(R"({"input": "a"})"),
                          last = parse_embeddings(R"({"input": "a", "pooling": "last"})");
  EXPECT_EQ(pooling_of(none, ""), Pooling::mean);
  EXPECT_EQ(pooling_of(none, "cls"), Pooling::first);
  EXPECT_EQ(pooling_of(none, "last"), Pooling::last);
  for (const char* states : {"", "mean", "rank"}) EXPECT_EQ(pooling_of(last, states), Pooling::last);
  testing::expect_contains(testing::error_of([&] { pooling_of(none, "rank"); }), "the model ranks texts");
}

}  // namespace
}  // namespace toy::serve::prompt_ids_test
