#include "toy/decode/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "decode/pages.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr int64_t kPage = kPagePositions;

using Kind = nn::StateSpec::Kind;

// 0 where a sequence cannot outgrow it.
int64_t window_of(const nn::StateSpec& state, const DecodeShape& shape) {
  return state.window < shape.context ? state.window : 0;
}

// Pages in which the positions may lie that a sequence keeps.
int64_t window_pages(int64_t window, const DecodeShape& shape) {
  return (window + shape.take_back + kPage - 3) / kPage + 1;
}

// n consecutive positions lie in at most (n + 62) / 64 + 1 pages. A sequence holds `window` + `take_back` - 1 positions
// from slide() and those of the call; of these the first of each sequence may begin a page, the others share pages. In
// f64: what was asked for may be larger than 64 bits can count.
double pages_for(int64_t window, const DecodeShape& shape) {
  const double sequences = shape.sequences, all = sequences * double(shape.pages_per_sequence());
  if (window == 0) return shape.shared_pages > 0 ? double(shape.shared_pages) : all;
  const int64_t kept = window_pages(window, shape), growing = std::min<int64_t>(shape.sequences, shape.rows);
  return std::min(all, sequences * double(kept) + double(growing + (shape.rows - growing) / kPage)) +
         double(shape.snapshots) * double(kept);
}

StateSlot slot_of(const nn::StateSpec& s, size_t layer, const DecodeShape& shape, const std::vector<PagePool>& pools) {
  const std::string name = fmt::format("blk.{}.state.{}", layer, s.name);
  if (s.kind == Kind::sequence) {
    Shape all{shape.sequences + shape.snapshots};
    for (const int64_t n : s.shape) all.push_back(n);
    return {StateSlot::Kind::per_sequence, name, {DType::f32, all, 0}, 0, layer};
  }
  const int64_t block = info_of(shape.kv).block, heads = s.shape[0], width = s.shape[1];
  check(width % block == 0,
        "decoder: keys and values as {} need heads whose width is a multiple of {}, but layer {} has {}; use f16",
        name_of(shape.kv), block, layer, width);
  const auto pool =
      std::find_if(pools.begin(), pools.end(), [&](const PagePool& p) { return p.window == window_of(s, shape); });
  const Shape k{pool->pages, heads, width, kPage}, v{pool->pages, heads, kPage, width};
  return {
      StateSlot::Kind::paged, name, {shape.kv, s.kind == Kind::keys ? k : v, 0}, size_t(pool - pools.begin()), layer};
}

std::vector<StateSlot> slots_of(const ModelSpec& spec, const DecodeShape& shape, const std::vector<PagePool>& pools) {
  check(shape.kv == DType::f32 || shape.kv == DType::f16 || shape.kv == DType::q8_0,
        "decoder: keys and values as {}; use f32, f16 or q8_0", name_of(shape.kv));
  const std::vector<std::vector<nn::StateSpec>> states = states_of(spec);
  std::vector<StateSlot> slots;
  for (size_t i = 0; i < states.size(); ++i)
    for (const nn::StateSpec& s : states[i]) slots.push_back(slot_of(s, i, shape, pools));
  return slots;
}

// With one page each.
std::vector<PagePool> pools_of(const ModelSpec& spec, const DecodeShape& shape) {
  std::vector<PagePool> pools;
  for (const std::vector<nn::StateSpec>& layer : states_of(spec))
    for (const nn::StateSpec& s : layer) {
      if (s.kind == Kind::sequence) continue;
      const int64_t window = window_of(s, shape);
      if (std::none_of(pools.begin(), pools.end(), [&](const PagePool& p) { return p.window == window; }))
        pools.push_back({window, 1});
    }
  return pools;
}

}  // namespace

DType default_kv(const ModelSpec& spec, const Weights::DTypeOf& dtype_of) {
  const std::vector<TensorSpec> tensors = tensors_of(spec);
  const bool all_f32 =
      std::all_of(tensors.begin(), tensors.end(), [&](const TensorSpec& t) { return dtype_of(t.name) == DType::f32; });
  return all_f32 ? DType::f32 : DType::f16;
}

std::vector<PagePool> page_pools(const ModelSpec& spec, const DecodeShape& shape) {
  std::vector<PagePool> pools = pools_of(spec, shape);
  for (PagePool& p : pools) p.pages = int64_t(pages_for(p.window, shape));
  return pools;
}

std::vector<StateSlot> state_slots(const ModelSpec& spec, DecodeShape shape) {
  return slots_of(spec, shape, page_pools(spec, shape));
}

void DecodeShape::validate() const {
  constexpr int64_t kMostPositions = (int64_t(1) << 31) - 1;
  check(sequences >= 1, "decoder: {} sequences, expected at least 1", sequences);
  check(context >= 1, "decoder: a context of {} positions, expected at least 1", context);
  check(rows >= 1, "decoder: {} rows in a call, expected at least 1", rows);
  check(snapshots >= 0 && snapshots <= kMostPositions - sequences, "decoder: {} snapshots, expected at least 0",
        snapshots);
  check(take_back >= 1 && take_back <= kMostPositions, "decoder: {} positions to take back, expected at least 1",
        take_back);
  check(shared_pages >= 0, "decoder: {} shared pages, expected at least 1, or 0 for as many as all can fill",
        shared_pages);
  check(context <= kMostPositions / sequences, "decoder: {} sequences of {} positions, expected at most {} in all",
        sequences, context, kMostPositions);
}

size_t shared_page_bytes(const ModelSpec& spec, DecodeShape shape) {
  const std::vector<PagePool> pools = pools_of(spec, shape);
  size_t bytes = 0;
  for (const StateSlot& s : slots_of(spec, shape, pools))
    if (s.kind == StateSlot::Kind::paged && pools[s.pool].window == 0) bytes += bytes_of(s.type.dtype, s.type.count());
  return bytes;
}

size_t kept_state_bytes(const ModelSpec& spec, DecodeShape shape) {
  const std::vector<PagePool> pools = pools_of(spec, shape);
  shape.sequences = 1, shape.snapshots = 0;
  double bytes = 0;
  for (const StateSlot& s : slots_of(spec, shape, pools)) {
    const int64_t window = s.kind == StateSlot::Kind::paged ? pools[s.pool].window : 0;
    const double items = s.kind == StateSlot::Kind::per_sequence ? 1
                         : window > 0                            ? double(window_pages(window, shape))
                                                                 : 0;
    bytes += items * double(bytes_of(s.type.dtype, s.type.count()));
  }
  return size_t(bytes);
}

size_t state_bytes(const ModelSpec& spec, DecodeShape shape, const Device* device) {
  double bytes = 0;
  const std::vector<PagePool> pools = pools_of(spec, shape);
  DecodeShape one = shape;
  one.sequences = 1, one.snapshots = 0;
  for (const StateSlot& s : slots_of(spec, one, pools)) {  // one page, or that of one sequence
    const DType stored = device ? device->storage(s.type.dtype) : s.type.dtype;
    bytes += double(bytes_of(stored, s.type.count())) * (s.kind == StateSlot::Kind::paged
                                                             ? pages_for(pools[s.pool].window, shape)
                                                             : double(shape.sequences) + double(shape.snapshots));
  }
  return bytes < 0x1p62 ? size_t(bytes) : size_t(1) << 62;
}

DecodeState::DecodeState(const ModelSpec& spec, const Device& device, DecodeShape shape)
    : shape_(shape), store_(device) {
  shape.validate();
  lengths_.assign(size_t(shape.sequences), 0);
  pools_ = page_pools(spec, shape);
  slots_ = state_slots(spec, shape);
  for (const StateSlot& s : slots_) store_.add(s.name, s.type);
  for (const PagePool& pool : pools_) {
    Pages& p = pages_.emplace_back();
    p.table.assign(size_t(shape.pages()), 0);
    p.users.assign(size_t(pool.pages), 0);
    p.first.assign(size_t(shape.sequences), 0);
    p.kept.assign(size_t(pool.pages), 0);
    p.most_kept = pool.window > 0 ? shape.snapshots * window_pages(pool.window, shape) : 0;
    for (int64_t i = pool.pages; i-- > 0;) p.free.push_back(int32_t(i));
  }
  if (recurrent())
    for (int64_t i = shape.snapshots; i-- > 0;) free_items_.push_back(int32_t(shape.sequences + i));
}

int64_t DecodeState::length(int sequence) const {
  check(sequence >= 0 && sequence < sequences(), "decoder: sequence {} of {}", sequence, sequences());
  return lengths_[size_t(sequence)];
}

int32_t DecodeState::Pages::take() {
  if (free.empty()) fail_internal("decoder: no page is free");
  const int32_t p = free.back();
  free.pop_back();
  users[size_t(p)] = 1;
  return p;
}

void DecodeState::Pages::give_back(int32_t page) {
  if (--users[size_t(page)] == 0) free.push_back(page);
}

int64_t DecodeState::extend(int sequence, int64_t rows) {
  const int64_t first = length(sequence);
  check(rows >= 0, "decoder: sequence {} cannot be extended by {} positions", sequence, rows);
  check(rows <= context() - first,
        "context: sequence {} holds {} positions, {} more do not fit into {}; use a larger --ctx", sequence, first,
        rows, context());
  const bool windows = std::any_of(pools_.begin(), pools_.end(), [](const PagePool& p) { return p.window > 0; });
  check(!windows || rows <= shape_.rows - added_,
        "decoder: {} positions after {} in one call, but layers with a window were planned for {}", rows, added_,
        shape_.rows);
  if (shape_.shared_pages > 0) {
    std::vector<int64_t> more(lengths_.size());
    more[size_t(sequence)] = rows;
    require_pages(more);
  }
  added_ += rows;
  const int64_t had = pages_of(sequence);
  lengths_[size_t(sequence)] += rows;
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    if (rows > 0 && first % kPage != 0) own_page(pool, page(pool, sequence, had - 1));
    for (int64_t p = had; p < pages_of(sequence); ++p) page(pool, sequence, p) = pages_[pool].take();
  }
  return first;
}

std::optional<size_t> DecodeState::shared_pool() const {
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    if (pools_[pool].window == 0) return pool;
  return std::nullopt;
}

int64_t DecodeState::pages_needed(std::span<const int64_t> more) const {
  const std::optional<size_t> pool = shared_pool();
  if (!pool) return 0;
  int64_t pages = 0;
  std::map<int32_t, int32_t> writers;  // of pages that are not full and that others hold, too
  for (int s = 0; s < sequences(); ++s) {
    const int64_t rows = more[size_t(s)], had = length(s);
    if (rows == 0) continue;
    pages += (had + rows + kPage - 1) / kPage - pages_of(s);
    if (had % kPage != 0) ++writers[page(*pool, s, pages_of(s) - 1)];
  }
  // The last of a page's users keeps it.
  for (const auto& [page, count] : writers) pages += std::min(count, pages_[*pool].users[size_t(page)] - 1);
  return pages;
}

void DecodeState::require_pages(std::span<const int64_t> more) const {
  const int64_t needed = pages_needed(more);
  check(needed == 0 || needed <= free_pages(*shared_pool()),
        "cache: {} more pages of {} positions are needed, but {} are free; use a larger --cache", needed, kPage,
        shared_pool() ? free_pages(*shared_pool()) : 0);
}

// A sequence goes on in this page. Others may hold it, too.
void DecodeState::own_page(size_t pool, int32_t& entry) {
  Pages& pages = pages_[pool];
  if (pages.users[size_t(entry)] == 1) return;
  const int32_t own = pages.take();
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::paged && slot.pool == pool) copy_item(slot, entry, own);
  pages.give_back(entry);
  entry = own;
}

void DecodeState::reset(int sequence) { truncate(sequence, 0); }

void DecodeState::truncate(int sequence, int64_t length_wanted) {
  check(length_wanted >= 0 && length_wanted <= length(sequence),
        "decoder: sequence {} has {} positions, cannot be cut to {}", sequence, length(sequence), length_wanted);
  check(length_wanted == 0 || length_wanted >= shortest(sequence),
        "decoder: sequence {} cannot be cut to {} positions: {} {} or more, or 0", sequence, length_wanted,
        recurrent() ? "a recurrent state does not go back (restore a snapshot); it needs" : "layers with a window need",
        shortest(sequence));
  cut(sequence, length_wanted);
}

void DecodeState::cut(int sequence, int64_t length_wanted) {
  const int64_t had = pages_of(sequence);
  lengths_[size_t(sequence)] = length_wanted;
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    int64_t& first = pages_[pool].first[size_t(sequence)];
    for (int64_t p = had; p-- > std::max(first, pages_of(sequence));) pages_[pool].give_back(page(pool, sequence, p));
    if (length_wanted == 0) first = 0;
  }
}

int64_t DecodeState::shortest(int sequence) const {
  return recurrent() ? length(sequence) : shortest_by_windows(sequence);
}

int64_t DecodeState::shortest_by_windows(int sequence) const {
  int64_t least = 0;
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    if (const int64_t first = pages_[pool].first[size_t(sequence)]; first > 0)
      least = std::max(least, first * kPage + pools_[pool].window - 1);
  return least;
}

bool DecodeState::recurrent() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const StateSlot& s) { return s.kind == StateSlot::Kind::per_sequence; });
}

void DecodeState::save(int sequence, RecurrentStates& to) const {
  to.length = length(sequence);
  to.bytes.clear();
  for (const StateSlot& slot : slots_) {
    if (slot.kind != StateSlot::Kind::per_sequence || to.length == 0) continue;
    to.bytes.resize(to.bytes.size() + item_bytes(slot));
    store_.device().download(to.bytes.data() + to.bytes.size() - item_bytes(slot), item(slot, sequence),
                             item_bytes(slot));
  }
}

void DecodeState::rewind(int sequence, const RecurrentStates& to) {
  size_t bytes = 0;
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::per_sequence && to.length > 0) bytes += item_bytes(slot);
  check(to.length >= 0 && to.length <= length(sequence) && to.bytes.size() == bytes,
        "decoder: sequence {} of {} positions cannot return to the recurrent states of position {}", sequence,
        length(sequence), to.length);
  check(to.length == 0 || to.length >= shortest_by_windows(sequence),
        "decoder: sequence {} cannot be cut to {} positions: layers with a window need {} or more, or 0", sequence,
        to.length, shortest_by_windows(sequence));
  cut(sequence, to.length);
  size_t at = 0;
  for (const StateSlot& slot : slots_) {
    if (slot.kind != StateSlot::Kind::per_sequence || to.length == 0) continue;
    store_.device().upload(item(slot, sequence), to.bytes.data() + at, item_bytes(slot));
    at += item_bytes(slot);
  }
}

void DecodeState::slide() {
  added_ = 0;
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    for (int s = 0; s < sequences(); ++s) {
      int64_t& first = pages_[pool].first[size_t(s)];
      for (; first < first_kept(pools_[pool].window, length(s), shape_); ++first)
        pages_[pool].give_back(page(pool, s, first));
    }
}

void DecodeState::fork(int from, int to) {
  const auto is_there = [&](int s) { return s >= 0 && s < sequences(); };
  check(is_there(from) && is_there(to) && from != to, "decoder: cannot fork sequence {} of {} into sequence {}", from,
        sequences(), to);
  reset(to);
  lengths_[size_t(to)] = length(from);
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    Pages& pages = pages_[pool];
    pages.first[size_t(to)] = pages.first[size_t(from)];
    for (int64_t p = pages.first[size_t(to)]; p < pages_of(to); ++p) {
      page(pool, to, p) = page(pool, from, p);
      ++pages.users[size_t(page(pool, to, p))];
    }
  }
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::per_sequence && length(from) > 0) copy_item(slot, from, to);
}

bool DecodeState::can_keep(int sequence, int64_t kept_length) const {
  if (recurrent() && kept_length != length(sequence)) return false;
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    if (pages_[pool].first[size_t(sequence)] > first_kept(pools_[pool].window, kept_length, shape_)) return false;
  return true;
}

std::optional<KeptState> DecodeState::keep(int sequence, int64_t kept_length) {
  check(kept_length > 0 && kept_length <= length(sequence) && (!recurrent() || kept_length == length(sequence)),
        "decoder: sequence {} has {} positions, and its state after {} cannot be kept", sequence, length(sequence),
        kept_length);
  if (recurrent() && free_items_.empty()) return std::nullopt;
  KeptState kept{kept_length, -1, std::vector<std::vector<int32_t>>(pools_.size())};
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    if (pools_[pool].window == 0) continue;
    const Pages& pages = pages_[pool];
    const int64_t first = first_kept(pools_[pool].window, kept_length, shape_);
    check(pages.first[size_t(sequence)] <= first, "decoder: sequence {} has forgotten what its position {} sees",
          sequence, kept_length);
    int64_t more = 0;
    for (int64_t p = first; p < end_page(kept_length); ++p) {
      kept.pages[pool].push_back(page(pool, sequence, p));
      more += pages.kept[size_t(kept.pages[pool].back())] == 0;
    }
    if (pages.kept_pages + more > pages.most_kept) return std::nullopt;
  }
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    for (const int32_t p : kept.pages[pool]) {
      ++pages_[pool].users[size_t(p)];
      pages_[pool].kept_pages += pages_[pool].kept[size_t(p)]++ == 0;
    }
  if (!recurrent()) return kept;
  kept.item = free_items_.back();
  free_items_.pop_back();
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::per_sequence) copy_item(slot, sequence, kept.item);
  return kept;
}

void DecodeState::drop(const KeptState& kept) {
  for (size_t pool = 0; pool < pools_.size(); ++pool)
    for (const int32_t p : kept.pages[pool]) {
      pages_[pool].kept_pages -= --pages_[pool].kept[size_t(p)] == 0;
      pages_[pool].give_back(p);
    }
  if (kept.item >= 0) free_items_.push_back(kept.item);
}

void DecodeState::adopt(int sequence, int64_t new_length, std::span<const int32_t> pages, const KeptState* kept) {
  check(length(sequence) == 0, "decoder: sequence {} is not empty and cannot take over pages", sequence);
  check(new_length >= 0 && new_length <= context(), "decoder: {} positions are more than a context of {}", new_length,
        context());
  check(kept ? kept->length == new_length : only_pages(), "decoder: the state after {} positions is not there",
        new_length);
  check(int64_t(pages.size()) == (shared_pool() ? end_page(new_length) : 0),
        "decoder: {} pages do not hold {} positions", pages.size(), new_length);
  lengths_[size_t(sequence)] = new_length;
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    const int64_t window = pools_[pool].window;
    const std::span<const int32_t> from = window == 0 ? pages : std::span<const int32_t>(kept->pages[pool]);
    const int64_t first = pages_[pool].first[size_t(sequence)] = first_kept(window, new_length, shape_);
    for (size_t p = 0; p < from.size(); ++p) {
      page(pool, sequence, first + int64_t(p)) = from[p];
      ++pages_[pool].users[size_t(from[p])];
    }
  }
  for (const StateSlot& slot : slots_)
    if (slot.kind == StateSlot::Kind::per_sequence) copy_item(slot, kept->item, sequence);
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

}  // namespace toy
