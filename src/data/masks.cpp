#include "toy/data/masks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy {

MaskTokens mask_tokens(const Tokenizer& t) {
  for (const char* name : {"[MASK]", "<mask>"}) {
    const std::vector<int32_t> ids = t.encode(name, {.parse_special = true});
    if (ids.size() != 1 || t.written(ids[0]) != name) continue;
    return {.mask = ids[0],
            .first = t.adds_bos() && t.bos() ? *t.bos() : -1,
            .last = t.adds_eos() && t.eos() ? *t.eos() : -1,
            .vocab = t.vocab_size()};
  }
  fail("tokenizer: it has no mask, [MASK] or <mask>; use one of an encoder, or bpe:V, which gets one");
}

void append_masked(std::span<const int32_t> ids, const MaskTokens& tokens, const MaskOptions& options, uint64_t seed,
                   int64_t row, int64_t places, Windows& out) {
  constexpr uint64_t kOf10 = 10, kMasked = 8, kRandom = 9, kDraws = 3;
  const Philox random(seed, "mask");
  const auto n = int64_t(ids.size());
  const auto draw = [&](int64_t i, uint64_t which, uint64_t below) {
    return int64_t(random.below((uint64_t(row) << 32) + uint64_t(i) * kDraws + which, below));
  };
  const size_t begin = out.inputs.size();
  if (tokens.first >= 0) out.inputs.push_back(tokens.first);
  const size_t at = out.inputs.size();
  out.inputs.insert(out.inputs.end(), ids.begin(), ids.end());
  if (tokens.last >= 0) out.inputs.push_back(tokens.last);
  const size_t used = out.inputs.size() - begin;
  out.targets.resize(out.inputs.size(), -1);
  // The first `hidden` of a random order.
  std::vector<int64_t> order(size_t(n), 0);
  std::iota(order.begin(), order.end(), 0);
  const int64_t hidden = std::clamp<int64_t>(std::llround(options.fraction * double(n)), 1, n);
  for (int64_t i = 0; i < hidden; ++i) {
    std::swap(order[size_t(i)], order[size_t(i + draw(i, 0, uint64_t(n - i)))]);
    const size_t place = at + size_t(order[size_t(i)]);
    out.targets[place] = out.inputs[place];
    const int64_t kind = draw(i, 1, kOf10);
    if (kind < int64_t(kMasked))
      out.inputs[place] = tokens.mask;
    else if (kind < int64_t(kRandom))
      out.inputs[place] = int32_t(draw(i, 2, uint64_t(tokens.vocab)));
  }
  for (size_t i = 0; i < size_t(places); ++i) {
    out.sequence.push_back(i < used ? int32_t(begin) : int32_t(-1 - int64_t(begin + i)));
    out.position.push_back(i < used ? int32_t(i) : 0);
  }
  out.inputs.resize(begin + size_t(places), 0);
  out.targets.resize(begin + size_t(places), -1);
}

}  // namespace toy
