#include "talk/local.h"

#include <gtest/gtest.h>

#include "chat_model.h"
#include "dialog/control_tokens.h"
#include "talk/conversation.h"
#include "talk/tools.h"
#include "testing/errors.h"
#include "toy/base/json_text.h"
#include "toy/grammar/grammar.h"

namespace toy::talk::local_test {
namespace {

Reply ask(ChatModel& m, const Conversation& c, const ReplySettings& settings, uint64_t again = 0) {
  std::string shown;
  const Reply r = m.local->reply(
      c.messages(), settings, again, [&](const ReplyPart& p) { shown += p.thought ? "" : p.text; },
      [] { return false; });
  EXPECT_EQ(shown, r.message.at("content"));
  return r;
}

TEST(LocalModel, TheSecondTurnComputesOnlyWhatIsNew) {
  for (const size_t cache : {size_t(0), size_t(1) << 20}) {
    ChatModel m(kTemplate, cache);
    Conversation c;
    c.add_user(std::string(100, 'q'));
    const Reply first = ask(m, c, ascii(20));
    EXPECT_EQ(first.tokens, 20);
    EXPECT_EQ(first.end, ReplyEnd::length);
    EXPECT_EQ(first.prompt_tokens, 6 + 100 + 11);
    EXPECT_EQ(first.computed, first.prompt_tokens);
    c.add(first.message);
    c.add_user("more");
    const Reply second = ask(m, c, ascii(20));
    // The last token of an answer is never computed with.
    EXPECT_EQ(second.computed, second.prompt_tokens - (first.prompt_tokens + 19));
    ChatModel fresh;
    EXPECT_EQ(ask(fresh, c, ascii(20)).message, second.message);
    const Reply again = ask(m, c, ascii(20));
    EXPECT_EQ(again.message, second.message);
    EXPECT_EQ(again.computed, 1);
  }
}

TEST(LocalModel, AgainTakesTheNextSeed) {
  ChatModel m;
  Conversation c;
  c.add_user("hello");
  ReplySettings s = ascii(20, 1);
  const Reply first = ask(m, c, s), second = ask(m, c, s, 1);
  EXPECT_NE(first.message, second.message);
  s.generate.sampler.seed = 1;
  EXPECT_EQ(ask(m, c, s).message, second.message);
}

TEST(LocalModel, AStopStringEndsAnAnswer) {
  ChatModel m;
  Conversation c;
  c.add_user("hello");
  const std::string whole = ask(m, c, ascii(40)).message.at("content");
  ReplySettings s = ascii(40);
  s.stops = {whole.substr(10, 3)};
  const Reply cut = ask(m, c, s);
  EXPECT_EQ(cut.message.at("content"), whole.substr(0, whole.find(s.stops[0])));
  EXPECT_EQ(cut.end, ReplyEnd::done);
}

TEST(LocalModel, AConversationThatDoesNotFitSaysWhatWouldHaveToGo) {
  ChatModel m;
  Conversation c;
  c.set_system("S");
  for (int i = 0; i < 5; ++i) {
    c.add_user(std::string(80, char('a' + i)));
    c.add({{"role", "assistant"}, {"content", "fine"}});
  }
  c.add_user("last");
  const auto length = [&](size_t dropped) {  // in the template
    Conversation rest = c;
    rest.drop_oldest(dropped);
    size_t n = 11;
    for (const auto& message : rest.messages())
      n += 2 + message.at("role").get<std::string>().size() + message.at("content").get<std::string>().size();
    return n;
  };
  ASSERT_GT(length(0), 512u);
  try {
    ask(m, c, ascii(5));
    FAIL() << "it does not fit";
  } catch (const DoesNotFit& e) {
    toy::testing::expect_contains(e.what(), std::to_string(length(0)) + " tokens");
    toy::testing::expect_contains(e.what(), "512");
    EXPECT_LE(length(e.oldest_turns), 384u) << "a quarter of the context is left";
    EXPECT_GT(length(e.oldest_turns - 1), 384u);
    c.drop_oldest(e.oldest_turns);
  }
  EXPECT_EQ(ask(m, c, ascii(5)).tokens, 5);
  const Reply all = ask(m, c, ascii(-1));
  EXPECT_EQ(all.prompt_tokens + all.tokens, 512);
  c.clear();
  c.add_user(std::string(600, 'x'));
  try {
    ask(m, c, ascii(5));
    FAIL() << "it does not fit";
  } catch (const DoesNotFit& e) {
    EXPECT_EQ(e.oldest_turns, 0u);
  }
}

TEST(LocalModel, AnInterruptedAnswerIsKept) {
  ChatModel m;
  Conversation c;
  c.add_user(std::string(100, 'q'));
  std::string shown;
  int parts = 0;
  const Reply r = m.local->reply(
      c.messages(), ascii(-1), 0,
      [&](const ReplyPart& p) {
        shown += p.text;
        ++parts;
      },
      [&] { return parts >= 3; });
  EXPECT_EQ(r.message.at("content"), shown);
  EXPECT_EQ(r.end, r.tokens == 512 - 117 ? ReplyEnd::length : ReplyEnd::stopped);
  const Reply none = m.local->reply(
      c.messages(), ascii(-1), 0, [](const ReplyPart&) {}, [] { return true; });
  EXPECT_LT(none.tokens, 100);
  ChatModel fresh;
  EXPECT_EQ(ask(m, c, ascii(20)).message, ask(fresh, c, ascii(20)).message);
}

// What the model writes is this text.
ReplySettings writes(const ChatModel& m, const std::string& text, const std::vector<int32_t>& marks = {}) {
  ReplySettings s = ascii(-1);
  const std::string gbnf = "root ::= " + json_text(nlohmann::json(text));
  s.generate.sampler.constraint = parse_gbnf(gbnf, "text").constraint(TokenTrie(*m.model.tokenizer, marks));
  return s;
}

ordered_json thought_and_answer(const ordered_json& calls = nullptr) {
  ordered_json m{{"role", "assistant"}, {"content", "yes"}, {"reasoning_content", "hm"}};
  if (!calls.is_null()) m["tool_calls"] = calls;
  return m;
}

TEST(LocalModel, ThoughtsOfEveryMarkedTemplate) {
  Conversation c;
  c.add_user("hello");
  for (const auto& [in_template, text] : std::vector<std::pair<std::string, std::string>>{
           {"[THINK]", "[THINK]hm[/THINK]yes"},
           {"<seed:think>", "<seed:think>hm</seed:think>yes"},
           {"<|START_THINKING|>", "<|START_THINKING|>hm<|END_THINKING|>yes"},
           {"</think>", "<think>hm</think>yes"},
           {"<|channel>", "<|channel>thought\nhm<channel|>yes"},
           {"tools {% if tools %}{% endif %} <|channel|> <|message|>",
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes"}}) {
    ChatModel m("{% if false %}" + in_template + "{% endif %}" + kTemplate);
    std::string shown;
    const Reply r = m.local->reply(
        c.messages(), writes(m, text), 0,
        [&](const ReplyPart& p) { shown += (p.thought ? "*" : "") + std::string(p.text); }, [] { return false; });
    EXPECT_EQ(r.message, thought_and_answer()) << in_template;
    std::erase(shown, '*');
    EXPECT_EQ(shown, "hmyes");
  }
}

TEST(LocalModel, MarksThatAreControlTokens) {
  const auto tokenizer = toy::testing::control_tokens({"[THINK]", "[/THINK]", "<|end|>"});
  ChatModel m(std::string(kTemplate) + "{# [THINK] #}", 0, tokenizer);
  Conversation c;
  c.add_user("hello");
  ReplySettings s = writes(m, "[THINK]hm[/THINK]yes", {256, 257});
  for (const int32_t mark : {256, 257}) s.generate.sampler.logit_bias.emplace_back(mark, 1000);
  const Reply r = ask(m, c, s);
  EXPECT_EQ(r.message, thought_and_answer());
  EXPECT_LE(r.tokens, 8);  // [THINK] h m [/THINK] y e s <|end|>
}

TEST(LocalModel, AThoughtThatTheTemplateHasBegun) {
  ChatModel m(std::string(kTemplate) + "<think>\n");
  Conversation c;
  c.add_user("hello");
  EXPECT_EQ(ask(m, c, writes(m, "hm\n</think>\n\nyes")).message, thought_and_answer());
}

constexpr const char* kToolTemplate =
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(LocalModel, CallsTools) {
  ChatModel m(kToolTemplate);
  Conversation c;
  c.add_user("hello");
  ReplySettings s = ascii(200);
  const ordered_json three = {{"const", 3}}, one = {{"const", "x"}};
  s.tools = {{{"type", "function"},
              {"function",
               {{"name", "f"},
                {"parameters",
                 {{"type", "object"},
                  {"properties", {{"n", three}}},
                  {"required", {"n"}},
                  {"additionalProperties", false}}}}}}};
  m.local->require_tools(s.tools);
  s.form = {.kind = dialog::TextForm::json_schema, .schema = one, .grammar = "", .field = "schema"};
  s.generate.sampler.logit_bias.emplace_back('<', 1000);
  for (const char blank : {' ', '\n', '\t', '\r'}) s.generate.sampler.logit_bias.emplace_back(blank, -1000);
  const Reply r = ask(m, c, s);
  ASSERT_TRUE(r.message.contains("tool_calls")) << r.message;
  const ordered_json call = r.message.at("tool_calls")[0];
  EXPECT_EQ(call.at("function"), (ordered_json{{"name", "f"}, {"arguments", {{"n", 3}}}}));
  EXPECT_FALSE(call.at("id").get<std::string>().empty());
  EXPECT_EQ(r.message.at("content"), "");
  // The next prompt has call, result and tools.
  ordered_json message = r.message;
  message["tool_calls"] = ordered_json::array({call});
  c.add(message);
  c.add(result_message(call, "nine"));
  s.form = {};
  const int64_t with_tools = ask(m, c, s).prompt_tokens;
  s.tools = nullptr;
  EXPECT_EQ(with_tools, ask(m, c, s).prompt_tokens + 3);  // [f]
}

TEST(LocalModel, ATemplateMayRefuse) {
  ChatModel m;
  Conversation c;
  c.add_user("no");
  toy::testing::expect_contains(toy::testing::message_of([&] { ask(m, c, ascii(5)); }), "not this one");
  c.undo();
  c.add_user("yes");
  EXPECT_EQ(ask(m, c, ascii(5)).tokens, 5);
}

}  // namespace
}  // namespace toy::talk::local_test
