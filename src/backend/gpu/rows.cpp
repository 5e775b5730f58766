// Ops along rows: norms.
#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

void rms_norm(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::rms_norm, {int(rows_of(c.in[0]))},
         {in(c, 0), in(c, 1), out(c, 0), int(c.in[0].shape.back()), c.attrs->as<RmsNormAttrs>().eps});
}

}  // namespace

KernelRecord rms_norm_kernel() { return {.op = "rms_norm", .in_place = {{0, 0}}, .code = rms_norm}; }

}  // namespace toy::gpu
