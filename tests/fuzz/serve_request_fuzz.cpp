// libFuzzer: any body of a request is either refused with status 400, or gives a request within its limits. The first
// byte says which endpoint.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>

#include "serve/api/api.h"
#include "serve/api/reply_format.h"
#include "toy/base/json_text.h"

namespace {

void require(bool so) {
  if (!so) std::abort();
}

void require_limits(const toy::serve::CompletionRequest& r) {
  using namespace toy::serve;
  require(r.n >= 1 && r.n <= kMostChoices);
  require(int64_t(r.stops.size()) <= kMostStops);
  for (const std::string& s : r.stops) require(!s.empty() && s.size() <= kMostStopBytes);
  require(r.chat ? r.messages.is_array() && !r.messages.empty()
                 : !r.prompts.empty() && int64_t(r.prompts.size()) <= kMostChoices);
  require(!r.max_tokens || *r.max_tokens >= 0);
  require(!r.logprobs || (*r.logprobs >= 0 && *r.logprobs <= kMostTopLogprobs));
  const toy::SamplerOptions& s = r.sampler;
  require(std::isfinite(s.temperature) && s.temperature >= 0 && s.top_p > 0 && s.top_p <= 1 && s.top_k >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy::serve;
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    if (data[0] % 4 < 2) require_limits(parse_completion(body, data[0] % 4 == 1));
    if (data[0] % 4 == 2) parse_tokenize(body);
    if (data[0] % 4 == 3) parse_detokenize(body);
  } catch (...) {
    const ApiError e = api_error(std::current_exception());
    require(e.status == 400);
    require(toy::parse_json<nlohmann::json>(error_body(e)).is_object());
  }
  return 0;
}
