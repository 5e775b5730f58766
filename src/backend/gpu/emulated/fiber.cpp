#include "backend/gpu/emulated/fiber.h"

#include <sys/mman.h>

#include "toy/base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace toy::gpu {
namespace {

// Stacks whose tops lay at one place of their pages would all want the same lines of the cache.
size_t stagger(int number) { return size_t(number % 61) * 192; }

}  // namespace

#if defined(__x86_64__)
// Pushes the registers that a call must preserve, and goes on where another stack pushed them.
extern "C" void toy_switch_stack(void** save, void* to);
asm(R"(
.text
.globl toy_switch_stack
.hidden toy_switch_stack
.type toy_switch_stack, @function
toy_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size toy_switch_stack, . - toy_switch_stack
)");
#endif

Fiber::Fiber(int number, void (*body)()) {
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_internal("device emulated: no memory for the stack of a work-item");
  memory_ = static_cast<char*>(memory);
  mprotect(memory_, kGuard, PROT_NONE);
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory_, kBytes);  // of a stack that lay here before
#endif
#if defined(__x86_64__)
  // body() begins as if it had been called: the stack is 8 bytes off a multiple of 16.
  void** const top = reinterpret_cast<void**>(memory_ + kBytes - stagger(number)) - 2;
  top[0] = reinterpret_cast<void*>(body);
  top[1] = nullptr;  // it has no caller
  own_ = top - 6;    // the registers
#else
  getcontext(&own_);
  own_.uc_stack = {.ss_sp = memory_ + kGuard, .ss_size = kBytes - kGuard - stagger(number)};
  own_.uc_link = nullptr;
  makecontext(&own_, body, 0);
#endif
}

Fiber::~Fiber() { munmap(memory_, kBytes); }

#if defined(__x86_64__)
void Fiber::resume() { toy_switch_stack(&other_, own_); }
void Fiber::suspend() { toy_switch_stack(&own_, other_); }
void Fiber::give_way(Fiber& next) {
  next.other_ = other_;
  toy_switch_stack(&own_, next.own_);
}
#else
void Fiber::resume() {
  ucontext_t here;
  other_ = &here;
  swapcontext(&here, &own_);
}
void Fiber::suspend() { swapcontext(&own_, other_); }
void Fiber::give_way(Fiber& next) {
  next.other_ = other_;
  swapcontext(&own_, &next.own_);
}
#endif

}  // namespace toy::gpu
