// The masks of tokens under a grammar, against trying every token.
#include "toy/text/constraint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/grammar/grammar.h"

namespace toy::constraint_test {
namespace {

const char* const kJson = R"(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null")
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? ws "}"
array  ::= "[" ws ( value ("," ws value)* )? ws "]"
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\""
number ::= "-"? ([0-9] | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})?
ws     ::= [ \n\t]{0,4}
)";

// Tokens of several characters of JSON, and of parts of characters.
std::shared_ptr<const Tokenizer> tokenizer() {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    for (int k = 0; k < 5; ++k) text += char('a' + (i * i + 7 * k * i) % 26);
    text += "{\"name\": \"caf\xC3\xA9 " + std::to_string(i * i % 91) +
            "\", \"list\": [1, -2.5e3, true, null], \"x\": {\"y\": \"\\n\"}}\n";
  }
  return train_bpe(text, 380);
}

bool allowed(const std::vector<uint64_t>& mask, int32_t id) { return mask[size_t(id) / 64] >> (size_t(id) % 64) & 1; }

// Follows random texts of a grammar. At every place, exactly those tokens may come after which the text can go on.
void check_masks(const Grammar& g, uint64_t seed, int texts, int longest) {
  const auto t = tokenizer();
  const TokenTrie trie(*t);
  const auto begin = g.constraint(trie);
  const Philox random(seed, "texts");
  uint64_t draw = 0;

  for (int n = 0; n < texts; ++n) {
    std::unique_ptr<TokenConstraint> c = begin->clone();
    std::string text;
    for (int i = 0; i < longest && !c->finished(); ++i) {
      std::vector<uint64_t> mask(size_t(t->vocab_size() + 200) / 64, ~uint64_t(0));  // logits beyond the vocabulary
      c->mask(mask);
      std::vector<int32_t> list;
      for (int32_t id = 0; id < int32_t(mask.size() * 64); ++id) {
        const bool is_end = t->eos() == id;
        const std::string bytes = id < t->vocab_size() && !is_end ? t->token_bytes(id) : "";
        const bool want = is_end ? g.matches(text) : !bytes.empty() && g.begins(text + bytes);
        ASSERT_EQ(allowed(mask, id), want) << "'" << text << "' + '" << bytes << "'";
        if (want) list.push_back(id);
      }
      ASSERT_FALSE(list.empty()) << text;
      const int32_t id = list[random.below(draw++, list.size())];
      if (i % 3 == 0) c = c->clone();
      c->accept(id);
      if (t->eos() == id) {
        EXPECT_TRUE(c->finished());
        EXPECT_TRUE(g.matches(text));

        break;
      }
      text += t->token_bytes(id);
    }
    if (c->finished()) {
      EXPECT_TRUE(g.matches(text)) << text;
    }
  }
}

TEST(GrammarConstraint, MasksAreWhatTryingEveryTokenGives) {
  check_masks(parse_gbnf(kJson), 1, 12, 25);
  check_masks(parse_gbnf("root ::= \"a\" root \"b\" | \"ab\" | [^a]"), 2, 10, 12);
  check_masks(parse_gbnf("root ::= (\"name\" | \"na\" x)+ \":\"?\nx ::= \"me\" | \"m\" x \"e\" | "), 3, 10, 12);
  check_masks(parse_gbnf("root ::= (item \", \")* item\nitem ::= \"\\\"\" [^\"]{0,5} \"\\\"\" | [0-9]+"), 4, 10, 20);
  check_masks(parse_gbnf("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" | \"a\" root root"), 5, 5, 12);
}

TEST(GrammarConstraint, EndsOnlyWhereTheTextIsComplete) {
  const auto t = tokenizer();
  const auto begin = parse_gbnf("root ::= \"ab\" \"c\"*").constraint(TokenTrie(*t));
  const auto c = begin->clone();
  const int32_t eos = *t->eos();
  std::vector<uint64_t> mask(size_t(t->vocab_size() + 63) / 64);
  c->mask(mask);
  EXPECT_FALSE(allowed(mask, eos));
  EXPECT_THROW(c->accept(eos), Error);
  EXPECT_THROW(c->accept('b'), Error);
  EXPECT_THROW(c->accept(-1), Error);
  EXPECT_THROW(c->accept(t->vocab_size()), Error);
  c->accept('a');
  c->accept('b');
  EXPECT_FALSE(c->finished());
  c->mask(mask);
  EXPECT_TRUE(allowed(mask, eos));
  EXPECT_TRUE(allowed(mask, 'c'));
  const auto other = c->clone();
  c->accept(eos);
  EXPECT_TRUE(c->finished());
  EXPECT_THROW(c->accept('c'), Error);
  c->mask(mask);
  for (const uint64_t word : mask) EXPECT_EQ(word, 0u);
  other->accept('c');
  EXPECT_FALSE(other->finished());
}

// Tables are thrown away when they grow: the constraint continues as before.
TEST(GrammarConstraint, LongTextsStayBounded) {
  const auto t = make_byte_tokenizer();
  const TokenTrie trie(*t);
  const auto c = parse_gbnf("root ::= item | item \",\" root \";\"\nitem ::= [0-9]{1,3}").constraint(trie)->clone();
  for (int i = 0; i < 30000; ++i)
    for (const char ch : {'1', '2', ','}) c->accept(ch);
  c->accept('7');
  for (int i = 0; i < 30000; ++i) {
    EXPECT_FALSE(c->finished());
    c->accept(';');
  }
  EXPECT_TRUE(c->finished());
}

// Which bytes may come next, of a tokenizer on bytes.
std::string next_of(TokenConstraint& c) {
  std::vector<uint64_t> mask(4);
  c.mask(mask);
  std::string bytes;
  for (int32_t id = 0; id < 256; ++id)
    if (allowed(mask, id)) bytes += char(id);
  return bytes;
}

void accept_all(TokenConstraint& c, const std::string& text) {
  for (const char byte : text) c.accept(uint8_t(byte));
}

TEST(LazyConstraint, FollowsFromTheTriggerOn) {
  const auto t = make_byte_tokenizer();
  const Grammar g = parse_gbnf("root ::= \"<<x>\" [0-9] \";\"");
  const auto begin = g.constraint(TokenTrie(*t), {{"<<x>"}}, false);
  const auto c = begin->clone();
  EXPECT_EQ(next_of(*c).size(), 256u);
  accept_all(*c, "a <<<x");  // the last two of three begin it
  EXPECT_EQ(next_of(*c).size(), 256u);
  accept_all(*c, ">");
  EXPECT_EQ(next_of(*c), "0123456789");
  const auto other = c->clone();
  accept_all(*c, "7");
  EXPECT_EQ(next_of(*c), ";");
  EXPECT_THROW(accept_all(*c->clone(), "7<<x>"), Error);
  accept_all(*c, ";");
  EXPECT_FALSE(c->finished());
  EXPECT_EQ(next_of(*c).size(), 256u);
  accept_all(*c, "free <<x>");
  EXPECT_EQ(next_of(*c), "0123456789");
  EXPECT_EQ(next_of(*other), "0123456789");

  const auto once = g.constraint(TokenTrie(*t), {{"<<x>"}}, true)->clone();
  accept_all(*once, "<<x>1;");
  EXPECT_TRUE(once->finished());
  EXPECT_EQ(next_of(*once), "");

  const auto at_start = g.constraint(TokenTrie(*t), {{"<<x>", true}}, false)->clone();
  accept_all(*at_start->clone(), "a<<x>b");  // free
  accept_all(*at_start, "<<x>");
  EXPECT_EQ(next_of(*at_start), "0123456789");
  accept_all(*at_start, "1;<<x>");
  EXPECT_EQ(next_of(*at_start).size(), 256u);
  EXPECT_THROW(g.constraint(TokenTrie(*t), {{"y"}}, false), Error);
}

// A token that goes on after the trigger in a way that the grammar does not know leaves the text free.
TEST(LazyConstraint, TokensThatGoOnAfterTheTrigger) {
  const auto t = tokenizer();
  int32_t long_one = -1;
  for (int32_t id = 0; id < t->vocab_size(); ++id)
    if (t->token_bytes(id).size() >= 3 && t->eos() != id) long_one = id;
  ASSERT_GE(long_one, 0);
  const std::string bytes = t->token_bytes(long_one);
  const Grammar g = parse_gbnf(fmt::format("root ::= \"\\x{:02x}\\x00\"", uint8_t(bytes[0])));
  const auto c = g.constraint(TokenTrie(*t), {{bytes.substr(0, 1)}}, false)->clone();
  c->accept(long_one);
  std::vector<uint64_t> mask(size_t(t->vocab_size() + 63) / 64);
  c->mask(mask);
  EXPECT_TRUE(allowed(mask, long_one));
}

}  // namespace
}  // namespace toy::constraint_test
