// Training byte-level BPE: again and again the most frequent pair of neighbours becomes a token (Sennrich, Haddow,
// Birch 2016, arXiv:1508.07909). Pairs that are equally frequent go by their ids, so that the result depends on the
// text alone.
#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include "text/bpe/bpe.h"
#include "text/bpe/byte_level.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr int32_t kBytes = 256;
constexpr int32_t kLeastBpeTokens = 300;  // as for the other kinds: below that the bytes tokenizer is the better choice
constexpr int32_t kMostBpeTokens = 1'000'000;
// Each merge takes time in proportion to the words that have it, so words are cut up there.
constexpr size_t kLongestTrainingWord = 256;
// Words as Qwen 2 cuts them: llama.cpp does the same, and does not drop spaces from what it decodes ("gpt-2": it does).
constexpr const char* kTrainedPre = "qwen2";
constexpr const char* kEndOfText = "<|endoftext|>";

class BpeTrainer {
 public:
  explicit BpeTrainer(std::string_view text) {
    std::unordered_map<std::string_view, size_t> index;
    Splitter(*find_pre_tokenizer(kTrainedPre)).split(text, true, [&](std::string_view word) {
      for (; !word.empty(); word.remove_prefix(std::min(word.size(), kLongestTrainingWord)))
        count(word.substr(0, kLongestTrainingWord), index);
    });
    for (size_t i = 0; i < words_.size(); ++i) {
      const std::vector<int32_t>& s = words_[i].symbols;
      for (size_t at = 1; at < s.size(); ++at) add(pair_of(s[at - 1], s[at]), i);
    }
    for (const auto& [pair, places] : pairs_) queue_.push({places.count, pair});
  }

  using Parts = std::pair<int32_t, int32_t>;
  /// The two symbols that are neighbours most often; none if no pair occurs twice.
  std::optional<Parts> best() {
    for (; !queue_.empty(); queue_.pop()) {
      const auto [count, pair] = queue_.top();
      const auto found = pairs_.find(pair);
      if (found == pairs_.end() || found->second.count != count) continue;  // out of date; a newer one is there
      if (count < 2) break;
      return Parts(int32_t(pair >> 32), int32_t(pair & 0xFFFFFFFF));
    }
    return std::nullopt;
  }

  /// Makes the two one, which is a new symbol, or one that other parts have given before.
  void merge(const Parts& parts, int32_t merged) {
    const auto found = pairs_.find(pair_of(parts.first, parts.second));
    const std::vector<size_t> words = std::move(found->second.words);
    pairs_.erase(found);
    std::vector<Pair> changed;
    for (const size_t index : words) merge_in_word(index, parts, merged, changed);
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const Pair pair : changed) {
      const auto at = pairs_.find(pair);
      if (at->second.count == 0)
        pairs_.erase(at);
      else
        queue_.push({at->second.count, pair});
    }
  }

 private:
  using Pair = uint64_t;  // left in the upper half
  static Pair pair_of(int32_t left, int32_t right) { return Pair(uint32_t(left)) << 32 | uint32_t(right); }

  struct Word {
    std::vector<int32_t> symbols;
    int64_t count = 0;
  };
  struct Places {
    int64_t count = 0;
    std::vector<size_t> words;  // those that have the pair, perhaps also some that had it
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    friend bool operator<(const Candidate& a, const Candidate& b) {  // the top of the queue is the largest
      return a.count < b.count || (a.count == b.count && a.pair > b.pair);
    }
  };

  void count(std::string_view word, std::unordered_map<std::string_view, size_t>& index) {
    const auto [found, is_new] = index.emplace(word, words_.size());
    if (is_new) {
      words_.emplace_back();
      for (const char byte : word) words_.back().symbols.push_back(uint8_t(byte));
    }
    ++words_[found->second].count;
  }

  void add(Pair pair, size_t index) {
    Places& places = pairs_[pair];
    places.count += words_[index].count;
    if (places.words.empty() || places.words.back() != index) places.words.push_back(index);
  }

  /// Of the pairs, those that have one of the parts go, and those that have the new symbol come.
  void merge_in_word(size_t index, const Parts& parts, int32_t merged, std::vector<Pair>& changed) {
    std::vector<int32_t>& s = words_[index].symbols;
    std::vector<bool> goes(s.size()), comes;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      if (s[i] == parts.first && s[i + 1] == parts.second && !goes[i]) goes[i] = goes[i + 1] = true;
    }
    for (size_t i = 1; i < s.size(); ++i) {
      if (!goes[i - 1] && !goes[i]) continue;
      const auto old = pairs_.find(pair_of(s[i - 1], s[i]));
      if (old == pairs_.end()) continue;  // the two parts
      old->second.count -= words_[index].count;
      changed.push_back(old->first);
    }
    size_t n = 0;
    for (size_t i = 0; i < s.size(); i += goes[i] ? 2 : 1) {
      comes.push_back(goes[i]);
      s[n++] = goes[i] ? merged : s[i];
    }
    s.resize(n);
    for (size_t i = 1; i < n; ++i) {
      if (!comes[i - 1] && !comes[i]) continue;
      changed.push_back(pair_of(s[i - 1], s[i]));
      add(changed.back(), index);
    }
  }

  std::vector<Word> words_;  // in the order of the text
  std::unordered_map<Pair, Places> pairs_;
  std::priority_queue<Candidate> queue_;
};

BpeVocabulary byte_vocabulary() {
  BpeVocabulary v;
  v.source = "trained vocabulary";
  v.pre = kTrainedPre;
  for (int32_t byte = 0; byte < kBytes; ++byte) v.tokens.push_back(byte_level_name(uint8_t(byte)));
  return v;
}

// Texts of encoders are between [CLS] and [SEP], where there are such tokens (Devlin et al. 2018).
void begin_and_end(BpeVocabulary& v) {
  const auto find = [&](const char* name) { return std::ranges::find(v.tokens, name) - v.tokens.begin(); };
  const auto first = find("[CLS]"), last = find("[SEP]"), mask = find("[MASK]"), none = std::ptrdiff_t(v.tokens.size());
  if (first == none || last == none || mask == none) return;
  v.bos = int32_t(first), v.eos = int32_t(last), v.add_bos = v.add_eos = true;
  v.other_ids["tokenizer.ggml.mask_token_id"] = int32_t(mask);
}

// With the control tokens after all others.
std::shared_ptr<const Tokenizer> finished(BpeVocabulary v, const ControlTokens& control) {
  v.types.assign(v.tokens.size(), int32_t(TokenType::normal));
  v.bos = v.eos = v.size();
  v.tokens.push_back(kEndOfText);
  v.types.push_back(int32_t(TokenType::control));
  add_control_tokens(v, control);
  begin_and_end(v);
  return std::make_shared<const BpeTokenizer>(std::move(v));
}

}  // namespace

std::shared_ptr<const Tokenizer> make_byte_tokenizer(const ControlTokens& control) {
  return finished(byte_vocabulary(), without(control, {kEndOfText}));
}

std::shared_ptr<const Tokenizer> train_bpe(std::string_view text, int32_t vocab_size, const ControlTokens& given) {
  const ControlTokens control = without(given, {kEndOfText});
  const int32_t special = 1 + int32_t(control.names.size());  // after all others
  check(vocab_size >= kLeastBpeTokens && vocab_size <= kMostBpeTokens && vocab_size >= kBytes + special,
        "bpe:{}: the number of tokens must be within {} and {} ({} are taken by the bytes, {}{})", vocab_size,
        kLeastBpeTokens, kMostBpeTokens, kBytes + special, kEndOfText,
        control.names.empty() ? "" : " and other control tokens");
  check(!text.empty(), "bpe:{}: there is no text to train the tokenizer on", vocab_size);
  BpeVocabulary v = byte_vocabulary();
  std::unordered_map<std::string, int32_t> ids;
  BpeTrainer trainer(text);
  while (v.size() < vocab_size - special) {
    const auto parts = trainer.best();
    if (!parts) break;
    const std::string left = v.tokens[size_t(parts->first)], right = v.tokens[size_t(parts->second)];
    const auto [found, is_new] = ids.emplace(left + right, v.size());
    v.merges.push_back(left + " " + right);
    if (is_new) v.tokens.push_back(left + right);
    trainer.merge(*parts, found->second);
  }
  check(v.size() == vocab_size - special, "bpe:{}: the text is too small: it gives {} tokens. {}", vocab_size,
        v.size() + special,
        v.size() + special >= kLeastBpeTokens ? "Ask for fewer, or give more text"
                                              : "Give more text, or take the tokenizer bytes");
  return finished(std::move(v), control);
}

}  // namespace toy
