// What a Scheduler knows of its requests and of the decoder's sequences that it gives them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "decode/prefix_tree.h"
#include "toy/decode/scheduler.h"

namespace toy {

struct Slot;

/// Logits or hidden states that a call gives: those after a position of a slot's history.
struct RowResult {
  Slot* slot;
  size_t position;
  int32_t token = 0;                  ///< that the call has there
  std::optional<size_t> hidden = {};  ///< number of its hidden states among those of the call, if it gives them
};

/// A request that has not ended.
struct Job {
  GenerateRequest request;
  int64_t number = 0;  ///< in the order in which they were added
  Sampler sampler;
  std::vector<int32_t> history;  ///< prompt and text
  size_t fed = 0;                ///< of the history
  Generated result = {};
  size_t hidden_seen = 0;              ///< position after the last one that on_hidden has seen
  std::vector<size_t> snapshots = {};  ///< positions after which the prompt's state is worth keeping, in order
  bool in_progress = false;            ///< its sequence has been at the last token; rows that are missing now are few
  AcceptanceRate rate = {};

  /// Smaller ones come first.
  std::pair<int, int64_t> order() const { return {request.priority, number}; }
  /// Where on_hidden continues.
  size_t next_hidden() const { return std::max(request.hidden_from, hidden_seen); }
  /// Tokens that no call has computed.
  size_t left() const { return history.size() - fed; }
  bool writing() const { return in_progress || left() == 1; }
  /// Are these the logits of its next token?
  bool continues(const RowResult& row) const {
    return row.position + 1 == history.size() && history[row.position] == row.token;
  }
  /// Is there no text, but a state to take or to give?
  bool is_state() const { return request.on_state || request.state; }
  /// Does the score of the token after this position of the prompt have to be computed?
  bool scores(size_t position) const {
    return request.score_prompt && position + 1 < request.prompt.size() && position >= result.prompt.size();
  }
};

/// A sequence of the decoder.
struct Slot {
  int sequence = 0;
  bool used = false;
  std::unique_ptr<Job> job = {};
  bool begun = false;                  ///< the job is told what it need not compute
  bool known = false;                  ///< is it known which tokens the sequence holds?
  std::vector<int32_t> held = {};      ///< these,
  PrefixSpace space = {};              ///< where they were computed
  size_t rows = 0;                     ///< of the call that is being made, proposed ones included
  std::vector<int32_t> proposed = {};  ///< tokens after the history in this call
  size_t wrong = 0;                    ///< of these, as far as known
  RecurrentStates before = {};         ///< at the beginning of a call with proposed tokens
  size_t pause = 0;                    ///< > 0: the call ends here in the history, where another text takes over
  int64_t used_at = 0;                 ///< the step that last computed something in it

  /// Has it a text that computes?
  bool busy() const { return job && begun; }
  /// The sequence becomes empty.
  void forget(DecodeState& state) {
    state.reset(sequence);
    held.clear();
    known = false;
    used = true;
  }
};

/// Of several calls that throw, the first to do so.
class FirstError {
 public:
  template <class Call>
  void guard(Call&& call) {
    try {
      call();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace toy
