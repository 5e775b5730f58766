// Encoding: greedy merging by score, as in the sentencepiece library (bpe_model.cc, Model::SampleEncode) and
// llama.cpp; or by the rank of merges.
#include <algorithm>
#include <optional>
#include <utility>

#include "text/bpe/merge_chain.h"
#include "text/bpe/seen_words.h"
#include "text/spm/spm.h"
#include "text/spm/spm_ids.h"

namespace toy {

/// Encodes one text.
class SpmEncoder {
 public:
  SpmEncoder(const SpmTokenizer& tokenizer, std::string_view text, size_t prefix, EncodePlace& place,
             std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), ids_(tokenizer, text, prefix, place, ids), all_ids_(ids) {
    // Otherwise the ids of a segment depend on what is before it.
    if (tokenizer.has_all_bytes_ && !tokenizer.has_unused_) seen_.emplace(text.size());
  }
  /// Returns how many bytes it has encoded, the prefix among them: all, or where more text follows the segments before
  /// the last.
  size_t run(bool last);

 private:
  void put_segment(size_t begin, size_t end);
  void encode_segment(size_t begin, size_t end);
  void encode_ranked(size_t begin, size_t end);
  MergeChain::Merge find(const MergeChain::Symbol& left, const MergeChain::Symbol& right);
  void emit(std::string_view piece);
  // By the first four bits of the character, whatever follows: an invalid text is grouped as in llama.cpp
  // (unicode_len_utf8 in unicode.cpp).
  size_t character_end(size_t at) const {
    constexpr uint8_t kBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    return std::min(at + kBytes[uint8_t(text_[at]) >> 4], text_.size());
  }

  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  SpmIds ids_;
  std::vector<int32_t>& all_ids_;
  std::optional<SeenWords> seen_;
  MergeChain segment_;
  /// Bytes of the left part of pieces of type "unused", which are taken apart again.
  std::unordered_map<std::string_view, size_t> splits_;
  std::vector<std::string_view> to_emit_;
};

size_t SpmTokenizer::encode_bpe(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                                std::vector<int32_t>& ids) const {
  return SpmEncoder(*this, text, prefix, place, ids).run(last);
}

// Nothing reaches from one segment into the next, so where more text follows, what is before the last segment is
// certain. A character or a user-defined token that the end of `text_` may have cut off is not looked at.
size_t SpmEncoder::run(bool last) {
  constexpr size_t kLongestCharacter = 4;
  const size_t least = last ? 0 : std::max(kLongestCharacter, tokenizer_.user_defined_.longest());
  size_t begin = 0;  // of the segment
  for (size_t at = 0; at < text_.size();) {
    if (at + least > text_.size()) return begin;
    if (const Literals::Match literal = tokenizer_.user_defined_.at(text_.substr(at)); literal.bytes > 0) {
      put_segment(begin, at);
      ids_.put(literal.id);
      begin = at += literal.bytes;
      continue;
    }
    if (at > begin) {
      const size_t pair = size_t(uint8_t(text_[at - 1])) << 8 | uint8_t(text_[at]);
      if (!tokenizer_.neighbours_[pair]) put_segment(std::exchange(begin, at), at);
    }
    at = character_end(at);
  }
  put_segment(begin, text_.size());
  return text_.size();
}

void SpmEncoder::put_segment(size_t begin, size_t end) {
  if (begin == end) return;
  const auto encode = [&] { tokenizer_.merges_ ? encode_ranked(begin, end) : encode_segment(begin, end); };
  if (!seen_) return encode();
  seen_->put(text_.substr(begin, end - begin), all_ids_, encode);
}

void SpmEncoder::encode_segment(size_t begin, size_t end) {
  for (size_t at = begin, next; at < end; at = next) {
    next = character_end(at);
    segment_.add(at, next - at);
  }
  segment_.finish([this](const auto& left, const auto& right) { return find(left, right); },
                  [this](const MergeChain::Symbol& symbol) { emit(text_.substr(symbol.begin, symbol.bytes)); });
}

// Here symbols are ids; -1 is a character without a token, which no merge takes.
void SpmEncoder::encode_ranked(size_t begin, size_t end) {
  const auto id_of = [this](std::string_view piece) {
    const int32_t* found = tokenizer_.ids_.find(piece);
    return found ? *found : -1;
  };
  if (text_[begin] == '\n')  // the segment is a complete run of them
    if (const int32_t id = id_of(text_.substr(begin, end - begin)); id >= 0) return ids_.put(id);
  for (size_t at = begin, next; at < end; at = next) {
    next = character_end(at);
    segment_.add(at, next - at, id_of(text_.substr(at, next - at)));
  }
  segment_.finish(
      [this](const auto& left, const auto& right) -> MergeChain::Merge {
        const MergeTable::Entry& merge = tokenizer_.merges_->find(left.id, right.id);
        return {double(merge.rank), merge.merged, merge.left >= 0};
      },
      [this](const MergeChain::Symbol& symbol) {
        if (symbol.id >= 0) return ids_.put(symbol.id);
        ids_.put_unknown(text_.substr(symbol.begin, symbol.bytes));
      });
}

MergeChain::Merge SpmEncoder::find(const MergeChain::Symbol& left, const MergeChain::Symbol& right) {
  constexpr MergeChain::Merge kNone = {0, 0, false};
  const size_t bytes = left.bytes + right.bytes;
  if (bytes > tokenizer_.longest_piece_) return kNone;
  const std::string_view piece = text_.substr(left.begin, bytes);
  const int32_t* found = tokenizer_.ids_.find(piece);
  if (!found) return kNone;
  const int32_t id = *found;
  if (tokenizer_.has_unused_ && tokenizer_.type(id) == TokenType::unused) splits_[piece] = left.bytes;
  return {-double(tokenizer_.vocabulary_.scores[size_t(id)]), id};
}

void SpmEncoder::emit(std::string_view piece) {
  to_emit_.assign(1, piece);
  while (!to_emit_.empty()) {
    piece = to_emit_.back();
    to_emit_.pop_back();
    const int32_t* found = tokenizer_.ids_.find(piece);
    if (!found) {
      ids_.put_unknown(piece);
      continue;
    }
    // Pieces of type "unused" serve as steps on the way to others, but do not stay (the library's
    // resegmentation).
    const auto split = splits_.empty() ? splits_.end() : splits_.find(piece);
    if (split == splits_.end()) {
      ids_.put(*found);
    } else {
      to_emit_.push_back(piece.substr(split->second));
      to_emit_.push_back(piece.substr(0, split->second));
    }
  }
}

}  // namespace toy
