// Speculative decoding of a scheduler's texts: tokens are proposed before a call and taken back after it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "decode/row_plan.h"
#include "decode/slots.h"
#include "decode/speculation.h"

namespace toy {

/// Adds proposed tokens to the rows of a call. What it refers to must outlive it.
class Speculator {
 public:
  /// Throws as SpeculationOptions::validate() and DraftModel do.
  Speculator(Decoder& decoder, std::vector<Slot>& slots, const SpeculationOptions& options);
  /// Proposed tokens take what is left of a planned call: neither prompts nor other texts wait for them.
  void propose(const RowPlan& plan);
  /// After the call: a token was accepted, which is the one that was proposed if fewer of those are `wrong` now.
  void count(Slot& slot);
  /// Takes back the proposed tokens that were wrong.
  void settle(Slot& slot);
  const SpeculationCounts& counts() const { return counts_; }

 private:
  size_t most_proposed(const Slot& slot, size_t texts) const;
  void read_again(Slot& slot, std::span<const int32_t> tokens);

  Decoder& decoder_;
  std::vector<Slot>& slots_;
  SpeculationOptions options_;
  SpeculationCounts counts_;
  std::unique_ptr<DraftModel> draft_;  // nullptr: no model proposes
};

}  // namespace toy
