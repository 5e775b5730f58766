// The kernels as the C++ compiler sees them.
#pragma once

#include <algorithm>
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
  static size_t misfit(const Launch& launch) noexcept {
    constexpr bool is_memory[] = {std::is_pointer_v<P>...};
    constexpr size_t bytes[] = {sizeof(P)...};
    for (size_t i = 0; i < std::max(sizeof...(P), launch.args.size()); ++i)
      if (i >= sizeof...(P) || i >= launch.args.size() || launch.args[i].is_memory() != is_memory[i] ||
          launch.args[i].bytes() != bytes[i])
        return i;
    return kAllFit;
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
  return {name, items, Caller<F>::template call<f>, Caller<F>::misfit, Caller<F>::take, local, local_end};
}

/// By Kernel.
std::span<const Text> texts();

}  // namespace toy::gpu
