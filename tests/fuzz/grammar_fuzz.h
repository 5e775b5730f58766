// What the fuzzers of grammars share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "toy/base/error.h"
#include "toy/grammar/grammar.h"

namespace toy {

/// Makes a grammar and follows a text of it for up to `length` bytes. A token that a mask allows has to be accepted,
/// the text has to begin one of the language, and one of another token has to be refused.
template <class Make>
int fuzz_grammar(int length, Make&& make) {
  static const auto tokenizer = make_byte_tokenizer();
  static const TokenTrie trie(*tokenizer);
  try {
    const Grammar g = make();
    const auto c = g.constraint(trie)->clone();
    std::string text;
    for (int i = 0; i < length && !c->finished(); ++i) {
      std::vector<uint64_t> mask(4);
      c->mask(mask);
      std::vector<int32_t> allowed, others;
      for (int32_t id = 0; id < 256; ++id) (mask[size_t(id) / 64] >> (id % 64) & 1 ? allowed : others).push_back(id);
      if (!others.empty() && g.begins(text + char(others[size_t(i) % others.size()]))) std::abort();
      if (allowed.empty()) {
        if (!g.matches(text)) std::abort();
        break;
      }
      const int32_t id = allowed[(7u * unsigned(i) + text.size()) % allowed.size()];
      c->accept(id);
      text += char(id);
      if (!g.begins(text)) std::abort();
    }
    if (c->finished() && !g.matches(text)) std::abort();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

}  // namespace toy
