// What training a tokenizer takes in memory. The factors below were measured on English, C, Chinese, random words and a
// text without spaces.
#include <unordered_map>
#include <unordered_set>

#include "toy/base/checksum.h"
#include "toy/text/tokenizer.h"

namespace toy {
namespace {

// Characters (or bytes) of the distinct words of a text, estimated from those whose hash ends with zeros: as few as
// suffice. Long words are counted one by one: a few may be most of the text, and a sample would have all of them or
// none.
class DistinctWords {
 public:
  explicit DistinctWords(bool bytes) : bytes_(bytes) {}
  void add(std::string_view word) {
    const uint64_t hash = xxh64(word);
    if (word.size() > kLong) {
      if (long_words_.insert(hash).second) long_characters_ += length(word);
      return;
    }
    if ((hash & mask_) != 0) return;
    constexpr size_t kMost = 1 << 14;
    lengths_.try_emplace(hash, length(word));
    while (lengths_.size() > kMost) {
      mask_ = mask_ * 2 + 1;
      std::erase_if(lengths_, [this](const auto& w) { return (w.first & mask_) != 0; });
    }
  }
  uint64_t estimate() const {
    uint64_t sum = 0;
    for (const auto& w : lengths_) sum += w.second;
    return sum * (mask_ + 1) + long_characters_;
  }

 private:
  static constexpr size_t kLong = 256;  // bytes
  uint64_t length(std::string_view word) const {
    if (bytes_) return word.size();
    uint64_t n = 0;
    for (const char c : word) n += (uint8_t(c) & 0xc0) != 0x80;
    return n;
  }
  std::unordered_map<uint64_t, uint64_t> lengths_;
  std::unordered_set<uint64_t> long_words_;
  uint64_t mask_ = 0, long_characters_ = 0;
  bool bytes_;
};

uint64_t size_of_distinct_words(std::string_view text, bool bytes = false) {
  DistinctWords words(bytes);
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n\t"), text.size());
    if (end > 0) words.add(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words.estimate();
}

}  // namespace

size_t training_bytes(std::string_view spec, std::string_view corpus) {
  constexpr size_t kAlways = size_t(8) << 20;
  const uint64_t n = corpus.size();
  // Words and their symbols; pairs of symbols and their places in each distinct word.
  if (spec.starts_with("bpe:")) return kAlways + 50 * size_of_distinct_words(corpus, true);
  // Sentences, twice; pairs of symbols and their places in each distinct word.
  if (spec.starts_with("spm:")) return kAlways + 5 * n + 100 * size_of_distinct_words(corpus);
  // Sentences, twice; a suffix array of their characters; candidates.
  if (spec.starts_with("unigram:")) return kAlways + 27 * n + 64 * size_of_distinct_words(corpus);
  return 0;
}

}  // namespace toy
