#include "toy/data/examples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "toy/base/error.h"
#include "toy/data/packing.h"

namespace toy::examples_test {
namespace {

const ChatTemplate kChatMl(
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
// Thoughts of older turns are dropped; the last turn always has some.
const ChatTemplate kThinks(
    "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{% if m.role == 'assistant' and loop.index0 > ns.last %}{{ '<think>' + (m.reasoning_content or '') + '</think>' }}"
    "{% endif %}{{ (m.content or '') + ('<call>' + m.tool_calls|tojson if m.tool_calls else '') + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");

// What counts, with | between parts that do not touch.
std::string learned(const Tokenizer& t, const Example& e) {
  std::string out;
  for (size_t i = 0; i < e.ids.size(); ++i) {
    if (!e.trained[i]) continue;
    if (i > 0 && !e.trained[i - 1] && !out.empty()) out += '|';
    out += t.written(e.ids[i]);
  }
  return out;
}
std::string whole(const Tokenizer& t, const Example& e) {
  std::string out;
  for (const int32_t id : e.ids) out += t.written(id);
  return out;
}

class Examples : public ::testing::Test {
 protected:
  std::string learned_of(const std::string& row, const ChatTemplate* chat, TrainOn on = TrainOn::assistant) {
    const ExampleRow r = ExampleMaker(*bytes_, chat, on).make(row);
    return learned(*bytes_, r.example) + (r.rejected ? " / " + learned(*bytes_, *r.rejected) : "");
  }
  std::string error_of(const std::string& row, const ChatTemplate* chat = nullptr) {
    try {
      ExampleMaker(*bytes_, chat, TrainOn::assistant).make(row);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  std::shared_ptr<const Tokenizer> bytes_ = make_byte_tokenizer();
};

const std::string kTurns =
    R"({"messages": [{"role": "system", "content": "Be nice."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello\n"}, {"role": "user", "content": "Bye"}, {"role": "assistant", "content": ""}]})";

TEST_F(Examples, TheAssistantsTokensAndTheEndOfTheirTurnsAreLearned) {
  EXPECT_EQ(learned_of(kTurns, &kChatMl), "Hello\n<|im_end|>|<|im_end|>");
  const std::string all = learned_of(kTurns, &kChatMl, TrainOn::all);
  EXPECT_TRUE(all.starts_with("|im_start|>system\nBe nice.")) << all;  // the first token has nothing before it
}

TEST_F(Examples, TurnsAreFoundWhereOlderOnesLoseTheirThoughtsAndCallsAreMade) {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "reasoning_content": "old",
          "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "r"},
          {"role": "assistant", "content": "A", "reasoning_content": "old"}, {"role": "user", "content": "b"},
          {"role": "assistant", "content": "B", "reasoning_content": "new"}]})";
  EXPECT_EQ(learned_of(row, &kThinks),
            "<call>[{\"id\": \"call00000\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
            "{}}}]<|im_end|>|A<|im_end|>|"
            "<think>new</think>B<|im_end|>");
}

// As gpt-oss and Mistral: an answer of a tool without its call is an error, and with Mistral nothing asks for a turn.
TEST_F(Examples, ACallIsFoundThoughTheTemplateRefusesItsAnswerWithoutIt) {
  const auto with = [](const std::string& begin, const std::string& asks) {
    return ChatTemplate(
        "{% set ns = namespace(called=false) %}{% for m in messages %}{% if m.role == 'tool' %}{% if not ns.called %}"
        "{{ raise_exception('no call') }}{% endif %}{{ '[RESULT]' + m.content }}{% elif m.role == 'user' %}"
        "{{ '[INST]' + m.content + '[/INST]' }}{% elif m.tool_calls %}{% set ns.called = true %}{{ '" +
        begin + " [CALLS]' + m.tool_calls[0].function.name + '</s>' }}{% else %}{{ '" + begin +
        "' + m.content + '</s>' }}{% endif %}{% endfor %}" + asks);
  };
  const ChatTemplate mistral = with("", ""),
                     asking = with("<bot>", "{% if add_generation_prompt %}{{ '<bot>' }}{% endif %}");
  const std::string row =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "",
          "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "r"},
          {"role": "assistant", "content": "A"}]})";
  EXPECT_EQ(learned_of(row, &mistral), " [CALLS]f</s>|A</s>");
  EXPECT_EQ(learned_of(row, &asking), " [CALLS]f</s>|A</s>");
}

TEST_F(Examples, GenerationMarksDecideWhereThereAreSome) {
  const ChatTemplate chat(
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}!{% "
      "endgeneration %}{% else %}{{ m.content }}{% endif %};{% endfor %}");
  EXPECT_EQ(learned_of(kTurns, &chat), "Hello\n!|!");
  EXPECT_EQ(learned_of(R"({"prompt": [{"role": "assistant", "content": "x"}, {"role": "user", "content": "u"}],
                           "completion": [{"role": "assistant", "content": "y"}]})",
                       &chat),
            "y!");
}

TEST_F(Examples, RowsOfAllKinds) {
  EXPECT_EQ(learned_of(R"({"text": "abc"})", nullptr), "bc");
  EXPECT_EQ(learned_of(R"({"prompt": "1+1=", "completion": "2"})", nullptr), "2");
  EXPECT_EQ(learned_of(R"({"instruction": "Add", "input": "1 1", "output": "2"})", nullptr), "2");
  EXPECT_EQ(learned_of(R"({"instruction": "Add", "input": "1 1", "output": "2"})", &kChatMl), "2<|im_end|>");
  EXPECT_EQ(
      whole(*bytes_,
            ExampleMaker(*bytes_, nullptr, TrainOn::all).make(R"({"instruction": "Add", "output": "2"})").example),
      "### Instruction:\nAdd\n\n### Response:\n2");
  EXPECT_EQ(learned_of(R"({"prompt": "p", "chosen": "good", "rejected": "bad"})", nullptr), "good / bad");
  const std::string pair = R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": ")";
  EXPECT_EQ(learned_of("{\"chosen\": " + pair + "good\"}], \"rejected\": " + pair + "bad\"}]}", &kChatMl),
            "good<|im_end|> / bad<|im_end|>");
}

// Control tokens, a beginning and an end of sequences, and the space that SentencePiece puts in front.
TEST_F(Examples, SharedLlamaVocabulary) {
  const auto spm = load_tokenizer_file(TOY_SHARED_DIR "/data/vocab/ggml-vocab-llama-spm.gguf");
  const ChatTemplate chat(
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }}{{ eos_token }}{% else %}"
      "[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}");
  const ExampleMaker maker(*spm, &chat, TrainOn::assistant);
  const Example e = maker
                        .make(R"({"messages": [{"role": "user", "content": "Grüße"}, {"role": "assistant", "content":
      "Hello you"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})")
                        .example;
  EXPECT_EQ(e.ids.front(), *spm->bos());
  EXPECT_EQ(e.ids.back(), *spm->eos());
  EXPECT_EQ(learned(*spm, e), " Hello you</s>| y</s>");
  const Example c = maker.make(R"({"prompt": "One two", "completion": " three"})").example;
  EXPECT_EQ(c.ids.front(), *spm->bos());
  EXPECT_EQ(learned(*spm, c), " three</s>");
}

TEST_F(Examples, SharedByteLevelVocabulary) {
  const auto bpe = load_tokenizer_file(TOY_SHARED_DIR "/data/vocab/ggml-vocab-gpt-2.gguf");
  const ChatTemplate chat(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token if m.role == 'assistant' else '' }}\n\n"
      "{% endfor %}");
  const Example e = ExampleMaker(*bpe, &chat, TrainOn::assistant).make(kTurns).example;
  EXPECT_EQ(learned(*bpe, e), "assistant: Hello\n<|endoftext|>|assistant: <|endoftext|>");  // no prompt asks for it
}

TEST_F(Examples, BadRowsSayWhy) {
  EXPECT_NE(error_of("{").find("ends on another line"), std::string::npos);
  EXPECT_NE(error_of("{1}").find("not JSON"), std::string::npos);
  EXPECT_NE(error_of("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(error_of(R"({"txt": "a"})").find("fields txt; 'txt': did you mean 'text'?"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": 1})").find("'text' is not a string"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": ""})").find("nothing to learn"), std::string::npos);
  EXPECT_NE(error_of(kTurns).find("need a chat template"), std::string::npos);
  EXPECT_NE(error_of(R"({"messages": [{"content": "a"}]})", &kChatMl).find("message 1 has no role"), std::string::npos);
  EXPECT_NE(
      error_of(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]})", &kChatMl)
          .find("message 2, an answer, has no content and no tool_calls"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"messages": [{"role": "user", "text": "a"}]})", &kChatMl)
                .find("'messages': message 1 has no 'content'; rename 'text'"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"messages": [{"role": "user", "content": "a"}]})", &kChatMl).find("the assistant's"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"chosen": "a"})").find("'rejected' is missing; a row is {"), std::string::npos);
  EXPECT_NE(error_of(R"({"text": null})").find("the fields text (null); needed"), std::string::npos);
  EXPECT_NE(error_of("{}").find("it has no fields; needed"), std::string::npos);
  for (const auto& [extra, why] : {std::pair(R"("tools": "not json")", "'tools' is not a list"),
                                   std::pair(R"("tools": 5)", "'tools' is not a list"),
                                   std::pair(R"("documents": {})", "'documents' is not a list"),
                                   std::pair(R"("chat_template_kwargs": [1])", "'chat_template_kwargs' is not an obj")})
    EXPECT_NE(error_of(fmt::format("{{{}, {}", extra, kTurns.substr(1)), &kChatMl).find(why), std::string::npos)
        << extra;
}

TEST_F(Examples, WhatWasMeantIsSaid) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"promt": "a", "completion": "b"})", "it has the fields promt, completion; 'promt': did you mean 'prompt'?"},
      {R"({"a": "x", "b": "y"})", "it has the fields a, b; try --map prompt=a,completion=b"},
      {R"({"data": [{"text": "a"}]})", "the rows are in the field 'data'; write that list alone"},
      {R"({"anchor": "x", "positive": "y"})", "it has the fields anchor, positive; pairs of texts are for toy train"},
      {R"({"review": "x", "label": "y"})", "it has the fields review, label; texts with labels are for toy train"},
      {R"({"id": 1, "score": 2})", "it has the fields id, score; needed are text"},
      {R"({"text": 1})", "'text' is not a string; write 1 in quotes"},
      {R"({"text": "a"} {"text": "b"})", "another object follows on the same line; write each on a line of its own"},
      {R"({"text": "a"} "b")", "not JSON"},
  };
  for (const auto& [row, words] : cases) EXPECT_NE(error_of(row).find(words), std::string::npos) << error_of(row);
}

// As headings of tables are written; what --map names is found by its own name.
TEST_F(Examples, CapitalsOfFieldsDoNotMatter) {
  for (const char* row : {R"({"Question": "a", "ANSWER": "b"})", R"({"question": "a", "Answer": "b", "Context": "c"})"})
    EXPECT_EQ(error_of(row), error_of(R"({"question": "a", "answer": "b"})")) << row;
  EXPECT_EQ(error_of(R"({"Text": "ab"})"), error_of(R"({"text": "ab"})"));
  const std::pair<const char*, const char*> same[] = {
      {R"({"Instruction": "a", "Output": "b", "System": "c"})",
       R"({"instruction": "a", "output": "b", "system": "c"})"},
      // Where the exact names have a meaning, others have none.
      {R"({"question": "q", "answer": "a", "Response": "b"})", R"({"question": "q", "answer": "a"})"},
      {R"({"prompt": "p", "completion": "c", "Rejected": "r"})", R"({"prompt": "p", "completion": "c"})"},
      {R"({"prompt": "p", "completion": "c", "Messages": []})", R"({"prompt": "p", "completion": "c"})"},
      {R"({"instruction": "i", "output": "o", "Input": 5})", R"({"instruction": "i", "output": "o"})"}};
  for (const auto& [row, other] : same) EXPECT_EQ(learned_of(row, &kChatMl), learned_of(other, &kChatMl)) << row;
  EXPECT_NE(error_of(R"({"Promt": "a", "completion": "b"})").find("'Promt': did you mean 'prompt'?"),
            std::string::npos);
}

// Bytes have no token that ends a text: without blanks there would be nothing to learn.
TEST_F(Examples, AnEmptyAnswerIsToldWithItsNumber) {
  const auto bytes = make_byte_tokenizer();
  const auto silent = [&](const char* row) {
    return ExampleMaker(*bytes, &kChatMl, TrainOn::assistant).make(row).says_nothing;
  };
  for (const char* row :
       {R"({"prompt": "a", "completion": " "})", R"({"instruction": "a", "output": " "})",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": " "}]})",
        R"({"prompt": "a", "chosen": " ", "rejected": "b"})", R"({"prompt": "a", "completion": " ", "label": true})"})
    EXPECT_NO_THROW(EXPECT_TRUE(silent(row))) << row;
  for (const char* row :
       {R"({"prompt": " ", "completion": "b"})", R"({"prompt": "a", "chosen": "b", "rejected": " "})",
        R"({"prompt": "a", "completion": " ", "label": false})",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "weight": 0},
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"})
    EXPECT_NO_THROW(EXPECT_FALSE(silent(row))) << row;
  const std::string path = ::testing::TempDir() + "silent.jsonl";
  std::ofstream(path) << R"({"prompt": "a", "completion": "b"})"
                      << "\n\n"
                      << R"({"prompt": "a", "completion": "\n"})"
                      << "\n"
                      << R"({"prompt": "c", "completion": "\n"})"
                      << "\n";
  std::vector<std::string> warnings;
  ExampleReading reading;
  reading.warn = [&](const std::string& text) { warnings.push_back(text); };
  reading.take = [](const ExampleRow&, int64_t) { return true; };
  read_examples(looked_at(path), ExampleMaker(*bytes, nullptr, TrainOn::assistant), reading);
  ASSERT_FALSE(warnings.empty());
  EXPECT_EQ(warnings.back(), path +
                                 ": 2 rows have an empty answer, from which the model learns to say nothing (the "
                                 "first is " +
                                 path + ":3); fill or remove them");
}

TEST_F(Examples, FilesAndTheirBadRows) {
  const std::string path = ::testing::TempDir() + "examples.jsonl";
  std::ofstream(path) << "{\"prompt\": \"a\", \"completion\": \"bc\"}\r\n\n{\"no\": 1}\n{\"text\": \"xyz\"}";
  const ExampleMaker maker(*bytes_, nullptr, TrainOn::assistant);
  std::vector<std::string> warnings;
  const auto load = [&](bool skip) {
    return load_examples({looked_at(path)}, maker, 0, skip, [&](const std::string& w) {
      if (w.find("would not stop") == w.npos) warnings.push_back(w);
    });
  };
  try {
    load(false);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("examples.jsonl:3: it has the fields no"), std::string::npos) << e.what();
  }
  const ExampleSet set = load(true);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(set.skipped, 1);
  EXPECT_EQ(set.text.training().documents, 2);
  EXPECT_EQ(set.trained, (std::vector<uint8_t>{0, 1, 1, 0, 1, 1}));

  // Packed: each example is a sequence of its own, and the mask follows its targets.
  const auto& part = set.text.training();
  const PackedRows rows(set.text.ids(), part.begins, uint64_t(part.ids.size()), 5, 1, set.trained);
  EXPECT_EQ(rows.rows(), 1);
  EXPECT_EQ(rows.counted(), 4);
  const Windows w = rows.rows(0, 1);
  EXPECT_EQ(w.inputs, (std::vector<int32_t>{'a', 'b', 'x', 'y', 0}));
  EXPECT_EQ(w.targets, (std::vector<int32_t>{'b', 'c', 'y', 'z', 0}));
  EXPECT_EQ(w.position, (std::vector<int32_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(w.trained, (std::vector<uint8_t>{1, 1, 1, 1, 0}));
  EXPECT_EQ(w.sequence[0], w.sequence[1]);
  EXPECT_NE(w.sequence[1], w.sequence[2]);
  EXPECT_FALSE(w.counts(4));
  std::remove(path.c_str());
}

// As in TRL: without a prompt it is what both begin with, but for a space.
TEST_F(Examples, PreferencesAndRatedAnswers) {
  EXPECT_EQ(learned_of(R"({"prompt": "say ", "chosen": "yes", "rejected": "no"})", nullptr), "yes / no");
  EXPECT_EQ(learned_of(R"({"chosen": "The sky is blue.", "rejected": "The sky is green."})", nullptr),
            " blue. /  green.");
  EXPECT_EQ(learned_of("{\"chosen\": \"a\u00e4b\", \"rejected\": \"a\u00e5b\"}", nullptr), "\u00e4b / \u00e5b");
  const ExampleMaker maker(*bytes_, nullptr, TrainOn::assistant);
  const ExampleRow bad = maker.make(R"({"prompt": "a", "completion": "bc", "label": false})");
  EXPECT_EQ(bad.kind, RowKind::rated);
  EXPECT_FALSE(bad.good);
  EXPECT_TRUE(maker.make(R"({"prompt": "a", "completion": "bc", "label": true})").good);
  EXPECT_NE(error_of(R"({"prompt": "a", "chosen": "b", "rejected": "b"})").find("the same"), std::string::npos);
  EXPECT_NE(error_of(R"({"prompt": "a", "chosen": "b", "rejected": 3})").find("'rejected' is neither a text nor"),
            std::string::npos);

  const std::string path = ::testing::TempDir() + "preferences.jsonl";
  std::ofstream(path) << "{\"prompt\": \"a\", \"chosen\": \"bc\", \"rejected\": \"d\"}\n"
                      << "{\"prompt\": \"e\", \"completion\": \"f\", \"label\": false}\n{\"text\": \"xyz\"}\n"
                      << "{\"prompt\": \"g\", \"chosen\": \"h\", \"rejected\": \"ij\"}\n";
  std::vector<std::string> warnings;
  const auto load = [&](Preferences p) {
    warnings.clear();
    return load_examples(
        {looked_at(path)}, maker, 0.5, true,
        [&](const std::string& w) {
          if (w.find("would not stop") == w.npos) warnings.push_back(w);
        },
        p);
  };
  const ExampleSet pairs = load(Preferences::pairs);
  EXPECT_EQ(pairs.chosen, (std::vector<uint8_t>{1, 0, 1, 0}));
  EXPECT_EQ(pairs.text.training().documents, 2);  // a pair is never split
  EXPECT_EQ(pairs.text.validation().documents, 2);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("preferences.jsonl:2: a completion with a label is for --loss kto"), std::string::npos);
  EXPECT_NE(warnings[1].find("preferences.jsonl:3: it states no preference"), std::string::npos);
  const ExampleSet rated = load(Preferences::rated);
  EXPECT_EQ(rated.chosen, (std::vector<uint8_t>{1, 0, 0, 1, 0}));
  EXPECT_EQ(rated.text.training().documents, 3);
  EXPECT_EQ(warnings.size(), 1u);
  const ExampleSet plain = load(Preferences::none);
  EXPECT_TRUE(plain.chosen.empty());
  EXPECT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[1].find("toy train dpo --loss kto"), std::string::npos) << warnings[1];
  std::remove(path.c_str());
}

}  // namespace
}  // namespace toy::examples_test
