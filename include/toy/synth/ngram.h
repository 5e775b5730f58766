// A byte n-gram model: the baseline that a trained model has to beat.
//
// Interpolated modified Kneser-Ney smoothing (Chen and Goodman, "An empirical study of smoothing techniques
// for language modeling", Computer Speech and Language 13, 1999, section 3):
//
//   p(w | h) = (c(hw) - D(c(hw))) / c(h) + gamma(h) p(w | h'),   gamma(h) = sum over w of D(c(hw)) / c(h)
//
// where h' is h without its first byte, c counts occurrences at the highest order and distinct preceding
// bytes below it, and D takes the values D1, D2, D3+ for counts of 1, 2, 3 or more (eq. 26). The last resort
// is 1/256.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace toy {

/// A trained model of order n.
class NgramModel {
 public:
  /// Order n looks at n-1 bytes of context; 1 <= order <= 8. Throws Error{bad_input} for an empty text.
  static NgramModel train(std::string_view text, int order = 5);

  /// p(next | the end of context). Sums to one over the 256 bytes; never zero.
  double probability(std::string_view context, uint8_t next) const;
  /// Mean -log p of the text's bytes, each given those before it. Throws Error{bad_input} for an empty text.
  double nats_per_byte(std::string_view text) const;
  int order() const { return int(levels_.size()); }

 private:
  struct Entry {
    uint8_t byte;
    uint32_t count;
  };
  struct Context {
    uint32_t begin, end;  // its entries
    double total, gamma;
  };
  /// All n-grams of one order.
  struct Level {
    std::vector<uint64_t> keys;         // the contexts' bytes, sorted
    std::vector<Context> contexts;      // by key
    std::vector<Entry> entries;         // sorted by context, then byte
    std::array<double, 4> discounts{};  // D(0) = 0, D1, D2, D3+

    double discount(uint32_t count) const { return discounts[count < 3 ? count : 3]; }
  };

  static Level build(const std::vector<uint64_t>& keys);

  std::vector<Level> levels_;  // [n-1]: order n
};

}  // namespace toy
