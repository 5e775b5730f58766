#include "backend/gpu/fuse.h"

#include <algorithm>

#include "backend/gpu/launches.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

constexpr size_t kLookAhead = 6;  // calls

// A kernel that takes several of something: arguments [same, slots) are the same for all of them, then come the slots.
struct Several {
  Kernel kernel;
  size_t same, slots, of_a_slot, count;
};
constexpr Several kSeveral[] = {{Kernel::product_few, 0, 5, 7, kProductsOfFew},
                                {Kernel::adamw, 2, 11, 6, kTensorsOfAdamw}};

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
bool meet(std::span<const View> a, std::span<const View> b) {
  return std::ranges::any_of(a, [&](const View& x) {
    return std::ranges::any_of(b, [&](const View& y) { return bytes_of_view(x).meets(bytes_of_view(y)); });
  });
}

// Where each call's launches are, and which of them another launch has taken over.
class Fusing {
 public:
  Fusing(std::span<const KernelCall> calls, std::span<const Launch> launches, std::span<const size_t> ends)
      : calls_(calls), ends_(ends), list_(launches.begin(), launches.end()), taken_(launches.size()) {}

  std::vector<Launch> run() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!lone(i)) continue;
      join_several(i);
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
  // Could call j run right after call i?
  bool can_move(size_t j, size_t i) const {
    const KernelCall& c = calls_[j];
    for (size_t k = i; k < j; ++k) {
      const KernelCall& other = calls_[k];
      if (k > i && other.workspace) return false;  // it may lie on what c uses
      if (meet(other.out, c.in) || meet(other.out, c.out) || meet(other.in, c.out)) return false;
    }
    return true;
  }

  void join_several(size_t i) {
    Launch& l = list_[begin(i)];
    const auto s = std::ranges::find(kSeveral, l.kernel, &Several::kernel);
    if (s == std::end(kSeveral)) return;
    size_t filled = 1;
    for (size_t j = i + 1; j < std::min(calls_.size(), i + 1 + kLookAhead) && filled < s->count; ++j) {
      if (!lone(j)) continue;
      const Launch& m = list_[begin(j)];
      if (m.kernel != l.kernel || !std::equal(l.args.begin() + ptrdiff_t(s->same), l.args.begin() + ptrdiff_t(s->slots),
                                              m.args.begin() + ptrdiff_t(s->same)))
        continue;
      if (!can_move(j, i)) continue;
      std::copy_n(m.args.begin() + ptrdiff_t(s->slots), s->of_a_slot,
                  l.args.begin() + ptrdiff_t(s->slots + s->of_a_slot * filled++));
      l.groups.x += m.groups.x;
      taken_[begin(j)] = true;
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

  std::span<const KernelCall> calls_;
  std::span<const size_t> ends_;
  std::vector<Launch> list_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<Launch> fused(std::span<const KernelCall> calls, std::span<const Launch> launches,
                          std::span<const size_t> ends) {
  return Fusing(calls, launches, ends).run();
}

}  // namespace toy::gpu
