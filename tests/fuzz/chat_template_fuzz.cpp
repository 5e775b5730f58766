// libFuzzer: any template is either refused with an Error or renders within its limits. An input is a template.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  using nlohmann::ordered_json;
  static const ordered_json kMessages = ordered_json::parse(
      R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " H\u00e9! "},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "123456789", "function": {"name": "f", "arguments": {"a": [1, 2.5, true, "x"]}}}]},
          {"role": "tool", "content": "1"}, {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}])");
  static const ordered_json kTools = ordered_json::parse(
      R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]}}}])");
  constexpr ChatLimits kLimits{.steps = 100'000, .depth = 200, .output = size_t(1) << 20};
  try {
    const ChatTemplate chat(std::string(reinterpret_cast<const char*>(data), size), "t", kLimits);
    const RenderedChat out = chat.render({.messages = kMessages,
                                          .tools = kTools,
                                          .add_generation_prompt = true,
                                          .variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
                                          .now = 0});
    if (out.text.size() > kLimits.output || !is_utf8(out.text)) std::abort();
    for (const TextSpan& span : out.generated)
      if (span.begin > span.end || span.end > out.text.size()) std::abort();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}
