#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

namespace toy {
namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t at) { return (at + kAlign - 1) / kAlign * kAlign; }

// Of each step, up to where memory is taken without a gap: a segment tree. Deep models have tens of thousands of blocks
// that live together, and none fits below.
class Floor {
 public:
  explicit Floor(int steps) {
    while (size_ < steps) size_ *= 2;
    nodes_.resize(2 * size_t(size_));
  }
  // The highest of the steps [first, last].
  size_t highest(int first, int last) { return highest(1, 0, size_, first, last + 1); }
  // [from, to) is taken in the steps [first, last].
  void take(int first, int last, size_t from, size_t to) { take(1, 0, size_, first, last + 1, from, to); }

 private:
  struct Node {
    size_t low = 0, high = 0;  // of its steps
  };

  size_t highest(size_t n, int begin, int end, int first, int stop) {
    if (stop <= begin || end <= first) return 0;
    if ((first <= begin && end <= stop) || nodes_[n].low == nodes_[n].high) return nodes_[n].high;
    const int middle = begin + (end - begin) / 2;
    return std::max(highest(2 * n, begin, middle, first, stop), highest(2 * n + 1, middle, end, first, stop));
  }
  void take(size_t n, int begin, int end, int first, int stop, size_t from, size_t to) {
    Node& node = nodes_[n];
    if (stop <= begin || end <= first || node.high < from || node.low >= to) return;
    if (first <= begin && end <= stop && node.low >= from && node.high <= to) {
      node = {to, to};
      return;
    }
    const int middle = begin + (end - begin) / 2;
    Node &left = nodes_[2 * n], &right = nodes_[2 * n + 1];
    if (node.low == node.high) left = right = node;  // what is below may be older
    take(2 * n, begin, middle, first, stop, from, to);
    take(2 * n + 1, middle, end, first, stop, from, to);
    node = {std::min(left.low, right.low), std::max(left.high, right.high)};
  }

  int size_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace

size_t pack_blocks(std::vector<Block>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  int steps = 1;
  for (const Block& b : blocks) steps = std::max(steps, b.last + 1);
  Floor floor(steps);
  const size_t widest = blocks.empty() ? 0 : blocks[order[0]].bytes;
  std::vector<Block> placed;  // sorted by offset
  size_t total = 0;
  for (const size_t i : order) {
    Block& b = blocks[i];
    // What ends below the floor is in no one's way; an empty block fits between any two.
    size_t at = b.bytes > 0 ? floor.highest(b.first, b.last) : 0;
    auto p = std::lower_bound(placed.begin(), placed.end(), at - std::min(at, widest),
                              [](const Block& x, size_t offset) { return x.offset < offset; });
    for (; p != placed.end(); ++p) {
      if (p->last < b.first || b.last < p->first) continue;
      if (at + b.bytes <= p->offset) break;
      at = std::max(at, aligned(p->offset + p->bytes));
    }
    b.offset = at;
    total = std::max(total, at + b.bytes);
    if (b.bytes > 0) floor.take(b.first, b.last, at, aligned(at + b.bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), at,
                                   [](size_t offset, const Block& x) { return offset < x.offset; }),
                  b);
  }
  return aligned(total);
}

}  // namespace toy
