// The kernels as the C++ compiler sees them.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "backend/gpu/emulated/items.h"

namespace toy::gpu {

/// Calls a kernel with the arguments of a launch.
template <class F>
struct Caller;
template <class... P>
struct Caller<void(P...)> {
  template <void (*f)(P...)>
  static void call(const Launch& launch) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      f(*static_cast<const std::remove_const_t<P>*>(launch.args[i].value())...);
    }
    (std::index_sequence_for<P...>());
  }
  static bool fits(const Launch& launch) noexcept {
    constexpr bool is_memory[] = {std::is_pointer_v<P>..., false};
    constexpr size_t bytes[] = {sizeof(P)..., 0};
    if (launch.args.size() != sizeof...(P)) return false;
    for (size_t i = 0; i < sizeof...(P); ++i)
      if (launch.args[i].is_memory() != is_memory[i] || launch.args[i].bytes() != bytes[i]) return false;
    return true;
  }
  static std::vector<Arg> take(void* const* values) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return std::vector<Arg>{Arg(*static_cast<const std::remove_const_t<P>*>(values[i]))...};
    }
    (std::index_sequence_for<P...>());
  }
};

/// The text of a function that kernels/dialect.h made.
template <auto* f>
Text text_of(const char* name, int items, char* local, char* local_end) {
  using F = std::remove_pointer_t<decltype(f)>;
  return {name, items, Caller<F>::template call<f>, Caller<F>::fits, Caller<F>::take, local, local_end};
}

/// By Kernel.
std::span<const Text> texts();

}  // namespace toy::gpu
