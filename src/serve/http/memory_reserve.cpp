#include "serve/http/memory_reserve.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

namespace toy::serve {
namespace {

thread_local void *for_once = nullptr, *for_unwinding = nullptr;

void free_both() {
  std::free(std::exchange(for_once, nullptr));
  std::free(std::exchange(for_unwinding, nullptr));
}

// Called by operator new: it tries again when this returns.
void release_or_throw() {
  void*& reserve = std::uncaught_exceptions() > 0 ? for_unwinding : for_once;
  if (reserve == nullptr) throw std::bad_alloc();
  std::free(std::exchange(reserve, nullptr));
}

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes) {
  static std::once_flag once;
  std::call_once(once, [] { std::set_new_handler(release_or_throw); });
  for_once = std::malloc(bytes / 2);
  for_unwinding = std::malloc(bytes / 2);
  if (for_once && for_unwinding) return;
  free_both();
  throw std::bad_alloc();
}

MemoryReserve::~MemoryReserve() { free_both(); }

size_t bytes_to_destroy(std::string_view json) {
  constexpr size_t kOfValue = 96;  // a vector of 16 bytes each that grows, and one for a copy, for both halves
  return kSmallReserve +
         kOfValue * size_t(std::ranges::count_if(json, [](char c) { return c == ',' || c == '[' || c == '{'; }));
}

}  // namespace toy::serve
