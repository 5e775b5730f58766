// libFuzzer: any body of a request is either refused with status 400, or gives a request within its limits. The first
// byte says which endpoint.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/api/anthropic.h"
#include "serve/api/api.h"
#include "serve/api/embeddings.h"
#include "serve/api/llama_server.h"
#include "serve/api/ollama.h"
#include "serve/api/reply_format.h"
#include "serve/api/responses.h"
#include "toy/base/json_text.h"

namespace {

using namespace toy::serve;

void require(bool so) {
  if (!so) std::abort();
}

void require_limits(const CompletionRequest& r) {
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

// All that read a body.
constexpr void (*kParsers[])(const std::string&) = {
    [](const std::string& b) { require_limits(parse_completion(b, false)); },
    [](const std::string& b) { require_limits(parse_completion(b, true)); },
    [](const std::string& b) { parse_tokenize(b); },
    [](const std::string& b) { parse_detokenize(b); },
    [](const std::string& b) { require_limits(parse_messages(b)); },
    [](const std::string& b) { parse_messages(b, true); },
    [](const std::string& b) { parse_responses(b); },
    [](const std::string& b) { parse_apply_template(b); },
    [](const std::string& b) { parse_embeddings(b); },
    [](const std::string& b) { parse_llama_completion(b); },
    [](const std::string& b) { parse_infill(b); },
    [](const std::string& b) { parse_ollama_chat(b); },
    [](const std::string& b) { parse_ollama_generate(b, true); },
    [](const std::string& b) { parse_ollama_embeddings(b, false); },
    [](const std::string& b) { parse_ollama_show(b); },
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    kParsers[data[0] % std::size(kParsers)](body);
  } catch (...) {
    const ApiError e = api_error(std::current_exception());
    require(e.status == 400);
    require(toy::parse_json<nlohmann::json>(error_body(e)).is_object());
  }
  return 0;
}
