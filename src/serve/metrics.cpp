#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

// Those of vLLM, and shorter ones, for small models.
constexpr double kFirst[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                             1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr double kBetween[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
                               0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0};
constexpr double kWhole[] = {0.01, 0.03, 0.1,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,    10.0,
                             15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};

// The value of a label.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void Histogram::observe(double seconds) {
  const size_t i = size_t(std::ranges::lower_bound(bounds_, seconds) - bounds_.begin());
  counts_[i].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(int64_t(seconds * 1e9), std::memory_order_relaxed);
}

std::string Histogram::text(const std::string& name, const std::string& help, const std::string& labels) const {
  std::string text = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  int64_t sum = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    sum += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, sum);
  }
  return text + fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels,
                            double(nanoseconds_.load(std::memory_order_relaxed)) / 1e9, sum);
}

Timings::Timings() : first(kFirst), between(kBetween), whole(kWhole) {}

std::string Timings::text(const std::string& model) const {
  const std::string labels = "model_name=\"" + escaped(model) + "\"";
  return first.text("vllm:time_to_first_token_seconds", "Time to the first token of a text.", labels) +
         between.text("vllm:inter_token_latency_seconds", "Time from a token to the next.", labels) +
         whole.text("vllm:e2e_request_latency_seconds", "Time of a request for texts.", labels);
}

std::string metrics_text(const ServiceCounts& c, int64_t cache_bytes, const std::map<int, int64_t>& replies) {
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, int64_t value) {
    text += fmt::format("# HELP toy_{0} {1}\n# TYPE toy_{0} {2}\ntoy_{0} {3}\n", name, help, type, value);
  };
  add("requests_running", "gauge", "Texts that have a sequence.", c.running);
  add("requests_waiting", "gauge", "Texts that wait for a sequence.", c.waiting);
  add("steps_total", "counter", "Calls of the decoder.", c.steps);
  add("preemptions_total", "counter", "Texts preempted because the cache was full.", c.preemptions);
  add("prompt_tokens_total", "counter", "Tokens of prompts.", c.prompt_tokens);
  add("prompt_tokens_shared_total", "counter", "Tokens of prompts that were not computed again.", c.shared_tokens);
  add("generated_tokens_total", "counter", "Tokens of texts that have ended.", c.tokens);
  add("draft_tokens_total", "counter", "Tokens that the draft proposed.", c.proposed);
  add("draft_tokens_accepted_total", "counter", "Proposed tokens that became part of a text.", c.accepted);
  add("cache_bytes", "gauge", "Bytes of pages, snapshots, and states of texts.", cache_bytes);
  add("cache_pages", "gauge", "Pages of keys and values.", c.pages);
  add("cache_pages_used", "gauge", "Pages that hold something.", c.pages_used);
  add("cache_snapshots", "gauge", "Snapshots of windows and recurrent states that fit.", c.snapshots);
  add("cache_snapshots_used", "gauge", "Snapshots that are kept.", c.snapshots_used);
  text += "# HELP toy_replies_total Replies by HTTP status.\n# TYPE toy_replies_total counter\n";
  for (const auto& [status, n] : replies) text += fmt::format("toy_replies_total{{status=\"{}\"}} {}\n", status, n);
  return text;
}

}  // namespace toy::serve
