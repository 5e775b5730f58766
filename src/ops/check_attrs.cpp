#include <cmath>

#include "ops/defs.h"

namespace toy {

void check_eps(std::string_view op, double eps) {
  check(eps >= 0 && std::isfinite(eps), "{}: eps is {}, expected a small number, not below 0", op, eps);
}

void check_betas(std::string_view op, double beta1, double beta2) {
  check(beta1 >= 0 && beta1 < 1, "{}: beta1 is {}, expected 0 to below 1", op, beta1);
  check(beta2 >= 0 && beta2 < 1, "{}: beta2 is {}, expected 0 to below 1", op, beta2);
}

void check_axis(std::string_view op, int axis, const TensorType& x) {
  check(axis >= 0 && axis < x.shape.rank(), "{}: axis {} of {} dimensions", op, axis, x.shape.rank());
}

}  // namespace toy
