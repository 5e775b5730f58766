// Runs an Automaton on bytes: all ways to read the text so far, at once, with what each has to return to.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "grammar/automaton.h"

namespace toy::grammar {

/// Where a finished rule returns to: a state of the rule that called it, and the frame of that one.
struct Return {
  int32_t state = 0, frame = 0;
  int32_t count = 0;  ///< characters so far of the counted part that the state is in
  auto operator<=>(const Return&) const = default;
};

/// A state of a rule, without what the rule returns to.
struct RulePlace {
  int32_t state = 0, count = 0;
  auto operator<=>(const RulePlace&) const = default;
};

/// The stacks of all ways to read a text, and the steps between them. A frame is a list of places that may be returned
/// to, so ways that call the same rule at the same byte share it: there are no more of them than bytes times rules,
/// however ambiguous the grammar is. Equal lists are one frame, equal sets of ways are one state; so a step that was
/// made once is a look-up.
class Matcher {
 public:
  static constexpr size_t kMostSize = 500'000;      ///< size() from which a matcher is made anew
  static constexpr int32_t kDead = 0, kBottom = 0;  ///< the state without ways; the frame that ends the text
  explicit Matcher(const Automaton& automaton);

  /// Before the first byte.
  int32_t start();
  /// A state that is at these places of one rule, whose end is the end of the text.
  int32_t inside(const std::vector<RulePlace>& places);
  /// After one more byte. Throws Error{bad_input} where the grammar is so ambiguous that kMaxWays do not suffice.
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t known = next_[size_t(state) * classes_ + automaton_->class_of[byte]];
    return known >= 0 ? known : compute(state, automaton_->class_of[byte]);
  }
  /// After the rules of this frame have ended.
  int32_t after(int32_t frame);

  /// May the text end here?
  bool done(int32_t state) const { return states_[size_t(state)].done; }
  /// May anything follow?
  bool goes_on(int32_t state) const { return !states_[size_t(state)].ways.empty(); }
  /// The ways: states that read a byte, with their frames, sorted by frame.
  const std::vector<Return>& ways(int32_t state) const { return states_[size_t(state)].ways; }

  /// Ways that are followed count as work. More than kMostWork is an error, so a mask takes a bounded time whatever the
  /// grammar. `spent`: what was done before and still counts.
  void restart_work(size_t spent = 0) { work_ = spent; }
  size_t work() const { return work_; }
  /// Further work.
  void spend(size_t work);

  size_t count() const { return states_.size(); }
  /// Ways of all states, and places of all frames: what the matcher's memory grows with.
  size_t size() const { return size_; }
  /// A matcher that knows only what this state needs, which is the returned one in it.
  Matcher reduced(int32_t state, int32_t& to) const;

 private:
  static constexpr size_t kMaxWays = 1'000, kMostWork = 400'000;
  struct State {
    std::vector<Return> ways;
    bool done = false;
    auto operator<=>(const State&) const = default;
  };
  int32_t compute(int32_t state, uint8_t group);
  int32_t close(const std::vector<Return>& ended, bool fresh);
  int32_t intern(State state);
  int32_t intern_frame(std::vector<Return> returns);

  const Automaton* automaton_;
  size_t classes_, work_ = 0, size_ = 0;
  std::vector<State> states_;
  std::vector<int32_t> next_;  // of each state and class; -1: not known
  std::vector<std::vector<Return>> frames_;
  std::vector<int32_t> after_;  // of each frame; -1: not known
  std::map<State, int32_t> state_ids_;
  std::map<std::vector<Return>, int32_t> frame_ids_;
};

}  // namespace toy::grammar
