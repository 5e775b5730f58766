// Is bf16 worth it on this machine? Twice f32 on Zen 4 and 5, half of f32 on a Xeon that has the instruction but no
// AMX.
#include <algorithm>
#include <limits>

#include "backend/cpu/gemm/gemm.h"
#include "toy/backend/devices.h"
#include "toy/base/clock.h"
#include "toy/tensor/buffer.h"

namespace toy {
namespace {

// The gradient of a layer's input: 256 rows through a matrix of [1024,768].
constexpr size_t kRows = 256, kOuts = 1024, kIns = 768;

double seconds_of(ThreadPool& team, const cpu::OuterProduct& p, std::byte* workspace,
                  void (*product)(const cpu::OuterProduct&, const TeamMember&, std::byte*)) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 7; ++i) {
    const double begin = steady_seconds();
    team.run([&](int thread) { product(p, TeamMember{thread, team.size(), &team}, workspace); });
    best = std::min(best, steady_seconds() - begin);
  }
  return best;
}

}  // namespace

double bf16_speedup(Device& device) {
  if (!device.has_products(DType::bf16)) return 0;
  if (!device.host_visible()) return 1;  // a GPU's kernels round on the way and multiply in f32
  ThreadPool team(device.threads());
  const Buffer dy(kRows * kOuts * 4), w(kOuts * kIns * 4);
  Buffer dx(kRows * kIns * 4), workspace(cpu::outer_workspace(kRows, kIns, kOuts, team.size(), DType::bf16));
  const cpu::OuterProduct p{.a = {dy.data(), kOuts, 1},
                            .b = {w.data(), kIns, 1},
                            .m = kRows,
                            .n = kIns,
                            .k = kOuts,
                            .c = reinterpret_cast<float*>(dx.data())};
  const double f32 = seconds_of(team, p, workspace.data(), cpu::outer_product);
  return f32 / seconds_of(team, p, workspace.data(), cpu::outer_product_bf16);
}

}  // namespace toy
