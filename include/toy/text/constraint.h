// Which tokens may come next: a grammar, a schema, or a caller's own rule.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace toy {

/// Restricts the tokens of one text. It follows the text that is generated, token by token, and is used from one thread
/// at a time. SamplerOptions::constraint holds one for the beginning of a text; each Sampler follows its text with a
/// clone, so options may be copied among requests.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// The same constraint at the same place of a text, independent of this one.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
  /// Sets bit i % 64 of word i / 64 where token i may come next, and clears all others. `allowed` has a bit for each of
  /// the V logits, ceil(V / 64) words. A token that ends a text is allowed only where the text may end.
  virtual void mask(std::span<uint64_t> allowed) = 0;
  /// The text continues with this token. Throws Error{bad_input} for one that mask() does not allow.
  virtual void accept(int32_t token) = 0;
  /// Is the text complete, and may nothing follow but a token that ends it?
  virtual bool finished() const = 0;
};

}  // namespace toy
