#include "toy/decode/state.h"

#include <fmt/format.h>

#include <algorithm>

namespace toy {

DType default_kv(const ModelSpec& spec, const Weights::DTypeOf& dtype_of) {
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  const bool all_f32 =
      std::all_of(tensors.begin(), tensors.end(), [&](const TensorSpec& t) { return dtype_of(t.name) == DType::f32; });
  return all_f32 ? DType::f32 : DType::f16;
}

std::vector<StateSlot> state_slots(const ModelSpec& spec, DecodeShape shape) {
  const int64_t pages = shape.pages(), block = info_of(shape.kv).block;
  check(shape.kv == DType::f32 || shape.kv == DType::f16 || shape.kv == DType::q8_0,
        "decoder: keys and values as {}; use f32, f16 or q8_0", name_of(shape.kv));
  std::vector<StateSlot> slots;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& l = spec.layers[i];
    check(l.d_head % block == 0,
          "decoder: keys and values as {} need heads whose width is a multiple of {}, but "
          "layer {} has {}; use f16",
          name_of(shape.kv), block, i, l.d_head);
    slots.push_back({StateSlot::Kind::paged,
                     fmt::format("blk.{}.state.k", i),
                     {shape.kv, {pages, l.kv_heads, l.d_head, kPagePositions}, 0}});
    slots.push_back({StateSlot::Kind::paged,
                     fmt::format("blk.{}.state.v", i),
                     {shape.kv, {pages, l.kv_heads, kPagePositions, l.d_head}, 0}});
  }
  return slots;
}

void DecodeShape::validate() const {
  constexpr int64_t kMostPositions = (int64_t(1) << 31) - 1;
  check(sequences >= 1, "decoder: {} sequences, expected at least 1", sequences);
  check(context >= 1, "decoder: a context of {} positions, expected at least 1", context);
  check(context <= kMostPositions / sequences, "decoder: {} sequences of {} positions, expected at most {} in all",
        sequences, context, kMostPositions);
}

size_t state_bytes(const ModelSpec& spec, DecodeShape shape, const Device* device) {
  double bytes = 0;  // a shape that was asked for may be larger than 64 bits can count
  const double pages = double(shape.sequences) * double(shape.pages_per_sequence());
  for (const StateSlot& s : state_slots(spec, {1, 1, shape.kv})) {  // one page
    const DType stored = device ? device->storage(s.type.dtype) : s.type.dtype;
    bytes +=
        double(bytes_of(stored, s.type.count())) * (s.kind == StateSlot::Kind::paged ? pages : double(shape.sequences));
  }
  return bytes < 0x1p62 ? size_t(bytes) : size_t(1) << 62;
}

DecodeState::DecodeState(const ModelSpec& spec, const Device& device, DecodeShape shape)
    : shape_(shape), store_(device) {
  shape.validate();
  lengths_.assign(size_t(shape.sequences), 0);
  slots_ = state_slots(spec, shape);
  for (const StateSlot& s : slots_) store_.add(s.name, s.type);
  table_.assign(size_t(shape.pages()), 0);
  users_.assign(size_t(shape.pages()), 0);
  for (int64_t p = shape.pages(); p-- > 0;) free_pages_.push_back(int32_t(p));
}

int64_t DecodeState::length(int sequence) const {
  check(sequence >= 0 && sequence < sequences(), "decoder: sequence {} of {}", sequence, sequences());
  return lengths_[size_t(sequence)];
}

int64_t DecodeState::extend(int sequence, int64_t rows) {
  const int64_t first = length(sequence);
  check(rows >= 0, "decoder: sequence {} cannot be extended by {} positions", sequence, rows);
  check(rows <= context() - first,
        "context: sequence {} holds {} positions, {} more do not fit into {}; use a larger --ctx", sequence, first,
        rows, context());
  const int64_t had = pages_of(sequence);
  if (rows > 0 && first % kPagePositions != 0) {  // goes on in a page; others may hold it, too
    int32_t& last = page(sequence, had - 1);
    if (users_[size_t(last)] > 1) {
      const int32_t own = take_page();
      copy_page(last, own);
      --users_[size_t(last)];
      last = own;
    }
  }
  lengths_[size_t(sequence)] += rows;
  for (int64_t p = had; p < pages_of(sequence); ++p) page(sequence, p) = take_page();
  return first;
}

int32_t DecodeState::take_page() {
  const int32_t p = free_pages_.back();
  free_pages_.pop_back();
  users_[size_t(p)] = 1;
  return p;
}

void DecodeState::copy_page(int32_t from, int32_t to) {
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::paged) copy_item(slot, from, to);
}

void DecodeState::reset(int sequence) { truncate(sequence, 0); }

void DecodeState::truncate(int sequence, int64_t length_wanted) {
  check(length_wanted >= 0 && length_wanted <= length(sequence),
        "decoder: sequence {} has {} positions, cannot be cut to {}", sequence, length(sequence), length_wanted);
  const int64_t had = pages_of(sequence);
  lengths_[size_t(sequence)] = length_wanted;
  for (int64_t p = had; p-- > pages_of(sequence);)
    if (--users_[size_t(page(sequence, p))] == 0) free_pages_.push_back(page(sequence, p));
}

void DecodeState::fork(int from, int to) {
  const auto is_there = [&](int s) { return s >= 0 && s < sequences(); };
  check(is_there(from) && is_there(to) && from != to, "decoder: cannot fork sequence {} of {} into sequence {}", from,
        sequences(), to);
  reset(to);
  lengths_[size_t(to)] = length(from);
  for (int64_t p = 0; p < pages_of(to); ++p) {
    page(to, p) = page(from, p);
    ++users_[size_t(page(to, p))];
  }
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::per_sequence) copy_item(slot, from, to);
}

TensorType DecodeState::item_type(const StateSlot& slot) {
  TensorType t = slot.type;
  t.shape[0] = 1;
  return t;
}

size_t DecodeState::item_bytes(const StateSlot& slot) const {
  return bytes_of(store_.stored(slot.name), item_type(slot).count());
}

Place DecodeState::item(const StateSlot& slot, int64_t index) const {
  return store_.place(slot.name) + size_t(index) * item_bytes(slot);
}

void DecodeState::copy_item(const StateSlot& slot, int64_t from, int64_t to) {
  store_.device().copy(item(slot, to), item(slot, from), item_bytes(slot));
}

StateSnapshot DecodeState::snapshot(int sequence) const {
  StateSnapshot s{length(sequence), {}, {}};
  for (const StateSlot& slot : slots_) {
    s.types.push_back(item_type(slot));
    std::vector<std::byte>& bytes = s.slots.emplace_back();
    const auto append = [&](int64_t index) {
      bytes.resize(bytes.size() + item_bytes(slot));
      store_.device().download(bytes.data() + bytes.size() - item_bytes(slot), item(slot, index), item_bytes(slot));
    };
    if (slot.kind == StateSlot::Kind::per_sequence)
      append(sequence);
    else
      for (int64_t p = 0; p < pages_of(sequence); ++p) append(page(sequence, p));
  }
  return s;
}

void DecodeState::restore(int sequence, const StateSnapshot& s) {
  bool fits =
      s.slots.size() == slots_.size() && s.types.size() == slots_.size() && s.length >= 0 && s.length <= context();
  for (size_t i = 0; fits && i < slots_.size(); ++i) {
    const bool single = slots_[i].kind == StateSlot::Kind::per_sequence;
    const int64_t items = single ? 1 : (s.length + kPagePositions - 1) / kPagePositions;
    fits = s.types[i] == item_type(slots_[i]) && s.slots[i].size() == item_bytes(slots_[i]) * size_t(items);
  }
  check(fits,
        "decoder: the snapshot was taken from a state of other dimensions or types");  // before anything is changed
  reset(sequence);
  extend(sequence, s.length);
  for (size_t i = 0; i < slots_.size(); ++i) {
    size_t at = 0;
    const auto take = [&](int64_t index) {
      store_.device().upload(item(slots_[i], index), s.slots[i].data() + at, item_bytes(slots_[i]));
      at += item_bytes(slots_[i]);
    };
    if (slots_[i].kind == StateSlot::Kind::per_sequence)
      take(sequence);
    else
      for (int64_t p = 0; p < pages_of(sequence); ++p) take(page(sequence, p));
  }
}

}  // namespace toy
