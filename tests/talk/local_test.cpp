#include "talk/local.h"

#include <gtest/gtest.h>

#include "chat_model.h"
#include "talk/conversation.h"
#include "testing/errors.h"

namespace toy::talk {
namespace {

Reply ask(ChatModel& m, const Conversation& c, const ReplySettings& settings, uint64_t again = 0) {
  std::string shown;
  const Reply r = m.local->reply(
      c.messages(), settings, again, [&](const ReplyPart& p) { shown += p.text; }, [] { return false; });
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

TEST(LocalModel, AThoughtThatTheTemplateBeginsIsPartOfTheMessage) {
  ChatModel m(std::string(kTemplate) + "<think>\n");
  Conversation c;
  c.add_user("hello");
  EXPECT_TRUE(ask(m, c, ascii(5)).message.at("content").get<std::string>().starts_with("<think>\n"));
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
}  // namespace toy::talk
