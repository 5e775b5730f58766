#include "backend/gpu/fuse.h"

#include <algorithm>
#include <functional>
#include <map>

#include "backend/gpu/launches.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

constexpr size_t kLookAhead = 6;     // calls
constexpr size_t kMostSkipped = 64;  // calls between two tensors of a launch

// A kernel that takes several of something: arguments [same, slots) are the same for all of them, then come the slots.
struct Several {
  Kernel kernel;
  size_t same, slots, of_a_slot, count;
};
constexpr Several kSeveral[] = {{Kernel::product_few, 0, 5, 7, kProductsOfFew}};

// Bytes of memory.
struct Bytes {
  uintptr_t begin = 0, end = 0;
  bool meets(const Bytes& other) const { return begin < other.end && other.begin < end; }
};
Bytes bytes_of_view(const View& v) {
  if (!v.data || v.count() == 0) return {};
  int64_t last = 0;
  if (!v.contiguous())
    for (int d = 0; d < v.shape.rank(); ++d) last += (v.shape[d] - 1) * v.stride[size_t(d)];
  const auto begin = reinterpret_cast<uintptr_t>(v.data);
  return {begin, begin + (v.contiguous() ? v.bytes() : size_t(last + 1) * size_of(v.dtype))};
}

// Any bytes of memory.
class ByteSet {
 public:
  void add(Bytes b) {
    if (b.begin == b.end) return;
    auto at = ranges_.upper_bound(b.begin);
    if (at != ranges_.begin() && std::prev(at)->second >= b.begin) --at;
    for (; at != ranges_.end() && at->first <= b.end; at = ranges_.erase(at))
      b = {std::min(b.begin, at->first), std::max(b.end, at->second)};
    ranges_.emplace(b.begin, b.end);
  }
  bool meets(std::span<const View> views) const {
    return std::ranges::any_of(views, [&](const View& v) {
      const Bytes b = bytes_of_view(v);
      const auto after = ranges_.lower_bound(b.end);  // begins where it ends, or behind
      return b.begin < b.end && after != ranges_.begin() && std::prev(after)->second > b.begin;
    });
  }

 private:
  std::map<uintptr_t, uintptr_t> ranges_;  // ends by beginnings, apart from each other
};

// What some calls read and write.
class Touched {
 public:
  void add(const KernelCall& c) {
    for (const View& v : c.in) read_.add(bytes_of_view(v));
    for (const View& v : c.out) written_.add(bytes_of_view(v));
  }
  // Could the call run before them?
  bool allows(const KernelCall& c) const {
    return !written_.meets(c.in) && !written_.meets(c.out) && !read_.meets(c.out);
  }

 private:
  ByteSet read_, written_;
};

// Where each call's launches are, and which of them another launch has taken over.
class Fusing {
 public:
  Fusing(const Driver& driver, std::span<const KernelCall> calls, std::span<const Launch> launches,
         std::span<const size_t> ends)
      : driver_(driver), calls_(calls), ends_(ends), list_(launches.begin(), launches.end()), taken_(launches.size()) {}

  std::vector<Launch> run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!lone(i)) continue;
      join_several(i);
      join_tensors(i);
      join_norm(i);
    }
    std::vector<Launch> rest;
    for (size_t i = 0; i < list_.size(); ++i)
      if (!taken_[i]) rest.push_back(std::move(list_[i]));
    return rest;
  }

 private:
  size_t begin(size_t call) const { return call == 0 ? 0 : ends_[call - 1]; }
  // Has the call one launch, and nothing else of its own?
  bool lone(size_t call) const {
    return ends_[call] == begin(call) + 1 && !taken_[begin(call)] && !calls_[call].workspace;
  }

  void join_several(size_t i) {
    Launch& l = list_[begin(i)];
    const auto s = std::ranges::find(kSeveral, l.kernel, &Several::kernel);
    if (s == std::end(kSeveral)) return;
    size_t filled = 1;
    const auto same = [&](const Launch& m) {
      return std::equal(l.args.begin() + ptrdiff_t(s->same), l.args.begin() + ptrdiff_t(s->slots),
                        m.args.begin() + ptrdiff_t(s->same));
    };
    const auto join = [&](const Launch& m) {
      std::copy_n(m.args.begin() + ptrdiff_t(s->slots), s->of_a_slot,
                  l.args.begin() + ptrdiff_t(s->slots + s->of_a_slot * filled));
      return ++filled < s->count;
    };
    join_later(i, kLookAhead, false, same, join);
  }

  void join_tensors(size_t i) {
    Launch& l = list_[begin(i)];
    if (l.tensors.empty()) return;
    const auto reached = [&](const void* a, const void* b) { return a && b ? driver_.reaches(a, b) : a == b; };
    const auto same = [&](const Launch& m) {
      return !m.tensors.empty() &&
             std::equal(l.args.begin() + ptrdiff_t(l.of_call), l.args.end(), m.args.begin() + ptrdiff_t(m.of_call),
                        m.args.end()) &&
             std::ranges::equal(l.tensors[0].operands, m.tensors[0].operands, reached);
    };
    const auto join = [&](const Launch& m) {
      l.tensors.insert(l.tensors.end(), m.tensors.begin(), m.tensors.end());
      return true;
    };
    join_later(i, kMostSkipped, true, same, join);
  }

  // Moves launches of calls after i, of the same kernel and of which same() is true, to that of call i, up to where
  // join() says that it is enough, and no further than so many calls, again from each that joined if `afresh`.
  void join_later(size_t i, size_t far, bool afresh, const std::function<bool(const Launch&)>& same,
                  const std::function<bool(const Launch&)>& join) {
    Launch& l = list_[begin(i)];
    Touched touched;  // by what a later call would overtake, or run along with
    touched.add(calls_[i]);
    for (size_t j = i + 1, left = far; j < calls_.size() && left > 0; ++j, --left) {
      if (calls_[j].workspace) return;  // it may lie on what a later one uses
      if (lone(j) && list_[begin(j)].kernel == l.kernel && same(list_[begin(j)]) && touched.allows(calls_[j])) {
        l.groups.x += list_[begin(j)].groups.x;
        taken_[begin(j)] = true;
        if (!join(list_[begin(j)])) return;
        if (afresh) left = far + 1;
      }
      touched.add(calls_[j]);
    }
  }

  // add, and rms_norm of what it made.
  void join_norm(size_t i) {
    const size_t j = i + 1;
    if (calls_[i].kernel->op != "add" || j == calls_.size() || calls_[j].kernel->op != "rms_norm" || !lone(j)) return;
    const View &a = calls_[i].in[0], &b = calls_[i].in[1], &sum = calls_[i].out[0];
    const View &x = calls_[j].in[0], &w = calls_[j].in[1], &y = calls_[j].out[0];
    if (a.shape != sum.shape || b.shape != sum.shape || x.shape != sum.shape || x.data != sum.data) return;
    for (const View* v : {&a, &b, &sum, &x, &w, &y})
      if ((v->dtype != DType::f32 && v != &y) || !v->contiguous()) return;
    // A row of y may lie on the same row of what was read, and on nothing else.
    for (const View* v : {&a, &b})
      if ((v->data != y.data || v->dtype != y.dtype) && bytes_of_view(*v).meets(bytes_of_view(y))) return;
    if (bytes_of_view(sum).meets(bytes_of_view(y)) || bytes_of_view(w).meets(bytes_of_view(sum))) return;
    list_[begin(i)] = {Kernel::add_rms_norm,
                       {int(rows_of(x))},
                       {a.data, b.data, w.data, sum.data, y.data, weight_type(y.dtype), int(x.shape.back()),
                        calls_[j].attrs->as<RmsNormAttrs>().eps}};
    taken_[begin(j)] = true;
  }

  const Driver& driver_;
  std::span<const KernelCall> calls_;
  std::span<const size_t> ends_;
  std::vector<Launch> list_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<Launch> fused(const Driver& driver, std::span<const KernelCall> calls, std::span<const Launch> launches,
                          std::span<const size_t> ends) {
  return Fusing(driver, calls, launches, ends).run();
}

}  // namespace toy::gpu
