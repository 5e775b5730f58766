// .model files that are none: each is refused with the file's name and the reason, whatever its bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "spm_raw.h"
#include "text_testing.h"

namespace toy::spm_model_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> parse(const std::string& bytes) {
  return load_spm_model(std::as_bytes(std::span(bytes.data(), bytes.size())), "small.model");
}

std::string refusal(const std::string& bytes) {
  const std::string message = message_of([&] { parse(bytes); });
  expect_contains(message, "small.model: ");
  return message;
}

/// Reads it, and uses it if it can be read; "" or the message.
std::string try_it(const std::string& bytes) {
  try {
    const auto tokenizer = parse(bytes);
    tokenizer->decode(tokenizer->encode("ab \xC3\xA9 a\n ba"));
    try {
      tokenizer->encode("ab\xFF a");
    } catch (const EncodeError& e) {  // of a vocabulary without byte tokens
      EXPECT_EQ(e.offset(), 2u);
    }
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
    expect_contains(e.what(), "small.model: ");
    return e.what();
  }
}

TEST(SpmModelFile, IsRead) {
  const auto unigram = parse(small_model(1)), bpe = parse(small_model(2));
  EXPECT_EQ(unigram->kind(), "unigram");
  EXPECT_EQ(bpe->kind(), "spm");
  for (const auto* tokenizer : {unigram.get(), bpe.get()}) {
    EXPECT_EQ(tokenizer->vocab_size(), 7);
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    EXPECT_EQ(tokenizer->encode("abxyb a"), (Ids{5, 0, 4, 6, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{1, 5, 6, 3, 2}), "ab a");
  }
}

TEST(SpmModelFile, DefaultsAreThoseOfTheProto) {
  const auto tokenizer = parse(small_pieces().bytes);  // unigram, with a space in front and none too many
  EXPECT_EQ(tokenizer->kind(), "unigram");
  EXPECT_EQ(tokenizer->encode("  a  b "), (Ids{6, 3, 6, 4}));
  // A piece without score and type, and fields that nobody knows.
  const auto other = parse(small_pieces()
                               .message(1, Proto().text(1, "c").number(300, 7).text(301, "x"))
                               .number(400, 1)
                               .real(401, 1)
                               .text(402, "y")
                               .bytes);
  EXPECT_EQ(other->token_bytes(7), "c");
}

TEST(SpmModelFile, EveryTruncationIsRefusedOrRead) {
  const std::string whole = small_model();
  int refused = 0;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) refused += !try_it(whole.substr(0, bytes)).empty();
  EXPECT_GT(refused, int(whole.size()) * 3 / 4);  // the rest end between two fields
  EXPECT_EQ(try_it(whole), "");
}

TEST(SpmModelFile, FlippedBytesAreRefusedOrRead) {
  RandomText random(90);
  int refused = 0;
  constexpr int kMutations = 20000;
  for (int round = 0; round < kMutations; ++round) {
    std::string bytes = small_model(1 + round % 2);
    for (uint32_t n = 1 + random.below(3); n > 0; --n) {
      bytes[random.below(uint32_t(bytes.size()))] = char(random.below(256));
    }
    refused += !try_it(bytes).empty();
  }
  EXPECT_GT(refused, kMutations / 10);
  EXPECT_LT(refused, kMutations);
}

struct Bad {
  const char* name;
  std::string bytes;
  const char* message;
};

TEST(SpmModelFile, RefusesWhatIsNoMessage) {
  const std::string model = small_model();
  const std::vector<Bad> all = {
      {"empty", "", "there are no pieces"},
      {"field 0", model + std::string("\x02\x00", 2), "0 is the number of no field"},
      {"huge field", model + "\xFA\xFF\xFF\xFF\xFF\xFF\x01", "is the number of no field"},
      {"group", model + "\x33", "wire type 3"},
      {"wire type 7", model + "\x37", "wire type 7"},
      {"cut key", model + "\x80", "a number is cut off"},
      {"long varint", model + "\x30" + std::string(10, '\xFF') + "\x01", "more than 64 bits"},
      {"varint of 70 bits", model + "\x30" + std::string(9, '\xFF') + "\x02", "more than 64 bits"},
      {"huge length", Proto().varint(1 << 3 | 2).varint(~uint64_t(0)).bytes,
       "18446744073709551615 bytes are announced"},
      {"length by one", Proto().varint(1 << 3 | 2).varint(2).bytes + "a",
       "2 bytes are announced, but 1 are left (at byte 0)"},
      {"inner length", Proto().text(1, "\x0A\x05x").bytes, "5 bytes are announced, but 1 are left (at byte 2)"},
      {"cut float", Proto().text(1, std::string("\x15") + "ab").bytes, "4 bytes are announced, but 2 are left"},
      {"cut double", model + "\x31xyz", "8 bytes are announced, but 3 are left"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.name);
    expect_contains(refusal(bad.bytes), bad.message);
  }
}

TEST(SpmModelFile, RefusesWrongWireTypes) {
  const std::vector<Bad> all = {
      {"pieces", Proto().number(1, 5).bytes, "pieces is a varint, not a string or message"},
      {"piece", small_pieces().message(1, Proto().number(1, 5)).bytes, "pieces.piece is a varint"},
      {"score", small_pieces().message(1, Proto().text(1, "c").number(2, 5)).bytes,
       "pieces.score is a varint, not four"},
      {"type", small_pieces().message(1, Proto().text(1, "c").real(3, 5)).bytes,
       "pieces.type is four bytes, not a var"},
      {"spec", small_pieces().number(2, 5).bytes, "trainer_spec is a varint"},
      {"model type", small_pieces().message(2, Proto().text(3, "bpe")).bytes, "trainer_spec.model_type is a string"},
      {"bos", small_pieces().message(2, Proto().real(41, 1)).bytes, "trainer_spec.bos_id is four bytes"},
      {"prefix", small_pieces().message(3, Proto().text(3, "")).bytes, "normalizer_spec.add_dummy_prefix is a string"},
      {"map", small_pieces().message(3, Proto().number(2, 0)).bytes,
       "normalizer_spec.precompiled_charsmap is a varint"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.name);
    expect_contains(refusal(bad.bytes), bad.message);
  }
}

TEST(SpmModelFile, RefusesWhatIsNoVocabulary) {
  const auto piece = [](std::string_view text, float score, int type = 1) {
    return small_pieces().piece(text, score, type).bytes;
  };
  const auto trainer = [](const Proto& spec) { return small_pieces().message(2, spec).bytes; };
  const auto normalizer = [](const Proto& spec) { return small_pieces().message(3, spec).bytes; };
  const std::string no_unknown = Proto().piece("a", 0).bytes;
  const std::vector<Bad> all = {
      {"empty piece", piece("", 0), "pieces[7] is empty"},
      {"twice", piece("a", 0), "pieces: \"a\" is there twice, with the ids 3 and 7"},
      {"utf-8", piece("\xC3", 0), "pieces[7] is not UTF-8"},
      {"nan", piece("c", NAN), "pieces.score[7] (token \"c\") is not a finite number"},
      {"infinite", piece("c", -INFINITY), "pieces.score[7] (token \"c\") is not a finite number"},
      {"bpe nan", small_pieces().piece("c", NAN).message(2, small_trainer_spec(2)).bytes, "is not a number"},
      {"type 0", piece("c", 0, 0), "pieces.type[7] (token \"c\") is 0, not within 1 to 6"},
      {"type -1", piece("c", 0, -1), "is -1, not within 1 to 6"},
      {"no unknown", no_unknown, "there is no unknown piece"},
      {"two unknown", piece("<u>", 0, 2), "there are two unknown pieces, with the ids 0 and 7"},
      {"bytes", piece("<0x00>", 0, 6), "byte pieces, but trainer_spec.byte_fallback is off"},
      {"few bytes", small_pieces().piece("<0x00>", 0, 6).message(2, Proto().number(35, 1)).bytes,
       "1 byte pieces, not 256"},
      {"bos", trainer(Proto().number(41, 7)), "trainer_spec.bos_id is 7, outside the vocabulary of 7 pieces"},
      {"eos", trainer(Proto().number(42, 1 << 30)), "trainer_spec.eos_id is 1073741824, outside"},
      {"unk", trainer(Proto().number(40, 99)), "trainer_spec.unk_id is 99, outside"},
      {"64 bits", trainer(Proto().number(41, int64_t(1) << 40)), "trainer_spec.bos_id is 1099511627776, too large"},
      {"word", trainer(small_trainer_spec(3)), "a model of type word is not supported"},
      {"char", trainer(small_trainer_spec(4)), "a model of type char is not supported"},
      {"no type", trainer(small_trainer_spec(5)), "trainer_spec.model_type is 5, which is no type"},
      {"suffix", trainer(Proto().number(24, 1)), "treat_whitespace_as_suffix is set"},
      {"escape", normalizer(Proto().number(5, 0)), "escape_whitespaces is off"},
      {"denormalizer", small_pieces().message(5, Proto().text(2, "x")).bytes, "denormalizer_spec has rules"},
      {"short map", normalizer(Proto().text(2, "abc")), "precompiled_charsmap has 3 bytes"},
      {"map size", normalizer(Proto().text(2, std::string("\xFF\xFF\xFF\xFF\0\0\0\0\0", 9))), "do not hold a trie"},
      {"map odd", normalizer(Proto().text(2, std::string("\3\0\0\0abcde\0", 10))), "do not hold a trie of 3 bytes"},
      {"map end", normalizer(Proto().text(2, std::string("\4\0\0\0abcde", 9))), "does not end with a NUL"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.name);
    expect_contains(refusal(bad.bytes), bad.message);
  }
}

TEST(SpmModelFile, IsToldFromGguf) {
  const Folder folder;
  EXPECT_EQ(load_tokenizer_file(folder.write("a.model", small_model()))->vocab_size(), 7);
  const TemporaryGguf file([](gguf::Writer& writer) { parse(small_model())->save(writer); });
  EXPECT_EQ(load_tokenizer_file(file.path())->encode("ab"), Ids{5});
  const TemporaryGguf without([](gguf::Writer&) {});
  expect_contains(message_of([&] { load_tokenizer_file(without.path()); }), "the file has no tokenizer");
  const std::string text = folder.write("b.model", "just a text");
  expect_contains(message_of([&] { load_tokenizer_file(text); }), text + ": neither a GGUF file nor a SentencePiece");
  expect_contains(message_of([&] { load_tokenizer_file(folder.path("none")); }), folder.path("none"));
}

// What the fuzzer and the writers of tests found worth keeping; made by tests/fuzz/make_spm_corpus.py.
TEST(SpmModelCorpus, IsRefusedOrRead) {
  const std::filesystem::path folder = std::filesystem::path(TOY_SOURCE_DIR) / "tests/fuzz/corpus/spm";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".model") continue;
    ++files;
    const std::string name = entry.path().filename().string(), bytes = slurp(entry.path());
    const std::string text = try_it(bytes);
    EXPECT_TRUE(name.starts_with("bad_") ? !text.empty() : true) << name << " was read";
    EXPECT_TRUE(name.starts_with("ok_") ? text.empty() : true) << name << ": " << text;
    EXPECT_LT(bytes.size(), 8192u) << name;
  }
  EXPECT_GE(files, 20) << folder;
}

}  // namespace
}  // namespace toy::spm_model_test
