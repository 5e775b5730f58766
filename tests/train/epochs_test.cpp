// Runs on rows of --data: how many steps their epochs are, how long a sequence is, and the chat template that an
// adapter keeps.
#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/models/adapter.h"
#include "toy/train/fine_tune.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::epochs_test {
namespace {

struct Seen : TrainObserver {
  int64_t steps = 0, tokens = 0, rows = 0;
  double epochs = 0;
  std::string data;
  std::string notes;
  void event(const runs::Event& e) override {
    if (const auto* note = e.as<runs::Note>()) notes += note->text + "\n";
  }
};

class Epochs : public ::testing::Test, protected testing::Folder {
 protected:
  Epochs() {
    write("size.json", R"({"d_model": 32, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 16, "d_ff": 48})");
    write("text.txt", std::string(400, 'x'));
    // 12 rows of 41 bytes, and one of 100.
    std::string rows;
    for (int i = 0; i < 12; ++i)
      rows +=
          R"({"prompt": ")" + std::string(20, char('a' + i)) + R"(", "completion": ")" + std::string(21, 'y') + "\"}\n";
    write("rows.jsonl",
          rows + R"({"prompt": ")" + std::string(50, 'p') + R"(", "completion": ")" + std::string(50, 'q') + "\"}\n");
  }
  FromScratchOptions options(int64_t context = 512) const {
    FromScratchOptions o;
    o.size = path("size.json"), o.tokenizer = "bytes", o.out = path("out");
    o.data.examples = {path("rows.jsonl")}, o.data.validation_fraction = 0;
    o.trainer.batch = 2, o.trainer.accumulate = 1;
    o.context = context, o.fit_tokens = true, o.epochs = 3;
    return o;
  }
  Seen estimated(const FromScratchOptions& o) const {
    Seen seen;
    const auto device = make_test_device(1);
    const RunEstimate e = estimate_from_scratch(o, *device, seen);
    seen.epochs = e.epochs, seen.rows = e.rows, seen.data = e.data;
    seen.steps = e.steps, seen.tokens = e.tokens_per_step / (o.trainer.batch * o.trainer.accumulate);
    return seen;
  }
};

// Rows of 128 places hold 12 * 41 + 100 tokens: three short documents each, so five rows or a few more.
TEST_F(Epochs, RowsDecideStepsAndTokens) {
  const Seen seen = estimated(options());
  EXPECT_EQ(seen.tokens, 128);
  EXPECT_GE(seen.steps, 8);  // 3 epochs of 5 rows, two rows a step
  EXPECT_LE(seen.steps, 11);
  EXPECT_EQ(seen.data, path("rows.jsonl"));
  EXPECT_EQ(seen.epochs, double(2 * seen.steps) / double(seen.rows));
  EXPECT_EQ(seen.notes.find("by heart"), std::string::npos) << seen.notes;
  FromScratchOptions many = options();
  many.epochs = 11;
  testing::expect_contains(estimated(many).notes, "epochs of");
  testing::expect_contains(estimated(many).notes, "the model may learn it by heart");
  FromScratchOptions o = options();
  o.epochs = 0.1;
  EXPECT_EQ(estimated(o).steps, 1);
  o = options(64);  // the context is the most
  EXPECT_EQ(estimated(o).tokens, 64);
  o = options();
  o.fit_tokens = false, o.trainer.tokens = 96, o.epochs = {}, o.steps = 7;
  EXPECT_EQ(estimated(o).steps, 7);
  EXPECT_EQ(estimated(o).tokens, 96);
  o.data.examples.clear(), o.data.corpus = {path("text.txt")}, o.fit_tokens = true;
  testing::expect_contains(testing::message_of([&] { estimated(o); }), "only rows of --data say");
  o.fit_tokens = false, o.epochs = -1;
  testing::expect_contains(testing::message_of([&] { estimated(o); }), "epochs is -1");
}

TEST_F(Epochs, AnAdapterKeepsTheChatTemplateItLearnedWith) {
  const auto device = make_test_device(1);
  FromScratchOptions base = options();
  base.epochs = {}, base.steps = 1;
  testing::Listener listener;
  train_from_scratch(base, *device, listener);
  write("chat.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}");
  write("chats.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                       "\n");
  for (const bool given : {true, false}) {
    FineTuneOptions o;
    o.init = path("out/model.gguf"), o.out = path(given ? "with" : "without");
    o.data.examples = {path(given ? "chats.jsonl" : "rows.jsonl")}, o.data.validation_fraction = 0;
    if (given) o.data.chat_template = path("chat.jinja");
    o.trainer.batch = 1, o.trainer.tokens = 32, o.steps = 1;
    o.lora = LoraOptions{.rank = 2};
    train_fine_tune(o, *device, listener);
    const std::string source = given ? testing::slurp(path("chat.jinja")) : "", file = o.out + "/adapter.gguf";
    EXPECT_EQ(gguf::File::open(file).get_string("tokenizer.chat_template", ""), source);
    Model model = load_model(o.init, *device, LoadMode::trainable);
    load_adapter(model, file);
    EXPECT_EQ(model.spec.adapters[0].chat_template, source);
    merge_adapters(model);
    EXPECT_EQ(model.metadata.contains("tokenizer.chat_template"), given);
  }
}

// Samples of a run on chats answer prompts of the validation, by turns, and stand next to the answers that these have.
TEST_F(Epochs, SamplesAnswerPromptsOfTheValidation) {
  struct Samples : TrainObserver {
    void event(const runs::Event& e) override {
      if (const auto* s = e.as<runs::Sample>()) list.push_back(*s);
    }
    std::vector<runs::Sample> list;
  } seen;
  write("chat.jinja",
        "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}");
  std::string rows;
  for (const char* word : {"a", "b", "ccc", "dd"})
    rows +=
        fmt::format(
            R"({{"messages": [{{"role": "user", "content": "{0}?"}}, {{"role": "assistant", "content": "{0}!"}}]}})",
            word) +
        "\n";
  write("chats.jsonl", rows);
  FromScratchOptions o = options();
  o.epochs = {}, o.steps = 3, o.eval_every = 1, o.sample_tokens = 4;
  o.data.examples = {path("chats.jsonl")}, o.data.validation_fraction = 0.5, o.data.chat_template = path("chat.jinja");
  train_from_scratch(o, *make_test_device(1), seen);
  ASSERT_EQ(seen.list.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {  // after steps 1, 2, 3
    const std::string word = i % 2 == 0 ? "dd" : "ccc";
    EXPECT_EQ(seen.list[i].prompt, "<user>" + word + "?;<assistant>") << i;
    EXPECT_EQ(seen.list[i].wanted, word + "!;") << i;
    EXPECT_EQ(seen.list[i].text.find("<user>"), std::string::npos);
  }
}

}  // namespace
}  // namespace toy::epochs_test
