// What processors fetch from memory by themselves.
#pragma once

namespace toy::cpu {

/// Whether its fetching along a stream ends with a page of 4 KiB and begins anew in the next, as on Intel's processors.
/// There it pays to fetch weights long before they are used, or several rows at a time; AMD's go on, and such fetches
/// hinder them (bench/README.md).
inline bool fetching_ends_with_pages() {
#if defined(__x86_64__)
  static const bool is_intel = __builtin_cpu_is("intel");
  return is_intel;
#else
  return false;
#endif
}

}  // namespace toy::cpu
