// What GET /metrics says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "toy/decode/service.h"

namespace toy::serve {

/// How often a time was at most so long. Any thread may observe.
class Histogram {
 public:
  /// `bounds` rise, in seconds, and outlive it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}
  void observe(double seconds);
  /// In Prometheus' text format.
  std::string text(const std::string& name, const std::string& help, const std::string& labels) const;

 private:
  static constexpr size_t kMost = 32;
  const std::span<const double> bounds_;
  std::array<std::atomic<int64_t>, kMost> counts_ = {};  // of each bound, then of what is beyond all
  std::atomic<int64_t> nanoseconds_ = 0;                 // of all
};

/// Of requests for texts.
class Timings {
 public:
  Timings();
  Histogram first;    ///< from a request's header to the first token of each text
  Histogram between;  ///< from a token to the next one of its text
  Histogram whole;    ///< from a request's header to the end of its reply
  std::string text(const std::string& model) const;
};

/// In Prometheus' text format. `cache_bytes`: of pages, snapshots, and states of texts. `replies`: by HTTP status.
std::string metrics_text(const ServiceCounts& counts, int64_t cache_bytes, const std::map<int, int64_t>& replies);

}  // namespace toy::serve
