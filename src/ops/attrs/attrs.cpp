#include "toy/ops/attrs/attrs.h"

#include "toy/ops/attrs/structs.h"

// Everything is in the headers; this file compiles them once and gives the target something to archive.
namespace toy {
static_assert(std::tuple_size_v<decltype(AttentionAttrs::fields())> == 3);
}
