// One step of the optimizer, and the clipping of its gradients.
#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

void adamw(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<AdamWAttrs>();
  const int64_t n = c.in[0].count();
  std::vector<Arg> args = {to.fault(),      to.call(),
                           in(c, 4),        in(c, 5),
                           in(c, 6),        in(c, 7),
                           float(at.beta1), float(1 - at.beta1),
                           float(at.beta2), float(1 - at.beta2),
                           float(at.eps)};
  add_slots(args, {out(c, 0), in(c, 1), out(c, 1), out(c, 2), n, float(at.weight_decay)}, kTensorsOfAdamw);
  to.add(Kernel::adamw, {blocks(n, ELEMENTS_OF_A_GROUP)}, std::move(args));
}

// The velocity is absent without momentum.
void sgd(Launches& to, const KernelCall& c, const Arg& velocity, size_t rate) {
  const auto& at = c.attrs->as<SgdAttrs>();
  const int64_t n = c.in[0].count();
  to.add(Kernel::sgd, {blocks(n, ELEMENTS_OF_A_GROUP)},
         {to.fault(), to.call(), out(c, 0), in(c, 1), velocity, in(c, rate), in(c, rate + 1), n, float(at.momentum),
          int(at.nesterov), float(at.weight_decay)});
}
void sgd_plain(Launches& to, const KernelCall& c) noexcept { sgd(to, c, nullptr, 2); }
void sgd_momentum(Launches& to, const KernelCall& c) noexcept { sgd(to, c, out(c, 1), 3); }
void lion(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<LionAttrs>();
  const int64_t n = c.in[0].count();
  to.add(Kernel::lion, {blocks(n, ELEMENTS_OF_A_GROUP)},
         {to.fault(), to.call(), out(c, 0), in(c, 1), out(c, 1), in(c, 3), in(c, 4), n, float(at.beta1),
          float(1 - at.beta1), float(at.beta2), float(1 - at.beta2), float(at.weight_decay)});
}
void momentum(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<MomentumAttrs>();
  const int64_t n = c.in[0].count();
  to.add(Kernel::momentum, {blocks(n, ELEMENTS_OF_A_GROUP)},
         {to.fault(), to.call(), out(c, 0), in(c, 1), in(c, 2), out(c, 1), n, float(at.momentum), int(at.nesterov)});
}
void ema(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::ema, {blocks(n, ELEMENTS_OF_A_GROUP)}, {out(c, 0), in(c, 1), in(c, 2), in(c, 3), n});
}

void global_norm(Launches& to, const KernelCall& c) noexcept {
  constexpr size_t kTensors = 4;
  int parts = 0;
  for (size_t i = 0; i < c.in.size(); i += kTensors) {
    std::vector<Arg> args = {c.workspace, parts};
    const int first = parts;
    for (size_t k = i; k < i + kTensors; ++k) {
      const int64_t n = k < c.in.size() ? c.in[k].count() : 0;
      args.push_back(in(c, k)), args.push_back(n);
      parts += blocks(n, ELEMENTS_OF_A_NORM);
    }
    to.add(Kernel::sum_squares, {parts - first}, std::move(args));
  }
  to.add(Kernel::norm_of_parts, {}, {c.workspace, out(c, 0), parts});
}
size_t parts_of_norm(const KernelQuery& q) noexcept {
  size_t parts = 0;
  for (const OperandDesc& x : q.in) parts += size_t(blocks(x.shape.count(), ELEMENTS_OF_A_NORM));
  return parts * sizeof(double);
}

void clip_scale(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::clip_scale, {}, {in(c, 0), in(c, 1), out(c, 0)});
}
void accumulate(Launches& to, const KernelCall& c) noexcept {
  const int64_t n = c.in[0].count();
  to.add(Kernel::accumulate, {blocks(n, ELEMENTS_OF_A_GROUP)}, {out(c, 0), in(c, 1), n});
}

}  // namespace

KernelRecord adamw_kernel() { return {.op = "adamw", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .code = adamw}; }
KernelRecord sgd_kernel() { return {.op = "sgd", .in_place = {{0, 0}}, .code = sgd_plain}; }
KernelRecord sgd_momentum_kernel() {
  return {.op = "sgd_momentum", .in_place = {{0, 0}, {1, 2}}, .code = sgd_momentum};
}
KernelRecord lion_kernel() { return {.op = "lion", .in_place = {{0, 0}, {1, 2}}, .code = lion}; }
KernelRecord momentum_kernel() { return {.op = "momentum", .in_place = {{0, 0}}, .code = momentum}; }
KernelRecord ema_kernel() { return {.op = "ema", .in_place = {{0, 0}}, .code = ema}; }
KernelRecord global_norm_kernel() { return {.op = "global_norm", .workspace = parts_of_norm, .code = global_norm}; }
KernelRecord clip_scale_kernel() { return {.op = "clip_scale", .code = clip_scale}; }
KernelRecord accumulate_kernel() { return {.op = "accumulate", .in_place = {{0, 0}}, .code = accumulate}; }

}  // namespace toy::gpu
