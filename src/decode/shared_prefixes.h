// What texts need not compute, because another text has: taking it over from sequences and from the cache, and keeping
// it for later ones.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "decode/prefix_tree.h"
#include "decode/slots.h"

namespace toy {

/// The prefixes that a scheduler's texts share. Decoder and slots must outlive it.
class SharedPrefixes {
 public:
  SharedPrefixes(Decoder& decoder, std::vector<Slot>& slots);
  /// As Scheduler::share_from().
  void share_from(size_t tokens) { worth_sharing_ = std::max<size_t>(tokens, 1); }
  /// Takes over what some sequence or the cache holds of the text in a slot, which computes from there. False: an
  /// earlier text is about to compute more of it.
  bool begin(Slot& slot);
  /// The same from GenerateRequest::state, in a sequence that is empty. Throws as DecodeState::restore().
  void restore(Slot& slot);
  /// What a sequence holds can be found by later texts, although it is about to hold another.
  void remember(const Slot& slot);
  /// States of the prompts that the call has reached can be found by later texts.
  void remember_snapshots();
  /// So can pages that the call has filled.
  void remember_pages();
  /// As PrefixTree::evict().
  bool evict() { return tree_ && tree_->evict(); }
  /// As PrefixTree::exchange(), for what the sequence holds.
  bool exchange(const Slot& slot) {
    return tree_ && slot.known && tree_->exchange(slot.held, slot.space, slot.sequence);
  }
  /// Snapshots that are kept.
  int64_t snapshots() const { return tree_ ? tree_->snapshots() : 0; }
  /// Tokens that were not computed because a sequence or the cache held them.
  int64_t shared_tokens() const { return shared_tokens_; }

 private:
  struct Source;
  void use_space(Slot& slot);
  Source find_source(const Job& job, std::span<const int32_t> prompt);
  void plan_snapshots(Job& job, size_t shared, size_t known) const;

  Decoder& decoder_;
  std::vector<Slot>& slots_;
  std::unique_ptr<PrefixTree> tree_;  // nullptr: pages are not kept beyond their sequence
  size_t worth_sharing_ = size_t(kPagePositions);
  int64_t shared_tokens_ = 0;
};

}  // namespace toy
