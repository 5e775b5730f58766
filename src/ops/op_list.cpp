#include <algorithm>
#include <array>

#include "ops/defs.h"

namespace toy {

std::span<const OpDef* const> all_ops() {
  static const std::array ops{
#define TOY_OP(name) &name##_def(),
#include "ops/op_list.def"
#undef TOY_OP
  };
  return ops;
}

const OpDef* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it = std::find_if(ops.begin(), ops.end(), [&](const OpDef* d) { return d->name() == name; });
  return it == ops.end() ? nullptr : *it;
}

}  // namespace toy
