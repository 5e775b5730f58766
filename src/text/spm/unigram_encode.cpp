// Encoding with a unigram model (Kudo 2018, arXiv:1804.10959): of all ways to cut a text into pieces, the one with
// the largest sum of scores. In the steps and in the types of the sentencepiece library (unigram_model.cc,
// Model::EncodeOptimized), because which of two equal sums is taken decides about the ids.
#include <algorithm>
#include <cfloat>
#include <utility>

#include "text/spm/spm.h"
#include "text/spm/spm_ids.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr float kUnknownPenalty = 10.0f;  // kUnkPenalty in unigram_model.cc
constexpr size_t kLeastSegment = 4096;    // bytes

}  // namespace

/// Encodes one text.
class UnigramEncoder {
 public:
  UnigramEncoder(const SpmTokenizer& tokenizer, std::string_view text, size_t prefix, EncodePlace& place,
                 std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), ids_(tokenizer, text, prefix, place, ids) {}
  /// Returns how many bytes it has encoded, the prefix among them: all, or where more text follows whole segments.
  size_t run(bool last);

 private:
  /// The best way to cut the text up to some place: its last piece, and the sum of all scores.
  struct Path {
    int64_t begin = -1;  ///< of the last piece; -1: there is no way yet
    int32_t id = -1;     ///< -1: unknown
    float score = 0;
  };

  void encode_segment(std::string_view text);
  void extend(std::string_view text, size_t begin, size_t character);
  /// `Score`: the library adds and compares in double for pieces, in float for the unknown, and keeps floats.
  template <class Score>
  void propose(size_t begin, size_t end, int32_t id, Score score) {
    Path& path = best_[end];
    if (path.begin >= 0 && !(score > path.score)) return;
    path = {int64_t(begin), id, float(score)};
  }

  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  SpmIds ids_;
  std::vector<Path> best_;  ///< by the end of the path
  std::vector<int64_t> ends_;
};

// The library's sums are floats, which over a whole book become too coarse to tell pieces apart. (Its own programs
// read texts by lines.) So where no piece reaches across line breaks, a long text is cut into segments that end with
// the first line break after kLeastSegment bytes, and the sums begin anew. Shorter texts give the library's ids.
size_t UnigramEncoder::run(bool last) {
  std::string_view rest = text_;
  while (!rest.empty()) {
    size_t bytes = rest.size();
    if (const size_t at = rest.find('\n', kLeastSegment); tokenizer_.lines_are_apart_ && at != rest.npos)
      bytes = at + 1;
    else if (!last)
      break;
    encode_segment(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  return text_.size() - rest.size();
}

void UnigramEncoder::encode_segment(std::string_view text) {
  best_.assign(text.size() + 1, Path{});
  for (size_t begin = 0; begin < text.size();) {
    const bool ascii = uint8_t(text[begin]) < 0x80;
    const size_t character = ascii ? 1 : std::max<size_t>(utf8_character(text.substr(begin)), 1);
    extend(text, begin, character);
    begin += character;
  }
  ends_.clear();
  for (int64_t end = int64_t(text.size()); end > 0; end = best_[size_t(end)].begin) ends_.push_back(end);
  for (auto end = ends_.rbegin(); end != ends_.rend(); ++end) {
    const Path& path = best_[size_t(*end)];
    if (path.id >= 0) {
      ids_.put(path.id);
    } else {
      ids_.put_unknown(text.substr(size_t(path.begin), size_t(*end - path.begin)));
    }
  }
}

/// All pieces that begin at a place, and the unknown if none of them is just the character there.
void UnigramEncoder::extend(std::string_view text, size_t begin, size_t character) {
  const PieceTrie& trie = *tokenizer_.trie_;
  const float until_here = best_[begin].score;
  bool has_character = false;
  int32_t node = 0;
  for (size_t end = begin; end < text.size();) {
    node = trie.child(node, text[end++]);
    if (node == PieceTrie::kNone) break;
    const int32_t id = trie.id(node);
    if (id == PieceTrie::kNone) continue;
    propose(begin, end, id, tokenizer_.path_scores_[size_t(id)] + double(until_here));
    has_character |= end - begin == character;
  }
  if (!has_character) propose(begin, begin + character, -1, tokenizer_.unknown_score_ + until_here);
}

// Scores as in Model::Model and EncodeOptimized of the library: those of user-defined tokens are what a token of
// its length could have at most, less 0.1. max_score starts there with FLT_MIN, which is above all log
// probabilities.
void SpmTokenizer::prepare_unigram() {
  const SpmVocabulary& v = vocabulary_;
  float least = FLT_MAX, most = FLT_MIN;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (type(id) != TokenType::normal) continue;
    least = std::min(least, v.scores[size_t(id)]);
    most = std::max(most, v.scores[size_t(id)]);
  }
  unknown_score_ = least - kUnknownPenalty;
  path_scores_.assign(v.scores.begin(), v.scores.end());
  std::vector<PieceTrie::Entry> entries;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string& text = texts_[size_t(id)];
    const bool user_defined = type(id) == TokenType::user_defined;
    if (user_defined) {  // the library counts a space as the three bytes of U+2581
      const size_t bytes = text.size() + 2 * size_t(std::count(text.begin(), text.end(), ' '));
      path_scores_[size_t(id)] = double(float(bytes) * most) - 0.1;
    }
    // A piece with a space of its own is never found by the library, whose texts have U+2581 in its place.
    const bool piece = type(id) == TokenType::normal && v.tokens[size_t(id)].find(' ') == std::string::npos;
    if ((user_defined || piece) && !text.empty()) entries.push_back({text, id});
    lines_are_apart_ &= text.size() < 2 || text.find('\n') == text.npos;
  }
  // " x" may be there as a piece and as a user-defined token; the latter is stronger.
  const auto is_piece = [&](const PieceTrie::Entry& e) { return type(e.id) == TokenType::normal; };
  std::sort(entries.begin(), entries.end(), [&](const PieceTrie::Entry& a, const PieceTrie::Entry& b) {
    return std::pair(a.text, is_piece(a)) < std::pair(b.text, is_piece(b));
  });
  const auto same = [](const PieceTrie::Entry& a, const PieceTrie::Entry& b) { return a.text == b.text; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  trie_ = std::make_unique<PieceTrie>(entries);
}

size_t SpmTokenizer::encode_unigram(std::string_view text, size_t prefix, bool last, EncodePlace& place,
                                    std::vector<int32_t>& ids) const {
  return UnigramEncoder(*this, text, prefix, place, ids).run(last);
}

}  // namespace toy
