// Which rows of its texts a scheduler computes in a call, and who makes room for their pages.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decode/piece_size.h"
#include "decode/shared_prefixes.h"
#include "decode/slots.h"

namespace toy {

/// Sets Slot::rows. Where the cache is full, it forgets prefixes and preempts texts. What it refers to must outlive it.
class RowPlan {
 public:
  RowPlan(Decoder& decoder, std::vector<Slot>& slots, SharedPrefixes& prefixes)
      : decoder_(decoder), slots_(slots), prefixes_(prefixes) {}
  /// Lets the texts begin that can: in a sequence, and with room in the cache. Has one ended with an error?
  bool begin_texts();
  /// How many rows each slot has in the next call.
  void plan();
  /// The planned call has taken so long.
  void learn(double seconds);
  /// As Scheduler::limit_pause().
  void limit_pause(double seconds);
  /// Pages of the shared pool that the planned rows need and that are not free.
  int64_t missing_pages() const;
  /// How often a text was preempted.
  int64_t preemptions() const { return preemptions_; }

 private:
  bool has_room(const Slot& slot) const;
  bool restore(Slot& slot);
  bool forget_prefix();
  bool make_room(Slot& slot);
  size_t room() const;
  size_t readable(const Slot& slot) const;
  void share_room(std::vector<Slot*> reading, std::vector<size_t>& rows) const;
  Slot* last_text();
  Slot* oldest_prefix();

  Decoder& decoder_;
  std::vector<Slot>& slots_;
  SharedPrefixes& prefixes_;
  std::optional<PieceSize> piece_;  // none: calls are as large as they can be
  size_t read_ = 0;                 // rows of prompts in the planned call
  int64_t preemptions_ = 0;
};

}  // namespace toy
