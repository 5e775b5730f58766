// Gemma 4's tokenizer: pieces whose merges are listed. Answers worked out by hand, ids of Hugging Face's tokenizers,
// and vocabularies that are none.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "golden_testing.h"
#include "text/spm/spm.h"
#include "text_testing.h"

namespace toy::gemma4_tokenizer_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

const std::string kMark = "\u2581";

int32_t add(SpmVocabulary& v, const std::string& token, TokenType type = TokenType::normal) {
  v.tokens.push_back(token);
  v.types.push_back(int32_t(type));
  return v.size() - 1;
}

/// Special tokens, the bytes, single characters, and what the merges make.
SpmVocabulary vocabulary_of(const Strings& characters, const Strings& merges, bool bytes = true) {
  SpmVocabulary v;
  v.source = "small";
  v.model = SpmModel::ranked;
  v.add_space_prefix = false;
  v.unknown = add(v, "<unk>", TokenType::unknown);
  v.bos = add(v, "<bos>", TokenType::control);
  v.eos = add(v, "<eos>", TokenType::control);
  for (int byte = 0; byte < 256 && bytes; ++byte) add(v, fmt::format("<0x{:02X}>", byte), TokenType::byte);
  for (const std::string& c : characters) add(v, c);
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    const std::string piece = merge.substr(0, space) + merge.substr(space + 1);
    if (std::find(v.tokens.begin(), v.tokens.end(), piece) == v.tokens.end()) add(v, piece);
    v.merges.push_back(merge);
  }
  return v;
}

std::string spelled(const SpmVocabulary& v, const Ids& ids) {
  std::string out;
  for (const int32_t id : ids) out += (out.empty() ? "" : "|") + v.tokens.at(size_t(id));
  return out;
}
std::string encoded(const SpmVocabulary& v, std::string_view text, EncodeOptions options = {}) {
  return spelled(v, SpmTokenizer(v).encode(text, options));
}

TEST(Gemma4Tokenizer, MergesGoByRankThenFromTheLeft) {
  const SpmVocabulary v =
      vocabulary_of({"a", "b", "c", kMark}, {"b c", "a b", "a bc", "a a", kMark + " a", kMark + "a b"});
  EXPECT_EQ(encoded(v, "abc"), "abc");
  EXPECT_EQ(encoded(v, "aab"), "a|ab");
  EXPECT_EQ(encoded(v, "aaaaa"), "aa|aa|a");
  EXPECT_EQ(encoded(v, " a a"), kMark + "a|" + kMark + "a");
  EXPECT_EQ(encoded(v, " ab"), kMark + "|ab");  // ab goes before the space and a
  EXPECT_EQ(encoded(v, "  "), kMark + "|" + kMark);
}

// abc has one rank by way of bc and another by way of ab, which no score of abc could say.
TEST(Gemma4Tokenizer, TheWayToAPieceCounts) {
  const SpmVocabulary v =
      vocabulary_of({"a", "b", "c", "d", "x"}, {"x b", "b c", "a bc", "c d", "a b", "ab c", "xb c"});
  EXPECT_EQ(encoded(v, "abcd"), "abc|d");
  EXPECT_EQ(encoded(v, "xbcd"), "xb|cd");  // c d goes before xb c
  EXPECT_EQ(encoded(v, "xbc"), "xbc");
  const SpmVocabulary other = vocabulary_of({"a", "b", "c", "d"}, {"a b", "c d", "ab c"});
  EXPECT_EQ(encoded(other, "abcd"), "ab|cd");
  EXPECT_EQ(encoded(other, "abc"), "abc");
}

/// The pair of the lowest rank, the leftmost of those, again and again.
Strings merged_by_hand(const Strings& merges, Strings parts) {
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = size_t(std::find(merges.begin(), merges.end(), parts[i] + " " + parts[i + 1]) - merges.begin());
      if (rank < best) best = rank, at = i;
    }
    if (best == merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + ptrdiff_t(at) + 1);
  }
}

// In any order, also where a merge comes before those that make its parts.
TEST(Gemma4Tokenizer, RandomMergesGiveWhatMergingByHandGives) {
  RandomText random(5);
  const Strings characters = {"a", "\u00e9", "\u4e2d", "\U0001f999", kMark};
  for (int round = 0; round < 100; ++round) {
    Strings symbols = characters, merges;
    for (int i = 0; i < 40; ++i) {
      const std::string left = symbols[random.below(uint32_t(symbols.size()))];
      const std::string right = symbols[random.below(uint32_t(symbols.size()))];
      if (std::find(merges.begin(), merges.end(), left + " " + right) != merges.end()) continue;
      symbols.push_back(left + right);
      merges.insert(merges.begin() + ptrdiff_t(random.below(uint32_t(merges.size() + 1))), left + " " + right);
    }
    const SpmVocabulary v = vocabulary_of(characters, merges);
    const SpmTokenizer tokenizer(v);
    for (int i = 0; i < 20; ++i) {
      Strings parts;
      std::string text;
      for (uint32_t n = 1 + random.below(25); n > 0; --n) {
        parts.push_back(characters[random.below(uint32_t(characters.size()))]);
        text += with_spaces(parts.back());
      }
      std::string by_hand;
      for (const std::string& part : merged_by_hand(merges, parts)) by_hand += (by_hand.empty() ? "" : "|") + part;
      ASSERT_EQ(spelled(v, tokenizer.encode(text)), by_hand) << text;
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(Gemma4Tokenizer, RunsOfLineBreaks) {
  SpmVocabulary v = vocabulary_of({"a", "\n", "\r", kMark}, {"\n \n", "a \n", "\n a", "\r \n", "a \r"});
  EXPECT_EQ(encoded(v, "\n"), "\n");
  EXPECT_EQ(encoded(v, "\n\n\n"), "\n\n|\n");
  add(v, "\n\n\n");  // no merge makes it
  EXPECT_EQ(encoded(v, "\n\n\n"), "\n\n\n");
  EXPECT_EQ(encoded(v, "a\n\n\na"), "a|\n\n\n|a");
  EXPECT_EQ(encoded(v, "\n\n\n\n"), "\n\n|\n\n");  // the run is no token
  EXPECT_EQ(encoded(v, "a\na"), "a|\n|a");         // no merge reaches across
  EXPECT_EQ(encoded(v, "a\r\na"), "a\r|\n|a");
  EXPECT_EQ(encoded(v, "\n \n"), "\n|" + kMark + "|\n");
}

TEST(Gemma4Tokenizer, CharactersWithoutATokenAreBytes) {
  const SpmVocabulary v = vocabulary_of({"a", "b", kMark}, {"a b"});
  EXPECT_EQ(encoded(v, "ab\u00e9ab"), "ab|<0xC3>|<0xA9>|ab");
  EXPECT_EQ(encoded(v, "\U0001f999"), "<0xF0>|<0x9F>|<0xA6>|<0x99>");
  EXPECT_EQ(encoded(v, "a\nb"), "a|<0x0A>|b");
  EXPECT_EQ(encoded(v, "a" + kMark + "b a"), "a|<0xE2>|<0x96>|<0x81>|b|" + kMark + "|a");
  EXPECT_EQ(encoded(v, "ab\xFF"), "ab|<0xFF>");
  EXPECT_EQ(encoded(v, "<0x61>"), "<0x3C>|<0x30>|<0x78>|<0x36>|<0x31>|<0x3E>");
}

TEST(Gemma4Tokenizer, UnknownCharactersWithoutByteTokens) {
  SpmVocabulary v = vocabulary_of({"a", kMark}, {"a a"}, false);
  EXPECT_EQ(encoded(v, "aa\u00e9\u00e9 x\ny"), "aa|<unk>|" + kMark + "|<unk>");
  v.unknown.reset();
  expect_contains(message_of([&] { SpmTokenizer(v).encode("aa\u00e9"); }),
                  "small: the vocabulary has no token for the character at byte 2 of the text");
}

TEST(Gemma4Tokenizer, AnEmptyTextGivesWhatFlagsAdd) {
  SpmVocabulary v = vocabulary_of({"a"}, {});
  EXPECT_EQ(SpmTokenizer(v).encode(""), Ids());
  v.add_bos = true;
  EXPECT_EQ(encode_prompt(SpmTokenizer(v), ""), Ids{*v.bos});
  v.add_eos = true;
  EXPECT_EQ(encode_complete(SpmTokenizer(v), ""), (Ids{*v.bos, *v.eos}));
  EXPECT_EQ(encode_prompt(SpmTokenizer(v), ""), Ids{*v.bos});
  v.add_bos = v.add_eos = false;
  EXPECT_EQ(encode_prompt(SpmTokenizer(v), ""), Ids());
}

// Files of the model "gpt2" with such a pre-tokenizer. llama.cpp begins texts of Sarvam's as the file says.
TEST(Gemma4Tokenizer, UnderOtherNames) {
  const SpmVocabulary v = vocabulary_of({"a", "b", kMark}, {"a b", kMark + " ab"});
  for (const std::string pre : {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}) {
    const TemporaryGguf file([&](gguf::Writer& writer) {
      SpmTokenizer(v).save(writer);
      writer.set("tokenizer.ggml.model", std::string("gpt2"));
      writer.set("tokenizer.ggml.pre", pre);
      writer.set("tokenizer.ggml.add_bos_token", false);
    });
    EXPECT_EQ(unsupported_tokenizer(file.open()), "");
    const auto loaded = load_tokenizer(file.open());
    EXPECT_EQ(loaded->encode(" ab"), SpmTokenizer(v).encode(" ab")) << pre;
    EXPECT_EQ(loaded->adds_bos(), pre != "sarvam-moe") << pre;
    const auto again = saved_and_loaded(*loaded);
    EXPECT_EQ(again->fingerprint(), loaded->fingerprint()) << pre;
    EXPECT_EQ(again->adds_bos(), loaded->adds_bos()) << pre;
  }
}

TEST(Gemma4Tokenizer, TokensWrittenOut) {
  SpmVocabulary v = vocabulary_of({"<", "b", "o", "s", ">", "a", kMark}, {"b o", "bo s", "< bos", "<bos >", "a a"});
  add(v, "<|turn>", TokenType::control);
  add(v, "  ", TokenType::user_defined);
  add(v, "aaa", TokenType::user_defined);
  // Merges lead to <bos>, which only parse_special gives.
  ASSERT_EQ(v.tokens[1], "<bos>");
  EXPECT_EQ(encoded(v, "a<bos>a"), "a|<bos|>|a");
  EXPECT_EQ(encoded(v, "a<bos>a", {.parse_special = true}), "a|<bos>|a");
  EXPECT_EQ(encoded(v, "<|turn>a", {.parse_special = true}), "<|turn>|a");
  EXPECT_EQ(encoded(v, "aaaa   a"), "aaa|a|  |" + kMark + "|a");
  const SpmTokenizer tokenizer(v);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<|turn>a  <bos>", {.parse_special = true})), "a  ");
}

// Merges may lead to tokens that stand for something else than their names; texts do not give those.
TEST(Gemma4Tokenizer, MergesThatMakeNoText) {
  SpmVocabulary v =
      vocabulary_of({"<", "0", "x", ">", "6", "1", "a", kMark, "<0x", "61>"}, {"< 0", "<0 x", "6 1", "61 >"});
  v.merges.push_back("<0x 61>");  // "<0x61>", the byte
  add(v, "a" + kMark, TokenType::user_defined);
  v.merges.push_back("a " + kMark);
  EXPECT_EQ(encoded(v, "<0x61>"), "<0x|61>");
  EXPECT_EQ(encoded(v, "a "), "a|" + kMark);
  EXPECT_EQ(encoded(v, "a" + kMark), "a" + kMark);
  for (const std::string& text : {std::string("<0x61>a "), "a" + kMark + " a"})
    EXPECT_EQ(SpmTokenizer(v).decode(SpmTokenizer(v).encode(text)), text);
}

TEST(Gemma4Tokenizer, AnyBytesComeBack) {
  RandomText random(7);
  SpmVocabulary v = vocabulary_of({"t", "h", "e", "\n", "\u00e9", "\u0438", "\u043d", "\u0430", kMark},
                                  {"t h", kMark + " th", "\u043d \u0430", "\n \n", kMark + " " + kMark});
  add(v, "<|x|>", TokenType::user_defined);
  const SpmTokenizer tokenizer(v);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(60) : random.unicode(20) + "<|x|>" + random.bytes(4);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

SpmVocabulary golden_vocabulary(const nlohmann::json& tokenizer) {
  SpmVocabulary v;
  v.source = "golden";
  v.model = SpmModel::ranked;
  v.add_bos = false;
  v.add_space_prefix = false;
  const auto& model = tokenizer["model"];
  v.tokens.resize(model["vocab"].size());
  for (const auto& [text, id] : model["vocab"].items()) v.tokens[id.get<size_t>()] = text;
  for (const std::string& token : v.tokens)
    v.types.push_back(int32_t(byte_of_name(token) ? TokenType::byte : TokenType::normal));
  for (const auto& added : tokenizer["added_tokens"]) v.types[added["id"].get<size_t>()] = int32_t(TokenType::control);
  for (const auto& merge : model["merges"])
    v.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return v;
}

TEST(Gemma4Tokenizer, GoldenIds) {
  const TokenizerGolden golden;
  const auto own = parse_json<nlohmann::json>(slurp(TOY_SOURCE_DIR "/tests/golden/gemma4_tokenizer.golden.json"));
  const SpmTokenizer tokenizer(golden_vocabulary(own["tokenizer"]));
  golden.compare(
      own,
      [&](const std::string& with_marks) {
        const std::string text = with_spaces(with_marks);
        const Ids ids = tokenizer.encode(text);
        EXPECT_EQ(tokenizer.decode(ids), text);
        std::vector<int64_t> numbers;
        for (const int32_t id : ids) numbers.push_back(id + 1);
        return numbers;
      },
      1);
}

// A line of a megabyte, and pairs that are all the same: a square would take hours.
TEST(Gemma4Tokenizer, LongRunsStayFast) {
  Strings merges;
  for (size_t n = 1; n < 64; n *= 2) merges.push_back(std::string(n, 'a') + " " + std::string(n, 'a'));
  for (const char* merge : {"a b", "b a", "ab a", "\n \n", "\n\n \n\n"}) merges.push_back(merge);
  merges.push_back(kMark + " " + kMark);
  const SpmTokenizer tokenizer(vocabulary_of({"a", "b", "c", "\n", kMark}, merges));
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), (1u << 20) / 64);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, '\n')).size(), (1u << 20) / 4);
  for (const std::string& text : long_runs(1 << 20)) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Gemma4Tokenizer, ComesBackFromAFile) {
  SpmVocabulary v = vocabulary_of({"a", "b", kMark}, {"a b", kMark + " ab"});
  const int32_t turn = add(v, "<turn|>", TokenType::control), response = add(v, "<|tool_response>", TokenType::control);
  v.add_bos = true;
  v.end_of_generation = {*v.eos, turn, response};
  const SpmTokenizer tokenizer(v);
  const auto loaded = saved_and_loaded(tokenizer);
  EXPECT_EQ(loaded->kind(), "gemma4");
  EXPECT_EQ(loaded->fingerprint(), tokenizer.fingerprint());
  EXPECT_EQ(loaded->end_of_generation(), (Ids{*v.eos, turn, response}));
  EXPECT_FALSE(loaded->adds_eos());
  EXPECT_EQ(spelled(v, encode_prompt(*loaded, " ab")), "<bos>|" + kMark + "ab");
  std::swap(v.merges[0], v.merges[1]);
  EXPECT_NE(SpmTokenizer(v).fingerprint(), tokenizer.fingerprint());
}

// As llama.cpp's converter writes it: scores that mean nothing. The first of such files said that bos is not added.
TEST(Gemma4Tokenizer, BosIsAddedWhateverTheFileSays) {
  const SpmVocabulary v = vocabulary_of({"a", "b"}, {"a b"});
  for (const bool has_bos : {true, false}) {
    const TemporaryGguf file([&](gguf::Writer& writer) {
      writer.set("tokenizer.ggml.model", gguf::Value(std::string("gemma4")));
      writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
      writer.set("tokenizer.ggml.scores", gguf::Value(gguf::Array(std::vector<float>(v.tokens.size(), -1000))));
      writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(v.types)));
      writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(v.merges)));
      writer.set("tokenizer.ggml.add_bos_token", gguf::Value(false));
      if (has_bos) writer.set("tokenizer.ggml.bos_token_id", gguf::Value(uint32_t(*v.bos)));
    });
    const auto tokenizer = load_tokenizer(file.open());
    EXPECT_EQ(tokenizer->adds_bos(), has_bos);
    EXPECT_EQ(spelled(v, encode_prompt(*tokenizer, "ab")), has_bos ? "<bos>|ab" : "ab");
  }
}

TEST(Gemma4Tokenizer, RefusesWhatIsNoVocabulary) {
  struct Bad {
    std::function<void(SpmVocabulary&)> spoil;
    const char* message;
  };
  const std::vector<Bad> cases = {
      {[](auto& v) { v.merges.push_back("a c"); }, "tokenizer.ggml.merges[1], \"a c\", names \"c\", which is no token"},
      {[](auto& v) { v.merges.push_back("b a"); }, "merges[1], \"b a\", names \"ba\", which is no token"},
      {[](auto& v) { v.merges.push_back("ab"); }, "merges[1] is \"ab\", not two tokens with a space between"},
      {[](auto& v) { v.merges.push_back(""); }, "merges[1] is \"\""},
      {[](auto& v) { v.merges.push_back("a "); }, "merges[1] is \"a \""},
      {[](auto& v) { v.merges.push_back(" a"); }, "merges[1] is \" a\""},
      {[](auto& v) { v.tokens.back() = "a"; }, "\"a\" is there twice"},
      {[](auto& v) { v.tokens[10] = "<0xZZ>"; }, "a byte token (type 6) is written like <0x0A>"},
      {[](auto& v) { v.add_eos = true, v.eos.reset(); }, "tokenizer.ggml.add_eos_token is true, but"},
  };
  for (const Bad& bad : cases) {
    SpmVocabulary v = vocabulary_of({"a", "b"}, {"a b"});
    bad.spoil(v);
    const std::string message = message_of([&] { SpmTokenizer tokenizer(v); });
    expect_contains(message, "small: ");
    expect_contains(message, bad.message);
  }
  const TemporaryGguf without([](gguf::Writer& writer) {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gemma4")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(Strings{"a", "b"})));
  });
  const std::string message = message_of([&] { load_tokenizer(without.open()); });
  expect_contains(message, without.path());
  expect_contains(message, "tokenizer.ggml.merges");
}

}  // namespace
}  // namespace toy::gemma4_tokenizer_test
