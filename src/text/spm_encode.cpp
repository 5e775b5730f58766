// Encoding: greedy merging by score, as in the sentencepiece library (bpe_model.cc, Model::SampleEncode) and
// llama.cpp.
#include <algorithm>
#include <queue>

#include "text/spm.h"
#include "text/spm_ids.h"

namespace toy {

/// Encodes one text.
class SpmEncoder {
 public:
  SpmEncoder(const SpmTokenizer& tokenizer, std::string_view text, size_t prefix, EncodePlace& place,
             std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), ids_(tokenizer, text, prefix, place, ids) {}
  /// Returns how many bytes it has encoded, the prefix among them: all, or where more text follows the segments before
  /// the last.
  size_t run(bool last);

 private:
  /// A run of text in the chain of a segment; no bytes once it was merged into its left neighbour.
  struct Symbol {
    size_t begin, bytes;
    int64_t previous, next;  // -1: none
  };
  /// Two neighbours that together are a piece. Out of date once either has grown or gone: their bytes then no
  /// longer sum up to `bytes`.
  struct Pair {
    float score;
    int64_t left, right;
    size_t bytes;
    // The queue's top: the highest score, the leftmost among equals.
    friend bool operator<(const Pair& a, const Pair& b) {
      return a.score < b.score || (a.score == b.score && a.left > b.left);
    }
  };

  void add_symbol(size_t begin, size_t bytes);
  void finish_segment();
  void add_pair(int64_t left, int64_t right);
  void merge(const Pair& pair);
  void emit(std::string_view piece);

  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  SpmIds ids_;
  std::vector<Symbol> segment_;
  std::priority_queue<Pair> pairs_;
  /// Bytes of the left part of pieces of type "unused", which are taken apart again.
  std::unordered_map<std::string_view, size_t> splits_;
  std::vector<std::string_view> to_emit_;
};

namespace {

/// Bytes of the character that `first` begins, by its first four bits, whatever follows: an invalid text is
/// grouped as in llama.cpp (unicode_len_utf8 in unicode.cpp).
size_t nominal_bytes(char first) {
  static constexpr uint8_t kBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return kBytes[uint8_t(first) >> 4];
}

}  // namespace

size_t SpmTokenizer::encode_bpe(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                                std::vector<int32_t>& ids) const {
  return SpmEncoder(*this, text, prefix, place, ids).run(last);
}

// Nothing reaches from one segment into the next, so where more text follows, what is before the last segment is
// certain. A character or a user-defined token that the end of `text_` may have cut off is not looked at.
size_t SpmEncoder::run(bool last) {
  constexpr size_t kLongestCharacter = 4;
  const size_t least = last ? 0 : std::max(kLongestCharacter, tokenizer_.longest_literal_);
  for (size_t at = 0; at < text_.size();) {
    if (at + least > text_.size()) return segment_.empty() ? at : segment_[0].begin;
    if (const int32_t literal = tokenizer_.literal_at(text_.substr(at)); literal >= 0) {
      finish_segment();
      ids_.put(literal);
      at += tokenizer_.text_of(literal).size();
      continue;
    }
    const size_t bytes = std::min(nominal_bytes(text_[at]), text_.size() - at);
    if (!segment_.empty()) {
      const size_t pair = size_t(uint8_t(text_[at - 1])) << 8 | uint8_t(text_[at]);
      if (!tokenizer_.neighbours_[pair]) finish_segment();
    }
    add_symbol(at, bytes);
    at += bytes;
  }
  finish_segment();
  return text_.size();
}

void SpmEncoder::add_symbol(size_t begin, size_t bytes) {
  const int64_t i = int64_t(segment_.size());
  if (i > 0) segment_.back().next = i;
  segment_.push_back({begin, bytes, i - 1, -1});
}

void SpmEncoder::finish_segment() {
  if (segment_.empty()) return;
  for (int64_t i = 1; i < int64_t(segment_.size()); ++i) add_pair(i - 1, i);
  while (!pairs_.empty()) {
    const Pair best = pairs_.top();
    pairs_.pop();
    merge(best);
  }
  for (int64_t i = 0; i >= 0; i = segment_[size_t(i)].next) {
    emit(text_.substr(segment_[size_t(i)].begin, segment_[size_t(i)].bytes));
  }
  segment_.clear();
}

void SpmEncoder::add_pair(int64_t left, int64_t right) {
  if (left < 0 || right < 0) return;
  const Symbol& a = segment_[size_t(left)];
  const size_t bytes = a.bytes + segment_[size_t(right)].bytes;
  if (bytes > tokenizer_.longest_piece_) return;
  const std::string_view piece = text_.substr(a.begin, bytes);
  const auto found = tokenizer_.ids_.find(piece);
  if (found == tokenizer_.ids_.end()) return;
  const int32_t id = found->second;
  pairs_.push({tokenizer_.vocabulary_.scores[size_t(id)], left, right, bytes});
  if (tokenizer_.has_unused_ && tokenizer_.type(id) == SpmType::unused) splits_[piece] = a.bytes;
}

void SpmEncoder::merge(const Pair& pair) {
  Symbol& left = segment_[size_t(pair.left)];
  Symbol& right = segment_[size_t(pair.right)];
  if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != pair.bytes) return;  // out of date
  left.bytes += right.bytes;
  right.bytes = 0;
  left.next = right.next;
  if (right.next >= 0) segment_[size_t(right.next)].previous = pair.left;
  add_pair(left.previous, pair.left);
  add_pair(pair.left, left.next);
}

void SpmEncoder::emit(std::string_view piece) {
  to_emit_.assign(1, piece);
  while (!to_emit_.empty()) {
    piece = to_emit_.back();
    to_emit_.pop_back();
    const auto found = tokenizer_.ids_.find(piece);
    if (found == tokenizer_.ids_.end()) {
      ids_.put_unknown(piece);
      continue;
    }
    // Pieces of type "unused" serve as steps on the way to others, but do not stay (the library's
    // resegmentation).
    const auto split = splits_.empty() ? splits_.end() : splits_.find(piece);
    if (split == splits_.end()) {
      ids_.put(found->second);
    } else {
      to_emit_.push_back(piece.substr(split->second));
      to_emit_.push_back(piece.substr(0, split->second));
    }
  }
}

}  // namespace toy
