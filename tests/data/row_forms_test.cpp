// Rows in the forms in which people publish them, and files of them.
#include <gtest/gtest.h>

#include <fstream>

#include "data/row_files.h"
#include "testing/errors.h"
#include "toy/data/examples.h"

namespace toy::row_forms_test {
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
                   {"from": "bot", "value": "a"}]})"),
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
  const auto notes =
      ExampleMaker(*bytes_, nullptr, TrainOn::assistant).make(R"({"question": "q", "answer": "a"})").notes;
  const auto says_how = [](const std::string& n) { return n.find("is written as '### Instruction:\\nTEXT") != n.npos; };
  EXPECT_EQ(std::ranges::count_if(notes, says_how), 1);
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
  // A call that was cut off is shown, and not learned.
  const std::string call = R"(, "tool_calls": [{"name": "f", "arguments": "{bad"}]})",
                    row_of_call = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant")";
  EXPECT_EQ(testing::error_of([&] { row(row_of_call + call + "]}"); }),
            "messages[1].tool_calls[0]: the arguments are no JSON object, and the model would learn to write such "
            "calls; correct them, or give the message weight 0");
  const ExampleRow r = row(row_of_call + R"(, "weight": 0)" + call +
                           R"(, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_NE(std::find(r.notes.begin(), r.notes.end(),
                      "messages[1].tool_calls[0]: the arguments are no JSON object, and are shown as they are"),
            r.notes.end());
}

TEST_F(RowForms, ResultsFollowTheirCalls) {
  const auto wrong = [&](const std::string& messages) {
    return testing::error_of([&] { row(R"({"messages": [)" + messages + "]}"); });
  };
  const std::string ask = R"({"role": "user", "content": "q"}, )", end = R"(, {"role": "assistant", "content": "a"})";
  EXPECT_EQ(
      wrong(ask + R"({"role": "tool", "content": "4"})" + end),
      "'messages[1].role' is a tool's, and the message before it is not the assistant's: put the message with its "
      "tool_calls before it, or write the result as a message of the user");
  const std::string call =
      R"({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}, )";
  EXPECT_EQ(wrong(ask + call + R"({"role": "tool", "tool_call_id": "b", "content": "4"})" + end),
            "'messages[2].tool_call_id' is 'b', and no call before it has this id; expected 'a'");
  EXPECT_EQ(wrong(ask + call + R"({"role": "tool", "tool_call_id": "a", "content": "4"})" + end), "no error");
  // Calls without ids are matched in their order, and messages may stand in between.
  const std::string no_id = R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, )",
                    result = R"({"role": "tool", "tool_call_id": "b", "content": "4"})";
  EXPECT_EQ(wrong(ask + no_id + result + end), "no error");
  EXPECT_EQ(wrong(ask + no_id + ask + result + end), "no error");
  // Calls may be a part of the text.
  EXPECT_EQ(wrong(ask + R"({"role": "assistant", "content": "f x"}, {"role": "tool", "content": "4"})" + end),
            "no error");
}

// A note names its row and message, and is said once for a file whichever message has it.
TEST_F(RowForms, NotesNameRowAndMessage) {
  const std::string turn =
      R"({"role": "user", "content": "q"}, {"role": "assistant", "weight": 0, "tool_calls": [{"name": "f", "arguments": "{bad"}]}, )"
      R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"})";
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
  // A map that fits is shown, and one the wrong way round is turned.
  const auto error_of = [&](const std::string& line, const std::string& map) {
    return testing::error_of([&] { of(line, true, map); });
  };
  EXPECT_EQ(error_of(R"({"question": "p", "reply": "c"})", ""),
            "it has the fields question, reply; try --map prompt=question,completion=reply");
  EXPECT_EQ(error_of(R"({"prompt": "p", "win": "c", "lose": "d"})", ""),
            "it has the fields prompt, win, lose; try --map chosen=win,rejected=lose");
  EXPECT_EQ(error_of(R"({"query": "p", "win": "c", "lose": "d"})", ""),
            "it has the fields query, win, lose; try --map prompt=query,chosen=win,rejected=lose");
  EXPECT_EQ(error_of(R"({"input": "p", "output": "c"})", ""),
            "it has the fields input, output; try --map prompt=input,completion=output");
  EXPECT_EQ(of(R"({"input": "p", "output": "c"})", true, "prompt=input,completion=output"), "p[c]");
  EXPECT_NE(error_of(R"({"input": "p"})", "input=instruction").find("has no field 'instruction'"), std::string::npos);
  EXPECT_NE(error_of(R"({"input": "p"})", "input=instruction").find("the meaning comes first: instruction=input"),
            std::string::npos);
  EXPECT_EQ(testing::error_of([] { parse_field_map("reply=completion"); }),
            "map: 'reply' has no meaning in a row; the meaning comes first: completion=reply");
  EXPECT_NE(error_of("{", "").find("write each object on one line"), std::string::npos);
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
            "the fields history, label, system have no effect; toy train classify learns labels");
}

// What a row hands to the template, and the template does not read, is named.
TEST_F(RowForms, WhatTheTemplateDoesNotReadIsNamed) {
  const std::string turns =
      R"("messages": [{"role": "user", "content": "q", "name": "Ada"},
                      {"role": "assistant", "content": "a", "reasoning_content": "hm", "score": 3},
                      {"role": "user", "content": "r", "name": "Bo"}, {"role": "assistant", "content": "b"}])";
  const std::string line =
      "{" + turns + R"(, "documents": [{"text": "d"}], "chat_template_kwargs": {"style": "s", "k1": 1, "k2": 2}})";
  const auto notes = [&](const std::string& chat, const std::string& of_line) {
    const ChatTemplate t(chat);
    return ExampleMaker(*bytes_, &t, TrainOn::assistant).make(of_line).notes;
  };
  const auto unread = [](const std::string& field) {
    return "the field " + field + " has no effect: the chat template does not read it";
  };
  using Notes = std::vector<std::string>;
  const Notes ends = row("{" + turns + "}").notes;
  const Notes end(ends.begin() + 3, ends.end());  // nothing ends a turn of bytes
  EXPECT_EQ(Notes(ends.begin(), ends.begin() + 3),
            (Notes{unread("messages[].name"), unread("messages[].reasoning_content"), unread("messages[].score")}));
  const std::string loop =
      "{% for m in messages %}<{{ m.role }}>{{ m['content'] }}</>{% endfor %}{% if add_generation_prompt %}<assistant>"
      "{% endif %}";
  const auto with_end = [&](Notes list) {
    list.insert(list.end(), end.begin(), end.end());
    return list;
  };
  EXPECT_EQ(notes(loop, line),
            with_end({unread("documents"), unread("chat_template_kwargs.style"), unread("chat_template_kwargs.k1"),
                      unread("chat_template_kwargs.k2"), unread("messages[].name"),
                      unread("messages[].reasoning_content"), unread("messages[].score")}));
  const std::string shows =
      "{% macro m1(d) %}{{ d }}{% endmacro %}{% if style is defined %}{{ m1(documents) }}{% endif %}"
      "{% set ns = namespace(k1=0) %}{% for m in messages %}{{ m.name }}{% if 'thinking' in m %}{{ m.score }}"
      "{% endif %}{% endfor %}";
  EXPECT_EQ(notes(shows + loop, line),
            with_end({unread("chat_template_kwargs.k1"), unread("chat_template_kwargs.k2")}));
  // Whatever messages have is shown.
  EXPECT_EQ(notes("{% for m in messages %}{{ m | tojson }}{% endfor %}", "{" + turns + "}"),
            notes("{% for m in messages %}{{ m | tojson }}{% endfor %}",
                  R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})"));
  EXPECT_EQ(row(R"({"documents": [], "chat_template_kwargs": {}, "messages": [{"role": "user", "content": "q"},
                    {"role": "assistant", "content": "a"}]})")
                .notes,
            end);
  // Without a template no one reads any of it.
  EXPECT_EQ(
      row(R"({"instruction": "i", "output": "o", "documents": [1], "chat_template_kwargs": {"style": "s"}})", false)
          .notes[0],
      "the field documents has no effect without a chat template");
  EXPECT_NE(testing::error_of([&] {
              row("{" + turns + R"(, "chat_template_kwargs": {"documents": []}})");
            }).find("'chat_template_kwargs.documents' is no variable of its own"),
            std::string::npos);
  EXPECT_EQ(notes("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}",
                  R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
                                   {"role": "assistant", "content": "a"}]})")[0],
            "the chat template does not show what the system says");
}

// Fields whose names differ by their numbers only are several, messages with the same fault are one.
TEST_F(RowForms, NotesAreToldOnce) {
  std::string said;
  RowNotes notes([&](const std::string& text) { said += text + "\n"; });
  notes.add("f:1", {"the field k1 has no effect", "messages[1].tool_calls[0]: bad"});
  notes.add("f:2", {"the field k2 has no effect", "messages[12].tool_calls[3]: bad", "the field k1 has no effect"});
  EXPECT_EQ(said,
            "f:1: the field k1 has no effect (said once for this file)\n"
            "f:1: messages[1].tool_calls[0]: bad (said once for this file)\n"
            "f:2: the field k2 has no effect (said once for this file)\n");
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
}  // namespace toy::row_forms_test
