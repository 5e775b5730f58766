// What a sequence holds, copied out and back.
#include "decode/pages.h"
#include "toy/base/error.h"
#include "toy/decode/state.h"

namespace toy {

StateSnapshot DecodeState::snapshot(int sequence) const {
  StateSnapshot s{length(sequence), {}, {}};
  if (!can_keep(sequence, s.length)) fail_internal("decoder: sequence {} has forgotten what it would save", sequence);
  const std::vector<size_t> sizes = snapshot_bytes(s.length);
  for (const StateSlot& slot : slots_) {
    s.types.push_back(item_type(slot));
    std::vector<std::byte>& bytes = s.slots.emplace_back();
    bytes.reserve(sizes[s.slots.size() - 1]);
    const auto append = [&](int64_t index) {
      bytes.resize(bytes.size() + item_bytes(slot));
      store_.device().download(bytes.data() + bytes.size() - item_bytes(slot), item(slot, index), item_bytes(slot));
    };
    if (slot.kind == StateSlot::Kind::per_sequence) {
      if (s.length > 0) append(sequence);
    } else {
      for (int64_t p = first_kept(pools_[slot.pool].window, s.length, shape_); p < pages_of(sequence); ++p)
        append(page(slot.pool, sequence, p));
    }
  }
  return s;
}

std::vector<size_t> DecodeState::snapshot_bytes(int64_t length) const {
  std::vector<size_t> bytes;
  for (const StateSlot& slot : slots_) {
    const bool paged = slot.kind == StateSlot::Kind::paged;
    const int64_t items = paged        ? end_page(length) - first_kept(pools_[slot.pool].window, length, shape_)
                          : length > 0 ? 1
                                       : 0;
    bytes.push_back(item_bytes(slot) * size_t(items));
  }
  return bytes;
}

void DecodeState::restore(int sequence, const StateSnapshot& s) {
  bool fits =
      s.slots.size() == slots_.size() && s.types.size() == slots_.size() && s.length >= 0 && s.length <= context();
  const std::vector<size_t> bytes = fits ? snapshot_bytes(s.length) : std::vector<size_t>();
  for (size_t i = 0; fits && i < slots_.size(); ++i)
    fits = s.types[i] == item_type(slots_[i]) && s.slots[i].size() == bytes[i];
  check(fits, "decoder: the snapshot was taken from a state of other dimensions or types");  // before anything changes
  reset(sequence);
  const int64_t end = end_page(s.length);
  const auto first_of = [&](size_t pool) { return first_kept(pools_[pool].window, s.length, shape_); };
  if (const auto pool = shared_pool(); pool && s.length > 0)
    check(end <= free_pages(*pool), "cache: a snapshot of {} pages does not fit into {}; use a larger --cache", end,
          free_pages(*pool));
  lengths_[size_t(sequence)] = s.length;
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    const int64_t first = pages_[pool].first[size_t(sequence)] = first_of(pool);
    for (int64_t p = first; p < end; ++p) page(pool, sequence, p) = pages_[pool].take();
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    size_t at = 0;
    const auto take = [&](int64_t index) {
      store_.device().upload(item(slots_[i], index), s.slots[i].data() + at, item_bytes(slots_[i]));
      at += item_bytes(slots_[i]);
    };
    if (slots_[i].kind == StateSlot::Kind::per_sequence) {
      if (s.length > 0) take(sequence);
    } else {
      for (int64_t p = first_of(slots_[i].pool); p < end; ++p) take(page(slots_[i].pool, sequence, p));
    }
  }
}

}  // namespace toy
