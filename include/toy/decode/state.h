// What sequences carry from call to call while decoding: paged keys and values, and recurrent states.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toy/models/transformer.h"
#include "toy/runtime/session.h"

namespace toy {

/// How much a state holds: sequences of up to `context` positions each.
struct DecodeShape {
  int sequences = 1;
  int64_t context = 0;
  DType kv = DType::f32;  ///< of keys and values: f32, f16 or q8_0
  int64_t rows = 256;     ///< positions that one call adds to all sequences together, where layers have a window
  /// Pages that sequences share in layers without a window; 0: as many as all sequences can fill.
  int64_t shared_pages = 0;
  /// States of sequences that can be kept beside them (DecodeState::keep()): recurrent states and pages of windows.
  int64_t snapshots = 0;
  int64_t take_back = 1;  ///< positions that layers with a window keep, beyond it, for truncate() after further calls
  int64_t pages_per_sequence() const { return context / kPagePositions + (context % kPagePositions > 0 ? 1 : 0); }
  int64_t pages() const { return sequences * pages_per_sequence(); }
  /// Throws Error{bad_input} unless there are 1 to 2^31 - 1 positions in all.
  void validate() const;
};

/// Pages of layers that keep equally much of a sequence: all of it, or the same window.
struct PagePool {
  int64_t window = 0;  ///< 0: all positions
  int64_t pages = 0;   ///< enough for all sequences and any calls, unless DecodeShape::shared_pages says otherwise
  /// The graph's input for the table of its pages, i32[S,G].
  std::string table() const { return window == 0 ? "page_table" : "page_table." + std::to_string(window); }
};
/// The pools of a model, in the order of their first layers. A window that no sequence outgrows keeps all positions.
std::vector<PagePool> page_pools(const ModelSpec& spec, const DecodeShape& shape);

/// One tensor of state, which a layer has declared. Dimension 0 counts pages (`paged`: shared out to sequences as they
/// grow) or sequences, behind which are the states of DecodeShape::snapshots.
struct StateSlot {
  enum class Kind { paged, per_sequence } kind = Kind::paged;
  std::string name;
  TensorType type;
  size_t pool = 0;   ///< where it is paged: the index in page_pools()
  size_t layer = 0;  ///< that has declared it
};

/// The type of keys and values where nobody chooses one: f32 for a model whose tensors are all f32, else f16.
DType default_kv(const ModelSpec& spec, const Weights::DTypeOf& dtype_of);

/// The slots of a model, in the order of its layers. Throws Error{bad_input} for another type of keys and values than
/// f32, f16 and q8_0, and for q8_0 where the width of a head is no multiple of its block.
std::vector<StateSlot> state_slots(const ModelSpec& spec, DecodeShape shape);

/// Bytes of all slots as the device stores them (nullptr: in the slots' own types), asked before they are made.
size_t state_bytes(const ModelSpec& spec, DecodeShape shape, const Device* device = nullptr);

/// Bytes of one page in all layers without a window, in the types of their slots.
size_t shared_page_bytes(const ModelSpec& spec, DecodeShape shape);

/// Bytes of what DecodeState::keep() keeps, at most: recurrent states and windows of one sequence, in the types of
/// their slots. 0: the model has neither.
size_t kept_state_bytes(const ModelSpec& spec, DecodeShape shape);

/// Content of one sequence, copied out: independent of the state that it came from.
struct StateSnapshot {
  int64_t length = 0;
  std::vector<TensorType> types;  ///< of one page, or of one sequence, of each slot
  std::vector<std::vector<std::byte>> slots;
};

/// What a sequence held after some position besides pages of the shared pool, kept in the state itself.
struct KeptState {
  int64_t length = 0;
  int32_t item = -1;                        ///< where recurrent states were copied to; -1: there are none
  std::vector<std::vector<int32_t>> pages;  ///< of each pool with a window, those that position `length` may see
};

/// The recurrent states of a sequence, copied out, to return to their position.
struct RecurrentStates {
  int64_t length = 0;
  std::vector<std::byte> bytes;
};

/// The state of up to `sequences` sequences of up to `context` positions each. Layers with a window keep it, and
/// DecodeShape::take_back positions more, of each sequence; slide() returns the pages before. A recurrent state is only
/// that after the last position: to go back, take a snapshot before.
class DecodeState {
 public:
  /// Throws as DecodeShape::validate(), and Error{failure} naming the size when there is not enough memory.
  DecodeState(const ModelSpec& spec, const Device& device, DecodeShape shape);

  const DecodeShape& shape() const { return shape_; }
  int sequences() const { return shape_.sequences; }
  int64_t context() const { return shape_.context; }
  /// Positions that a sequence holds. Here and below, a sequence that is not there throws Error{bad_input}.
  int64_t length(int sequence) const;
  /// Makes room for `rows` more positions and returns the first of them. Throws Error{bad_input} on a context overrun,
  /// where layers have a window for more than DecodeShape::rows in all since the last slide(), and where the shared
  /// pages do not suffice.
  int64_t extend(int sequence, int64_t rows);
  /// Forgets a sequence: pages that no other sequence shares are free again.
  void reset(int sequence);
  /// Forgets positions from `length` on (a failed or speculative continuation). Throws Error{bad_input} where layers
  /// have forgotten what the next row would see: `length` is neither 0 nor at least shortest().
  void truncate(int sequence, int64_t length);
  /// The least length above 0 to which a sequence can be cut: its own with recurrent layers; with windows what slide()
  /// found, less one position, or less; else 0.
  int64_t shortest(int sequence) const;
  /// Does a layer keep a recurrent state?
  bool recurrent() const;
  /// Copies out the recurrent states of a sequence, if there are any; `to` keeps its memory.
  void save(int sequence, RecurrentStates& to) const;
  /// Returns to the length at which save() was called, where the sequence was only extended since. Throws
  /// Error{bad_input} as truncate() for layers with a window, and for a length that the sequence does not have.
  void rewind(int sequence, const RecurrentStates& to);
  /// Returns the pages that no later row of any sequence sees, if no more than DecodeShape::take_back positions are
  /// taken back. For the beginning of a call.
  void slide();
  /// `to` becomes what `from` holds, and they are independent from there. Pages are shared, not copied; a page that is
  /// not full is copied when one of its sequences continues. There is always a page for that, because sharing saves
  /// one, unless DecodeShape::shared_pages limits them.
  void fork(int from, int to);
  /// Copies out what a sequence holds.
  StateSnapshot snapshot(int sequence) const;
  /// Bytes of each slot in a snapshot of so many positions.
  std::vector<size_t> snapshot_bytes(int64_t length) const;
  /// The sequence becomes what the snapshot holds. Throws if it was taken from a state of other dimensions or types.
  void restore(int sequence, const StateSnapshot& snapshot);

  const std::vector<PagePool>& pools() const { return pools_; }
  /// i32[S,G], row-major: the pages of each sequence in a pool. Entries of pages that are not held mean nothing.
  std::span<const int32_t> page_table(size_t pool) const { return pages_[pool].table; }
  const ParamStore& slots() const { return store_; }
  const std::vector<StateSlot>& slot_list() const { return slots_; }
  size_t bytes() const { return store_.bytes(); }
  /// Pages of a pool that no sequence holds.
  int64_t free_pages(size_t pool = 0) const { return int64_t(pages_[pool].free.size()); }
  /// The pool of layers without a window, in which sequences share pages; nullopt: there are no such layers.
  std::optional<size_t> shared_pool() const;
  /// Pages of the shared pool that it takes to extend each sequence s by `more[s]` positions, copies of shared pages
  /// included; 0 without such a pool.
  int64_t pages_needed(std::span<const int64_t> more) const;
  /// @{
  /// Pages of the shared pool by number, for those who keep them beyond their sequence: page p of a sequence; how many
  /// hold it; one more; one less, the last of whom frees it.
  int32_t page_of(int sequence, int64_t p) const { return page(*shared_pool(), sequence, p); }
  int32_t page_users(int32_t page) const { return pages_[*shared_pool()].users[size_t(page)]; }
  void hold_page(int32_t page) { ++pages_[*shared_pool()].users[size_t(page)]; }
  void release_page(int32_t page) { pages_[*shared_pool()].give_back(page); }
  /// @}
  /// Are pages of the shared pool all that a sequence holds? There are neither windows nor recurrent layers.
  bool only_pages() const { return pools_.size() == 1 && shared_pool() && !recurrent(); }
  /// Keeps what a sequence held after `length` positions, for adopt(): its own length where layers are recurrent, else
  /// one that slide() has not passed. nullopt: there is no room (DecodeShape::snapshots).
  std::optional<KeptState> keep(int sequence, int64_t length);
  /// Does the sequence still hold all that keep() and snapshot() take after so many of its positions? Not so soon after
  /// truncate(), with windows.
  bool can_keep(int sequence, int64_t length) const;
  /// Makes room for another.
  void drop(const KeptState& kept);
  /// An empty sequence becomes one of `length` positions, which are in these pages of the shared pool. `kept`, of the
  /// same length, is what else it held; nullptr where only_pages(). Throws Error{bad_input} where they do not fit.
  void adopt(int sequence, int64_t length, std::span<const int32_t> pages, const KeptState* kept = nullptr);
  /// Recurrent states that keep() has room for.
  int64_t free_snapshots() const { return int64_t(free_items_.size()); }
  /// Throws Error{bad_input} where so many are not free.
  void require_pages(std::span<const int64_t> more) const;

 private:
  // Pages of one pool. A sequence holds those from `first` to the one of its last position.
  struct Pages {
    std::vector<int32_t> table, free;
    std::vector<int32_t> users;             // sequences that hold a page
    std::vector<int64_t> first;             // of each sequence
    std::vector<int32_t> kept;              // KeptStates that hold a page
    int64_t kept_pages = 0, most_kept = 0;  // pages that any of them holds
    int32_t take();
    void give_back(int32_t page);
  };
  void cut(int sequence, int64_t length);
  int64_t shortest_by_windows(int sequence) const;
  int64_t pages_of(int sequence) const { return (length(sequence) + kPagePositions - 1) / kPagePositions; }
  void own_page(size_t pool, int32_t& entry);
  // Item `index` of dimension 0 of a slot: a page, or a sequence.
  Place item(const StateSlot& slot, int64_t index) const;
  static TensorType item_type(const StateSlot& slot);
  size_t item_bytes(const StateSlot& slot) const;
  void copy_item(const StateSlot& slot, int64_t from, int64_t to);
  /// Entry of a pool's table for page p of a sequence.
  int32_t& page(size_t pool, int sequence, int64_t p) {
    return pages_[pool].table[size_t(sequence * shape_.pages_per_sequence() + p)];
  }
  int32_t page(size_t pool, int sequence, int64_t p) const {
    return pages_[pool].table[size_t(sequence * shape_.pages_per_sequence() + p)];
  }
  DecodeShape shape_;
  std::vector<PagePool> pools_;
  std::vector<StateSlot> slots_;
  ParamStore store_;
  std::vector<int64_t> lengths_;
  std::vector<Pages> pages_;         // of each pool
  std::vector<int32_t> free_items_;  // behind the sequences, in slots that are per sequence
  int64_t added_ = 0;                // positions since slide()
};

}  // namespace toy
