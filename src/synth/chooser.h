// A chooser decides at each choice point of a story: by drawing (writing) or by matching a text (scoring).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "toy/base/philox.h"

namespace toy {

/// One way to continue.
struct Option {
  std::string_view head;  ///< the text that surely comes next if this option is taken
  double weight;          ///< its share of the probability; 0: impossible here
};

/// The story teller asks choose() and then tells the text of the chosen option, head included, by literal().
class Chooser {
 public:
  virtual ~Chooser() = default;

  /// Index of the option taken; adds -log of its probability to nats().
  size_t choose(std::span<const Option> options);
  virtual void literal(std::string_view text) = 0;

  double nats() const { return nats_; }

 protected:
  virtual size_t select(std::span<const Option> options, double total) = 0;

 private:
  double nats_ = 0;
};

/// Draws with Philox and writes the story to `out`. The draws depend on (seed, story) alone.
class DrawingChooser : public Chooser {
 public:
  DrawingChooser(uint64_t seed, uint64_t story, std::string& out);
  void literal(std::string_view text) override { out_ += text; }

 protected:
  size_t select(std::span<const Option> options, double total) override;

 private:
  Philox random_;
  uint64_t next_;
  std::string& out_;
};

/// Recovers the choices from a text. Exactly one option's head must match at each choice point: no match is
/// the caller's Error, two matches would be an ambiguous grammar and are an internal one. So a text that was
/// scored is proven to have a single derivation.
class MatchingChooser : public Chooser {
 public:
  MatchingChooser(std::string_view text, size_t offset) : text_(text), offset_(offset) {}
  void literal(std::string_view text) override;
  size_t offset() const { return offset_; }

 protected:
  size_t select(std::span<const Option> options, double total) override;

 private:
  std::string_view text_;
  size_t offset_;
};

}  // namespace toy
