// Is bf16 worth it on this machine? Twice f32 on Zen 4 and 5, half of f32 on a Xeon that has the instruction but no
// AMX.
#include <algorithm>
#include <chrono>
#include <limits>

#include "backend/cpu/gemm.h"
#include "toy/backend/devices.h"
#include "toy/tensor/buffer.h"

namespace toy {
namespace {

// The gradient of a layer's input: 256 rows through a matrix of [1024,768].
constexpr size_t kRows = 256, kOuts = 1024, kIns = 768;

double seconds_of(Device& device, const cpu::OuterProduct& p, std::byte* workspace,
                  void (*product)(const cpu::OuterProduct&, const TeamMember&, std::byte*)) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  ThreadPool& pool = device.pool();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 7; ++i) {
    const double begin = now();
    pool.run([&](int thread) { product(p, TeamMember{thread, pool.size(), &pool}, workspace); });
    best = std::min(best, now() - begin);
  }
  return best;
}

}  // namespace

double bf16_speedup(Device& device) {
  if (!device.has_products(DType::bf16)) return 0;
  const Buffer dy(kRows * kOuts * 4), w(kOuts * kIns * 4);
  Buffer dx(kRows * kIns * 4), workspace(cpu::outer_workspace(kRows, kIns, kOuts, device.pool().size(), DType::bf16));
  const cpu::OuterProduct p{.a = {dy.data(), kOuts, 1},
                            .b = {w.data(), kIns, 1},
                            .m = kRows,
                            .n = kIns,
                            .k = kOuts,
                            .c = reinterpret_cast<float*>(dx.data())};
  const double f32 = seconds_of(device, p, workspace.data(), cpu::outer_product);
  return f32 / seconds_of(device, p, workspace.data(), cpu::outer_product_bf16);
}

}  // namespace toy
