// Rows in the forms in which people publish them, and files of them.
#include <gtest/gtest.h>

#include <fstream>

#include "testing/errors.h"
#include "toy/data/examples.h"

namespace toy {
namespace {

const ChatTemplate kChat(
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}(call {{ c.function.name }} "
    "{{ "
    "c.function.arguments|tojson }}){% endfor %}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    "{% if tools and messages|length == 0 %}{{ tools }}{% endif %}");

class RowForms : public ::testing::Test {
 protected:
  ExampleRow row(const std::string& line, bool chat = true, const std::string& map = "") const {
    return ExampleMaker(*bytes_, chat ? &kChat : nullptr, TrainOn::assistant, {.renamed = parse_field_map(map)})
        .make(line);
  }
  // What is learned stands in [ ].
  std::string shown(const Example& e) const {
    std::string out;
    bool open = false;
    for (size_t i = 0; i < e.ids.size(); ++i) {
      if (bool(e.trained[i]) != open) out += open ? "]" : "[";
      open = e.trained[i];
      out += bytes_->written(e.ids[i]);
    }
    return out + (open ? "]" : "");
  }
  std::string of(const std::string& line, bool chat = true, const std::string& map = "") const {
    const ExampleRow r = row(line, chat, map);
    return shown(r.example) + (r.rejected ? " / " + shown(*r.rejected) : "");
  }
  std::shared_ptr<const Tokenizer> bytes_ = make_byte_tokenizer();
};

TEST_F(RowForms, ConversationsAsShareGptWritesThem) {
  EXPECT_EQ(of(R"({"id": "x", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "q"},
                   {"from": "gpt", "value": "a"}]})"),
            "<system>s</><user>q</><assistant>[a</>]");
  EXPECT_EQ(of(R"({"system": "s", "conversations": [{"from": "human", "value": "q"}, {"from": "function_call",
                   "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, {"from": "observation", "value": "r"},
                   {"from": "gpt", "value": "a"}]})"),
            "<system>s</><user>q</><assistant>[(call f {\"x\": 1})</>]<tool>r</><assistant>[a</>]");
  EXPECT_EQ(
      row(R"({"id": "x", "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})").kind,
      RowKind::messages);
}

TEST_F(RowForms, ASystemTextBesideMessages) {
  EXPECT_EQ(
      of(R"({"system": "s", "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"),
      "<system>s</><user>q</><assistant>[a</>]");
  EXPECT_NE(
      testing::error_of([&] {
        of(R"({"system": "s", "messages": [{"role": "system", "content": "t"}, {"role": "assistant", "content": "a"}]})");
      }).find("leave one out"),
      std::string::npos);
}

TEST_F(RowForms, Instructions) {
  EXPECT_EQ(of(R"({"instruction": "i", "input": "n", "output": "o", "system": "s", "history": [["a", "b"]]})"),
            "<system>s</><user>a</><assistant>b</><user>i\n\nn</><assistant>[o</>]");
  EXPECT_EQ(of(R"({"instruction": "i", "context": "c", "response": "o", "category": "x"})"),
            "<user>i\n\nc</><assistant>[o</>]");
  EXPECT_EQ(of(R"({"question": "q", "answer": "a"})"), "<user>q</><assistant>[a</>]");
  EXPECT_EQ(of(R"({"question": "q", "answer": "a"})", false), "### Instruction:\nq\n\n### Response:\n[a]");
  EXPECT_EQ(of(R"({"instruction": "i", "input": "", "output": "o", "system": "s", "history": [["a", "b"]]})", false),
            "s\n\n### Instruction:\na\n\n### Response:\nb\n\n### Instruction:\ni\n\n### Response:\n[o]");
}

TEST_F(RowForms, Preferences) {
  const std::string lists =
      R"("chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
         "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})";
  const std::string want = "<user>q</><assistant>[a</>] / <user>q</><assistant>[b</>]";
  EXPECT_EQ(of("{" + lists), want);
  EXPECT_EQ(of(R"({"prompt": "q", "score_chosen": 8.0, )" + lists), want);              // UltraFeedback
  EXPECT_EQ(of(R"({"system": "s", "question": "q", "chosen": "a", "rejected": "b"})"),  // Orca
            "<system>s</><user>q</><assistant>[a</>] / <system>s</><user>q</><assistant>[b</>]");
  EXPECT_EQ(of(R"({"question": "q", "chosen": "a", "rejected": "b"})", false),
            "### Instruction:\nq\n\n### Response:\n[a] / ### Instruction:\nq\n\n### Response:\n[b]");
  EXPECT_EQ(of(R"({"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}],
                   "rejected": [{"role": "assistant", "content": "b"}]})"),
            want);
  EXPECT_EQ(of(R"({"prompt": [{"role": "user", "content": "q"}], "chosen": "a", "rejected": "b"})"), want);
  EXPECT_EQ(of(R"({"input": {"messages": [{"role": "user", "content": "q"}], "tools": [], "parallel_tool_calls": true},
                   "preferred_output": [{"role": "assistant", "content": "a"}],
                   "non_preferred_output": [{"role": "assistant", "content": "b"}]})"),
            want);
  EXPECT_EQ(of(R"({"prompt": "p", "chosen": "a", "rejected": "b"})"), "p[a] / p[b]");
}

TEST_F(RowForms, WhatIsStatedCounts) {
  EXPECT_EQ(of(R"({"prompt": "", "chosen": "Yes a", "rejected": "Yes b"})"), "Y[es a] / Y[es b]");  // nothing is shared
  EXPECT_EQ(of(R"({"chosen": "Yes a", "rejected": "Yes b"})"), "Yes[ a] / Yes[ b]");
  EXPECT_EQ(of(R"({"system": "", "prompt": "Hi ", "completion": "yo"})"), "Hi [yo]");
  EXPECT_EQ(of(R"({"instruction": "i", "input": "n", "chosen": [{"role": "assistant", "content": "a"}],
                   "rejected": [{"role": "assistant", "content": "b"}]})"),
            "<user>i\n\nn</><assistant>[a</>] / <user>i\n\nn</><assistant>[b</>]");
  EXPECT_EQ(of(R"({"a": "x", "completion": "p", "prompt": "c"})", true, "prompt=completion,completion=prompt"), "p[c]");
  EXPECT_EQ(row(R"({"prompt": "x", "chosen": "a", "rejected": "b", "tools": []})").notes[0],
            "the field tools has no effect");
  EXPECT_EQ(of(R"({"messages": [{"role": "human", "content": "q"}, {"role": "model", "content": "a"}]})"),
            "<user>q</><assistant>[a</>]");
  EXPECT_NE(
      testing::error_of([&] {
        of(R"({"system": "s", "messages": [{"role": "developer", "content": "t"}, {"role": "assistant", "content": "a"}]})");
      }).find("leave one out"),
      std::string::npos);
  const ExampleRow r = row(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{bad"}]}]})");
  EXPECT_NE(std::find(r.notes.begin(), r.notes.end(),
                      "messages[1].tool_calls[0]: the arguments are no JSON object, and are shown as they are"),
            r.notes.end());
}

// A note names its row and message, and is said once for a file whichever message has it.
TEST_F(RowForms, NotesNameRowAndMessage) {
  const std::string turn =
      R"({"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{bad"}]})";
  const std::string path = ::testing::TempDir() + "bad_calls.jsonl";
  std::ofstream(path) << R"({"prompt": "p", "completion": "c"})"
                      << "\n"
                      << R"({"messages": [)" << turn << "]}\n"
                      << R"({"messages": [)" << turn << ", " << turn << "]}\n";
  std::string said;
  ExampleReading reading;
  reading.warn = [&](const std::string& w) { said += w + "\n"; };
  reading.take = [](const ExampleRow&, int64_t) { return true; };
  read_examples(looked_at(path), ExampleMaker(*bytes_, &kChat, TrainOn::assistant), reading);
  const std::string wanted = "bad_calls.jsonl:2: messages[1].tool_calls[0]: the arguments are no JSON object";
  EXPECT_NE(said.find(wanted), std::string::npos) << said;
  EXPECT_EQ(said.find("no JSON object"), said.rfind("no JSON object")) << said;
}

TEST_F(RowForms, Labels) {
  for (const char* bad : {"false", "0", "0.0", "\"false\"", "\"False\""}) {
    const ExampleRow r = row(std::string(R"({"prompt": "p", "completion": "c", "label": )") + bad + "}");
    EXPECT_EQ(r.kind, RowKind::rated);
    EXPECT_FALSE(r.good) << bad;
  }
  EXPECT_TRUE(row(R"({"prompt": "p", "completion": "c", "label": 1})").good);
  EXPECT_FALSE(row(R"({"prompt": "p", "completion": "c", "kto_tag": false})").good);
  EXPECT_NE(
      testing::error_of([&] { row(R"({"prompt": "p", "completion": "c", "label": "good"})"); }).find("'label' is"),
      std::string::npos);
}

TEST_F(RowForms, FieldsHaveOtherNamesAndOthersAreNamed) {
  EXPECT_EQ(of(R"({"q": "p", "reply": "c"})", true, "prompt=q,completion=reply"), "p[c]");
  const ExampleRow r = row(R"({"prompt": "p", "completion": "c", "score": 3, "source": "x"})");
  ASSERT_FALSE(r.notes.empty());
  EXPECT_EQ(r.notes[0], "the fields score, source have no effect");
  EXPECT_NE(testing::error_of([] { parse_field_map("prompt"); }).find("NAME=FIELD"), std::string::npos);
  EXPECT_NE(testing::error_of([] { parse_field_map("promt=q"); }).find("'promt' has no meaning"), std::string::npos);
  EXPECT_NE(testing::error_of([&] { of(R"({"text": "t"})", true, "prompt=q"); }).find("no field 'q'"),
            std::string::npos);
}

TEST_F(RowForms, WhatChangesTheMeaningIsUsedOrRefused) {
  // OpenOrca's name, the older name of tools, a prompt as text with an answer as messages.
  EXPECT_EQ(of(R"({"id": 1, "system_prompt": "s", "question": "q", "response": "a"})"),
            "<system>s</><user>q</><assistant>[a</>]");
  EXPECT_EQ(of(R"({"prompt": "q", "completion": [{"role": "assistant", "content": "a"}], "system": "s"})"),
            "<system>s</><user>q</><assistant>[a</>]");
  const std::string chat = R"("messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
  const std::string f = R"([{"name": "f", "description": "d", "parameters": {"type": "object"}}])";
  EXPECT_EQ(of("{" + chat + R"(, "functions": )" + f + "}"), of("{" + chat + R"(, "tools": )" + f + "}"));
  EXPECT_NE(of("{" + chat + R"(, "functions": )" + f + "}"), of("{" + chat + "}"));

  const std::vector<std::pair<std::string, std::string>> refused = {
      {R"({"prompt": "p", "completion": "c", "history": [["a", "b"]]})", "its field 'history'"},
      {R"({"text": "ab", "system": "s"})", "its field 'system'"},
      {R"({"text": "ab", "system_prompt": "s"})", "its field 'system_prompt'"},
      {R"({"prompt": "p", "chosen": "a", "rejected": "b", "history": [["a", "b"]]})", "its field 'history'"},
      {"{" + chat + R"(, "tools": )" + f + R"(, "functions": )" + f + "}", "its field 'functions'"},
      {R"({"prompt": "p", "completion": "c", "weight": 0.5})", "'weight' is 0.5"},
      {R"({"text": "ab", "weight": "2"})", "'weight' is \"2\""},
      {"{" + chat + R"(, "weight": 0})", "'weight' is 0,"}};
  for (const auto& r : refused)
    EXPECT_NE(testing::error_of([&] { row(r.first); }).find(r.second), std::string::npos) << r.first;
  for (const char* line :
       {R"({"text": "ab", "weight": 1})", R"({"text": "ab", "weight": 1.0})", R"({"text": "ab", "weight": "1"})"})
    EXPECT_TRUE(row(line).notes.empty() || row(line).notes[0].find("weight") == std::string::npos) << line;
  EXPECT_EQ(row(R"({"text": "ab", "history": [], "system": "", "label": 3})").notes[0],
            "the fields history, label, system have no effect");
}

TEST_F(RowForms, BeginningAndEndAreThereOnce) {
  const std::string path = TOY_SHARED_DIR "/data/vocab/ggml-vocab-llama-spm.gguf";
  if (!std::ifstream(path)) GTEST_SKIP() << "no " << path;
  const auto spm = load_tokenizer_file(path);
  const ExampleMaker maker(*spm, nullptr, TrainOn::all);
  for (const char* text : {R"({"text": "a"})", R"({"text": "<s>a</s>"})", R"({"text": "<s>a</s>\n"})",
                           R"({"prompt": "<s>", "completion": "a</s>"})"}) {
    const Example e = maker.make(text).example;
    EXPECT_EQ(std::count(e.ids.begin(), e.ids.end(), *spm->bos()), 1) << text;
    EXPECT_EQ(std::count(e.ids.begin(), e.ids.end(), *spm->eos()), 1) << text;
  }
}

TEST_F(RowForms, ASeamWithinATokenIsNamed) {
  const std::string path = TOY_SHARED_DIR "/data/vocab/ggml-vocab-gpt-2.gguf";
  if (!std::ifstream(path)) GTEST_SKIP() << "no " << path;
  const auto bpe = load_tokenizer_file(path);
  const ExampleMaker maker(*bpe, nullptr, TrainOn::assistant);
  const auto notes = [&](const char* line) { return maker.make(line).notes.size(); };
  EXPECT_EQ(notes(R"({"prompt": "Say you: ", "completion": "you"})"), 1u);
  EXPECT_EQ(notes(R"({"prompt": "Say you:", "completion": " you"})"), 0u);
}

TEST_F(RowForms, FilesOfAllFormats) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"rows.jsonl",
       "\xef\xbb\xbf{\"prompt\": \"p,\\n\\\"\", \"completion\": \"c\"}\r\n{\"prompt\": \"q\", \"completion\": \"d\"}"},
      {"rows.json",
       "\xef\xbb\xbf \n[{\"prompt\": \"p,\\n\\\"\", \"completion\": \"c\"}, {\"prompt\": \"q\", \"completion\": "
       "\"d\"}]"},
      {"rows.csv", "\xef\xbb\xbfprompt,completion,extra\r\n\"p,\n\"\"\",c,\r\n\r\nq,d,\r\n"},
      {"ROWS.TSV", "prompt\tcompletion\n\"p,\n\"\"\"\tc\nq\td"}};
  const ExampleMaker maker(*bytes_, nullptr, TrainOn::assistant);
  const auto read = [&](const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path) << text;
    std::string all;
    ExampleReading reading;
    reading.take = [&](const ExampleRow& r, int64_t line) {
      all += std::to_string(line) + shown(r.example) + ";";
      return true;
    };
    read_examples(looked_at(path), maker, reading);
    return all;
  };
  EXPECT_EQ(read(files[0].first, files[0].second), "1p,\n\"[c];2q[d];");
  EXPECT_EQ(read(files[1].first, files[1].second), "1p,\n\"[c];2q[d];");
  EXPECT_EQ(read(files[2].first, files[2].second), "2p,\n\"[c];5q[d];");
  EXPECT_EQ(read(files[3].first, files[3].second), "2p,\n\"[c];4q[d];");
  EXPECT_EQ(read("e.csv", "prompt,completion\r\"q\",\"{\"\"a\"\": 1}\"\rr,[1]\r"), "2q[{\"a\": 1}];3r[[1]];");
  EXPECT_NE(testing::error_of([&] { read("f.csv", "prompt,prompt\na,b\n"); }).find("f.csv:1: two columns"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { read("a.csv", "prompt,completion\na,b,c\n"); }).find("a.csv:2: it has 3 fields"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { read("b.csv", "prompt,completion\n\"a,b\n"); }).find("b.csv:2: a quoted field"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { read("c.json", "[{\"a\": 1}"); }).find("no JSON list"), std::string::npos);
  EXPECT_NE(testing::error_of([&] {
              read("d.json", "[{\"prompt\": \"a\", \"completion\": \"b\"}, 3]");
            }).find("d.json: row 2"),
            std::string::npos);
}

}  // namespace
}  // namespace toy
