// What GET /metrics says.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "toy/decode/service.h"

namespace toy::serve {

/// In Prometheus' text format. `cache_bytes`: of pages, snapshots, and states of texts. `replies`: by HTTP status.
std::string metrics_text(const ServiceCounts& counts, int64_t cache_bytes, const std::map<int, int64_t>& replies);

}  // namespace toy::serve
