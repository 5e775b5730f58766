// Vocabularies that are made with control tokens of their own.
#include <gtest/gtest.h>

#include "testing/files.h"
#include "text_testing.h"

namespace toy::control_tokens_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

TEST(ControlTokens, AreTheLastOfTheirVocabularyAndEndGenerations) {
  const ControlTokens control{{"<|im_start|>", "<|im_end|>", "<|fin|>"}, "<|fin|>"};
  const Folder folder;
  for (const std::string spec : {"bytes", "bpe:400", "spm:400", "unigram:400"}) {
    const auto t = make_tokenizer(spec, training_text(5, 30000), &control);
    const int32_t n = t->vocab_size();
    EXPECT_EQ(n, spec == "bytes" ? 260 : 400) << spec;
    EXPECT_EQ(t->encode("<|im_start|>a<|fin|>", {.parse_special = true}).front(), n - 3) << spec;
    EXPECT_EQ(t->encode("<|im_start|>a<|fin|>", {.parse_special = true}).back(), n - 1) << spec;
    EXPECT_EQ(t->decode(t->encode("<|im_start|> caf\xc3\xa9\n")), "<|im_start|> caf\xc3\xa9\n") << spec;
    EXPECT_EQ(t->end_of_generation(), (Ids{*t->eos(), n - 2, n - 1})) << spec;
    gguf::Writer writer("llama");
    t->save(writer);
    writer.finish(folder.path("v.gguf"));
    const auto again = load_tokenizer_file(folder.path("v.gguf"));
    EXPECT_EQ(again->fingerprint(), t->fingerprint()) << spec;
    EXPECT_EQ(again->end_of_generation(), t->end_of_generation()) << spec;
  }
}

TEST(ControlTokens, ThoseThatAVocabularyHasAreNotAddedAgain) {
  const ControlTokens end{{"</s>", "<|endoftext|>"}};
  const std::string text = training_text(5, 30000);
  EXPECT_EQ(make_tokenizer("bytes", "", &end)->vocab_size(), 258);
  EXPECT_EQ(make_tokenizer("spm:400", text, &end)->encode("</s>", {.parse_special = true}), Ids{2});
  EXPECT_EQ(make_tokenizer("bpe:400", text, &end)->vocab_size(), 400);
  const ControlTokens none;  // rows that nothing but the end of the text ends
  EXPECT_EQ(make_tokenizer("bytes", "", &none)->end_of_generation(), Ids{256});
  EXPECT_EQ(make_tokenizer("bpe:400", text, &none)->fingerprint(), train_bpe(text, 400)->fingerprint());
}

}  // namespace
}  // namespace toy::control_tokens_test
