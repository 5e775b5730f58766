// Encoding with byte-level BPE: words, and in each word the merges in their order (Sennrich, Haddow, Birch 2016,
// arXiv:1508.07909).
#include "text/bpe/bpe.h"
#include "text/bpe/merge_chain.h"
#include "text/bpe/seen_words.h"
#include "toy/base/error.h"

namespace toy {

/// Encodes a stretch of text.
class BpeEncoder {
 public:
  /// `offset`: of the text, for messages.
  BpeEncoder(const BpeTokenizer& tokenizer, std::string_view text, uint64_t offset, std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), offset_(offset), ids_(ids), seen_(text.size()) {}

  void word(std::string_view word) {
    seen_.put(word, ids_, [&] { encode(word); });
  }

 private:
  void encode(std::string_view word) {
    if (tokenizer_.rules_->flags & PreTokenizer::kIgnoreMerges) {
      const int32_t* found = tokenizer_.symbols_.find(word);
      if (found && *found < tokenizer_.vocab_size()) return ids_.push_back(*found);
    }
    const size_t begin = size_t(word.data() - text_.data());
    for (size_t i = 0; i < word.size(); ++i) chain_.add(begin + i, 1, tokenizer_.byte_symbols_[uint8_t(word[i])]);
    chain_.finish(
        [this](const auto& left, const auto& right) -> MergeChain::Merge {
          const MergeTable::Entry& merge = tokenizer_.merges_.find(left.id, right.id);
          return {double(merge.rank), merge.merged, merge.left >= 0};
        },
        [this](const MergeChain::Symbol& symbol) { put(symbol); });
  }

  void put(const MergeChain::Symbol& symbol) {
    if (symbol.id < tokenizer_.vocab_size()) return ids_.push_back(symbol.id);
    for (size_t at = symbol.begin; at < symbol.begin + symbol.bytes; ++at) {
      const uint8_t byte = uint8_t(text_[at]);
      const int32_t id = tokenizer_.byte_symbols_[byte];
      const BpeVocabulary& v = tokenizer_.vocabulary_;
      if (id >= tokenizer_.vocab_size() && !v.unknown)
        throw EncodeError(fmt::format("{}: the vocabulary has no token for the byte 0x{:02X} at ", v.source, byte),
                          offset_ + at, ", and no unknown token");
      ids_.push_back(id < tokenizer_.vocab_size() ? id : *v.unknown);
    }
  }

  const BpeTokenizer& tokenizer_;
  std::string_view text_;
  uint64_t offset_;
  std::vector<int32_t>& ids_;
  SeenWords seen_;
  MergeChain chain_;
};

size_t BpeTokenizer::encode_text(std::string_view text, bool last, EncodePlace& place,
                                 std::vector<int32_t>& ids) const {
  BpeEncoder encoder(*this, text, place.bytes, ids);
  return splitter_.split(text, last, [&encoder](std::string_view word) { encoder.word(word); });
}

}  // namespace toy
