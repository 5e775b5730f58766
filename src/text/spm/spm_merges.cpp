// Pieces whose merges are listed by rank (Gemma 4).
#include <algorithm>
#include <string>

#include "text/spm/spm.h"
#include "toy/base/error.h"

namespace toy {

// As in llama.cpp, no merge reaches from a line break to anything else. Hence one that joins them is left out, and the
// text falls apart there. A merge with a control, byte or unknown token is left out, too: texts do not give those. Nor
// do they give a user-defined token with U+2581, which is literal there.
void SpmTokenizer::prepare_merges() {
  const SpmVocabulary& v = vocabulary_;
  TokenIds ids(v.tokens.size());  // by name; -1: left out
  for (int32_t id = 0; id < v.size(); ++id) {
    const std::string& name = v.tokens[size_t(id)];
    const bool is_piece = type(id) == TokenType::normal || type(id) == TokenType::unused ||
                          (type(id) == TokenType::user_defined && with_spaces(name) == name);
    ids.add(name, is_piece ? id : -1);
  }
  merges_.emplace(v.merges.size());
  const auto pair_of = [](char left, char right) { return size_t(uint8_t(left)) << 8 | uint8_t(right); };
  std::string whole;
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    const std::string_view merge = v.merges[rank];
    const size_t space = std::min(merge.find(' ', 1), merge.size());
    const std::string_view left = merge.substr(0, space), right = merge.substr(std::min(space + 1, merge.size()));
    check(!left.empty() && !right.empty(),
          "{}: tokenizer.ggml.merges[{}] is \"{}\", not two tokens with a space between", v.source, rank, merge);
    whole.assign(left).append(right);
    const auto id_of = [&](std::string_view name) {
      if (const int32_t* found = ids.find(name)) return *found;
      const int32_t* marked = ids_.find(with_spaces(name));  // a user-defined token of spaces
      check(marked, "{}: tokenizer.ggml.merges[{}], \"{}\", names \"{}\", which is no token", v.source, rank, merge,
            name);
      return *marked;
    };
    const int32_t a = id_of(left), b = id_of(right), merged = id_of(whole);
    if (a < 0 || b < 0 || merged < 0 || (left.back() == '\n') != (right.front() == '\n')) continue;
    merges_->add({a, b, int32_t(rank), merged});
    neighbours_.set(pair_of(texts_[size_t(a)].back(), texts_[size_t(b)].front()));
  }
  neighbours_.set(pair_of('\n', '\n'));  // runs of them stay together, in case they are a token
}

}  // namespace toy
