#include "toy/decode/generate.h"

namespace toy {

std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::optional<int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token) {
  std::vector<GeneratedToken> result;
  Scheduler scheduler(decoder, {sequence});
  scheduler.add({.prompt = {prompt.begin(), prompt.end()},
                 .eos = eos,
                 .options = options,
                 .on_token = on_token,
                 .on_done = [&](const Generated& g) { result = g.tokens; }});
  scheduler.run();
  return result;
}

}  // namespace toy
