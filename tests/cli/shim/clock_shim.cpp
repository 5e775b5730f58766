// For LD_PRELOAD: a wall clock that jumps ten years back and forth, a jump every time that somebody looks. The clock
// that only goes forward stays as it is.
#include <dlfcn.h>
#include <time.h>

#include <atomic>

namespace {

time_t jump() {
  static std::atomic<int> looks{0};
  constexpr time_t kTenYears = 10 * 365 * 86400;
  return looks++ % 2 == 0 ? -kTenYears : kTenYears;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, struct timespec* t) {
  static const auto real = reinterpret_cast<int (*)(clockid_t, struct timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, t);
  if (result == 0 && clock == CLOCK_REALTIME) t->tv_sec += jump();
  return result;
}

time_t time(time_t* out) {
  struct timespec t {};
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}

}  // extern "C"
