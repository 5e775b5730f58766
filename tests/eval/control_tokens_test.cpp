// Names of control tokens in texts that are scored, and flags of the tokenizer: the same ids as in training and chats.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/models.h"
#include "testing/test_device.h"
#include "text/spm/spm.h"
#include "toy/decode/generate.h"
#include "toy/eval/choices.h"
#include "toy/eval/open_questions.h"
#include "toy/eval/score.h"

namespace toy::control_tokens_test {
namespace {

using Ids = std::vector<int32_t>;

// All bytes, the letters a and b, and marks of turns.
SpmVocabulary vocabulary(bool adds) {
  SpmVocabulary v;
  v.source = "small";
  v.tokens = {"<unk>", "<s>", "</s>", "<turn>", "a", "b"};
  v.types = {2, 3, 3, 3, 1, 1};
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(fmt::format("<0x{:02X}>", byte)), v.types.push_back(6);
  v.scores.resize(v.tokens.size());
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_space_prefix = false;
  v.add_bos = v.add_eos = adds;
  return v;
}

class ControlTokens : public ::testing::Test {
 protected:
  Model model(bool adds) const {
    Model m = random_model(
        testing::small_model(
            "tiny", {.vocab = 262, .d_model = 40, .context = 64, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52}),
        *device_, 3, 2.0);
    m.tokenizer = std::make_shared<const SpmTokenizer>(vocabulary(adds));
    return m;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
};

TEST_F(ControlTokens, OfDocuments) {
  const SpmTokenizer adds(vocabulary(true)), plain(vocabulary(false));
  const std::vector<std::string> documents{"a<turn>b", "<s>ab", "<turn>a"};
  const EvalText with = tokenize_for_eval(adds, documents, true);
  EXPECT_EQ(with.bos, 1);
  EXPECT_EQ(with.documents, (std::vector<Ids>{{4, 3, 5}, {4, 5}, {3, 4}}));
  EXPECT_EQ(with.bytes, 8 + 2 + 7);  // a window begins with the "<s>" of the second, which is not scored
  const EvalText without = tokenize_for_eval(plain, documents, true);
  EXPECT_EQ(without.documents, (std::vector<Ids>{{4, 3, 5}, {1, 4, 5}, {3, 4}}));
  EXPECT_EQ(without.bytes, 7 + 2 + 1);  // all but the first tokens
  const EvalText text = tokenize_for_eval(plain, documents, true, {});
  EXPECT_EQ(text.documents[2].size(), 7u);
  EXPECT_EQ(text.bytes, 7 + 4 + 6);
}

// add_eos_token says nothing about what stands between a prompt and its answer.
TEST_F(ControlTokens, NoEndBetweenPromptAndAnswer) {
  const Model with = model(true);
  Model without = model(true);
  SpmVocabulary v = vocabulary(true);
  v.add_eos = false;
  without.tokenizer = std::make_shared<const SpmTokenizer>(v);
  const std::vector<Question> choices{{{{"ab", "a", 1}, {"ab", "bb", 2}}, 0},
                                      {{{"<turn>", "a", 1}, {"<turn>", "b", 1}}, 1}};
  const auto logprobs = [&](const Model& m, const ChoicesOptions& o) {
    std::vector<std::vector<double>> all;
    score_choices(*device_, m, choices, o,
                  [&](const Question&, const AnsweredQuestion& a) { all.push_back(a.logprobs); });
    return all;
  };
  EXPECT_EQ(logprobs(with, {}), logprobs(without, {}));
  EXPECT_EQ(logprobs(with, {})[0], logprobs(with, {.parse_special = false})[0]);
  EXPECT_NE(logprobs(with, {})[1], logprobs(with, {.parse_special = false})[1]);
  const OpenOptions o{.generate = {.max_tokens = 8}};
  for (const std::string prompt : {"ab", "<s>ab"}) {
    const OpenQuestion q{"q:1", prompt, {}, {"x"}};
    const std::string text = score_open_questions(*device_, with, {}, {q}, o).answers[0].text;
    EXPECT_EQ(text, score_open_questions(*device_, without, {}, {q}, o).answers[0].text);
    EXPECT_EQ(text, generate(*device_, without, "ab", o.generate)) << prompt;
  }
}

// The same prompt as text and as messages that a template writes.
TEST_F(ControlTokens, PromptsOfATemplate) {
  const Model m = model(true);
  const ChatTemplate chat("{{ bos_token }}{% for m in messages %}<turn>{{ m.content }}{% endfor %}<turn>");
  OpenQuestion messages = parse_open_question(R"({"messages": [{"role": "user", "content": "ab"}], "answer": "x"})");
  const OpenQuestion text{"q:2", "<turn>ab<turn>", {}, {"x"}};
  OpenOptions o{.generate = {.max_tokens = 8}};
  const auto answer = [&](const OpenQuestion& q) {
    return score_open_questions(*device_, m, chat, {q}, o).answers[0].text;
  };
  const std::string right = answer(messages);
  EXPECT_EQ(answer(text), right);
  o.parse_special = false;
  EXPECT_NE(answer(text), right);
  EXPECT_EQ(answer(messages), right);
}

}  // namespace
}  // namespace toy::control_tokens_test
