// What sequences carry from call to call while decoding: one abstraction for paged caches and (later) recurrent states.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "toy/models/spec.h"
#include "toy/nn/weights.h"
#include "toy/runtime/session.h"

namespace toy {

/// How much a state holds: sequences of up to `context` positions each.
struct DecodeShape {
  int sequences = 1;
  int64_t context = 0;
  DType kv = DType::f32;  ///< of keys and values: f32, f16 or q8_0
  int64_t pages_per_sequence() const { return context / kPagePositions + (context % kPagePositions > 0 ? 1 : 0); }
  int64_t pages() const { return sequences * pages_per_sequence(); }
  /// Throws Error{bad_input} unless there are 1 to 2^31 - 1 positions in all.
  void validate() const;
};

/// One tensor of state. Dimension 0 counts pages (`paged`: shared out to sequences as they grow) or sequences.
struct StateSlot {
  enum class Kind { paged, per_sequence } kind = Kind::paged;
  std::string name;
  TensorType type;
};

/// The type of keys and values where nobody chooses one: f32 for a model whose tensors are all f32, else f16.
DType default_kv(const ModelSpec& spec, const Weights::DTypeOf& dtype_of);

/// The slots that a model's layers need. Throws Error{bad_input} for another type of keys and values than f32, f16 and
/// q8_0, and for q8_0 where the width of a head is no multiple of its block.
std::vector<StateSlot> state_slots(const ModelSpec& spec, DecodeShape shape);

/// Bytes of all slots as the device stores them (nullptr: in the slots' own types), asked before they are made.
size_t state_bytes(const ModelSpec& spec, DecodeShape shape, const Device* device = nullptr);

/// Content of one sequence, copied out: independent of the state that it came from.
struct StateSnapshot {
  int64_t length = 0;
  std::vector<TensorType> types;  ///< of one page, or of one sequence, of each slot
  std::vector<std::vector<std::byte>> slots;
};

/// The state of up to `sequences` sequences of up to `context` positions each.
class DecodeState {
 public:
  /// Throws as DecodeShape::validate(), and Error{failure} naming the size when there is not enough memory.
  DecodeState(const ModelSpec& spec, const Device& device, DecodeShape shape);

  const DecodeShape& shape() const { return shape_; }
  int sequences() const { return shape_.sequences; }
  int64_t context() const { return shape_.context; }
  /// Positions that a sequence holds. Here and below, a sequence that is not there throws Error{bad_input}.
  int64_t length(int sequence) const;
  /// Makes room for `rows` more positions and returns the first of them. Throws Error{bad_input} on a context overrun.
  int64_t extend(int sequence, int64_t rows);
  /// Forgets a sequence: pages that no other sequence shares are free again.
  void reset(int sequence);
  /// Forgets positions from `length` on (a failed or speculative continuation).
  void truncate(int sequence, int64_t length);
  /// `to` becomes what `from` holds, and they are independent from there. Pages are shared, not copied; a page that is
  /// not full is copied when one of its sequences continues. There is always a page for that: sharing saves one.
  void fork(int from, int to);
  /// Copies out what a sequence holds.
  StateSnapshot snapshot(int sequence) const;
  /// The sequence becomes what the snapshot holds. Throws if it was taken from a state of other dimensions or types.
  void restore(int sequence, const StateSnapshot& snapshot);

  /// i32[S,G], row-major: pages of each sequence.
  std::span<const int32_t> page_table() const { return table_; }
  const ParamStore& slots() const { return store_; }
  const std::vector<StateSlot>& slot_list() const { return slots_; }
  size_t bytes() const { return store_.bytes(); }
  /// Pages that no sequence holds.
  int64_t free_pages() const { return int64_t(free_pages_.size()); }

 private:
  int64_t pages_of(int sequence) const { return (length(sequence) + kPagePositions - 1) / kPagePositions; }
  int32_t take_page();
  void copy_page(int32_t from, int32_t to);
  // Item `index` of dimension 0 of a slot: a page, or a sequence.
  Place item(const StateSlot& slot, int64_t index) const;
  static TensorType item_type(const StateSlot& slot);
  size_t item_bytes(const StateSlot& slot) const;
  void copy_item(const StateSlot& slot, int64_t from, int64_t to);
  /// Entry of the page table for page p of a sequence.
  int32_t& page(int sequence, int64_t p) { return table_[size_t(sequence * shape_.pages_per_sequence() + p)]; }
  int32_t page(int sequence, int64_t p) const { return table_[size_t(sequence * shape_.pages_per_sequence() + p)]; }
  DecodeShape shape_;
  std::vector<StateSlot> slots_;
  ParamStore store_;
  std::vector<int64_t> lengths_;
  std::vector<int32_t> table_, free_pages_;
  std::vector<int32_t> users_;  // sequences that hold a page
};

}  // namespace toy
