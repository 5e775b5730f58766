// A shared library made of toy's static ones: what a binding for another language is.
#include <cstdio>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

/// The sum of 1 to 4 on a device, or -1 and the error.
extern "C" __attribute__((visibility("default"))) double toy_probe(const char* device, char* error, size_t size) {
  using namespace toy;
  try {
    const auto made = make_device(device, {.threads = 2});
    Graph g;
    const Value x = g.constant({DType::f32, {4}, 0}, {1, 2, 3, 4});
    return evaluate(sum(x, 0), {.device = made.get()}).values[0];
  } catch (const Error& e) {
    std::snprintf(error, size, "%s", e.what());
    return -1;
  }
}
