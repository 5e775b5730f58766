// A function on a stack of its own, which gives the processor back where it likes and is continued there.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace toy::gpu {

class Fiber {
 public:
  /// `number` tells the fibers of a scheduler apart. body() never returns. Throws Error{failure} without memory.
  Fiber(int number, void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it suspends. Called from outside of fibers.
  void resume();
  /// Called from the fiber: back to who resumed it.
  void suspend();
  /// Called from the fiber: runs another that was suspended, which gives back to who resumed this one.
  void give_way(Fiber& other);

 private:
  static constexpr size_t kBytes = 64 << 10, kGuard = 4 << 10;
  char* memory_;
#if defined(__x86_64__)
  void *own_, *other_ = nullptr;  // stack pointers
#else
  ucontext_t own_, *other_ = nullptr;
#endif
};

}  // namespace toy::gpu
