// Random zeros. Element e takes word e % 4 of Philox with the seed as its key and the counter (e / 4, step, stream).
#include "backend/reference/kernels.h"
#include "toy/base/philox.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

void dropout(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<DropoutAttrs>();
  const int32_t* random = indices(args, 1);
  const uint64_t seed = uint32_t(random[0]) | uint64_t(uint32_t(random[1])) << 32;
  const uint64_t step = uint64_t(uint32_t(random[2])) << 32;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const uint32_t word = philox4x32(seed, step | uint64_t(i / 4), uint64_t(at.stream))[size_t(i % 4)];
    output(args, 0)[i] = word < at.threshold() ? 0 : input(args, 0)[i] * at.gain();
  }
}

}  // namespace

KernelRecord dropout_kernel() { return {.op = "dropout", .in_place = {{0, 0}}, .code = dropout}; }

}  // namespace toy::reference
