// One step of the optimizer, and the clipping of its gradients.
#include <algorithm>
#include <utility>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

// A call's tensor, for kernels whose groups have ELEMENTS_OF_A_GROUP each.
OneTensor tensor_of(const KernelCall& c, std::vector<const void*> operands, double decay = 0) {
  const int64_t n = c.in[0].count();
  return {std::move(operands), n, blocks(n, ELEMENTS_OF_A_GROUP), float(decay)};
}
constexpr size_t kFault = 2;  // arguments of FAULT_PARAMETERS

void adamw(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<AdamWAttrs>();
  to.over(Kernel::adamw,
          {to.fault(), to.call(), in(c, 4), in(c, 5), in(c, 6), in(c, 7), float(at.beta1), float(1 - at.beta1),
           float(at.beta2), float(1 - at.beta2), float(at.eps)},
          {tensor_of(c, {c.out[0].data, c.in[1].data, c.out[1].data, c.out[2].data}, at.weight_decay)}, kFault);
}

// The velocity is absent without momentum.
void sgd(Launches& to, const KernelCall& c, const void* velocity, size_t rate) {
  const auto& at = c.attrs->as<SgdAttrs>();
  to.over(Kernel::sgd, {to.fault(), to.call(), in(c, rate), in(c, rate + 1), float(at.momentum), int(at.nesterov)},
          {tensor_of(c, {c.out[0].data, c.in[1].data, velocity}, at.weight_decay)}, kFault);
}
void sgd_plain(Launches& to, const KernelCall& c) noexcept { sgd(to, c, nullptr, 2); }
void sgd_momentum(Launches& to, const KernelCall& c) noexcept { sgd(to, c, c.out[1].data, 3); }
void lion(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<LionAttrs>();
  to.over(Kernel::lion,
          {to.fault(), to.call(), in(c, 3), in(c, 4), float(at.beta1), float(1 - at.beta1), float(at.beta2),
           float(1 - at.beta2)},
          {tensor_of(c, {c.out[0].data, c.in[1].data, c.out[1].data}, at.weight_decay)}, kFault);
}
void momentum(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<MomentumAttrs>();
  to.over(Kernel::momentum, {to.fault(), to.call(), in(c, 2), float(at.momentum), int(at.nesterov)},
          {tensor_of(c, {c.out[0].data, c.in[1].data, c.out[1].data})}, kFault);
}
void ema(Launches& to, const KernelCall& c) noexcept {
  to.over(Kernel::ema, {in(c, 2), in(c, 3)}, {tensor_of(c, {c.out[0].data, c.in[1].data})});
}

// w, g, m, m_scale, v, v_scale, lr, bias1, bias2, gscale?
void adamw8(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<AdamWAttrs>();
  static_assert(4 * kCodeBlock == ELEMENTS_OF_A_GROUP);
  to.over(Kernel::adamw8,
          {to.fault(), to.call(), in(c, 6), in(c, 7), in(c, 8), in(c, 9), float(at.beta1), float(1 - at.beta1),
           float(at.beta2), float(1 - at.beta2), float(at.eps)},
          {tensor_of(c, {c.out[0].data, c.in[1].data, c.out[1].data, c.out[2].data, c.out[3].data, c.out[4].data},
                     at.weight_decay)},
          kFault);
}

// The memory of Adafactor's kernels: two numbers, sums of lines of u^2 and of w^2, sums of columns.
struct FactorMemory {
  int lines, rows, chunks;  ///< columns are added up in chunks of rows
  FloatPair* numbers;
  Squares *updates, *weights, *columns;
  FactorMemory(void* memory, int line_count, int row_count)
      : lines(line_count), rows(std::max(64, blocks(row_count, 64))), chunks(blocks(row_count, rows)) {
    numbers = static_cast<FloatPair*>(memory), updates = reinterpret_cast<Squares*>(numbers + 2);
    weights = updates + lines, columns = weights + lines;
  }
  static size_t bytes(int64_t lines, int64_t sums) {
    return 2 * sizeof(FloatPair) + size_t(2 * lines + sums) * sizeof(Squares);
  }
};
// The second half of a step: row is null for a vector.
void move_on(Launches& to, const KernelCall& c, const FactorMemory& memory, const Arg& row, const Arg& col, int C,
             size_t rate, size_t scale) {
  const auto& at = c.attrs->as<AdafactorAttrs>();
  const int64_t n = c.in[0].count();
  const float smallest = float(at.eps * at.eps);
  to.add(Kernel::adafactor_updates, {memory.lines},
         {in(c, 1), row, col, memory.numbers, memory.updates, in(c, scale), n, C, smallest});
  to.add(Kernel::adafactor_rate, {},
         {memory.updates, memory.weights, memory.numbers, in(c, rate), memory.lines, n, int(at.relative),
          float(at.smallest_scale), float(at.clip)});
  to.add(Kernel::adafactor_step, {blocks(n, ELEMENTS_OF_A_GROUP)},
         {out(c, 0), in(c, 1), row, col, memory.numbers, in(c, rate), in(c, scale), n, C, smallest,
          float(at.weight_decay)});
}
// w, g, row, col, lr, mix, gscale?
void adafactor(Launches& to, const KernelCall& c) noexcept {
  const int R = int(c.in[0].shape[0]), C = int(c.in[0].shape[1]);
  const FactorMemory memory(c.workspace, R, R);
  to.add(Kernel::adafactor_rows, {R},
         {to.fault(), to.call(), in(c, 0), in(c, 1), out(c, 1), memory.weights, in(c, 5), in(c, 6), C});
  to.add(Kernel::adafactor_columns, {blocks(C, 256), memory.chunks}, {in(c, 1), memory.columns, R, C, memory.rows});
  to.add(Kernel::adafactor_column, {blocks(C, 256)},
         {memory.columns, out(c, 2), in(c, 5), in(c, 6), memory.chunks, R, C});
  to.add(Kernel::adafactor_mean, {}, {out(c, 1), memory.numbers, R, float(c.attrs->as<AdafactorAttrs>().eps)});
  move_on(to, c, memory, out(c, 1), out(c, 2), C, 4, 6);
}
size_t factor_workspace(const KernelQuery& q) noexcept {
  const int R = int(q.in[0].shape[0]);
  return FactorMemory::bytes(R, FactorMemory(nullptr, R, R).chunks * q.in[0].shape[1]);
}
// w, g, v, lr, mix, gscale?
void adafactor_vector(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  const FactorMemory memory(c.workspace, blocks(n, ELEMENTS_OF_A_GROUP), 0);
  to.add(Kernel::adafactor_moments, {memory.lines},
         {to.fault(), to.call(), in(c, 0), in(c, 1), out(c, 1), memory.weights, in(c, 4), in(c, 5), n});
  move_on(to, c, memory, nullptr, out(c, 1), ELEMENTS_OF_A_GROUP, 3, 5);
}
size_t vector_workspace(const KernelQuery& q) noexcept {
  return FactorMemory::bytes(blocks(q.in[0].shape.count(), ELEMENTS_OF_A_GROUP), 0);
}

void global_norm(Launches& to, const KernelCall& c) noexcept {
  Squares* const parts = static_cast<Squares*>(c.workspace);
  int begun = 0, all = 0;  // parts
  std::vector<OneTensor> together;
  const auto launch = [&] { to.over(Kernel::sum_squares, {parts + begun}, std::exchange(together, {})), begun = all; };
  for (const View& x : c.in) {
    if (x.count() == 0) continue;
    if (!together.empty() && !to.reaches(together[0].operands[0], x.data)) launch();
    together.push_back({{x.data}, x.count(), blocks(x.count(), ELEMENTS_OF_A_NORM)});
    all += together.back().groups;
  }
  launch();
  to.add(Kernel::norm_of_parts, {}, {c.workspace, out(c, 0), all});
}
size_t parts_of_norm(const KernelQuery& q) noexcept {
  size_t parts = 0;
  for (const OperandDesc& x : q.in) parts += size_t(blocks(x.shape.count(), ELEMENTS_OF_A_NORM));
  return parts * sizeof(Squares);
}

void clip_scale(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::clip_scale, {}, {in(c, 0), in(c, 1), out(c, 0)});
}
void accumulate(Launches& to, const KernelCall& c) noexcept {
  to.over(Kernel::accumulate, {}, {tensor_of(c, {c.out[0].data, c.in[1].data})});
}

}  // namespace

KernelRecord adamw_kernel() { return {.op = "adamw", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .code = adamw}; }
KernelRecord sgd_kernel() { return {.op = "sgd", .in_place = {{0, 0}}, .code = sgd_plain}; }
KernelRecord sgd_momentum_kernel() {
  return {.op = "sgd_momentum", .in_place = {{0, 0}, {1, 2}}, .code = sgd_momentum};
}
KernelRecord lion_kernel() { return {.op = "lion", .in_place = {{0, 0}, {1, 2}}, .code = lion}; }
KernelRecord momentum_kernel() { return {.op = "momentum", .in_place = {{0, 0}}, .code = momentum}; }
KernelRecord adamw8_kernel() {
  return {.op = "adamw8", .in_place = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}}, .code = adamw8};
}
KernelRecord adafactor_kernel() {
  return {.op = "adafactor", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .workspace = factor_workspace, .code = adafactor};
}
KernelRecord adafactor_vector_kernel() {
  return {
      .op = "adafactor_vector", .in_place = {{0, 0}, {1, 2}}, .workspace = vector_workspace, .code = adafactor_vector};
}
KernelRecord ema_kernel() { return {.op = "ema", .in_place = {{0, 0}}, .code = ema}; }
KernelRecord global_norm_kernel() { return {.op = "global_norm", .workspace = parts_of_norm, .code = global_norm}; }
KernelRecord clip_scale_kernel() { return {.op = "clip_scale", .code = clip_scale}; }
KernelRecord accumulate_kernel() { return {.op = "accumulate", .in_place = {{0, 0}}, .code = accumulate}; }

}  // namespace toy::gpu
