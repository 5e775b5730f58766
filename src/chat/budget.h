// What a rendering may use up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace toy::chat {

/// Why a template cannot be rendered. Whoever knows the place in the template adds it.
struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a rendering may still use up. Whoever does work in proportion to something spends in proportion to it: a step
/// is an evaluated node, a comparison, half an element of a list, or 16 bytes of a text that are read or made.
class Budget {
 public:
  Budget(int64_t steps, size_t output) : steps_(steps), output_(output) {}
  /// Throws Problem where it is used up.
  void spend(uint64_t steps) {
    if (steps > uint64_t(steps_ - used_)) throw Problem("the template takes too many steps; does it end?");
    used_ += int64_t(steps);
  }
  /// For a text of `bytes` that is gone through once.
  void spend_reading(size_t bytes) { spend(bytes / 16 + 1); }
  /// For one whose characters are looked up or changed, each by itself.
  void spend_characters(size_t bytes) { spend(bytes / 4 + 1); }
  /// For a text of `bytes`, of which `added` are new.
  void spend_text(size_t bytes, size_t added) {
    if (bytes > output_) throw Problem("a text becomes too long");
    spend(added / 16 + 1);
  }

  /// Counts values in each other, as long as something goes through them.
  class Nested {
   public:
    explicit Nested(Budget& budget) : budget_(budget) {
      constexpr int kMost = 250;
      if (budget_.nested_ >= kMost) throw Problem("lists or dicts lie too deep in each other");
      ++budget_.nested_;
    }
    ~Nested() { --budget_.nested_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Budget& budget_;
  };

 private:
  int64_t steps_, used_ = 0;
  size_t output_;
  int nested_ = 0;
};

/// A text that grows within a budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}
  TextBuilder& operator+=(std::string_view part) {
    budget_->spend_text(text_.size() + part.size(), part.size());
    text_ += part;
    return *this;
  }
  /// `part`, so many times.
  void repeat(std::string_view part, uint64_t times) {
    if (part.empty() || times == 0) return;
    if (times > (uint64_t(1) << 48) / part.size()) throw Problem("a text becomes too long");
    const size_t added = part.size() * size_t(times);
    budget_->spend_text(text_.size() + added, added);
    text_.reserve(text_.size() + added);
    for (; times > 0; --times) text_ += part;
  }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }
  Budget& budget() const { return *budget_; }

 private:
  Budget* budget_;
  std::string text_;
};

}  // namespace toy::chat
