// The same ids as the sentencepiece library itself, on models trained here with it.
#include <gtest/gtest.h>

#include <algorithm>

#include "library_testing.h"
#include "text/spm/spm.h"

namespace toy::spm_library_test {
namespace {

using namespace testing;

void train_library(Library& library, const std::string& text, Settings settings) {
  ASSERT_TRUE(library.LoadFromSerializedProto(trained_model(text, std::move(settings))).ok());
}

SpmVocabulary read_out(const Library& library, const std::vector<std::string>& user_defined = {}) {
  SpmVocabulary v;
  v.source = "library";
  for (int id = 0; id < library.GetPieceSize(); ++id) {
    v.tokens.push_back(library.IdToPiece(id));
    v.scores.push_back(library.GetScore(id));
    const bool user = std::count(user_defined.begin(), user_defined.end(), v.tokens.back()) > 0;
    v.types.push_back(library.IsUnknown(id)   ? 2
                      : library.IsControl(id) ? 3
                      : user                  ? 4
                      : library.IsUnused(id)  ? 5
                      : library.IsByte(id)    ? 6
                                              : 1);
  }
  v.unknown = library.unk_id(), v.bos = library.bos_id(), v.eos = library.eos_id();
  v.add_space_prefix = false;
  return v;
}

TEST(SpmAgainstLibrary, TrainedByTrainSpm) {
  const std::string text = training_text(20, 50000);
  Library library;
  train_library(library, text, {});
  SpmTrainOptions options;
  options.vocab_size = 600;
  const auto ours = train_spm(text, options);
  for (int32_t id = 3 + 256; id < 600; ++id) {
    std::string piece = ours->token_bytes(id);
    for (size_t at; (at = piece.find(' ')) != std::string::npos;) piece.replace(at, 1, "\xE2\x96\x81");
    ASSERT_EQ(piece, library.IdToPiece(id));
  }
  expect_same(library, *ours, 21, 5000);
}

TEST(SpmAgainstLibrary, SpacePrefix) {
  Library library;
  train_library(library, training_text(22, 50000), {{"add_dummy_prefix", "true"}});
  SpmVocabulary v = read_out(library);
  v.add_space_prefix = true;
  const SpmTokenizer ours(v);
  expect_same(library, ours, 23, 3000);
  RandomText random(24);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = random.unicode(20);
    const std::vector<int32_t> ids = ours.encode(text);
    ASSERT_EQ(ours.decode(ids), text);
  }
}

TEST(SpmAgainstLibrary, ExtraWhitespace) {
  Library library;
  train_library(library, training_text(25, 50000),
                {{"add_dummy_prefix", "true"}, {"remove_extra_whitespaces", "true"}});
  SpmVocabulary v = read_out(library);
  v.add_space_prefix = v.remove_extra_whitespaces = true;
  expect_same(library, SpmTokenizer(v), 26, 3000);
}

TEST(SpmAgainstLibrary, UnknownInsteadOfBytes) {
  Library library;
  train_library(library, training_text(27, 50000), {{"byte_fallback", "false"}, {"vocab_size", "400"}});
  expect_same(library, SpmTokenizer(read_out(library)), 28, 3000);
}

TEST(SpmAgainstLibrary, UserDefinedTokens) {
  const std::vector<std::string> symbols = {"<x>", "<x><x>", "ban", "an<x>", "\xF0\x9F\xA6\x99\xE4\xB8\xAD"};
  Library library;
  train_library(library, training_text(29, 50000),
                {{"user_defined_symbols",
                  symbols[0] + "," + symbols[1] + "," + symbols[2] + "," + symbols[3] + "," + symbols[4]}});
  std::vector<std::string> extra = symbols;
  extra.insert(extra.end(), {"ba", "bban<x><x><x>ban", "n<", "the ban <x", "\xF0\x9F\xA6\x99"});
  expect_same(library, SpmTokenizer(read_out(library, symbols)), 30, 3000, extra);
}

TEST(SpmAgainstLibrary, UnusedPieces) {
  Library library;
  train_library(library, training_text(31, 50000), {});
  std::vector<std::string> names;
  for (int id = 0; id < library.GetPieceSize(); id += 1 + id % 2) names.push_back(library.IdToPiece(id));
  const std::vector<std::string_view> kept(names.begin(), names.end());
  SpmVocabulary v = read_out(library);
  ASSERT_TRUE(library.SetVocabulary(kept).ok());  // makes all others "unused" (of the bytes it forgets the type)
  for (size_t id = 0; id < v.types.size(); ++id) {
    if (v.types[id] == 1 && library.IsUnused(int(id))) v.types[id] = 5;
  }
  ASSERT_GT(std::count(v.types.begin(), v.types.end(), 5), 50);
  expect_same(library, SpmTokenizer(v), 32, 3000);
}

}  // namespace
}  // namespace toy::spm_library_test
