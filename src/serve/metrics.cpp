#include "serve/metrics.h"

#include <fmt/format.h>

namespace toy::serve {

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
