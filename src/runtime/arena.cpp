#include "runtime/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace toy {
namespace {

bool live_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

// Placed blocks in the order of their offsets, and what can be said of all of them: deep models have tens of thousands.
class Chunk {
 public:
  static constexpr size_t kMost = 128;

  explicit Chunk(size_t align) : align_(align) {}
  size_t begin() const { return blocks_.front().offset; }
  // Below it, `b` does not fit among these blocks, whose offsets are `at` or more; `fits`: it lies in front of one.
  size_t behind(const Block& b, size_t at, bool& fits) const {
    if (b.last < first_ || last_ < b.first) return at;
    if (gap_ < b.bytes && last_first_ <= b.last && b.first <= first_last_) {  // all are in its way
      fits = at + b.bytes <= begin();
      return fits ? at : std::max(at, end_);
    }
    for (const Block& p : blocks_) {
      if (!live_together(p, b)) continue;
      fits = at + b.bytes <= p.offset;
      if (fits) break;
      at = std::max(at, round_up(p.offset + p.bytes, align_));
    }
    return at;
  }
  bool holds(size_t offset) const { return offset < blocks_.back().offset; }
  void insert(const Block& b) {
    blocks_.insert(std::upper_bound(blocks_.begin(), blocks_.end(), b.offset,
                                    [](size_t offset, const Block& x) { return offset < x.offset; }),
                   b);
    look();
  }
  bool full() const { return blocks_.size() == kMost; }
  Chunk upper_half() {
    Chunk upper(align_);
    upper.blocks_.assign(blocks_.begin() + kMost / 2, blocks_.end());
    blocks_.resize(kMost / 2);
    upper.look(), look();
    return upper;
  }

 private:
  void look() {
    first_ = first_last_ = std::numeric_limits<int>::max();
    last_ = last_first_ = std::numeric_limits<int>::min();
    end_ = begin();
    gap_ = 0;
    for (const Block& b : blocks_) {
      first_ = std::min(first_, b.first), last_first_ = std::max(last_first_, b.first);
      last_ = std::max(last_, b.last), first_last_ = std::min(first_last_, b.last);
      gap_ = std::max(gap_, b.offset - std::min(b.offset, end_));
      end_ = std::max(end_, round_up(b.offset + b.bytes, align_));
    }
  }

  size_t align_;
  std::vector<Block> blocks_;
  int first_, last_;             // steps in which one of them lives
  int last_first_, first_last_;  // the last to begin, the first to end: between them all live
  size_t end_;                   // of their memory
  size_t gap_;                   // the largest between them
};

}  // namespace

size_t pack_blocks(std::vector<Block>& blocks, size_t align) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<Chunk> placed;  // sorted by offset
  size_t total = 0;
  for (const size_t i : order) {
    Block& b = blocks[i];
    bool fits = false;
    b.offset = 0;
    for (size_t c = 0; c < placed.size() && !fits; ++c) b.offset = placed[c].behind(b, b.offset, fits);
    total = std::max(total, b.offset + b.bytes);
    size_t c = 0;
    while (c + 1 < placed.size() && !placed[c].holds(b.offset)) ++c;
    if (placed.empty()) placed.emplace_back(align);
    placed[c].insert(b);
    if (placed[c].full()) placed.insert(placed.begin() + ptrdiff_t(c) + 1, placed[c].upper_half());
  }
  return round_up(total, align);
}

}  // namespace toy
